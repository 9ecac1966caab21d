"""ViGiL3D: golden values by every evaluator, real prompts, what the authors' files and code disagree on, broken files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referred import HALF, UNIT, data_of, reply_text, row_of, scene_of

from grand3d import boxes
from grand3d.bench import vigil3d
from grand3d.bench.common import Prediction
from grand3d.convert import vigil3d as read_vigil3d
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.metrics import proportions_differ, raking_weights
from grand3d.sample import Data, Reply, Sample

pytest.importorskip("scipy", reason="scipy is not installed (extra bench)")


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
            row = row_of(report["rows"], name=name, rule="torchmetrics_ext")
            assert row[f"f1@{threshold}"] == pytest.approx(100 * theirs[f"{name}_{threshold}"], abs=1e-4)
    assert row_of(report["rows"], name="zt", rule="torchmetrics_ext")["f1@0.25"] == pytest.approx(100 * theirs["zt"])


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
        {"prompt_id": "a", "scene_id": "s", "predicted_boxes": []},
        {"prompt_id": "b", "scene_id": "other", "predicted_boxes": []},
        {"prompt_id": "b", "scene_id": "s", "predicted_boxes": [[[2, 2, 2], [1, 1, -1]]]},
        {"no": 1},
    ]
    (tmp_path / "paper.json").write_text(json.dumps(paper))
    (tmp_path / "board.json").write_text(json.dumps({"s_a": [UNIT], "b": None, "c": [], "s_c": [], "zz": []}))
    for name, bad in (("paper.json", 5), ("board.json", 2)):
        rejects = Rejects(skip_bad=True)
        report = vigil3d.score(data, vigil3d.read_replies(tmp_path / name, data, rejects), "wrong")
        assert len(rejects.rows) == bad and row_of(report["rows"], name="all", rule="paper")["acc@0.5"] == pytest.approx(100 / 3)
        assert (report["counts"]["missing"], report["counts"]["extra"], report["counts"]["empty"]) == (1, 1, 1)


def test_vigil3d_uploads_come_back_the_same(tmp_path: Path) -> None:
    data = Data(
        {"s": scene_of([UNIT, HALF])},
        tuple(Sample(name, "s", "object_reference", "it", target_ids=("0",), meta={"patterns": {}}) for name in "ab"),
    )
    answers = [Reply("a", "s", reply_text("1"), ("1", "0")), Reply("b", "s", "unreadable")]
    for form in ("paper", "leaderboard"):
        assert vigil3d.write_upload(tmp_path / "up.json", data, answers, form) == 1
        again = vigil3d.read_replies(tmp_path / "up.json", data)
        assert vigil3d.score(data, again, "wrong")["rows"] == vigil3d.score(data, answers)["rows"]
    with pytest.raises(GrandError, match="expected leaderboard or paper"):
        vigil3d.write_upload(tmp_path / "up.json", data, answers, "list")


def test_vigil3d_leaderboard_keys_name_scene_and_prompt(real: Callable[[str], Path], tmp_path: Path) -> None:
    data = read_vigil3d.convert(questions=real("vigil3d/vigil3d_scannet.csv"))
    keys = {f"{sample.scene_id}_{sample.sample_id}": [] for sample in data.samples if not sample.target_ids}
    (tmp_path / "p.json").write_text(json.dumps(keys))
    found = vigil3d.read_replies(tmp_path / "p.json", data)
    assert len(found) == 29 and {answer.sample_id for answer in found} <= {sample.sample_id for sample in data.samples}


def test_vigil3d_column_of_targets_not_named_first_is_the_opposite_of_its_readme(real: Callable[[str], Path]) -> None:
    data = read_vigil3d.convert(questions=real("vigil3d/vigil3d_scannet.csv"))
    first = next(s for s in data.samples if s.sample_id == "cf49717d-a751-417e-be93-32fa6a4aa1e4")
    assert first.text.startswith("Find the door") and first.meta["object_name"] == "door"  # named first,
    assert first.meta["patterns"]["num_target_not_first_np"] == 0  # so the column is of those that are not


def test_vigil3d_paper_row_of_3d_grand_is_over_one_prompt_more_than_was_published(real: Callable[[str], Path]) -> None:
    published = len(read_vigil3d.convert(questions=real("vigil3d/vigil3d_scannet.csv")).samples)
    row = row_of(list(vigil3d.PAPER), name="3D-GRAND", source="Table 6: ScanNet")
    for n, fits in ((published, False), (published + 1, True)):
        reachable = {round(100 * k / n, 1) for k in range(n + 1)}
        assert all(row[f"acc@{t}"] in reachable for t in vigil3d.THRESHOLDS) == fits


def test_vigil3d_z_test_is_of_a_subgroup_against_all_other_prompts() -> None:
    samples, answers = [], []
    for k in range(200):
        meta = {"patterns": {"num_negation": int(k < 100), "granularity": "generic"}}
        samples.append(Sample(str(k), "st"[k % 2], "object_reference", "it", target_ids=("0",), meta=meta))
        right = k % 100 < (45 if k < 100 else 30)
        answers.append(Prediction(str(k), "st"[k % 2], np.array([UNIT if right else [[5, 5, 5], [6, 6, 6]]], float)))
    rows = vigil3d.score(Data({"s": scene_of([UNIT]), "t": scene_of([UNIT], "t")}, tuple(samples)), answers)["rows"]
    negated = row_of(rows, name="Neg", rule="paper")
    assert (negated["n"], negated["acc@0.25"]) == (100, 45) and negated["p@0.25"] == pytest.approx(0.0284, abs=1e-4)
    assert row_of(rows, name="Gen", rule="paper")["p@0.25"] is None  # nobody else to compare with
    assert sum(row["rule"] == "paper" for row in rows) == 3


def test_raking_gives_overlapping_groups_their_shares() -> None:
    rng = np.random.default_rng(0)
    inside = rng.random((200, 3)) < (0.5, 0.2, 0.7)
    weights = raking_weights(inside, (0.1, 0.6, 0.7))
    assert weights @ inside / 200 == pytest.approx((0.1, 0.6, 0.7)) and weights.mean() == pytest.approx(1)
    assert raking_weights(inside, inside.mean(axis=0)) == pytest.approx(np.ones(200))
    for shares in ((0.5, 0.2), (1.0, 1.0)):
        with pytest.raises(GrandError, match="expected shares that samples can have"):
            raking_weights(np.array([[1, 0], [0, 1], [1, 0]], bool), shares)


def test_vigil3d_reweighted_to_the_patterns_of_other_data(tmp_path: Path) -> None:
    samples, answers = [], []
    for k in range(8):  # negated prompts: 1 of 2 right, others: 5 of 6
        meta = {"patterns": {"num_negation": int(k < 2)}}
        samples.append(Sample(str(k), "st"[k % 2], "object_reference", "it", target_ids=("0",), meta=meta))
        answers.append(Prediction(str(k), "st"[k % 2], np.array([UNIT if k not in (0, 7) else HALF], float) - (k in (0, 7))))
    data = Data({"s": scene_of([UNIT]), "t": scene_of([UNIT], "t")}, tuple(samples))
    (tmp_path / "shares.json").write_text(json.dumps({"Neg": 0.75}))
    report = vigil3d.score(data, answers, shares=vigil3d.read_shares(tmp_path / "shares.json"))
    row = row_of(report["rows"], name="all, reweighted", rule="paper")
    assert row["acc@0.25"] == pytest.approx(100 * (0.75 / 2 + 0.25 * 5 / 6)) and row["n_effective"] == pytest.approx(
        1 / (2 * 0.375**2 + 6 * (0.25 / 6) ** 2)
    )
    assert row["acc@0.25_low"] <= row["acc@0.25"] <= row["acc@0.25_high"] and report["rules"]["reweighted"] == "Neg 0.75"
    for wrong in ({"Neg": 2}, {"nothing": 0.1}, {}, [1]):
        (tmp_path / "shares.json").write_text(json.dumps(wrong))
        with pytest.raises(GrandError, match="expected"):
            vigil3d.read_shares(tmp_path / "shares.json")


def test_two_proportions() -> None:
    assert proportions_differ(45, 100, 30, 100) == pytest.approx(0.0284, abs=1e-4)  # z = 2.191
    assert proportions_differ(5, 10, 50, 100) == 1
    assert np.isnan(proportions_differ(0, 0, 1, 2)) and np.isnan(proportions_differ(2, 2, 3, 3))


@settings(deadline=None)  # scipy.stats takes its time to load
@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_two_proportions_equal_the_normal_tail_of_scipy(n: int, m: int, draw: st.DataObject) -> None:
    a, b = draw.draw(st.integers(0, n)), draw.draw(st.integers(0, m))
    share = (a + b) / (n + m)
    if share in (0, 1):
        return
    z = (a / n - b / m) / np.sqrt(share * (1 - share) * (1 / n + 1 / m))
    norm = pytest.importorskip("scipy.stats").norm
    assert proportions_differ(a, n, b, m) == pytest.approx(2 * norm.sf(abs(z)), rel=1e-9)
