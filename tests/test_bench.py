from __future__ import annotations

import csv
import importlib
import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grand3d.bench import BENCHMARKS, scanrefer
from grand3d.bench.common import against, target_rows
from grand3d.convert import CONVERTERS
from grand3d.errors import GrandError
from grand3d.sample import TASKS, Data, Reply, Sample
from grand3d.scene import Object, Scene


def _object(object_id: str, category: str, x: float, score: float | None = None, width: float = 1.0) -> Object:
    return Object(object_id, category, (x, 0, 0.5), (width, 1, 1), score=score)


def _said(*ids: int) -> str:
    listed = ", ".join(f"<obj_{i}>" for i in ids)
    return f"<refer_expression_grounding><p>it</p>[{listed}]</refer_expression_grounding>"


# which reply belongs to which sample

DETECTED = (_object("10", "chair", 0, 0.9), _object("11", "chair", 5.25, 0.8), _object("12", "desk", 9, 0.7, 2))
REFERENCES = Data(
    scenes={
        "a": Scene("a", DETECTED, id_space="mask3d"),
        "b": Scene("b", (_object("0", "lamp", 0, 0.5),), id_space="mask3d"),
    },
    samples=(
        Sample("a1", "a", "object_reference", "the chair by the desk", target_ids=("3",)),
        Sample("a2", "a", "object_reference", "the desk", target_ids=("8",)),
        Sample("b1", "b", "object_reference", "a light", target_ids=("1",)),
        Sample("b2", "b", "existence", "Is there a lamp?", "Yes"),
    ),
    truth={
        "a": Scene("a", (_object("3", "chair", 5), _object("4", "chair", 0), _object("8", "desk", 9)), id_space="scannet"),
        "b": Scene("b", (_object("1", "lamp", 0),), id_space="scannet"),
    },
)  # fmt: skip
A, B = REFERENCES.scenes["a"].object_ids, REFERENCES.scenes["b"].object_ids
RIGHT = [Reply("a1", "a", _said(1), A), Reply("a2", "a", _said(2), A), Reply("b1", "b", _said(0), B)]


def _row(report: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    (row,) = [row for row in report["rows"] if all(row[k] == v for k, v in wanted.items())]
    return row


def test_score_scanrefer_compares_boxes_and_not_ids() -> None:
    # overlaps of the right answers: 0.75/1.25 = 0.6, exactly 0.5 (a miss through eps), 1
    report = scanrefer.score(REFERENCES, RIGHT)
    row = _row(report, name="all")
    assert (row["n"], row["acc25"], row["acc50"]) == (3, 100, pytest.approx(200 / 3))
    assert _row(scanrefer.score(REFERENCES, RIGHT, eps=0), name="all")["acc50"] == 100
    assert report["counts"]["other_tasks"] == 1
    assert "acc_id" not in row


def test_score_scanrefer_follows_object_ids_in_the_order_of_the_prompt() -> None:
    turned = replace(RIGHT[0], object_ids=A[::-1])
    assert _row(scanrefer.score(REFERENCES, [turned, *RIGHT[1:]]), name="all")["acc25"] == 100
    wrong = replace(RIGHT[0], text=_said(0), object_ids=A[::-1])
    assert _row(scanrefer.score(REFERENCES, [wrong, *RIGHT[1:]]), name="all")["acc25"] == pytest.approx(200 / 3)


def test_score_scanrefer_splits_by_the_labels_of_referred_objects() -> None:
    report = scanrefer.score(REFERENCES, RIGHT)
    unique, multiple = (_row(report, name=f"{name} (raw label)") for name in ("unique", "multiple"))
    assert (unique["n"], multiple["n"], multiple["acc50"]) == (2, 1, 100)
    total = (unique["acc50"] * unique["n"] + multiple["acc50"] * multiple["n"]) / 3
    assert _row(report, name="all")["acc50"] == pytest.approx(total)
    assert _row(report, name="all")["acc50_low"] <= total <= _row(report, name="all")["acc50_high"]
    assert multiple["acc50_low"] is None  # one scene says nothing about the spread
    json.dumps(report, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "count", "right"),
    [
        (_said(1, 0), "several_ids", True),
        (_said(0, 1), "several_ids", False),
        (_said(), "empty", False),
        (_said(7), "unknown_ids", False),
        (_said(7, 1), "unknown_ids", False),
        ("I do not know.", "unparsable", False),
        ("", "unparsable", False),
        ("<p>chair</p>[<obj_1>]", "lenient", True),
    ],
)
def test_score_scanrefer_counts_what_is_odd_about_a_reply(text: str, count: str, right: bool) -> None:
    report = scanrefer.score(REFERENCES, [replace(RIGHT[0], text=text), *RIGHT[1:]])
    assert report["counts"][count] == 1
    assert _row(report, name="all")["acc25"] == (100 if right else pytest.approx(200 / 3))


def test_score_scanrefer_of_a_reply_cut_inside_its_list_takes_the_whole_ids() -> None:
    cut = replace(RIGHT[0], text="<refer_expression_grounding><p>chair</p>[<obj_1>, <obj_", finished=False)
    report = scanrefer.score(REFERENCES, [cut, *RIGHT[1:]])
    assert _row(report, name="all")["acc25"] == 100
    assert (report["counts"]["unparsable"], report["counts"]["unfinished"]) == (0, 1)


def test_score_scanrefer_without_object_ids_reads_object_ids_directly() -> None:
    reply = Reply("a1", "a", "<refer_expression_grounding><p>x</p>[<11>]</refer_expression_grounding>")
    assert _row(scanrefer.score(REFERENCES, [reply, *RIGHT[1:]]), name="all")["acc25"] == 100


def test_score_with_missing_replies_refuses_counts_them_wrong_or_leaves_them_out() -> None:
    with pytest.raises(GrandError, match=r"1 of 3 samples have no reply \(first: b1\)\. Pass --missing=wrong"):
        scanrefer.score(REFERENCES, RIGHT[:2])
    wrong = scanrefer.score(REFERENCES, RIGHT[:2], missing="wrong")
    assert (wrong["counts"]["n"], wrong["counts"]["missing"]) == (3, 1)
    assert _row(wrong, name="all")["acc25"] == pytest.approx(200 / 3)
    skip = scanrefer.score(REFERENCES, RIGHT[:2], missing="skip")
    assert (skip["counts"]["n"], skip["counts"]["missing"], _row(skip, name="all")["acc25"]) == (2, 1, 100)


@pytest.mark.parametrize(
    ("replies", "word"),
    [
        ([*RIGHT, RIGHT[0]], "two replies"),
        ([replace(RIGHT[0], scene_id="b"), *RIGHT[1:]], "are the replies from other data"),
        ([replace(RIGHT[0], object_ids=("99",)), *RIGHT[1:]], "made from other scenes"),
        ([replace(r, sample_id=f"x{r.sample_id}") for r in RIGHT], "none of the 3 replies"),
    ],
)
def test_score_of_replies_from_other_data_is_refused(replies: list[Reply], word: str) -> None:
    with pytest.raises(GrandError, match=word):
        scanrefer.score(REFERENCES, replies, missing="wrong")


def test_score_counts_extra_and_unfinished_replies() -> None:
    extra = [*RIGHT[:2], replace(RIGHT[2], finished=False), Reply("other", "a", "")]
    counts = scanrefer.score(REFERENCES, extra)["counts"]
    assert (counts["extra"], counts["unfinished"], counts["n"]) == (1, 1, 3)


def test_score_with_nothing_to_score_or_an_unknown_policy_is_refused() -> None:
    with pytest.raises(GrandError, match="expected samples of task 'object_reference'"):
        scanrefer.score(replace(REFERENCES, samples=REFERENCES.samples[3:]), [])
    with pytest.raises(GrandError, match="expected one of wrong, skip"):
        scanrefer.score(REFERENCES, RIGHT, missing="ignore")
    several = replace(REFERENCES.samples[0], target_ids=("3", "4"))
    with pytest.raises(GrandError, match="exactly one"):
        scanrefer.score(replace(REFERENCES, samples=(several, *REFERENCES.samples[1:])), RIGHT)


def test_score_scanrefer_without_truth_scores_the_picked_ids() -> None:
    twice = _object("13", "seat", 5.25, 0.1)  # the same box as 11 under another label
    scenes = {"a": replace(REFERENCES.scenes["a"], objects=(*REFERENCES.scenes["a"].objects, twice))}
    samples = (
        Sample("s1", "a", "object_reference", "the chair", target_ids=("13",)),
        Sample("s2", "a", "object_reference", "the desk", target_ids=("12",)),
        Sample("s3", "a", "object_reference", "the chairs", target_ids=("10", "11")),
        Sample("s4", "a", "object_reference", "the piano"),
    )
    texts = (_said(1), _said(0), _said(1, 0), _said())
    replies = [Reply(s.sample_id, "a", text, A) for s, text in zip(samples, texts, strict=True)]
    row = _row(scanrefer.score(Data(scenes, samples), replies), name="all")
    assert (row["acc_id"], row["acc25"]) == (75, 75)
    replies[2], replies[3] = replace(replies[2], text=_said(1)), replace(replies[3], text=_said(2))
    assert _row(scanrefer.score(Data(scenes, samples), replies), name="all")["acc_id"] == 25


def test_baselines_scanrefer_answer_with_the_best_scored_object_of_the_first_named_category() -> None:
    first, best, each = scanrefer.baselines(REFERENCES)
    # "the chair by the desk" -> chair 10, which is not the target; "the desk" -> right; "a light" names nothing
    assert (first["n"], first["acc25"]) == (3, pytest.approx(100 / 3))
    assert (best["acc25"], best["acc50"]) == (100, pytest.approx(200 / 3))
    assert REFERENCES.truth is not None
    bound = scanrefer.upper_bound(REFERENCES.scenes, REFERENCES.truth)
    assert (bound["n"], bound["acc25"], bound["acc50"]) == (4, 100, 75) and each == bound
    with pytest.raises(GrandError, match="no proposals"):
        scanrefer.upper_bound({}, REFERENCES.truth)


def test_baselines_scanrefer_of_a_scene_without_proposals_is_wrong_not_an_error() -> None:
    empty = replace(REFERENCES, scenes={k: replace(v, objects=()) for k, v in REFERENCES.scenes.items()})
    assert [row["acc25"] for row in scanrefer.baselines(empty)] == [0, 0, 0]


LABELS = (
    "id\traw_category\tcategory\tnyu40class\r\n1\tcouch\tcouch\tsofa\r\n2\tlamp\tlamp\tlamp\r\n3\tend table\ttable\ttable\r\n"
)


def test_unique_objects_by_official_classes_puts_all_others_into_one(tmp_path: Path) -> None:
    (tmp_path / "labels.tsv").write_bytes(LABELS.encode())
    labels = scanrefer.read_labels(tmp_path / "labels.tsv")
    assert labels == {"couch": "sofa", "lamp": "others", "end table": "table"}
    scene = Scene("a", tuple(_object(str(i), c, i) for i, c in enumerate(("couch", "lamp", "trash can", "end_table"))))
    assert list(scanrefer.unique_objects({"a": scene}, labels).values()) == [True, False, False, True]
    assert all(scanrefer.unique_objects({"a": scene}).values())
    (tmp_path / "labels.tsv").write_bytes(LABELS.encode().replace(b"\r", b"").replace(b"\n", b"\tx\r"))
    with pytest.raises(GrandError, match="expected rows below the head, seen none; do its lines end with CR alone"):
        scanrefer.read_labels(tmp_path / "labels.tsv")
    (tmp_path / "labels.tsv").write_text("a\tb\n")
    with pytest.raises(GrandError, match="expected the columns"):
        scanrefer.read_labels(tmp_path / "labels.tsv")


def test_unique_objects_golden_annotations_are_split_as_the_official_script_does(
    golden: Callable[[str], Path], real: Callable[[str], Path]
) -> None:
    rows = json.loads(golden("scanrefer/unique_multiple_lookup.json").read_text())["rows"]
    labels = scanrefer.read_labels(real("scannet/scannetv2-labels.combined.ScanRefer.CRLF.tsv"))
    scenes: dict[str, dict[str, Object]] = {}
    for row in rows:
        scenes.setdefault(row["scene_id"], {})[row["object_id"]] = _object(row["object_id"], row["object_name"], 0)
    made = {k: Scene(k, tuple(v.values())) for k, v in scenes.items()}
    unique, theirs = (scanrefer.unique_objects(made, labels, names) for names in (scanrefer.NYU40_NAMES, scanrefer.M3DREF_NAMES))
    for row in rows:
        assert unique[row["scene_id"], row["object_id"]] == (row["unique_multiple"] == "unique"), row
        assert theirs[row["scene_id"], row["object_id"]] == (row["m3dref_clip_eval_type"] == "unique"), row
        name = labels.get(row["object_name"].replace("_", " "), "others")
        assert (*scanrefer.NYU40_NAMES, "others").index(name) == row["label18"]


def test_official_table_splits_by_others_and_m3dref_clip_keeps_walls_apart() -> None:
    names = ("couch", "lamp", "wall", "end table")
    labels = {"couch": "sofa", "lamp": "others", "wall": "wall", "end table": "table"}
    scene = Scene("a", tuple(_object(str(i), name, 3 * i) for i, name in enumerate(names)))
    samples = tuple(Sample(str(i), "a", "object_reference", name, target_ids=(str(i),)) for i, name in enumerate(names))
    replies = [
        Reply(s.sample_id, "a", "<refer_expression_grounding><p>it</p>[<1>]</refer_expression_grounding>") for s in samples
    ]
    rows = {row["name"]: row for row in scanrefer.score(Data({"a": scene}, samples), replies, labels=labels)["rows"]}
    numbers = {name: row["n"] for name, row in rows.items() if "(official" in name or "(M3D" in name}
    assert numbers == {
        **{"unique (official classes)": 2, "multiple (official classes)": 2},
        **{"all, not in others (official classes)": 2, "all, in others (official classes)": 2},
        **{"unique, not in others (official classes)": 2, "multiple, not in others (official classes)": 0},
        **{"unique, in others (official classes)": 0, "multiple, in others (official classes)": 2},
        **{"unique (M3DRef-CLIP's classes)": 4, "multiple (M3DRef-CLIP's classes)": 0},
    }
    assert rows["multiple, in others (official classes)"]["acc25"] == 50
    assert rows["all, not in others (official classes)"]["acc25"] == 0


# all of them


def test_benchmarks_have_the_same_face() -> None:
    for name in BENCHMARKS.values():
        module = importlib.import_module(name)
        if hasattr(module, "score_files"):
            assert callable(module.score_files)
        else:
            assert callable(module.score) and callable(module.read_replies) and set(module.TASKS) <= set(TASKS)
            source, keyword = module.SOURCE
            assert keyword in importlib.import_module(CONVERTERS[source]).INPUTS
        assert all(row["name"] and row["source"] for row in module.PAPER)


def test_real_numbers_tool_prints_the_known_figures(root: Path, real: Callable[[str], Path]) -> None:
    with real("3dpope/leo_expected_random.csv").open() as file:
        expected = {row["Template"]: row for row in csv.DictReader(file)}
    out = subprocess.run(
        [sys.executable, str(root / "tools" / "real_numbers.py"), "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    table = json.loads(out.stdout)
    assert table["upper_bound"]["n"] == 2068
    assert [round(table["upper_bound"][k], 2) for k in ("acc25", "acc50")] == [80.90, 61.03]
    assert [round(table["upper_bound_dev"][k], 1) for k in ("acc25", "acc50")] == [80.5, 60.4]
    assert table["first_mention_dev"]["n"] == 4955
    assert table["first_mention_dev"]["acc25"] >= 34.6 and table["first_mention_dev"]["acc50"] >= 25.4
    for kind, f1 in (("random", 88.7), ("popular", 78.0), ("adversarial", 76.1)):
        assert table["pope_lookup"][kind]["f1"] >= f1
    assert set(table["leo_random"]) == set(expected)
    for template, row in expected.items():
        columns = {"precision": "Precision", "recall": "Recall", "f1": "F1 Score", "accuracy": "Accuracy"}
        for name, column in columns.items():
            assert math.isclose(table["leo_random"][template][name], 100 * float(row[column]), rel_tol=1e-12)
        assert math.isclose(table["leo_random"][template]["yes"], float(row["Yes (%)"]), rel_tol=1e-12)


def test_upper_bound_of_the_real_proposals_by_raw_label_is_the_known_one(real: Callable[[str], Path]) -> None:
    from grand3d.convert.graphs import read_graphs

    proposals = read_graphs(real("mask3d/scannet_val_proposals.json"), "mask3d")
    truth = read_graphs(real("scanrefer/val_ground_truth_objects.json"), "scanrefer_rank", scored=False)
    unique = scanrefer.unique_objects(truth)
    for wanted, figures in ((True, (81.2, 58.7)), (False, (80.7, 62.4))):
        part = {k: replace(s, objects=tuple(o for o in s.objects if unique[k, o.object_id] is wanted)) for k, s in truth.items()}
        bound = scanrefer.upper_bound(proposals, part)
        assert (round(bound["acc25"], 1), round(bound["acc50"], 1)) == figures


def test_score_scanrefer_with_several_targets_an_unknown_id_more_is_wrong_and_counted() -> None:
    data = Data({"a": REFERENCES.scenes["a"]}, (Sample("s", "a", "object_reference", "the chairs", target_ids=("10", "11")),))
    for ids, right, unknown in (((1, 0), 100, 0), ((1, 0, 7), 0, 1)):
        report = scanrefer.score(data, [Reply("s", "a", _said(*ids), A)])
        assert (_row(report, name="all")["acc_id"], report["counts"]["unknown_ids"]) == (right, unknown)


def test_score_scanrefer_baselines_are_over_the_scored_samples() -> None:
    skipped = scanrefer.score(REFERENCES, RIGHT[1:2], missing="skip")["baselines"]
    assert [(row["n"], row["acc25"]) for row in skipped[:2]] == [(1, 100), (1, 100)]
    assert scanrefer.score(REFERENCES, RIGHT[1:2], missing="wrong")["baselines"] == scanrefer.baselines(REFERENCES)


def test_paired_difference_is_that_of_the_same_samples() -> None:
    def rows(*hits: float) -> list[dict[str, Any]]:
        return [{"sample_id": str(k), "scene_id": "ab"[k % 2], "acc25": hit} for k, hit in enumerate(hits)]

    (row,) = against(rows(1.0, 1.0, 0.0, 1.0), rows(0.0, 1.0, 1.0))
    assert (row["n"], row["this"], row["other"], row["difference"]) == (3, pytest.approx(200 / 3), pytest.approx(200 / 3), 0.0)
    assert (row["won"], row["lost"]) == (1, 1) and row["difference_low"] <= 0 <= row["difference_high"]
    (row,) = against(rows(*[1.0] * 6), rows(*[0.0] * 6))
    assert (row["difference"], row["difference_low"], row["difference_high"]) == (100.0, 100.0, 100.0)
    with pytest.raises(GrandError, match="expected replies to the same data"):
        against(rows(1.0), [])


def test_target_rows_by_hand() -> None:
    wanted = [(), (), ("a",), ("a", "b"), ("a", "b"), ("c",)]
    named = [(), ("a",), (), ("a", "b"), ("a",), None]
    report = target_rows(["s", "t"] * 3, wanted, named)
    rows = {row["name"]: row for row in report["targets"]}
    assert (rows["nothing"]["n"], rows["nothing"]["exact"], rows["nothing"]["f1"]) == (2, 50.0, 50.0)
    assert (rows["one object"]["exact"], rows["one object"]["f1"]) == (0.0, 0.0)
    assert (rows["several"]["exact"], rows["several"]["f1"]) == (50.0, pytest.approx(100 * (1 + 2 / 3) / 2))
    (row,) = report["abstention"]  # said twice, once rightly, of two
    assert (row["said"], row["true"], row["precision"], row["recall"], row["f1"]) == (2, 2, 50.0, 50.0, 50.0)
    assert all(row[f"{key}_low"] <= row[key] <= row[f"{key}_high"] for key in ("precision", "recall", "f1"))
    assert target_rows(["s"], [("a",)], [("b",)]) == {} == target_rows([], [], [])
