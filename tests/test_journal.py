"""The log of a run and its file of rejected rows: what a kill leaves, and what else may have happened to them."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("safetensors", reason="safetensors is not installed (extra train)")

from grand3d.errors import GrandError, writing
from grand3d.journal import Journal, RejectLog, rejected_counts
from grand3d.schema import Config

MAIN = SimpleNamespace(is_main_process=True)
ROW = {"step": 3, "loss": 0.5, "lr": 0.1, "grad_norm": float("inf"), "tokens_per_second": 1.0}


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_log(out: Path, more: bytes) -> Path:
    out.mkdir(exist_ok=True)
    (out / "log.jsonl").write_bytes(b'{"step": 1, "loss": 2.0}\n{"step": 2, "eval": {"n": 1}}\n' + more)
    return out


# --- the log


@pytest.mark.parametrize("cut", [b"{", b'{"step": 3, "lo', b'{"step": 3, "loss": "\xc3', b"{}", b"nul"])
def test_journal_last_line_that_a_kill_cut_off_is_dropped_with_a_word(tmp_path, capsys, cut):
    out = write_log(tmp_path / "run", cut)
    Journal(out, Config(), MAIN, start=3).step(ROW)
    assert "log.jsonl: the last line was cut off" in capsys.readouterr().err
    assert [row["step"] for row in rows(out / "log.jsonl")] == [1, 2, 3]


def test_journal_last_line_without_its_end_of_line_is_whole(tmp_path, capsys):
    out = write_log(tmp_path / "run", b'{"step": 3, "loss": NaN}')
    Journal(out, Config(), MAIN, start=3)
    assert "cut off" not in capsys.readouterr().err
    assert [row["step"] for row in rows(out / "log.jsonl")] == [1, 2, 3]


@pytest.mark.parametrize(
    "bad",
    [
        b"null",
        b"[1]",
        b"3",
        b'{"loss": 1}',
        b'{"step": "3"}',
        b'{"step": 3, "lo',
        b'{"step": 3, "x": "\xff"}',
        b"\0\0\0",
        b"[" * 9999,
    ],
)
def test_journal_log_damaged_in_another_way_is_named_and_left_as_it_is(tmp_path, bad):
    out = write_log(tmp_path / "run", bad + b'\n{"step": 4}\n')
    before = (out / "log.jsonl").read_bytes()
    with pytest.raises(GrandError, match=r"log.jsonl:3: not a line that a run writes: .*move the file away") as caught:
        Journal(out, Config(), MAIN, start=3)
    assert "\n" not in str(caught.value)
    assert (out / "log.jsonl").read_bytes() == before
    assert not (out / "config.yaml").exists()


def test_journal_goes_on_over_blank_lines_and_other_line_ends(tmp_path):
    out = write_log(tmp_path / "run", b'\r\n\n{"step": 3}\r\n')
    Journal(out, Config(), MAIN, start=2)
    assert [row["step"] for row in rows(out / "log.jsonl")] == [1, 2]


def test_journal_log_that_cannot_be_written_gives_one_message(tmp_path, monkeypatch):
    journal = Journal(tmp_path, Config(), MAIN, start=0)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(json, "dumps", full)
    with pytest.raises(GrandError, match=r"log.jsonl: cannot be written \(No space left on device\); .* GB are free"):
        journal.step(ROW | {"step": 10})


def test_writing_lets_other_faults_through(tmp_path):
    with pytest.raises(KeyError), writing(tmp_path / "x"):
        raise KeyError
    with pytest.raises(GrandError, match=r"^as it was$"), writing(tmp_path / "x"):
        raise GrandError("as it was")
    for text in ("CUDA out of memory. Tried to allocate 2.00 GiB", "[gloo/transport/tcp/pair.cc:534] Connection closed by peer"):
        with pytest.raises(RuntimeError, match=re.escape(text)), writing(tmp_path / "x"):
            raise RuntimeError(text)


def test_writing_fault_of_the_file_writer_of_torch_is_kept_as_the_cause(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
    (tmp_path / "x").mkdir()
    with pytest.raises(GrandError, match=r"x: cannot be written \(.*\); .* GB are free") as caught, writing(tmp_path / "x"):
        torch.save({}, tmp_path / "x")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_journal_logs_of_starts_that_failed_are_all_kept(tmp_path, capsys):
    for number in range(1, 4):
        (tmp_path / "log.jsonl").write_text(f'{{"step": {number}}}\n')
        Journal(tmp_path, Config(), MAIN, start=0)
    assert "moved to log.old.3.jsonl" in capsys.readouterr().err
    names = ("log.old.jsonl", "log.old.2.jsonl", "log.old.3.jsonl")
    assert [rows(tmp_path / name) for name in names] == [[{"step": 1}], [{"step": 2}], [{"step": 3}]]


def test_journal_logged_gives_the_last_figures_of_a_step(tmp_path):
    write_log(tmp_path, b'{"step": 2, "loss": 1.0}\n{"step": 2, "eval": {"n": 2}}\n')
    journal = Journal(tmp_path, Config(), MAIN, start=2)
    assert [journal.logged(step) for step in (1, 2)] == [{}, {"n": 2}]


# --- rejected rows


def test_reject_log_writes_each_row_at_once(tmp_path):
    log, path = RejectLog(skip_bad=True), tmp_path / "data.rejected.jsonl"
    log.add("f:1", "odd: it is", {"a": (1, 2)}, "odd")  # before there is a folder
    assert not path.exists()
    log.keep(path)
    assert [row["where"] for row in rows(path)] == ["f:1"]
    log.add("f:2", "odd: too", "{", "odd")
    assert [row["where"] for row in rows(path)] == ["f:1", "f:2"]
    assert log.counts() == {"odd": 2}


def test_reject_log_goes_on_without_writing_a_row_twice(tmp_path):
    path = tmp_path / "data.rejected.jsonl"
    first = RejectLog(skip_bad=True)
    first.keep(path)
    first.add("f:1", "odd: one", {"a": float("nan")}, "odd")
    first.add("sample 'x'", "too long: 90 tokens", {"sample_id": "x", "points": (1.0, 2.0)})
    path.write_bytes(path.read_bytes() + b'{"where": "sam')  # killed meanwhile
    again = RejectLog(skip_bad=True)
    again.add("f:1", "odd: one", {"a": float("nan")}, "odd")  # the files are read anew
    again.add("f:9", "late: nine", {"a": 2}, "late")
    again.keep(path)
    again.add("sample 'x'", "too long: 95 tokens", {"sample_id": "x", "points": (1.0, 2.0)})  # beside other questions now
    again.add("sample 'y'", "too long: 99 tokens", {"sample_id": "y"})
    assert [row["where"] for row in rows(path)] == ["f:1", "sample 'x'", "f:9", "sample 'y'"]
    assert again.counts() == {"too long": 2, "odd": 1, "late": 1}
    assert all("NaN" not in line or '"{' in line for line in path.read_text().splitlines())


def test_reject_log_without_skipping_raises_and_writes_nothing(tmp_path):
    log = RejectLog()
    log.keep(tmp_path / "data.rejected.jsonl")
    with pytest.raises(GrandError, match="f:1: odd"):
        log.add("f:1", "odd")
    assert list(tmp_path.iterdir()) == []


def test_reject_log_damaged_file_is_named(tmp_path):
    path = tmp_path / "data.rejected.jsonl"
    path.write_text('null\n{"where": "a", "cause": "b", "reason": "c", "row": 1}\n')
    with pytest.raises(GrandError, match=r"data.rejected.jsonl:1: not a line that a run writes"):
        RejectLog(skip_bad=True).keep(path)


def test_rejected_counts_row_of_two_processes_counts_once(tmp_path):
    for name in ("data", "data.1", "data.12", "heldout", "database"):
        log = RejectLog(skip_bad=True)
        log.keep(tmp_path / f"{name}.rejected.jsonl")
        log.add("sample 'x'", "too long: 9", {"sample_id": "x"})
        log.add(f"sample '{name}'", "odd: 9", {"sample_id": name})
    assert rejected_counts(tmp_path) == {"odd": 3, "too long": 1}


def test_journal_of_a_new_run_removes_rejected_rows_of_an_earlier_one(tmp_path):
    names = ("data.rejected.jsonl", "data.3.rejected.jsonl", "heldout.rejected.jsonl", "mine.rejected.jsonl")
    for name in names:
        (tmp_path / name).write_text("")
    Journal(tmp_path, Config(), MAIN, start=2)
    assert all((tmp_path / name).exists() for name in names)
    Journal(tmp_path, Config(), MAIN, start=0)
    assert sorted(path.name for path in tmp_path.glob("*.rejected.jsonl")) == ["mine.rejected.jsonl"]
