"""``grand3d analyze``: what it reads, what it counts over a data set, and figures of replies by the language of questions."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grand3d.bench.vigil3d import SUBGROUPS, read_shares
from grand3d.errors import GrandError
from grand3d.expressions import load_expressions
from grand3d.files import Rejects
from grand3d.language.measures import measure
from grand3d.language.profile import LABELS, agreement, beside, groups, mark, profile, vocabulary
from grand3d.markup import reference_reply
from grand3d.sample import Data, Reply, Sample, save_data, save_replies
from grand3d.scene import Scene
from grand3d.synth import make_data

Run = Callable[..., tuple[int, str, str]]
TEXTS = ("The red chair beside the desk.", "The desk that is not by the door.", "Find the lamp. It is tall.")


@pytest.mark.parametrize(
    ("share", "expected"), [(0, "absent"), (0.0499, "absent"), (0.05, "some"), (0.1999, "some"), (0.2, "a lot")]
)
def test_marks_at_five_and_twenty_percent(share: float, expected: str) -> None:
    assert mark(share) == expected


def test_profile_counts_and_shares_with_intervals_by_scene() -> None:
    rows = [measure(text) for text in TEXTS]
    found = {row["name"]: row for row in profile(rows, ["a", "a", "b"])}
    assert found["num_negation"]["share"] == pytest.approx(100 / 3) and found["num_negation"]["mark"] == "a lot"
    assert found["num_negation"]["share_low"] == 0 and found["num_negation"]["share_high"] == 50  # a has 1 of 2, b none
    assert found["num_attributes"]["mean"] == pytest.approx(2 / 3)
    assert set(LABELS) < set(found) and len(found) == 34
    alone = {row["name"]: row for row in profile(rows, ["", "", ""])}
    assert alone["num_negation"]["share_high"] > 50


def test_profile_of_nothing_is_refused() -> None:
    with pytest.raises(GrandError, match="expected at least one"):
        profile([], [])


def test_vocabulary_counts_words_and_pairs() -> None:
    found = vocabulary(["the red chair", "The red table!"], num_points=2)
    assert (found["words"], found["distinct_words"], found["bigrams"], found["unique_bigrams"]) == (3, 4, 4, 75)
    assert [(row["expressions"], row["distinct_words"]) for row in found["growth"]] == [(1, 3), (2, 4)]


def test_agreement_counts_what_is_never_found_as_precision_0() -> None:
    one, two = measure("a red chair"), measure("a chair")
    found = agreement([one, two, two], [one, one, two])
    color = found["metrics"]["num_attribute_type_color"]
    assert (color["precision"], color["recall"], color["both"]) == (1, 0.5, 1)
    size = found["metrics"]["num_attribute_type_size"]
    assert size["precision"] == 0 and size["recall"] is None
    assert found["mean"]["precision"] == pytest.approx(2 / 28) and found["mean"]["recall"] == pytest.approx((0.5 + 1) / 2)
    assert found["absolute_errors"]["num_attributes_target"] == pytest.approx(1 / 3)


def test_two_data_sets_side_by_side_are_tested_against_each_other() -> None:
    rows = {"a": [measure("a red chair")] * 30, "b": [measure("a chair")] * 30}
    table = beside({name: profile(found, [""] * 30) for name, found in rows.items()}, {"a": 30, "b": 30})
    color = next(row for row in table if row["name"] == "num_attribute_type_color")
    assert (color["a"], color["b"], color["a: mark"], color["b: mark"]) == (100, 0, "a lot", "absent") and color["p"] < 1e-6
    assert next(row for row in table if row["name"] == "num_attributes")["p"] is None


def test_groups_hold_samples_with_a_pattern_against_the_rest() -> None:
    samples = [
        {"sample_id": str(k), "scene_id": f"s{k % 4}", "acc": float(k % 2), "distance": 3.0, "error": ""} for k in range(40)
    ]
    measured = {str(k): measure("a red chair" if k % 2 else "a chair") for k in range(39)}
    rows = {row["name"]: row for row in groups(samples, measured)}
    color = rows["num_attribute_type_color"]
    assert (color["n"], color["acc"], color["acc of the rest"]) == (19, 100, 0) and color["p"] < 1e-6
    assert "distance" not in color and "num_negation" not in rows


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_every_source_gives_the_same_texts(tmp_path: Path) -> None:
    rows = [{"scene_id": "s", "description": text} for text in TEXTS]
    files = [
        write(tmp_path / "a.json", json.dumps(rows)),
        write(tmp_path / "b.json", json.dumps({"train": rows[:1], "val": rows[1:]})),
        write(tmp_path / "c.jsonl", "".join(json.dumps({"scan_id": "s", "utterance": text}) + "\n" for text in TEXTS)),
        write(tmp_path / "d.txt", "\n\n".join(TEXTS) + "\n"),
        write(tmp_path / "e.csv", "caption,scan\n" + "".join(f'"{text}",s\n' for text in TEXTS)),
    ]
    samples = tuple(Sample(str(k), "s", "object_reference", f"<p>{t}</p>[]", "", (), meta={}) for k, t in enumerate(TEXTS))
    save_data(tmp_path / "f", Data({"s": Scene("s", ())}, samples))
    for path in (*files, tmp_path / "f"):
        found = load_expressions(path)
        assert [row.text for row in found] == list(TEXTS), path.name
        assert {row.scene_id for row in found} == ({""} if path.suffix == ".txt" else {"s"}) and found[0].labels is None


def test_broken_rows_are_counted_by_cause(tmp_path: Path) -> None:
    rows: list[Any] = [{"text": "a chair"}, {"text": ""}, {"words": "a"}, 7, "a lamp", {"question": 3, "caption": "a bed"}]
    rejects = Rejects(skip_bad=True)
    found = load_expressions(write(tmp_path / "a.json", json.dumps(rows)), rejects=rejects)
    assert [row.text for row in found] == ["a chair", "a lamp", "a bed"]
    assert rejects.counts() == {"no text": 2, "wrong type": 1}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "3", "a list of rows"),
        ("a.json", "[]", "at least one"),
        ("a.txt", "\n \n", "at least one"),
        ("a.csv", "x,y\n1,2\n", "a text under one of"),
        ("a.jsonl", '{"x": 1}\n', "a text under one of"),
    ],
)
def test_sources_without_texts_are_refused(tmp_path: Path, run: Run, name: str, text: str, said: str) -> None:
    code, _, err = run("analyze", str(write(tmp_path / name, text)))
    assert code == 2 and "expected" in err and said in err and name in err


def test_task_chooses_samples_of_a_data_folder(tmp_path: Path, run: Run) -> None:
    samples = tuple(
        Sample(task, "s", task, "a chair", "Yes" if task == "existence" else "", (), meta={})
        for task in ("existence", "object_reference")
    )
    save_data(tmp_path / "f", Data({"s": Scene("s", ())}, samples))
    assert len(load_expressions(tmp_path / "f")) == 2 and len(load_expressions(tmp_path / "f", "existence")) == 1
    code, _, err = run("analyze", str(tmp_path / "f"), "--task", "counting")
    assert code == 2 and "counting" in err and "expected" in err
    code, _, err = run("analyze", str(write(tmp_path / "a.txt", "a chair")), "--task", "counting")
    assert code == 2 and "expected" in err


def test_analyze_prints_and_writes_what_it_found(tmp_path: Path, run: Run) -> None:
    source = write(tmp_path / "a.txt", "\n".join(TEXTS))
    out = {name: tmp_path / f"out.{name}" for name in ("csv", "jsonl", "json", "html")}
    code, text, err = run(
        *("analyze", str(source), "--json", "--csv", str(out["csv"]), "--parses", str(out["jsonl"])),
        *("--shares", str(out["json"]), "--html", str(out["html"])),
    )
    assert code == 0, err
    report = json.loads(text)
    assert report["counts"] == {"n": 3} and len(report["rows"]) == 34 and "mean" not in report
    with out["csv"].open() as file:
        table = list(csv.DictReader(file))
    assert [row["description"] for row in table] == list(TEXTS) and [row["num_negation"] for row in table] == ["0", "1", "0"]
    assert [row.text for row in load_expressions(out["csv"])] == list(TEXTS)
    parses = [json.loads(line) for line in out["jsonl"].read_text().splitlines()]
    target = next(thing for thing in parses[0]["things"] if thing["target"])
    start, end = target["span"]
    assert parses[0]["text"][start:end] == "The red chair" and target["attributes"] == [["color", "red"]]
    shares = read_shares(out["json"])
    assert set(shares) == set(SUBGROUPS) and shares["Neg"] == pytest.approx(1 / 3)
    page = out["html"].read_text()
    assert "viewpoint dependent" in page and "Growth of the vocabulary" in page and "<script" not in page


def test_analyze_compares_sources_and_refuses_the_same_twice(tmp_path: Path, run: Run) -> None:
    one, two = write(tmp_path / "a.txt", TEXTS[0]), write(tmp_path / "b.txt", TEXTS[1])
    code, text, _ = run("analyze", str(one), str(two), "--json")
    assert code == 0 and {"a", "b", "p"} < set(json.loads(text)["rows"][-1])
    for line in ((str(one), str(one)), (str(one), str(two), "--shares", str(tmp_path / "s")), (str(one), "--labels")):
        code, _, err = run("analyze", *line)
        assert code == 2 and "expected" in err


def test_labels_give_the_figures_of_the_published_prompts(real: Callable[[str], Path], run: Run) -> None:
    code, text, _ = run("analyze", str(real("vigil3d/vigil3d_scannet.csv")), "--labels", "--json")
    report = json.loads(text)
    assert code == 0 and report["labelled"] == 239 and len(report["metrics"]) == 28
    assert report["mean"]["precision"] >= 0.86 and report["mean"]["recall"] >= 0.91


def test_score_shows_figures_by_the_language_of_the_questions(tmp_path: Path, run: Run) -> None:
    data = make_data(4, 0, 16)
    save_data(tmp_path / "data", data)
    asked = [sample for sample in data.samples if sample.task == "object_reference" and sample.target_ids]
    replies = []
    for row in asked:
        ids = data.scenes[row.scene_id].object_ids
        named = [f"obj_{ids.index(target)}" for target in row.target_ids]
        replies.append(Reply(row.sample_id, row.scene_id, reference_reply([], "it", named, "none"), ids))
    save_replies(tmp_path / "r.jsonl", replies)
    line = ("score", "scanrefer", str(tmp_path / "data"), str(tmp_path / "r.jsonl"), "--missing", "wrong", "--language")
    code, text, err = run(*line, "--json")
    assert code == 0, err
    report = json.loads(text)
    rows = report["tables"]["By the language of the question"]
    figure = next(name for name in rows[0] if name.startswith("acc"))
    assert {row["name"] for row in rows} <= set(LABELS) and all(row["n"] > 0 and row[figure] > 0 for row in rows)
    assert "analyze" in report["rules"]["language"]
    assert "By the language" in run(*line)[1]
    code, _, err = run("score", "synth", str(tmp_path / "data"), str(tmp_path / "r.jsonl"), "--missing", "wrong", "--language")
    assert code == 2 and "--language" in err and "expected" in err
