"""What may go wrong around a run: damage, a full disk, a kill, a second run, rows that cannot be learnt from."""

from __future__ import annotations

import errno
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from toy_run import config, rows

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
for _name in ("transformers", "peft", "accelerate"):
    pytest.importorskip(_name)

from accelerate.utils import load  # noqa: E402
from safetensors import SafetensorError  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from grand3d import checkpoint as checkpoints  # noqa: E402
from grand3d import train as training  # noqa: E402
from grand3d.cli import main  # noqa: E402
from grand3d.config import dump_yaml  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.files import PART  # noqa: E402
from grand3d.train import train  # noqa: E402

SHORT = {"train__num_steps": 3, "train__save_every": 1, "train__keep_checkpoints": 3}


@pytest.fixture(autouse=True)
def one_base(tiny_training_base):
    pass


@pytest.fixture
def run(capsys):
    """Exit code and standard error of a training."""

    def call(*argv):
        code = main(["train", *map(str, argv)])
        return code, capsys.readouterr().err

    return call


def log(out: Path) -> list[tuple]:
    return [(row["step"], row["loss"], row["grad_norm"]) for row in rows(out / "log.jsonl") if "loss" in row]


def same_adapter(a: Path, b: Path) -> bool:
    one, other = (load_file(out / "adapter" / "adapter_model.safetensors") for out in (a, b))
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def error_line(err: str) -> str:
    """The one error; no traceback."""
    assert "Traceback" not in err, err
    lines = [line for line in err.splitlines() if line.startswith("grand3d: error: ")]
    assert len(lines) == 1 and err.rstrip().endswith(lines[0]), err
    return lines[0]


def stop_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends as a crash does, in the loop, once."""
    write = training.Journal.step

    def crash(journal, row):
        write(journal, row)
        if row["step"] == step:
            monkeypatch.setattr(training.Journal, "step", write)
            raise ZeroDivisionError

    monkeypatch.setattr(training.Journal, "step", crash)


# --- damaged checkpoints


def test_train_resume_from_a_damaged_checkpoint_is_refused_with_the_one_to_take(toy_folder, tmp_path, run):
    whole, settings = tmp_path / "whole", tmp_path / "c.yaml"
    settings.write_text(dump_yaml(config(toy_folder, **SHORT)))
    assert run(settings, "--out", whole)[0] == 0
    assert {path.name for path in (whole / "checkpoints" / "step_3").iterdir()} == {
        "adapter.safetensors",
        "optimizer.bin",
        "random_states_0.pkl",
        "state.json",
    }
    for name in ("adapter.safetensors", "optimizer.bin", "random_states_0.pkl", "state.json"):
        for harm in ("lost", "cut"):
            out = shutil.copytree(whole, tmp_path / f"{name}_{harm}")
            shutil.rmtree(out / "adapter")
            file = out / "checkpoints" / "step_3" / name
            if harm == "lost":
                file.unlink()
            else:
                file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
            older = out / "checkpoints" / "step_2"
            for resume in ("latest", file.parent):
                code, err = run(settings, "--out", out, "--resume", resume)
                line = error_line(err)
                assert code == 2 and str(file) in line and "step_3 is damaged" in line
                assert line.endswith(f"the next older whole one: --resume {older}")
            assert len(rows(out / "log.jsonl")) == 3
    code, err = run(settings, "--out", out, "--resume", older)
    assert code == 0 and "removed the checkpoints after step 2, which are done again: step_3" in err
    assert log(out) == log(whole) and same_adapter(out, whole)


def test_train_finished_run_whose_checkpoint_was_damaged_is_still_left_as_it_is(toy_folder, tmp_path, capsys):
    out, settings = tmp_path / "run", config(toy_folder, train__num_steps=1)
    train(settings, out)
    (out / "checkpoints" / "step_1" / "optimizer.bin").unlink()
    assert train(settings, out, resume="latest") == out / "adapter"
    assert "the run is finished" in capsys.readouterr().err


def test_train_random_states_that_accelerate_passes_over_are_refused(toy_folder, tmp_path, monkeypatch):
    out, settings = tmp_path / "run", config(toy_folder, **SHORT)
    train(settings, out)

    def unlike(*argv, **named):
        states = load(*argv, **named)
        return states | {"random_state": None} if "random_state" in states else states

    monkeypatch.setattr("accelerate.checkpointing.load", unlike)  # as of a state that this version cannot set
    with pytest.raises(GrandError, match=r"step_2: its random states could not be restored"):
        train(settings, out, resume=str(out / "checkpoints" / "step_2"))


# --- a full disk


def test_train_full_disk_at_a_checkpoint_leaves_the_older_one_to_go_on_from(toy_folder, tmp_path, run, monkeypatch):
    out, settings = tmp_path / "run", tmp_path / "c.yaml"
    settings.write_text(dump_yaml(config(toy_folder, **SHORT)))
    train(config(toy_folder, **SHORT), tmp_path / "whole")
    save_file = checkpoints.save_file

    def full(state, path):
        if "step_2" in str(path):
            Path(path).write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        save_file(state, path)

    monkeypatch.setattr(checkpoints, "save_file", full)
    code, err = run(settings, "--out", out)
    line = error_line(err)
    assert code == 2 and "step_2: cannot be written (No space left on device)" in line and "goes on from step_1" in line
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step_1"]
    monkeypatch.setattr(checkpoints, "save_file", save_file)
    assert run(settings, "--out", out, "--resume", "latest")[0] == 0
    assert log(out) == log(tmp_path / "whole") and same_adapter(out, tmp_path / "whole")


@pytest.mark.parametrize(
    "fault",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_train_full_disk_at_the_adapter_gives_one_message(toy_folder, tmp_path, monkeypatch, fault):
    out, settings = tmp_path / "run", config(toy_folder, train__num_steps=1)

    def fail(*_, **__):
        raise fault

    with monkeypatch.context() as full:
        full.setattr("safetensors.torch.save_file", fail)  # not the one of checkpoints, which is imported by name
        with pytest.raises(GrandError, match=r"adapter: cannot be written .*No space left on device"):
            train(settings, out)
        fault = RuntimeError("CUDA error: device-side assert triggered")
        with pytest.raises(RuntimeError, match="device-side assert"):
            train(settings, out, resume="latest")
    assert (train(settings, out, resume="latest") / "grand3d.json").exists()


# --- whose folder it is


def test_train_second_one_in_a_folder_is_refused_and_changes_nothing(toy_folder, tmp_path, run):
    out, settings = tmp_path / "run", tmp_path / "c.yaml"
    settings.write_text(dump_yaml(config(toy_folder, train__num_steps=1)))
    with checkpoints.only_trainer(out, main=True):
        code, err = run(settings, "--out", out)
        assert code == 2 and f"{out}: another training (process " in error_line(err)
        assert [path.name for path in out.iterdir()] == [".grand3d.lock"]
    assert run(settings, "--out", out)[0] == 0


def test_train_into_a_folder_with_a_configuration_of_its_own_is_refused(toy_folder, tmp_path, run):
    out = tmp_path / "mine"
    out.mkdir()
    text = "# mine\n" + dump_yaml(config(toy_folder, train__num_steps=1))
    (out / "config.yaml").write_text(text)
    code, err = run(out / "config.yaml", "--out", out)
    assert code == 2 and f"{out / 'config.yaml'}: not of a run" in error_line(err)
    assert [path.name for path in out.iterdir()] == ["config.yaml"] and (out / "config.yaml").read_text() == text
    assert run(out / "config.yaml", "--out", tmp_path / "run")[0] == 0


def test_train_goes_on_with_the_configuration_of_the_run_itself(toy_folder, tmp_path, run):
    out, settings = tmp_path / "run", tmp_path / "c.yaml"
    settings.write_text(dump_yaml(config(toy_folder, **SHORT)))
    assert run(settings, "--out", out)[0] == 0
    before, losses = (out / "config.yaml").read_text(), log(out)
    code, err = run(out / "config.yaml", "--out", out, "--resume", "latest")
    assert code == 0 and "the run is finished" in err
    step = out / "checkpoints" / "step_1"
    assert run(out / "config.yaml", "--out", out, "--resume", step)[0] == 0
    assert (out / "config.yaml").read_text() == before and log(out) == losses


# --- rows that cannot be learnt from


def spoil(toy_folder: Path, *sample_ids: str) -> None:
    """Give samples an answer that cannot be learnt."""
    file = toy_folder / "samples.jsonl"
    kept = [row | {"task": "existence", "answer": "Perhaps"} if row["sample_id"] in sample_ids else row for row in rows(file)]
    file.write_text("".join(json.dumps(row) + "\n" for row in kept))


def test_train_rejected_rows_are_kept_over_a_crash_and_not_written_twice(toy_folder, tmp_path, monkeypatch, capsys):
    spoil(toy_folder, "e0", "e3", "r1")
    file = toy_folder / "samples.jsonl"
    file.write_text(file.read_text() + "{broken\n")
    out, settings = tmp_path / "run", config(toy_folder, train__num_steps=4, train__save_every=1)
    stop_at(2, monkeypatch)
    with pytest.raises(ZeroDivisionError):
        train(settings, out, skip_bad=True)
    path = out / "data.rejected.jsonl"
    first = rows(path)  # two steps are an epoch here
    assert sorted(row["row"]["sample_id"] for row in first if isinstance(row["row"], dict)) == ["e0", "e3", "r1"]
    assert len(first) == 4
    path.write_bytes(path.read_bytes()[:-5])  # and its last row was cut off
    capsys.readouterr()
    train(settings, out, resume="latest", skip_bad=True)
    again = rows(path)
    assert sorted(row["where"] for row in again) == sorted(row["where"] for row in first)
    assert "left out: 3 x no yes or no, 1 x not JSON" in capsys.readouterr().err


def test_train_nothing_to_learn_from_stops_at_the_start_with_counts(toy_folder, tmp_path, run):
    spoil(toy_folder, "r0", "r1", "r2", "e0", "e1", "e2", "e3")
    file = toy_folder / "samples.jsonl"
    file.write_text(file.read_text() + "{broken\n")
    settings = tmp_path / "c.yaml"
    settings.write_text(dump_yaml(config(toy_folder)))
    code, err = run(settings, "--out", tmp_path / "run", "--skip-bad")
    line = error_line(err)
    assert code == 2 and "no sample of the first 4 of 4 groups can be used" in line
    assert "left out: 7 x no yes or no, 1 x not JSON; the first: sample '" in line
    assert not (tmp_path / "run" / "log.jsonl").exists()
    file.write_text("{broken\n")
    code, err = run(settings, "--out", tmp_path / "run", "--skip-bad")
    assert code == 2 and "holds no sample to learn from; left out: 1 x not JSON" in error_line(err)


# --- kill -9

CHILD = """
import shutil, sys, time
from pathlib import Path
from grand3d import checkpoint
from grand3d.config import load_config
from grand3d.train import train

settings, out, moment = sys.argv[1:]
real = getattr(*{"files": (checkpoint, "save_file"), "state": (checkpoint, "write_json"), "old": (shutil, "rmtree")}[moment])

def stop(*args, **options):
    place = str(args[0] if moment != "files" else args[1])
    if moment == "files" and "step_4" in place:
        Path(place).write_bytes(b"half")
    elif moment == "state" and "step_4" in place:
        (Path(place).parent / ".state.json.half").write_text("{")
    elif moment == "old" and place.endswith(".step_2.grand3d-part") and Path(place).exists():
        next(Path(place).iterdir()).unlink()
    else:
        return real(*args, **options)
    print("saving", flush=True)
    time.sleep(600)

setattr(shutil if moment == "old" else checkpoint, real.__name__, stop)
train(load_config(settings), out)
"""


@pytest.mark.timeout(600)  # the other process loads torch anew, seconds on a free core
@pytest.mark.parametrize("moment", ["files", "state", "old"])
def test_train_killed_while_it_saves_goes_on_bit_for_bit_and_cleans_up(toy_folder, tmp_path, run, monkeypatch, moment):
    """A process of its own, killed within the second save: among its files, before state.json, or while step_2 is removed."""
    monkeypatch.undo()  # the base as the other process loads it
    settings, out, whole = tmp_path / "c.yaml", tmp_path / "run", tmp_path / "whole"
    settings.write_text(dump_yaml(config(toy_folder, train__save_every=2, train__keep_checkpoints=1)))
    argv = [sys.executable, "-c", CHILD, str(settings), str(out), moment]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            said = child.stdout.readline()
            assert said == "saving\n", child.stderr.read()
            code, err = run(settings, "--out", out, "--resume", "latest")  # while the other still has the folder
            assert code == 2 and f"another training (process {child.pid} on " in error_line(err)
        finally:
            child.send_signal(signal.SIGKILL)
    left = sorted(path.name for path in (out / "checkpoints").iterdir())
    assert left == ([f".step_2{PART}", "step_4"] if moment == "old" else [f".step_4{PART}", "step_2"])
    with open(out / "log.jsonl", "a") as file:
        file.write('{"step": 5, "lo')  # what a kill between two writes may leave as well
    (out / f".log.jsonl.ab12cd_9{PART}").write_text("")
    code, err = run(settings, "--out", out, "--resume", "latest")
    assert code == 0, err
    assert "removed what a killed run left half written" in err and "the last line was cut off" in err
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step_6"]
    assert {path.name for path in out.iterdir()} == {".grand3d.lock", "adapter", "checkpoints", "config.yaml", "log.jsonl"}
    train(config(toy_folder, train__save_every=2, train__keep_checkpoints=1), whole)
    assert log(out) == log(whole) and same_adapter(out, whole)
