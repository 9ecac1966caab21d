"""Nr3D and Sr3D: golden values, real rows, which rows count, choices among one class, ids of two numberings, broken files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from referred import reply_text, row_of

from grand3d.bench import referit3d
from grand3d.bench.common import Prediction
from grand3d.convert import referit3d as read_referit3d
from grand3d.convert.tables import list_cell
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.sample import Data, Reply, Sample
from grand3d.scene import Object, Scene


def csv_row(stimulus: str, tokens: list[str], target: Any, **more: Any) -> dict[str, str]:
    row = {"scan_id": stimulus.split("-")[0], "target_id": target, "utterance": " ".join(tokens), "stimulus_id": stimulus}
    return {key: str(value) for key, value in (row | {"tokens": tokens} | more).items()}


def write_csv(path: Path, rows: list[dict[str, str]]) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    quoted = [",".join('"' + row.get(name, "").replace('"', '""') + '"' for name in names) for row in rows]
    path.write_text("\n".join([",".join(names), *quoted]))
    return path


def nr3d_rows(golden: Callable[[str], Path], tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    case = json.loads(golden("nr3d/accuracy_cases.json").read_text())
    rows = [csv_row(row["stimulus_id"], row["tokens"], row["target_id"]) for row in case["rows"]]
    return write_csv(tmp_path / "nr3d.csv", rows), case


def test_nr3d_golden(golden: Callable[[str], Path], tmp_path: Path) -> None:
    path, case = nr3d_rows(golden, tmp_path)
    data = read_referit3d.convert(questions=path)
    answers = [
        Prediction(sample.sample_id, sample.scene_id, object_ids=(str(row["pred"]),))
        for sample, row in zip(data.samples, case["rows"], strict=True)
    ]
    rows = referit3d.score(data, answers)["rows"]
    names = {"all": "overall", "easy": "easy", "hard": "hard", "view-dependent": "view_dep", "view-independent": "view_indep"}
    for name, key in names.items():
        assert row_of(rows, name=name)["accuracy"] == pytest.approx(100 * case["expected"][key]), name
        assert key == "overall" or row_of(rows, name=name)["n"] == case["expected"]["n"][key]


def test_nr3d_utterances_of_one_stimulus_stay_apart_which_torchmetrics_ext_collapses(
    golden: Callable[[str], Path], tmp_path: Path
) -> None:
    path, case = nr3d_rows(golden, tmp_path)
    data = read_referit3d.convert(questions=path)
    assert len({row["stimulus_id"] for row in case["rows"]}) == 5
    assert len({sample.sample_id for sample in data.samples}) == 8


def test_nr3d_tokens_left_as_text_would_make_every_row_view_independent_and_are_refused() -> None:
    assert read_referit3d.VIEW_WORDS.isdisjoint(set("['in', 'front']"))  # its letters, as a program without care sees it
    assert list_cell("['left-hand', 'Left']", "tokens", str) == ["left-hand", "Left"]
    for text in ("the left chair", "['a'", "{'a': 1}", "[1]", "__import__('os')"):
        with pytest.raises(GrandError, match="expected a list of texts"):
            list_cell(text, "tokens", str)


def test_nr3d_view_words_are_whole_tokens_in_lower_case(tmp_path: Path) -> None:
    rows = [csv_row("s-chair-1-3", tokens, 3) for tokens in (["left"], ["Left"], ["left-hand"], ["lefts"], ["across", "it"])]
    data = read_referit3d.convert(questions=write_csv(tmp_path / "q.csv", rows))
    assert [sample.meta["view_dependent"] for sample in data.samples] == [True, False, False, False, True]


def test_nr3d_real_rows(real: Callable[[str], Path]) -> None:
    data = read_referit3d.convert(questions=real("nr3d/val_dev.json"))
    assert len(data.samples) == 4027
    right = [Prediction(s.sample_id, s.scene_id, object_ids=s.target_ids) for s in data.samples]
    report = referit3d.score(data, right)
    assert {row["accuracy"] for row in report["rows"]} == {100} and len(report["rows"]) == 5
    with pytest.raises(GrandError, match="expected mentions_target_class in its meta"):  # never passed over in silence
        referit3d.score(data, right, rows="referit3d")


def test_rows_count_as_the_loaders_of_referit3d_butd_detr_and_univlg_take_them(tmp_path: Path) -> None:
    meta: dict[str, Any] = {"mentions_target_class": True, "num_tokens": 3, "correct_guess": True, "instance_type": "chair"}
    changes: list[dict[str, Any]] = [
        {},
        {"mentions_target_class": False},
        {"num_tokens": 25},
        {"correct_guess": False},
        {"instance_type": "Chair"},
    ]
    samples = tuple(
        Sample(str(k), "s", "object_reference", "a chair", target_ids=("0",), meta=meta | change)
        for k, change in enumerate(changes)
    )
    kept = {name: [s.sample_id for s in samples if referit3d.counted(s, name)] for name in referit3d.FILTERS}
    assert kept == {
        "all": ["0", "1", "2", "3", "4"],
        "referit3d": ["0", "3", "4"],
        "butd": ["0", "2"],
        "univlg": ["0", "2", "4"],
    }
    sr3d = csv_row("s-chair-2-3-4", ["it"], 3, mentions_target_class=True, coarse_reference_type="support", anchor_ids=[7])
    data = read_referit3d.convert(questions=write_csv(tmp_path / "sr3d.csv", [sr3d]))
    assert referit3d.counted(data.samples[0], "butd") and data.samples[0].meta["anchor_ids"] == ["7"]
    answers = [Prediction(data.samples[0].sample_id, "s", object_ids=("3",))]
    report = referit3d.score(data, answers, rows="butd")
    assert row_of(report["rows"], name="support")["accuracy"] == 100
    assert report["baselines"] == [{"name": "guess among the target's class", "n": 1, "accuracy": 50}]
    answers = [Prediction(s.sample_id, "s", object_ids=("0",)) for s in samples]
    few = Data({"s": Scene("s", ())}, samples)
    counts = referit3d.score(few, answers, rows="butd")["counts"]
    assert (counts["n"], counts["filtered"]) == (2, 3)


def test_among_true_is_the_choice_among_the_class_of_the_target(tmp_path: Path) -> None:
    rows = [csv_row("s-chair-2-3-4", ["it"], 3, assignmentid=name) for name in "abcd"]
    data = read_referit3d.convert(questions=write_csv(tmp_path / "q.csv", rows))
    scores: dict[str, Any] = {"a": {"3": 0.2, "4": 0.1, "9": 0.7}, "b": {"3": 1, "4": 2}, "c": {"9": 5.0}, "d": 3}
    (tmp_path / "p.json").write_text(json.dumps(scores))
    row = referit3d.score(data, referit3d.read_replies(tmp_path / "p.json", data))["rows"][0]
    assert (row["accuracy"], row["among_true"], row["n_among_true"]) == (25, pytest.approx(100 / 3), 3)
    objects = tuple(Object(i, name, (0, 0, 0), (1, 1, 1)) for i, name in (("3", "chair"), ("4", "chair"), ("9", "lamp")))
    chosen = Reply("x", "s", reply_text("2"), ("3", "4", "9"), chances=(0.3, 0.1, 0.5, 0.1))
    own = Data({"s": Scene("s", objects)}, (Sample("x", "s", "object_reference", "it", target_ids=("3",)),))
    report = referit3d.score(own, [chosen])
    assert (report["rows"][0]["accuracy"], report["rows"][0]["among_true"]) == (0, 100)
    assert len(report["rows"]) == 1  # neither easy nor hard is known


def test_scannet_ids_are_never_compared_with_proposal_numbers() -> None:
    true = Scene("s", (Object("5", "chair", (0, 0, 0), (1, 1, 1)),), id_space="scannet")
    proposals = Scene("s", tuple(Object(str(k), "chair", (k - 2, 0, 0), (1, 1, 1)) for k in range(6)), id_space="mask3d")
    data = Data({"s": proposals}, (Sample("x", "s", "object_reference", "it", target_ids=("5",)),), {"s": true})
    number = Reply("x", "s", reply_text("0"), ("5",))  # proposal 5, which is not where object 5 is
    with pytest.raises(GrandError, match="in mask3d, targets in scannet, expected one numbering"):
        referit3d.score(data, [number])
    assert referit3d.score(data, [number], rule="m3dref")["rows"][0]["accuracy"] == 0
    assert referit3d.score(data, [Reply("x", "s", reply_text("0"), ("2",))], rule="m3dref")["rows"][0]["accuracy"] == 100
    assert referit3d.score(data, [Prediction("x", "s", object_ids=("5",))])["rows"][0]["accuracy"] == 100


def test_m3dref_rule_counts_two_objects_of_nearly_the_same_box_both_as_right(tmp_path: Path) -> None:
    objects = (Object("1", "door", (0, 0, 0), (1, 1, 1)), Object("2", "doorframe", (0, 0, 0), (1, 1, 1.05)))
    scene = Scene("s", objects, id_space="scannet")
    rows = [{"scan_id": "s", "target_id": 1, "caption": "it", "easy": True, "view_dep": False}] * 2
    (tmp_path / "q.json").write_text(json.dumps(rows))
    data = replace(read_referit3d.convert(questions=tmp_path / "q.json"), scenes={"s": scene})
    answers = [Prediction(sample.sample_id, "s", object_ids=("2",)) for sample in data.samples]
    assert referit3d.score(data, answers)["rows"][0]["accuracy"] == 0
    assert referit3d.score(data, answers, rule="m3dref")["rows"][0]["accuracy"] == 100
    (tmp_path / "boxes").mkdir()
    upload: list[Any] = [
        {"object_id": 1, "ann_id": 0, "aabb": [[[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]]},
        {"object_id": 1, "ann_id": 1, "aabb": [[[3, 3, 3], [4, 4, 4]]]},
        {"object_id": 1, "ann_id": 1, "aabb": []},
        {"object_id": 1, "ann_id": 7, "aabb": []},
        {"ann_id": 1, "aabb": []},
        {"object_id": 1, "ann_id": 1, "aabb": "x"},
        4,
    ]
    (tmp_path / "boxes" / "s.json").write_text(json.dumps(upload))
    rejects = Rejects(skip_bad=True)
    found = referit3d.read_replies(tmp_path / "boxes", data, rejects)
    report = referit3d.score(data, found, rule="m3dref")
    assert (report["rows"][0]["accuracy"], report["counts"]["extra"], len(rejects.rows)) == (50, 1, 4)
    with pytest.raises(GrandError, match="expected an object id; boxes are scored by --rule=m3dref"):
        referit3d.score(data, found)


def test_referit3d_broken_questions_and_answers(tmp_path: Path) -> None:
    good = csv_row("s-chair-2-3-4", ["the", "chair"], 3, mentions_target_class=True)
    broken = [
        good | {"target_id": "4"},  # not the stimulus' target
        good | {"stimulus_id": "s-chair-3-3-4"},
        good | {"stimulus_id": "s-chair"},
        good | {"tokens": "the chair"},
        good | {"utterance": ""},
        good | {"mentions_target_class": "perhaps"},
    ]
    rejects = Rejects(skip_bad=True)
    data = read_referit3d.convert(questions=write_csv(tmp_path / "q.csv", [good, *broken, good]), rejects=rejects)
    assert len(rejects.rows) == 6 and [s.meta["ann_id"] for s in data.samples] == ["0", "6"]  # broken rows keep their number
    samples = tuple(Sample(name, "s", "object_reference", "it", target_ids=("3",)) for name in "abcde")
    data = Data({"s": Scene("s", ())}, samples)
    (tmp_path / "p.json").write_text(json.dumps({"a": 3, "b": "4", "c": None, "d": [3], "e": {"3": "x"}, "zz": 1}))
    rejects = Rejects(skip_bad=True)
    report = referit3d.score(data, referit3d.read_replies(tmp_path / "p.json", data, rejects), "wrong")
    counts = report["counts"]
    assert (counts["n"], counts["missing"], counts["extra"], counts["empty"], len(rejects.rows)) == (5, 2, 1, 1, 2)
    assert row_of(report["rows"], name="all")["accuracy"] == 20
    none = Data(data.scenes, (Sample("a", "s", "object_reference", "it"),))
    with pytest.raises(GrandError, match="has 0 targets, expected one"):
        referit3d.score(none, [Prediction("a", "s", object_ids=("3",))])
    for setting in ({"rows": "most"}, {"rule": "iou"}):
        with pytest.raises(GrandError, match="expected one of"):
            referit3d.score(data, [], "wrong", **setting)
