"""MMScan grounding: golden values, files with everything wrong in them, and figures that do not depend on the order of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grand3d.bench import mmscan
from grand3d.errors import GrandError
from grand3d.files import Rejects

UNIT = [0, 0, 0, 1, 1, 1, 0, 0, 0]
FAR = [9, 9, 9, 1, 1, 1, 0.3, 0.2, 0.1]
HALF = [0.5, 0, 0, 1, 1, 1, 0, 0, 0]  # overlaps UNIT by a third


def question(name: str, boxes: list[Any], sub_class: str = "VG_Single_Attribute", scene: str = "s") -> dict[str, Any]:
    return {"ID": name, "scan_id": scene, "sub_class": sub_class, "gt_bboxes": boxes}


def prediction(name: str, boxes: list[Any], scores: list[float]) -> dict[str, Any]:
    return {"ID": name, "pred_bboxes": boxes, "pred_scores": scores}


def report_of(
    tmp_path: Path, questions: list[Any], predictions: list[Any], missing: str | None = None, **more: Any
) -> dict[str, Any]:
    files = tmp_path / "questions.json", tmp_path / "predictions.jsonl"
    files[0].write_text(json.dumps(questions))
    files[1].write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in predictions))
    return mmscan.score_files(*files, missing, **more)


def row_of(report: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in report["rows"] if row["name"] == name)


def test_figures_by_hand(tmp_path: Path) -> None:
    questions = [question("a", [UNIT]), question("b", [UNIT, FAR], "VG_Inter_Space_OO", "t"), question("c", [], scene="u")]
    predictions = [
        prediction("b", [FAR, UNIT, HALF], [0.1, 0.3, 0.9]),  # HALF hits UNIT first at 0.25 and not at 0.5
        prediction("a", [FAR, UNIT], [0.9, 0.8]),
        prediction("c", [UNIT], [1.0]),
    ]
    report = report_of(tmp_path, questions, predictions)
    assert report["counts"] == {"n": 2, "missing": 0, "extra": 0, "duplicates": 0, "empty": 0, "without_target": 1}
    single, pair = row_of(report, "ST-attr"), row_of(report, "OO-space")
    assert (single["AP@0.25"], single["AR@0.25"], single["gTop-1@0.25"], single["gTop-3@0.25"]) == (50, 100, 0, 100)
    assert pair["AP@0.25"] == pytest.approx(100 * (1 + 2 / 3) / 2) and pair["AP@0.5"] == pytest.approx(100 * (2 / 3 + 2 / 3) / 2)
    assert row_of(report, "all")["AP@0.25"] == pytest.approx((single["AP@0.25"] + pair["AP@0.25"]) / 2)
    assert single["top10@0.25"] == 100 and report["paper"]


def test_top10_counts_any_of_ten_above_the_threshold(golden: Callable[[str], Path]) -> None:
    case = json.loads(golden("mmscan/embodiedscan_top10_metric.json").read_text())
    overlap = np.array(case["ious_sorted_by_score"])
    for threshold in (0.25, 0.5):
        hit = (overlap[:, :10] > threshold).any(axis=1)
        subsets = {"Overall": [True] * 4}
        for key, yes, no in (
            ("is_hard", "Hard", "Easy"),
            ("is_view_dep", "View-Dep", "View-Indep"),
            ("is_unique", "Unique", "Multi"),
        ):
            flags = [row[key] for row in case["flags"]]
            subsets |= {yes: flags, no: [not flag for flag in flags]}
        for name, mask in subsets.items():
            assert hit[np.array(mask)].mean() == pytest.approx(case["expected"][f"{name}@{threshold}"], abs=1e-9)


def test_top10_is_strict_and_ap_is_not(tmp_path: Path) -> None:
    exact = [0, 0, 0, 1, 1, 0.5, 0, 0, 0]  # half of UNIT: IoU exactly 0.5
    report = report_of(tmp_path, [question("a", [UNIT])], [prediction("a", [exact], [1.0])])
    row = row_of(report, "all")
    assert (row["AP@0.5"], row["top10@0.5"], row["top10@0.25"]) == (100, 0, 100)


def test_devkit_stops_at_an_empty_prediction_and_here_it_is_a_miss(tmp_path: Path) -> None:
    questions = [question("a", [UNIT]), question("b", [UNIT], scene="t")]
    report = report_of(tmp_path, questions, [prediction("a", [UNIT], [1.0]), prediction("b", [], [])])
    assert report["counts"]["empty"] == 1 and row_of(report, "all")["AP@0.25"] == 50
    rules = {row["rule"]: row["AP_C@0.25"] for row in report["pooled"] if row["name"] == "all"}
    assert rules == {"pooled": 50, "pooled, empty forgotten": 100}


def test_a_file_with_everything_wrong_is_counted_to_the_end(tmp_path: Path) -> None:
    questions = [question(name, [UNIT], scene=name) for name in "abcd"]
    predictions = [
        prediction("a", [UNIT], [0.5]),
        prediction("a", [FAR], [0.5]),
        prediction("zzz", [UNIT], [0.5]),
        prediction("b", [], []),
        prediction("c", [[1, 2]], [0.5]),
        prediction("c", [UNIT], []),
        prediction("c", [UNIT], [float("inf")]),
        '{"ID": "c", "pred_bboxes"',
        "[1]",
    ]
    rejects = Rejects(skip_bad=True)
    report = report_of(tmp_path, questions, predictions, "wrong", rejects=rejects)
    assert report["counts"] == {"n": 4, "missing": 2, "extra": 1, "duplicates": 1, "empty": 1, "without_target": 0}
    assert len(rejects.rows) == 5 and row_of(report, "all")["AP@0.5"] == 25
    with pytest.raises(GrandError, match="3 of 4 questions have no prediction"):
        report_of(tmp_path, questions, predictions[:1])
    with pytest.raises(GrandError, match="expected the same ids"):
        report_of(tmp_path, questions, predictions[2:3], "skip")


def test_order_of_the_rows_changes_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    questions, predictions = [], []
    for k in range(30):
        true = np.concatenate([rng.uniform(-2, 2, (2, 3)), rng.uniform(0.5, 2, (2, 3)), rng.uniform(-1, 1, (2, 3))], axis=1)
        near = np.concatenate([true + rng.normal(0, 0.1, true.shape), true[:1] + 3])
        questions.append(question(f"q{k}", true.tolist(), ["VG_Single_Space", "VG_Inter_OR"][k % 2], f"s{k % 5}"))
        predictions.append(prediction(f"q{k}", near.tolist(), rng.random(3).tolist()))
    report = report_of(tmp_path, questions, predictions)
    again = report_of(tmp_path, questions, predictions[::-1])
    for ours, theirs in zip(report["rows"], again["rows"], strict=True):
        assert {k: v for k, v in ours.items() if "_" not in k} == pytest.approx({k: v for k, v in theirs.items() if "_" not in k})
    assert {row["name"] for row in report["rows"]} == {"all", "ST-space", "OR"} and 0 < report["rows"][0]["AP@0.25"] <= 100


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("VG_Single_Attribute", "ST-attr"), ("vg_sngl_attr", "ST-attr"), ("VG_Single_EQ", "ST-attr"),
        ("VG_Single_Space", "ST-space"),
        ("VG_Inter_Attribute_OO", "OO-attr"), ("vg_int_space_oo", "OO-space"), ("VG_Inter_Space_OR", "OR"), ("other", "other"),
    ],
)  # fmt: skip
def test_sub_classes_are_the_columns_of_the_paper(name: str, column: str) -> None:
    assert mmscan.paper_class(name) == column
