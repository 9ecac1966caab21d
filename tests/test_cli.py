"""The command line from its arguments to its exit code: what good input gives, and what each kind of bad input gets."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grand3d import evaluate
from grand3d.sample import load_data, load_replies

Run = Callable[..., tuple[int, str, str]]


def one_message(err: str) -> str:
    """The only line on stderr; no traceback."""
    lines = err.strip().split("\n")
    assert len(lines) == 1 and "Traceback" not in err, err
    assert lines[0].startswith("grand3d: error: ")
    return lines[0]


# --- what each kind of bad input gets


def break_box(**change: Any) -> Callable[[Path], None]:
    """Change the first object of the first scene; None takes the field out."""

    def change_scene(folder: Path) -> None:
        path = folder / "scenes.jsonl"
        row = json.loads(path.read_text())
        row["objects"][0] |= change
        row["objects"][0] = {key: value for key, value in row["objects"][0].items() if value is not None}
        path.write_text(json.dumps(row) + "\n")

    return change_scene


def break_scene(**change: Any) -> Callable[[Path], None]:
    def change_scene(folder: Path) -> None:
        path = folder / "scenes.jsonl"
        path.write_text(json.dumps(json.loads(path.read_text()) | change) + "\n")

    return change_scene


def break_sample(number: int, **change: Any) -> Callable[[Path], None]:
    def change_sample(folder: Path) -> None:
        path = folder / "samples.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows[number] |= change
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    return change_sample


def cut_line(folder: Path) -> None:
    path = folder / "samples.jsonl"
    lines = path.read_text().splitlines()
    lines[1] = lines[1][:40]
    path.write_text("\n".join(lines) + "\n")


BAD_SCENES = {
    "nan": (break_box(extent=[float("nan"), 1, 1]), "extent"),
    "negative side": (break_box(extent=[0.68, 2.11, -0.65]), "every side must be >= 0"),
    "missing side": (break_box(extent=[1, 1]), "extent"),
    "no extent": (break_box(extent=None), "extent"),
    "foreign frame": (break_scene(frame="camera"), "frame is 'camera', expected 'axis_aligned' or 'raw'"),
    "foreign up": (break_scene(up="y"), "up is 'y', expected 'z'"),
}
BAD_SAMPLES = {
    "broken line": (cut_line, "samples.jsonl:2: not JSON"),
    "unknown target": (break_sample(1, target_ids=["99"]), "99"),
    "unknown scene": (break_sample(1, scene_id="elsewhere"), "elsewhere"),
    "unknown task": (break_sample(1, task="guessing"), "guessing"),
}


@pytest.mark.parametrize("name", [*BAD_SCENES, *BAD_SAMPLES])
@pytest.mark.parametrize("command", ["predict", "score", "show"])
def test_bad_data_gets_one_message_and_exit_code_2(run: Run, folder: Path, tmp_path: Path, name: str, command: str) -> None:
    damage, named = (BAD_SCENES | BAD_SAMPLES)[name]
    damage(folder)
    argv = {
        "predict": ["predict", "base:tiny", folder, tmp_path / "r.jsonl"],
        "score": ["score", "synth", folder, tmp_path / "r.jsonl"],
        "show": ["show", folder],
    }[command]
    code, out, err = run(*argv)
    assert code == 2 and out == "" and not (tmp_path / "r.jsonl").exists()
    message = one_message(err)
    assert named in message and "data/s" in message


@pytest.mark.parametrize("name", [*BAD_SCENES, *BAD_SAMPLES])
def test_check_lists_every_fault_and_fails(run: Run, folder: Path, name: str) -> None:
    damage, named = (BAD_SCENES | BAD_SAMPLES)[name]
    damage(folder)
    code, out, err = run("check", folder)
    assert code == 2 and named in out and "1 x " in out and err == ""


@pytest.mark.parametrize("name", [*BAD_SAMPLES])
def test_predict_with_skip_bad_goes_on_and_keeps_the_rejected_row(
    run: Run, tiny: None, folder: Path, tmp_path: Path, name: str
) -> None:
    BAD_SAMPLES[name][0](folder)
    out = tmp_path / "r.jsonl"
    code, _, err = run("predict", "base:tiny", folder, out, "--skip-bad", "--max-new-tokens", "2", "--unconstrained")
    assert code == 0 and len(load_replies(out)) == 3
    (row,) = [json.loads(line) for line in Path(f"{out}.rejected.jsonl").read_text().splitlines()]
    assert BAD_SAMPLES[name][1] in f"{row['where']}: {row['reason']}" and row["row"]
    assert f"rejected: 1 x {row['cause']}" in err and f"{out}.rejected.jsonl" in err


@pytest.mark.parametrize("name", [*BAD_SCENES])
def test_predict_with_skip_bad_leaves_out_a_bad_scene_and_its_samples(
    run: Run, tiny: None, folder: Path, tmp_path: Path, name: str
) -> None:
    good = {"scene_id": "good", "objects": [{"object_id": "a", "category": "desk", "centroid": [0, 0, 0], "extent": [1, 1, 1]}]}
    BAD_SCENES[name][0](folder)
    with (folder / "scenes.jsonl").open("a") as file:
        file.write(json.dumps(good) + "\n")
    with (folder / "samples.jsonl").open("a") as file:
        file.write(json.dumps({"sample_id": "g", "scene_id": "good", "task": "question", "text": "What is there?"}) + "\n")
    code, _, err = run(
        "predict", "base:tiny", folder, tmp_path / "r.jsonl", "--skip-bad", "--max-new-tokens", "2", "--unconstrained"
    )
    assert code == 0 and [reply.sample_id for reply in load_replies(tmp_path / "r.jsonl")] == ["g"]
    assert "rejected: 4 x its scene was rejected" in err
    assert len((tmp_path / "r.jsonl.rejected.jsonl").read_text().splitlines()) == 5


def test_sample_longer_than_the_context_is_refused_or_skipped(run: Run, tiny: None, folder: Path, tmp_path: Path) -> None:
    break_sample(1, text="Are there any pillows? " * 2000)(folder)
    out = tmp_path / "r.jsonl"
    code, _, err = run("predict", "base:tiny", folder, out, "--max-new-tokens", "2", "--unconstrained")
    assert code == 2 and "sample 'toy_1': too long for the context:" in err and "tokens of question" in err
    code, _, err = run("predict", "base:tiny", folder, out, "--max-new-tokens", "2", "--unconstrained", "--skip-bad")
    assert code == 0 and {r.sample_id for r in load_replies(out)} == {"toy_0", "toy_2", "toy_3"}
    assert "rejected: 1 x too long for the context" in err


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["check", "{tmp}/no.yaml"], "no.yaml: no such file"),
        (["check", "{tmp}/nowhere"], "expected a configuration (.yaml), a scenes file (.jsonl) or a data folder"),
        (["train", "{tmp}/no.yaml"], "no.yaml: no such file"),
        (["predict", "default", "{tmp}/nowhere", "{tmp}/r.jsonl"], "nowhere: no such data folder"),
        (["predict", "{tmp}/nowhere", "{tmp}/data", "{tmp}/r.jsonl"], "not an adapter folder"),
        (["predict", "base:./nowhere", "{tmp}/data", "{tmp}/r.jsonl"], "base './nowhere' was not found"),
        (["predict", "base:tiny", "{tmp}/data", "{tmp}/r.jsonl", "--temperature", "-1"], "temperature is -1.0"),
        (["score", "synth", "{tmp}/data", "{tmp}/no.jsonl"], "no.jsonl: no such file"),
        (["score", "guess", "{tmp}/data", "{tmp}/data/samples.jsonl"], "expected"),
        (["show", "{tmp}/data", "--index", "4"], "--index is 4, expected 0 to 3"),
        (["show", "{tmp}/data", "--index", "-1"], "--index is -1, expected 0 to 3"),
        (["chat", "nosuch"], "no scene 'nosuch'"),
        (["chat", "{tmp}/data:toy_rom"], "did you mean 'toy_room'"),
        (["convert", "scanreffer", "{tmp}/out"], "did you mean 'scanrefer'"),
        (["convert", "pope", "{tmp}/out", "--questions", "{tmp}/no.json", "--proposals", "{tmp}/no.json"], "no such file"),
        (["merge", "{tmp}/nowhere", "{tmp}/out"], "not an adapter folder"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_missing_or_wrong_argument_gets_one_message(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*[item.format(tmp=tmp_path) for item in argv])
    assert code == 2 and out == ""
    assert named in one_message(err)


@pytest.mark.parametrize("command", ["check", "train"])
def test_config_faults_come_all_at_once_with_the_nearest_key(run: Run, tmp_path: Path, command: str) -> None:
    (tmp_path / "c.yaml").write_text("lora: {rnk: 4}\ntrain: {num_steps: -1}\n")
    code, _, err = run(command, tmp_path / "c.yaml", "train.seed=x")
    assert code == 2 and "Traceback" not in err and err.count("grand3d: error") == 1
    assert "lora.rnk; did you mean 'rank'" in err and "train.seed" in err


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fly"],
        ["score", "synth"],
        ["synth", "rooms", "out", "--scenes", "0"],
        ["check", "a", "--what"],
        ["train", "c", "--out"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_2_and_says_how(run: Run, argv: list[str]) -> None:
    code, _, err = run(*argv)
    assert code == 2 and "usage: grand3d" in err and "error: " in err and "Traceback" not in err


# --- what good input gives


def test_synth_check_predict_score_is_one_chain(run: Run, tiny: None, tmp_path: Path) -> None:
    data, replies = tmp_path / "rooms", tmp_path / "replies.jsonl"
    code, out, err = run("synth", "rooms", data, "--scenes", 2, "--seed", 5, "--questions", 6)
    assert code == 0 and out == "" and "2 scenes, 12 samples" in err
    checked = run("check", data)
    assert checked[0] == 0 and checked[1].startswith(err.split(": ", 1)[1])
    code, out, err = run("predict", "base:tiny", data, replies, "--max-new-tokens", 2, "--unconstrained")
    assert code == 0 and out == "" and "12 replies written, 12 cut at 2 tokens" in err
    assert (
        "0 replies written, 12 were there"
        in run("predict", "base:tiny", data, replies, "--max-new-tokens", 2, "--unconstrained")[2]
    )
    code, out, _ = run("score", "synth", data, replies)
    assert code == 0 and out.startswith("synth: n 12, missing 0")
    code, out, _ = run("score", "synth", data, replies, "--json")
    assert code == 0 and json.loads(out)["counts"]["n"] == 12
    assert "| name" in run("score", "synth", data, replies, "--markdown")[1]
    again = tmp_path / "again"
    argv = ["synth", "rooms", again, "--questions", 6, "--scenes", 2]
    run(*argv, "--seed", 5)
    assert load_data(again) == load_data(data)
    assert "there already" in run(*argv, "--seed", 5)[2]
    code, _, err = run(*argv, "--seed", 6)
    assert code == 2 and "again: holds something else (samples.jsonl, scenes.jsonl)" in one_message(err)
    assert load_data(again) == load_data(data)
    assert run(*argv, "--seed", 6, "--force")[0] == 0 and load_data(again) != load_data(data)


def test_score_of_a_part_needs_to_be_told_what_missing_means(run: Run, tiny: None, folder: Path, tmp_path: Path) -> None:
    replies = tmp_path / "r.jsonl"
    run("predict", "base:tiny", folder, replies, "--limit", 2, "--max-new-tokens", 2, "--unconstrained")
    code, _, err = run("score", "synth", folder, replies)
    assert code == 2 and "2 of 4 samples have no reply (first: toy_2). Pass --missing=wrong" in one_message(err)
    assert "n 4, missing 2" in run("score", "synth", folder, replies, "--missing=wrong")[1]
    assert "n 2, missing 2" in run("score", "synth", folder, replies, "--missing", "skip")[1]


def test_score_scanrefer_with_labels_adds_the_rows_of_the_official_rule(run: Run, folder: Path, tmp_path: Path) -> None:
    replies, labels = tmp_path / "r.jsonl", tmp_path / "labels.tsv"
    replies.write_text(json.dumps({"sample_id": "toy_0", "scene_id": "toy_room", "text": "", "object_ids": ["0"]}) + "\n")
    labels.write_text("raw_category\tnyu40class\noffice chair\tchair\n")
    code, out, _ = run("score", "scanrefer", folder, replies, "--labels", labels, "--json")
    rows = {row["name"]: row["n"] for row in json.loads(out)["rows"]}
    assert code == 0 and rows["multiple (official classes)"] == 1 and rows["unique (official classes)"] == 0
    code, _, err = run("score", "synth", folder, replies, "--labels", labels)
    assert code == 2 and "--labels does not belong to score synth" in one_message(err)


def test_show_prints_the_trained_tokens_in_green(run: Run, folder: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed (extra train)")
    code, out, err = run("show", folder, "--index", 1, "--base", "tiny")
    assert code == 0 and "\x1b[32mYes<|im_end|>" in out and "Are there any pillows in the room?" in out
    assert "sample toy_1 (existence)" in err and "2 trained" in err


def test_convert_lists_sources_and_their_files(run: Run) -> None:
    code, out, _ = run("convert", "--list")
    assert code == 0 and {line.split()[0] for line in out.splitlines()} >= {"grand3d", "scanrefer", "pope"}
    code, out, _ = run("convert", "scanrefer", "--help")
    assert code == 0 and "--descriptions FILE" in out and "--truth FILE" in out
    assert run("convert")[0] == 2


def test_convert_with_skip_bad_keeps_the_rejected_rows(run: Run, tmp_path: Path) -> None:
    graphs = {"s1": {"obj_0": {"category": "desk", "centroid": [0, 0, 0], "extent": [1, 1, 1], "score": 0.5}}}
    question = {
        "conversations": [{"from": "human", "value": "Is there a desk?\n<image>"}],
        "question_type": "random",
        "template": "t1",
    }
    rows = [question | {"id": str(n), "scene_id": s, "ground_truth_answer": a} for n, s, a in ((0, "s1", "yes"), (1, "s9", "no"))]
    (tmp_path / "graphs.json").write_text(json.dumps(graphs))
    (tmp_path / "questions.json").write_text(json.dumps(rows))
    argv = [
        "convert",
        "pope",
        tmp_path / "out",
        "--questions",
        tmp_path / "questions.json",
        "--proposals",
        tmp_path / "graphs.json",
    ]
    code, _, err = run(*argv)
    assert code == 2 and "row 1" in one_message(err) and not (tmp_path / "out").exists()
    code, _, err = run(*argv, "--skip-bad")
    assert code == 0 and [s.sample_id for s in load_data(tmp_path / "out").samples] == ["0"]
    assert "rejected: 1 x unknown scene" in err and (tmp_path / "out.rejected.jsonl").exists()
    code, _, err = run(*argv, "--skip-bad")  # an interrupted recipe is run again
    assert code == 0 and "1 samples (1 existence), there already" in err
    (tmp_path / "out" / "truth.jsonl").write_text("")
    code, _, err = run(*argv, "--skip-bad")
    assert code == 2 and "out: holds something else (truth.jsonl)" in err.splitlines()[-1]
    assert run(*argv, "--skip-bad", "--force")[0] == 0 and not (tmp_path / "out" / "truth.jsonl").exists()


def test_check_prints_a_configuration_with_its_defaults(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("lora: {rank: 4}\n")
    code, out, _ = run("check", tmp_path / "c.yaml", "train.seed=7")
    assert code == 0 and "rank: 4" in out and "seed: 7" in out and "top_k: 40" in out


def test_train_takes_settings_before_and_behind_options(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra train)")
    from grand3d import train

    seen: list[Any] = []
    monkeypatch.setattr(train, "train", lambda *argv, **named: seen.append(argv) or tmp_path)
    (tmp_path / "c.yaml").write_text("model: {base: tiny}\n")
    code, _, _ = run("train", tmp_path / "c.yaml", "train.seed=7", "--out", tmp_path / "o", "lora.rank=2", "--skip-bad")
    assert code == 0
    config, out, resume, figures, skip_bad = seen[0]
    assert (config.train.seed, config.lora.rank, out, resume, figures, skip_bad) == (7, 2, str(tmp_path / "o"), None, None, True)
    assert run("train", tmp_path / "c.yaml", "--fast")[0] == 2


def test_train_gives_figures_of_heldout_data(
    run: Run, tiny_base: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grand3d import train

    seen: list[Any] = []
    monkeypatch.setattr(train, "train", lambda *argv, **named: seen.append(argv) or tmp_path)
    monkeypatch.setattr(evaluate, "HELDOUT_TOKENS", 2)
    (tmp_path / "c.yaml").write_text("model: {base: tiny}\n")
    assert run("train", tmp_path / "c.yaml", f"data.heldout={folder}")[0] == 0
    assert seen[0][3](*tiny_base)["n"] == 4


def test_train_dry_run_prints_what_a_step_costs_and_writes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra train)")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text("model: {base: tiny}\ndata: {synth: {num_scenes: 10}}\n")
    code, out, _ = run("train", "c.yaml", "--dry-run", "train.num_steps=7", "train.warmup_steps=0")
    assert code == 0 and "96 samples a step" in out and "steps          7" in out and "memory" in out
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


def test_train_dry_run_leaves_out_broken_rows_when_told_and_names_a_run_as_training_does(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra train)")
    cut_line(folder)
    (tmp_path / "c.yaml").write_text(f"model: {{base: tiny}}\ndata: {{train: [{{path: {folder}}}]}}\n")
    argv = ["train", tmp_path / "c.yaml", "--dry-run", "--out", tmp_path / "o"]
    code, _, err = run(*argv)
    assert code == 2 and "samples.jsonl:2" in one_message(err)
    code, out, _ = run(*argv, "--skip-bad")
    assert code == 0 and "rejected: 1 x not JSON" in out and "already holds a run" not in out
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "log.jsonl").write_text("{}\n")
    assert "already holds a run" not in run(*argv, "--skip-bad")[1]  # without a checkpoint training starts anew
    (tmp_path / "o" / "checkpoints" / "step_3").mkdir(parents=True)
    code, _, err = run(*argv, "--skip-bad")
    assert code == 2 and f"{tmp_path / 'o'}: already holds a run" in one_message(err)


def test_chat_demo_answers_piped_lines(run: Run, tiny: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("where is the desk?\n/ground the chair\n"))
    code, out, _ = run("chat", "demo", "--adapter", "base:tiny", "--max-new-tokens", 3, "--unconstrained")
    assert code == 0 and out.startswith("> where is the desk?\n") and "> /ground the chair\n" in out
    monkeypatch.setattr(sys, "stdin", io.StringIO("where is the desk?\n"))
    code, out, _ = run("chat", "demo", "--json", "--max-new-tokens", 3, "--unconstrained")
    (row,) = map(json.loads, out.splitlines())
    assert code == 0 and row["scene_id"] == "demo" and not row["finished"]
