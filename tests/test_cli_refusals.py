"""What the command line refuses in place of dropping it or going on, and what stays of a command that fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grand3d import evaluate
from grand3d.sample import load_replies

Run = Callable[..., tuple[int, str, str]]


def rewrite(file: Path, number: int, **change: Any) -> None:
    """Change a row of a file of JSON lines."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[number] |= change
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def rejected(path: str) -> list[str]:
    return [json.loads(line)["cause"] for line in Path(path).read_text().splitlines()]


# --- arguments


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ("show data --config c.yaml --base smollm2", "--base: not allowed with argument --config"),
        ("score synth data r --json --markdown", "--markdown: not allowed with argument --json"),
        ("predict default data r --seed 3", "--seed: expected a --temperature above 0"),
        ("chat demo --top-p 0.5 --seed 0", "--top-p and --seed: expected a --temperature above 0"),
        ("convert --list pope", "--list stands alone"),
    ],
)
def test_argument_that_would_be_dropped_is_refused(run: Run, argv: str, named: str) -> None:
    code, out, err = run(*argv.split())
    assert code == 2 and out == "" and named in err and "expected" in err.replace("not allowed", "expected")


@pytest.mark.parametrize(
    "argv",
    [
        "train c.yaml --out",
        "train c.yaml --resume",
        "synth rooms",
        "predict default data",
        "score synth data",
        "merge default",
        "show",
        "check",
        "chat",
        "convert pope out --questions",
        "convert",
    ],
)
def test_empty_argument_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: str) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*argv.split(), "")
    assert code == 2 and out == "" and f"usage: grand3d {argv.split()[0]} " in err and "is empty, expected a name" in err


@pytest.mark.parametrize("argv", ["show data --nope", "train c.yaml --fast", "merge default out more", "chat demo --index 1"])
def test_unknown_argument_is_answered_by_the_usage_of_the_command(run: Run, argv: str) -> None:
    command, *_, unknown = argv.split()
    code, _, err = run(*argv.split())
    assert code == 2 and err.startswith(f"usage: grand3d {command} ") and unknown in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ("check {tmp}/nope", "nope: no such file or folder; expected a configuration"),
        ("check {tmp}/file", "file: is none of these; expected a configuration"),
        ("predict {tmp}/file {tmp}/data {tmp}/r", "file: not an adapter folder (it is a file); expected"),
        ("predict base:{tmp}/file {tmp}/data {tmp}/r", "file' was not found: it is a file; expected 'smollm2'"),
        ("predict base: {tmp}/data {tmp}/r", "base '' was not found: the name is empty; expected 'smollm2'"),
        ("chat {tmp}/data:", "the scene id is empty, expected one of 1: toy_room"),
        ("chat {tmp}/data/scenes.jsonl/toy_room", "scenes.jsonl is a file, expected a folder"),
    ],
)
def test_name_of_nothing_says_what_is_there(run: Run, folder: Path, tmp_path: Path, argv: str, named: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra train)")
    (tmp_path / "file").write_text("x")
    code, out, err = run(*argv.format(tmp=tmp_path).split())
    assert (code, out) == (2, "") and named in err


# --- data and replies


@pytest.mark.parametrize("command", ["show", "predict"])
def test_data_without_samples_are_refused(run: Run, tiny: None, folder: Path, tmp_path: Path, command: str) -> None:
    (folder / "samples.jsonl").write_text("")
    argv = {"show": ["show", folder, "--base", "tiny"], "predict": ["predict", "base:tiny", folder, tmp_path / "r.jsonl"]}
    code, out, err = run(*argv[command])
    assert code == 2 and out == "" and "samples.jsonl: holds no sample that can be used, expected" in err
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.parametrize("missing", [[], ["--missing=skip"], ["--missing=wrong"]])
@pytest.mark.parametrize("bench", ["synth", "pope", "scanrefer"])
def test_score_of_nothing_fails(run: Run, folder: Path, tmp_path: Path, bench: str, missing: list[str]) -> None:
    (tmp_path / "r.jsonl").write_text("")
    if missing != ["--missing=skip"]:
        (folder / "samples.jsonl").write_text("")
    code, out, err = run("score", bench, folder, tmp_path / "r.jsonl", *missing)
    assert code == 2 and out == "" and "nothing to score: " in err and "expected" in err


def test_score_by_a_benchmark_of_other_tasks_says_what_there_is(run: Run, folder: Path, tmp_path: Path) -> None:
    rows = (folder / "samples.jsonl").read_text().splitlines(keepends=True)
    (folder / "samples.jsonl").write_text(rows[3])
    (tmp_path / "r.jsonl").write_text("")
    code, _, err = run("score", "pope", folder, tmp_path / "r.jsonl")
    assert code == 2 and "the data hold 1 counting, expected samples of task 'existence'; the benchmark 'synth' scores" in err


def test_scene_without_true_objects_is_named(run: Run, folder: Path) -> None:
    row = json.loads((folder / "scenes.jsonl").read_text())
    (folder / "truth.jsonl").write_text(json.dumps(row | {"scene_id": "another"}) + "\n")
    code, _, err = run("show", folder)
    assert code == 2 and "samples.jsonl:1: " in err and "scene 'toy_room' is not in truth.jsonl, expected there" in err
    assert "4 x scene without truth" in run("check", folder)[1]


def test_score_of_replies_to_other_data_is_refused(run: Run, tiny: None, folder: Path, tmp_path: Path) -> None:
    replies, note = tmp_path / "r.jsonl", tmp_path / "r.jsonl.run.json"
    run("predict", "base:tiny", folder, replies, "--max-new-tokens", 2, "--unconstrained")
    assert run("score", "synth", folder, replies)[0] == 0
    rewrite(folder / "samples.jsonl", 1, answer="No", target_ids=[])
    code, out, err = run("score", "synth", folder, replies)
    assert (code, out) == (2, "") and "r.jsonl: the replies were made for other data: r.jsonl.run.json says" in err
    note.write_text("[]")
    code, _, err = run("score", "synth", folder, replies)
    assert code == 2 and "r.jsonl.run.json: holds [], expected" in err
    note.unlink()
    assert run("score", "synth", folder, replies)[0] == 0


def test_score_with_skip_bad_takes_the_replies_to_what_it_leaves_out(run: Run, tiny: None, folder: Path, tmp_path: Path) -> None:
    rewrite(folder / "samples.jsonl", 0, task="guessing")  # not asked
    rewrite(folder / "samples.jsonl", 1, answer="Perhaps")  # asked, but cannot be scored
    assert (
        run("predict", "base:tiny", folder, tmp_path / "r.jsonl", "--max-new-tokens", 2, "--unconstrained", "--skip-bad")[0] == 0
    )
    assert len(load_replies(tmp_path / "r.jsonl")) == 3
    code, out, _ = run("score", "synth", folder, tmp_path / "r.jsonl", "--skip-bad")
    assert code == 0 and out.startswith("synth: n 2, ") and "rejected rows 2" in out


def test_reply_that_leaves_no_room_for_a_prompt_is_refused(run: Run, tiny: None, folder: Path, tmp_path: Path) -> None:
    replies = tmp_path / "r.jsonl"
    code, _, err = run("predict", "base:tiny", folder, replies, "--max-new-tokens", 999999999, "--skip-bad")
    assert code == 2 and "a reply may have 999999999 tokens (max_new_tokens), expected fewer than 4096, which is prompt" in err
    assert not replies.exists() and not Path(f"{replies}.run.json").exists()


# --- rejected rows


def test_rejected_rows_are_kept_when_score_fails(run: Run, folder: Path, tmp_path: Path) -> None:
    replies = tmp_path / "r.jsonl"
    replies.write_text('{"sample_id": "toy_0"\n')
    code, out, err = run("score", "synth", folder, replies, "--skip-bad")
    assert code == 2 and out == "" and rejected(f"{replies}.score.rejected.jsonl") == ["not JSON"]
    assert err.startswith("rejected: 1 x not JSON\n") and err.splitlines()[-1].startswith("grand3d: error: 4 of 4 samples")
    Path(f"{replies}.score.rejected.jsonl").unlink()
    Path(f"{replies}.score.rejected.jsonl").mkdir()
    err = run("score", "synth", folder, replies, "--skip-bad")[2]
    assert "the 1 rejected rows are lost: " in err and err.splitlines()[-1].startswith("grand3d: error: 4 of 4 samples")


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (BrokenPipeError(), 141)])
def test_rejected_rows_are_kept_when_predict_is_stopped(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException, code: int
) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra train)")

    def load_model(*_: Any) -> None:
        raise stop

    monkeypatch.setattr(evaluate, "load_model", load_model)
    monkeypatch.setattr("grand3d.cli._silence", lambda *_: None)
    rewrite(folder / "samples.jsonl", 0, task="guessing")
    assert run("predict", "base:tiny", folder, tmp_path / "r.jsonl", "--skip-bad")[0] == code
    assert rejected(f"{tmp_path}/r.jsonl.rejected.jsonl") == ["unknown task"]


def test_rejected_rows_are_kept_when_convert_fails(run: Run, tmp_path: Path) -> None:
    question = {"conversations": [{"from": "human", "value": "Is there a desk?\n<image>"}], "question_type": "random"}
    row = question | {"template": "t1", "id": "1", "scene_id": "s9", "ground_truth_answer": "no"}
    (tmp_path / "graphs.json").write_text('{"s1": {"obj_0": {"category": "desk", "centroid": [0, 0, 0], "extent": [1, 1, 1]}}}')
    good = row | {"id": "2", "scene_id": "s1"}
    (tmp_path / "questions.json").write_text(json.dumps([row, good]))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    argv = ["convert", "pope", tmp_path / "out", "--skip-bad", "--questions", tmp_path / "questions.json"]
    code, _, err = run(*argv, "--proposals", tmp_path / "graphs.json")
    assert code == 2 and "holds something else (mine)" in err
    assert "unknown scene" in rejected(f"{tmp_path}/out.rejected.jsonl")
