"""Multi3DRefer and SG3D: golden values, real files, the official scripts' discrepancies, broken files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from referred import HALF, UNIT, data_of, reply_text, row_of, scene_of

from grand3d.bench import multi3drefer, sg3d, vigil3d
from grand3d.bench.common import Prediction
from grand3d.convert import multi3drefer as read_multi3drefer
from grand3d.convert import sg3d as read_sg3d
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.metrics import match, matched_f1
from grand3d.sample import Data, Reply, Sample, reply_to_dict
from grand3d.scene import Scene

pytest.importorskip("scipy", reason="scipy is not installed (extra bench)")


# Multi3DRefer


@pytest.fixture
def multi(golden: Callable[[str], Path]) -> dict[str, Any]:
    return json.loads(golden("multi3drefer/f1_cases.json").read_text())


def test_multi3drefer_golden(multi: dict[str, Any]) -> None:
    data, answers = data_of(multi["cases"], lambda case: {"eval_type": case["eval_type"]})
    for rule in multi3drefer.RULES:
        report = multi3drefer.score(data, answers, rule=rule)
        for case, sample in zip(multi["cases"], report["samples"], strict=True):
            for threshold in ("0.25", "0.5"):
                assert sample[f"f1@{threshold}"] == pytest.approx(case["official_f1"][threshold], abs=1e-6), case["name"]
    for threshold in (0.25, 0.5):
        official = multi["aggregate_official"][f"f1@{threshold}"]
        for name, value in official.items():
            row = row_of(report["rows"], name="all" if name == "overall" else name)
            assert row[f"f1@{threshold}"] == pytest.approx(100 * value, abs=1e-4)


def test_multi3drefer_missing_is_0_as_in_the_official_script_or_left_out_as_in_torchmetrics_ext(multi: dict[str, Any]) -> None:
    data, answers = data_of(multi["cases"], lambda case: {"eval_type": case["eval_type"]})
    some = [answer for answer in answers if answer.sample_id.startswith("st_wo_d_exact")]
    wrong, ext = multi3drefer.score(data, some, "wrong"), multi3drefer.score(data, some, rule="torchmetrics_ext")
    assert row_of(ext["rows"], name="all")["f1@0.25"] == 100 and row_of(wrong["rows"], name="all")["f1@0.25"] == 10
    assert ext["counts"]["missing"] == 9 and "f1@0.25" not in {row["name"] for row in ext["rows"]}
    # the official script's kinds of missing queries are memory never written to: here they stay what they are
    assert {row["name"]: row["n"] for row in wrong["rows"]} == {
        name: sum(case["eval_type"] == name for case in multi["cases"]) or 10 for name in ("all", *multi3drefer.KINDS)
    }
    with pytest.raises(GrandError, match="Pass --missing"):
        multi3drefer.score(data, some)
    with pytest.raises(GrandError, match="expected --missing=skip"):
        multi3drefer.score(data, some, "wrong", rule="torchmetrics_ext")
    with pytest.raises(GrandError, match="expected one of m3dref, torchmetrics_ext, exact"):
        multi3drefer.score(data, some, rule="official")


def test_multi3drefer_an_empty_prediction_for_a_target_is_0_where_torchmetrics_ext_once_crashed(multi: dict[str, Any]) -> None:
    data, answers = data_of(multi["cases"], lambda case: {"eval_type": case["eval_type"]})
    empty = [Prediction(answer.sample_id, answer.scene_id, np.zeros((0, 2, 3))) for answer in answers]
    rows = multi3drefer.score(data, empty, rule="torchmetrics_ext")["rows"]
    assert row_of(rows, name="mt")["f1@0.25"] == 0 and row_of(rows, name="zt_wo_d")["f1@0.25"] == 100


def test_an_overlap_of_exactly_a_threshold_is_a_miss_with_the_epsilon_and_a_hit_without() -> None:
    meta = {"eval_type": "st_wo_d", "patterns": {}}
    data = Data({"s": scene_of([UNIT])}, (Sample("a", "s", "object_reference", "it", target_ids=("0",), meta=meta),))
    answers = [Prediction("a", "s", np.array([HALF], float))]
    found = {rule: multi3drefer.score(data, answers, rule=rule)["rows"][0]["f1@0.5"] for rule in multi3drefer.RULES}
    assert found == {"m3dref": 0, "torchmetrics_ext": 0, "exact": 100}
    rows = vigil3d.score(data, answers)["rows"]
    assert [row_of(rows, name="all", rule=rule)["acc@0.5"] for rule in vigil3d.RULES] == [100, 100]
    assert row_of(rows, name="all", rule="torchmetrics_ext")["f1@0.5"] == 0


@given(
    st.integers(0, 4).flatmap(lambda n: st.lists(st.lists(st.floats(0, 1), min_size=n, max_size=n), max_size=4)),
    st.sampled_from([0.25, 0.5]),
)
def test_matched_f1_equals_the_padded_matrix_of_the_official_scripts(overlap: list[list[float]], threshold: float) -> None:
    matrix = np.array(overlap, float).reshape(len(overlap), len(overlap[0]) if overlap else 0)
    if not matrix.size:
        return
    size = max(matrix.shape)
    padded = np.zeros((size, size))
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    rows, columns = pytest.importorskip("scipy.optimize").linear_sum_assignment(-padded)
    best = padded[rows, columns].sum()
    assert sum(matrix[item] for item in match(matrix)) == pytest.approx(best)
    assert 0 <= matched_f1(matrix, threshold) <= 1


def test_matching_takes_the_most_overlap_in_sum_not_the_most_pairs() -> None:
    overlap = np.array([[0.61, 0.31], [0.27, 0.0]])
    assert match(overlap) == [(0, 0)] and matched_f1(overlap, 0.25) == 0.5
    assert matched_f1(np.zeros((0, 0)), 0.5) == 1 and matched_f1(np.zeros((0, 2)), 0.5) == matched_f1(np.zeros((2, 0)), 0.5) == 0


def test_multi3drefer_published_forms_and_broken_rows(tmp_path: Path) -> None:
    rows = [
        {"scene_id": "s", "ann_id": 0, "object_ids": [0], "description": "a", "eval_type": "st_wo_d"},
        {"scene_id": "s", "ann_id": 1, "object_ids": [], "description": "b", "eval_type": "zt_w_d"},
        {"scene_id": "s", "ann_id": 2, "object_ids": [0, 1], "description": "c", "eval_type": "mt"},
        {"scene_id": "s", "ann_id": 2, "object_ids": [0, 1], "description": "again", "eval_type": "mt"},
        {"scene_id": "s", "ann_id": 3, "object_ids": [0], "description": "d", "eval_type": "mt"},
        {"scene_id": "s", "ann_id": 4, "object_ids": [7], "description": "d", "eval_type": "st_w_d"},
        {"scene_id": "t", "ann_id": 5, "object_ids": [0], "description": "d", "eval_type": "st_w_d"},
        "row",
    ]
    (tmp_path / "q.json").write_text(json.dumps(rows))
    graph = {
        "0": {"category": "x", "centroid": [0.5] * 3, "extent": [1] * 3},
        "1": {"category": "x", "centroid": [5] * 3, "extent": [1] * 3},
    }
    (tmp_path / "truth.json").write_text(json.dumps({"s": graph}))
    rejects = Rejects(skip_bad=True)
    data = read_multi3drefer.convert(questions=tmp_path / "q.json", truth=tmp_path / "truth.json", rejects=rejects)
    assert [s.sample_id for s in data.samples] == ["s_0", "s_1", "s_2"] and len(rejects.rows) == 5
    corners = [[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]
    folder = tmp_path / "predictions"
    folder.mkdir()
    listed = [
        {"ann_id": 0, "aabb": [corners]},
        {"ann_id": 1, "aabb": []},
        {"ann_id": 2, "aabb": [[1]]},
        {"ann_id": 9, "aabb": []},
        {"ann_id": 0, "aabb": []},
        3,
    ]
    (folder / "s.json").write_text(json.dumps(listed))
    (tmp_path / "p.json").write_text(json.dumps({"s_0": [[[0, 0, 0], [1, 1, 1]]], "s_1": [], "s_2": "x", "u_1": []}))
    for path, bad in ((folder, 3), (tmp_path / "p.json", 1)):
        rejects = Rejects(skip_bad=True)
        report = multi3drefer.score(data, multi3drefer.read_replies(path, data, rejects), "wrong")
        assert len(rejects.rows) == bad and row_of(report["rows"], name="all")["f1@0.5"] == pytest.approx(200 / 3)
        assert (report["counts"]["missing"], report["counts"]["extra"], report["counts"]["empty"]) == (1, 1, 1)
    for path in (tmp_path / "upload.json", tmp_path / "upload"):
        answers = multi3drefer.read_replies(folder, data, Rejects(skip_bad=True))
        assert multi3drefer.write_upload(path, data, [*answers, Reply("s_2", "s", "unreadable")]) == 1
        again = multi3drefer.read_replies(path, data)
        assert multi3drefer.score(data, again, "wrong")["rows"] == report["rows"]
    (tmp_path / "none").mkdir()
    for path, text in ((tmp_path / "none", "expected one for each scene"), (tmp_path / "q.json", "expected an object")):
        with pytest.raises(GrandError, match=text):
            multi3drefer.read_replies(path, data)
    with pytest.raises(GrandError, match="--truth"):
        multi3drefer.score(read_multi3drefer.convert(questions=tmp_path / "q.json", rejects=Rejects(True)), answers, "wrong")


def test_replies_name_proposals_and_published_ids_true_objects() -> None:
    far = [[7, 7, 7], [8, 8, 8]]
    data = Data(
        {"s": replace(scene_of([far, UNIT]), id_space="mask3d")},
        (Sample("a", "s", "object_reference", "it", target_ids=("0",), meta={"eval_type": "st_wo_d"}),),
        {"s": scene_of([UNIT, far])},
    )
    for answer, f1 in (
        (Reply("a", "s", reply_text("0"), ("1", "0")), 100),  # proposal 1 is where true object 0 is
        (Reply("a", "s", reply_text("1"), ("1", "0")), 0),
        (Prediction("a", "s", object_ids=("0",)), 100),
        (Prediction("a", "s", object_ids=("1",)), 0),
        (Prediction("a", "s", object_ids=("9",)), 0),
    ):
        assert multi3drefer.score(data, [answer])["rows"][0]["f1@0.5"] == f1, answer


def test_f1_equals_that_of_torchmetrics_ext(multi: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
    name = "torchmetrics_ext.metrics.visual_grounding._multi_target_grounding"
    theirs = pytest.importorskip(name, reason="torchmetrics-ext is not installed")
    rng = np.random.default_rng(0)
    cases = list(multi["cases"])
    for k in range(200):
        kind = multi3drefer.KINDS[k % 5]
        low = rng.integers(0, 4, (2, 4, 3)) / 2  # on a grid, so that overlaps of exactly a threshold occur
        found = np.stack([low, low + rng.integers(1, 4, low.shape) / 2], axis=2)
        num_true = {"z": 0, "s": 1, "m": 3}[kind[0]]
        cases.append(
            {"name": f"random {k}", "eval_type": kind, "gt": found[0, :num_true], "pred": found[1, : rng.integers(0, 5)]}
        )
    data, answers = data_of(cases, lambda case: {"eval_type": case["eval_type"]})

    class Metric(theirs.MultiTargetGroundingMetric):  # type: ignore[name-defined,misc]
        eval_types = multi3drefer.KINDS

        def _load_gt_data(self, split: str) -> None:
            for case in cases:
                boxes = np.asarray(case["gt"], np.float32).reshape(-1, 2, 3)
                self.gt_data[case["name"]] = {"gt_aabbs": boxes, "eval_type": case["eval_type"]}

    metric = Metric("validation")
    metric.update({a.sample_id: torch.tensor(a.boxes, dtype=torch.float32).reshape(-1, 2, 3) for a in answers})
    figures, rows = metric.compute(), multi3drefer.score(data, answers, rule="torchmetrics_ext")["rows"]
    for row in rows:
        for threshold in multi3drefer.THRESHOLDS:
            key = row["name"] if row["name"].startswith("zt") else f"{row['name']}_{threshold}"
            assert row[f"f1@{threshold}"] == pytest.approx(100 * float(figures[key]), abs=1e-3), key


# SG3D


def plans(tasks: list[dict[str, Any]]) -> tuple[Data, list[Prediction]]:
    samples = tuple(
        Sample(str(k), f"s{k}", "plan", f"task {k}", meta={"step_ids": [str(x) for x in task["gt"]]})
        for k, task in enumerate(tasks)
    )
    answers = [Prediction(str(k), f"s{k}", object_ids=tuple(map(str, task["pred"]))) for k, task in enumerate(tasks)]
    return Data({s.scene_id: Scene(s.scene_id, ()) for s in samples}, samples), answers


def test_sg3d_golden(golden: Callable[[str], Path]) -> None:
    case = json.loads(golden("sg3d/sacc_tacc.json").read_text())
    row = sg3d.score(*plans(case["tasks"]))["rows"][0]
    assert (
        row["s_acc"] == pytest.approx(100 * case["expected"]["step_acc"]) and row["t_acc"] == 100 * case["expected"]["task_acc"]
    )
    written = sg3d.score(*plans(case["predict_mode"]["tasks"]))["rows"][0]
    assert written["distance"] == case["predict_mode"]["expected_mean_levenshtein"]


def test_sg3d_overall_task_accuracy_of_the_paper_is_not_the_mean_of_its_columns() -> None:
    tasks = {"ScanNet": 443, "3RScan": 138, "MultiScan": 43, "ARKitScenes": 443, "HM3D": 890}
    assert sum(tasks.values()) == 1957 and set(tasks) == set(sg3d.DATASETS)
    assert row_of(list(sg3d.PAPER), name="LEO, fine-tuned")["t_acc"] == 34.1  # 32.7 from its columns


def test_sg3d_reads_questions_and_replies(tmp_path: Path) -> None:
    steps = [{"action": f"{k}. Do it", "target_id": str(t), "label": "desk"} for k, t in ((1, 4), (2, 4), (3, 5))]
    rows = [
        {"scan_id": "ScanNet_scene0000_00", "task_description": "Work.", "action_steps": steps},
        {"scan_id": "HM3D_x", "task_description": "Rest.", "action_steps": steps[:1]},
        {"scan_id": "HM3D_x", "task_description": "None.", "action_steps": []},
        {"scan_id": "noname", "task_description": "x", "action_steps": steps},
    ]
    (tmp_path / "q.json").write_text(json.dumps(rows))
    rejects = Rejects(skip_bad=True)
    data = read_sg3d.convert(questions=tmp_path / "q.json", rejects=rejects)
    assert len(rejects.rows) == 2 and data.samples[0].meta["step_ids"] == ["4", "4", "5"]
    first, second = data.samples
    ours = [
        Reply(
            first.sample_id,
            first.scene_id,
            "".join(f"<step>{k}. go <p>x</p>[<obj_{i}>]</step>" for k, i in ((1, 0), (2, 0), (3, 0))),
            ("4", "5"),
        ),
        Reply(second.sample_id, second.scene_id, "nothing to read"),
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(json.dumps(reply_to_dict(reply)) for reply in ours))
    report = sg3d.score(data, sg3d.read_replies(tmp_path / "r.jsonl", data))
    assert report["rows"][0]["s_acc"] == 50 and report["rows"][0]["t_acc"] == 0 and report["counts"]["unparsable"] == 1
    results = [
        {"scan_id": "scene0000_00", "gt_task_description": "Work.", "predict_object_id": [4, 4, 5]},
        {"scan_id": "x", "gt_task_description": "unknown", "predict_object_id": [4]},
        {"scan_id": "x", "predict_object_id": "4"},
    ]
    (tmp_path / "r.json").write_text(json.dumps(results))
    rejects = Rejects(skip_bad=True)
    report = sg3d.score(data, sg3d.read_replies(tmp_path / "r.json", data, rejects), "wrong")
    assert (report["counts"]["extra"], report["counts"]["missing"], len(rejects.rows)) == (1, 1, 1)
    assert row_of(report["rows"], name="dataset ScanNet")["t_acc"] == 100
