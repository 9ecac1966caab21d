"""Multi3DRefer, ViGiL3D, ReferIt3D and SG3D: golden values, real files, the official scripts' discrepancies, broken files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grand3d import boxes
from grand3d.bench import multi3drefer, referit3d, sg3d, vigil3d
from grand3d.bench.common import Prediction
from grand3d.convert import multi3drefer as read_multi3drefer
from grand3d.convert import referit3d as read_referit3d
from grand3d.convert import sg3d as read_sg3d
from grand3d.convert import vigil3d as read_vigil3d
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.metrics import match, matched_f1, proportions_differ
from grand3d.sample import Data, Reply, Sample, reply_to_dict
from grand3d.scene import Object, Scene

pytest.importorskip("scipy", reason="scipy is not installed (extra bench)")


def scene_of(found: Any, scene_id: str = "s") -> Scene:
    """A scene of boxes given by their corners."""
    rows = np.asarray(found, float).reshape(-1, 2, 3)
    items = (Object(str(k), "thing", tuple((b[0] + b[1]) / 2), tuple(b[1] - b[0])) for k, b in enumerate(rows))
    return Scene(scene_id, tuple(items), id_space="scannet")


def data_of(cases: list[dict[str, Any]], meta: Callable[[dict[str, Any]], dict[str, Any]]) -> tuple[Data, list[Prediction]]:
    """One scene a case, whose objects are its true boxes; predictions with the boxes of the case."""
    scenes, samples, answers = {}, [], []
    for case in cases:
        name = case["name"]
        scenes[name] = scene_of(case["gt"], name)
        samples.append(Sample(name, name, "object_reference", "it", target_ids=scenes[name].object_ids, meta=meta(case)))
        answers.append(Prediction(name, name, np.asarray(case["pred"], float).reshape(-1, 2, 3)))
    return Data(scenes, tuple(samples)), answers


def row_of(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    return next(row for row in rows if all(row.get(key) == value for key, value in wanted.items()))


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
    wrong, skip = (multi3drefer.score(data, some, missing) for missing in ("wrong", "skip"))
    assert row_of(skip["rows"], name="all")["f1@0.25"] == 100 and row_of(wrong["rows"], name="all")["f1@0.25"] == 10
    with pytest.raises(GrandError, match="Pass --missing"):
        multi3drefer.score(data, some)


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
        3,
    ]
    (folder / "s.json").write_text(json.dumps(listed))
    (tmp_path / "p.json").write_text(json.dumps({"s_0": [[[0, 0, 0], [1, 1, 1]]], "s_1": [], "s_2": "x", "u_1": []}))
    for path, bad in ((folder, 2), (tmp_path / "p.json", 1)):
        rejects = Rejects(skip_bad=True)
        report = multi3drefer.score(data, multi3drefer.read_replies(path, data, rejects), "wrong")
        assert len(rejects.rows) == bad and row_of(report["rows"], name="all")["f1@0.5"] == pytest.approx(200 / 3)
        assert (report["counts"]["missing"], report["counts"]["extra"], report["counts"]["empty"]) == (1, 1, 1)


# ViGiL3D


def test_vigil3d_golden_by_every_evaluator(golden: Callable[[str], Path]) -> None:
    cases = json.loads(golden("vigil3d/acc_f1_cases.json").read_text())
    data, answers = data_of(cases["cases"], lambda case: {"patterns": {}})
    report = vigil3d.score(data, answers)
    for rule, key in (("paper", "aggregate_repo_as_released"), ("paper, mended", "aggregate_fixed_iou")):
        row = row_of(report["rows"], name="all", rule=rule)
        for threshold in ("0.25", "0.5", "0.95"):
            assert row[f"acc@{threshold}"] == pytest.approx(100 * cases[key][threshold]["acc"])
            assert row[f"f1@{threshold}"] == pytest.approx(100 * cases[key][threshold]["f1_micro"])
    theirs = cases["aggregate_torchmetrics_ext"]
    for name in ("st", "mt", "all"):
        for threshold in (0.25, 0.5):
            row = row_of(report["leaderboard"], name=name)
            assert row[f"f1@{threshold}"] == pytest.approx(100 * theirs[f"{name}_{threshold}"], abs=1e-4)
    assert row_of(report["leaderboard"], name="zt")["f1@0.25"] == pytest.approx(100 * theirs["zt"])


def test_vigil3d_released_overlap_makes_prompts_of_two_targets_unwinnable() -> None:
    true = np.array([[[0, 0, 0], [1, 1, 1]], [[3, 0, 0], [4, 1, 1]]], float)
    assert vigil3d.overlap_released(true, true).max() == 0 and np.allclose(boxes.iou(true, true).diagonal(), 1)
    assert vigil3d.overlap_released(true[:1], true[:1]) == 1


def test_vigil3d_real_prompts_have_the_groups_of_the_paper(real: Callable[[str], Path]) -> None:
    data = read_vigil3d.convert(questions=real("vigil3d/vigil3d_scannet.csv"))
    sizes = [len(sample.target_ids) for sample in data.samples]
    assert (len(sizes), sizes.count(0), sizes.count(1), sum(size > 1 for size in sizes)) == (239, 29, 190, 20)
    patterns = [sample.meta["patterns"] for sample in data.samples]
    counted = {name: sum(row[key] == value for row in patterns) for name, (key, value) in vigil3d.SUBGROUPS.items()}
    assert counted == {
        **{"Num": 45, "Lab": 25, "State": 25, "Far": 30, "Arr": 35, "Ord": 27, "Comp": 49, "Gen": 39, "CG": 53, "FG": 147},
        **{"NFN": 68, "Sing": 131, "Mul": 91, "Non": 60, "Agt": 26, "Neg": 37},
    }
    nothing = [
        Prediction(sample.sample_id, sample.scene_id, np.zeros((0, 2, 3))) for sample in data.samples if not sample.target_ids
    ]
    report = vigil3d.score(Data(data.scenes, tuple(s for s in data.samples if not s.target_ids)), nothing)
    assert row_of(report["rows"], name="all", rule="paper")["acc@0.25"] == 100


def test_vigil3d_forms_and_broken_rows(tmp_path: Path) -> None:
    scene = scene_of([[[0, 0, 0], [1, 1, 1]]])
    samples = tuple(Sample(name, "s", "object_reference", "it", target_ids=("0",), meta={"patterns": {}}) for name in "abc")
    data = Data({"s": scene}, samples)
    paper = [
        {"prompt_id": "a", "scene_id": "s", "predicted_boxes": [[[0.5, 0.5, 0.5], [1, 1, 1]]]},
        {"prompt_id": "b", "scene_id": "s", "predicted_boxes": [[1, 2]]},
        {"prompt_id": "c", "scene_id": "s", "predicted_boxes": []},
        {"prompt_id": "zz", "scene_id": "s", "predicted_boxes": []},
        {"no": 1},
    ]
    (tmp_path / "paper.json").write_text(json.dumps(paper))
    (tmp_path / "board.json").write_text(json.dumps({"a": [[[0, 0, 0], [1, 1, 1]]], "b": None, "c": [], "zz": []}))
    for name, bad in (("paper.json", 2), ("board.json", 1)):
        rejects = Rejects(skip_bad=True)
        report = vigil3d.score(data, vigil3d.read_replies(tmp_path / name, data, rejects), "wrong")
        assert len(rejects.rows) == bad and row_of(report["rows"], name="all", rule="paper")["acc@0.5"] == pytest.approx(100 / 3)
        assert (report["counts"]["missing"], report["counts"]["extra"], report["counts"]["empty"]) == (1, 1, 1)


def test_reweighted_to_the_shares_of_other_data() -> None:
    samples = [{"scene_id": "ab"[k % 2], "acc": hit} for k, hit in enumerate((1.0, 1.0, 0.0, 1.0))]
    groups = ["x", "x", "y", "y"]
    assert vigil3d.reweighted(samples, groups, {"x": 1, "y": 1}, "acc")["acc"] == pytest.approx(75)
    assert vigil3d.reweighted(samples, groups, {"x": 1, "y": 3}, "acc")["acc"] == pytest.approx(62.5)
    with pytest.raises(GrandError, match="expected some of each"):
        vigil3d.reweighted(samples, groups, {"z": 1}, "acc")


def test_two_proportions() -> None:
    assert proportions_differ(45, 100, 30, 100) == pytest.approx(0.0284, abs=1e-4)  # z = 2.191
    assert (
        proportions_differ(5, 10, 50, 100) == 1
        and np.isnan(proportions_differ(0, 0, 1, 2))
        and np.isnan(proportions_differ(2, 2, 3, 3))
    )


# ReferIt3D


def nr3d_rows(golden: Callable[[str], Path], tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    case = json.loads(golden("nr3d/accuracy_cases.json").read_text())
    lines = ["scan_id,target_id,utterance,stimulus_id,tokens,mentions_target_class,correct_guess"]
    for row in case["rows"]:
        tokens = str(row["tokens"]).replace('"', '""')
        text = " ".join(row["tokens"])
        lines.append(f'{row["stimulus_id"].split("-")[0]},{row["target_id"]},{text},{row["stimulus_id"]},"{tokens}",True,True')
    (tmp_path / "nr3d.csv").write_text("\n".join(lines))
    return tmp_path / "nr3d.csv", case


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


def test_nr3d_utterances_of_one_stimulus_stay_apart(golden: Callable[[str], Path], tmp_path: Path) -> None:
    path, case = nr3d_rows(golden, tmp_path)
    data = read_referit3d.convert(questions=path)
    assert len(data.samples) == 8 and len({row["stimulus_id"] for row in case["rows"]}) == 5


def test_nr3d_tokens_left_as_text_are_refused_and_match_whole_words_in_lower_case() -> None:
    assert read_referit3d.read_tokens("['left-hand', 'Left']") == ["left-hand", "Left"]
    for text in ("the left chair", "['a'", "{'a': 1}", "[1]", "__import__('os')"):
        with pytest.raises(GrandError, match="expected a list of texts"):
            read_referit3d.read_tokens(text)


def test_nr3d_real_rows_and_the_row_filters(real: Callable[[str], Path]) -> None:
    data = read_referit3d.convert(questions=real("nr3d/val_dev.json"))
    assert len(data.samples) == 4027
    right = [Prediction(s.sample_id, s.scene_id, object_ids=s.target_ids) for s in data.samples]
    assert row_of(referit3d.score(data, right)["rows"], name="all")["accuracy"] == 100
    meta = [{"mentions_target_class": False}, {"num_tokens": 30}, {"correct_guess": False}, {}]
    samples = tuple(Sample(str(k), "s", "object_reference", "it", target_ids=("0",), meta=row) for k, row in enumerate(meta))
    few = Data({"s": Scene("s", ())}, samples)
    answers = [Prediction(s.sample_id, "s", object_ids=("0",)) for s in samples]
    kept = {name: referit3d.score(few, answers, rows=name)["counts"] for name in referit3d.FILTERS}
    assert {name: (row["n"], row["filtered"]) for name, row in kept.items()} == {
        "all": (4, 0),
        "referit3d": (2, 2),
        "butd": (1, 3),
    }


def test_referit3d_broken_answers(tmp_path: Path) -> None:
    samples = tuple(Sample(name, "s", "object_reference", "it", target_ids=("3",)) for name in "abcde")
    data = Data({"s": Scene("s", ())}, samples)
    (tmp_path / "p.json").write_text(json.dumps({"a": 3, "b": "4", "c": None, "d": [3], "zz": 1}))
    rejects = Rejects(skip_bad=True)
    report = referit3d.score(data, referit3d.read_replies(tmp_path / "p.json", data, rejects), "wrong")
    counts = report["counts"]
    assert (counts["n"], counts["missing"], counts["extra"], counts["empty"], len(rejects.rows)) == (5, 2, 1, 1, 1)
    assert row_of(report["rows"], name="all")["accuracy"] == 20


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
