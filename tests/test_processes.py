"""Prediction by two real processes: every question answered once, whatever is killed when."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed (extra train)")

from grand3d import launched
from grand3d.errors import GrandError
from grand3d.evaluate import share
from grand3d.replies import data_hash, join, part_of, refuse_stale, resume
from grand3d.sample import Reply, Sample, load_replies, save_data, save_replies
from grand3d.synth import make_data

LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0", "--rdzv-backend=c10d"]
LAUNCH += ["--rdzv-endpoint=127.0.0.1:0", "-m", "grand3d", "predict", "base:tiny"]


def launch(data: Path, out: Path) -> subprocess.Popen[bytes]:
    env = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    tokens = ["--max-new-tokens", "40", "--batch-size", "2"]
    return subprocess.Popen(
        [*LAUNCH, data, out, *tokens], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )


def test_share_gives_whole_scenes_and_every_sample_once() -> None:
    samples = [Sample(f"q{i}", f"s{min(i // 3, 6)}", "existence", "?") for i in range(40)]
    parts = [share(samples, rank, 3) for rank in range(3)]
    assert sorted(sample.sample_id for part in parts for sample in part) == sorted(sample.sample_id for sample in samples)
    scenes = [{sample.scene_id for sample in part} for part in parts]
    assert sum(map(len, scenes)) == 7 and all(scenes)
    assert share(samples, 0, 1) == samples


def test_join_takes_over_parts_once_and_mends_half_lines(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    replies = [Reply(f"q{i}", "s", "Yes") for i in range(6)]
    save_replies(out, replies[:2])
    save_replies(part_of(out, 0), replies[1:4])  # a join was interrupted after q1
    save_replies(part_of(out, 1), replies[4:])
    with open(part_of(out, 1), "a") as file:
        file.write('{"sample_id": "q9", "sce')
    mine = tmp_path / "r.jsonl.mine.part"
    mine.write_text("a user's own")
    join(out)
    assert [reply.sample_id for reply in load_replies(out)] == [f"q{i}" for i in range(6)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.jsonl", "r.jsonl.mine.part"]
    join(out)
    assert len(load_replies(out)) == 6


def test_parts_of_another_run_are_not_joined_and_score_says_that_they_lie_there(tmp_path: Path) -> None:
    data = make_data(1, 3, 2)
    out, about = tmp_path / "r.jsonl", {"weights": "a", "data": data_hash(data)}
    resume(out, about, data)  # writes the note
    save_replies(part_of(out, 0), [Reply(sample.sample_id, sample.scene_id, "Yes") for sample in data.samples])
    for note in ('{"weights": "b"}', "{}", None):
        kept = (tmp_path / "r.jsonl.run.json").read_text()
        (tmp_path / "r.jsonl.run.json").unlink()
        if note:
            (tmp_path / "r.jsonl.run.json").write_text(note)
        with pytest.raises(GrandError, match=r"replies of another run|no r\.jsonl\.run\.json"):
            resume(out, about, data)
        assert part_of(out, 0).exists()
        (tmp_path / "r.jsonl.run.json").write_text(kept)
    with pytest.raises(GrandError, match=r"beside it lies r\.jsonl\.0\.part"):
        refuse_stale(out, data)
    assert resume(out, about, data) == {sample.sample_id for sample in data.samples}
    refuse_stale(out, data)


@pytest.mark.parametrize(
    ("name", "value"), [("WORLD_SIZE", "two"), ("WORLD_SIZE", "0"), ("WORLD_SIZE", "2"), ("RANK", "-1"), ("LOCAL_RANK", "")]
)
def test_variables_of_no_launcher_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.setenv(name, value)
    with pytest.raises(GrandError, match=rf"the environment says {name}=.*, expected what torchrun"):
        {"WORLD_SIZE": lambda: launched.from_all(1), "RANK": launched.number, "LOCAL_RANK": launched.device}[name]()


def test_two_processes_both_leave_when_the_first_refuses(tmp_path: Path) -> None:
    """Started by hand, without a launcher that would end the other one."""
    save_data(tmp_path / "data", make_data(1, 3, 2))
    (tmp_path / "r.jsonl").write_text("{}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    runs = []
    for rank in range(2):
        env = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "WORLD_SIZE": "2", "RANK": str(rank)}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        command = [sys.executable, "-m", "grand3d", "predict", "base:tiny", tmp_path / "data", tmp_path / "r.jsonl"]
        runs.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    for run in runs:
        _, err = run.communicate(timeout=170)
        assert run.returncode == 2 and b"no r.jsonl.run.json beside it" in err


@pytest.mark.slow
def test_two_processes_killed_and_started_again_answer_every_question_once(tmp_path: Path) -> None:
    data = make_data(6, 3, 8)
    save_data(tmp_path / "data", data)
    out = tmp_path / "r.jsonl"
    wanted = sorted(sample.sample_id for sample in data.samples)
    seen = 0
    for _ in range(3):
        run = launch(tmp_path / "data", out)
        end = time.monotonic() + 150
        while time.monotonic() < end and run.poll() is None:
            parts = [path for path in tmp_path.glob("r.jsonl*") if path.name.endswith((".part", ".jsonl"))]
            lines = sum(path.read_bytes().count(b"\n") for path in parts)
            if lines > seen + 3:
                break
            time.sleep(0.02)
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        seen = lines
    assert seen > 0
    run = launch(tmp_path / "data", out)
    text, _ = run.communicate(timeout=170)
    assert run.returncode == 0, text.decode()
    assert sorted(reply.sample_id for reply in load_replies(out)) == wanted
    assert not list(tmp_path.glob("*.part"))
    assert f"{len(wanted)} replies" not in text.decode() and b"were there" in text


def test_two_processes_write_the_replies_of_one(tmp_path: Path) -> None:
    data = make_data(3, 3, 4)
    save_data(tmp_path / "data", data)
    run = launch(tmp_path / "data", tmp_path / "two.jsonl")
    text, _ = run.communicate(timeout=170)
    assert run.returncode == 0, text.decode()
    env = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    tokens = ["--max-new-tokens", "40", "--batch-size", "2"]
    one = [sys.executable, "-m", "grand3d", "predict", "base:tiny", tmp_path / "data", tmp_path / "one.jsonl", *tokens]
    subprocess.run(one, env=env, check=True, timeout=170)
    two = sorted(load_replies(tmp_path / "two.jsonl"), key=lambda reply: reply.sample_id)
    assert two == sorted(load_replies(tmp_path / "one.jsonl"), key=lambda reply: reply.sample_id) and len(two) == len(
        data.samples
    )
