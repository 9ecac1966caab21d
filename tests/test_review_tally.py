"""What a human check comes to: tables against figures worked out by hand, kappas against published ones, texts that are kept."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies import PLAN, Sitting, right, study_of

from grand3d.annotate.review.agreement import cohen, fleiss, read_judge
from grand3d.annotate.review.checked import kept, revise
from grand3d.annotate.review.desk import Desk
from grand3d.annotate.review.study import FALSE, TRUE, UNSURE
from grand3d.annotate.review.tally import tally
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.markup import parse
from grand3d.report import render
from grand3d.sample import Sample
from grand3d.scene import Scene

# Fleiss (1971) has no table that is free of rounding; these are the ten subjects of the common worked example, kappa 0.210.
FLEISS = [[0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]]
FLEISS += [[7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]]


def voted(study: Any, answers: dict[str, str]) -> Sitting:
    """A study in which people a, b, c answer each task by the letters of a word: t, n, c."""
    sitting = Sitting(study)
    letters = {"t": TRUE, "n": FALSE, "c": UNSURE}
    for number, who in enumerate("abc"):
        sitting.answer(who, lambda task, number=number: letters[answers[task.task_id][number]])
    return sitting


def test_kappas_are_those_of_the_worked_examples() -> None:
    assert fleiss(np.array(FLEISS)) == pytest.approx(0.210, abs=5e-4)
    assert cohen(np.array([[20, 5], [10, 15]])) == pytest.approx(0.4)
    assert fleiss(np.array([[3, 0], [0, 3]])) == cohen(np.array([[5, 0], [0, 5]])) == 1
    assert math.isnan(fleiss(np.array([[3, 0], [3, 0]]))) and math.isnan(cohen(np.array([[5, 0], [0, 0]])))
    assert math.isnan(fleiss(np.zeros((0, 3)))) and math.isnan(fleiss(np.array([[1, 0]])))


def test_cohen_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.integers(0, 3, (2, 40))
        table = np.zeros((3, 3))
        np.add.at(table, (a, b), 1)
        assert cohen(table) == pytest.approx(metrics.cohen_kappa_score(a, b))


def test_verdicts_texts_agreement_and_time_are_those_worked_out_by_hand(toy_scene: Scene) -> None:
    sitting = voted(study_of(toy_scene, 4), {"w0": "ttt", "w1": "ttn", "w2": "nnc", "w3": "tnc"})
    report = tally(sitting.desk)
    tables = report["tables"]
    row = tables["Verdicts"][0]
    assert (row["n"], row["true"], row["not_true"], row["cannot_decide"], row["no_agreement"]) == (4, 50, 25, 0, 25)
    assert row["true_low"] <= 50 <= row["true_high"]
    assert tables["Texts of which every sentence is"][0]["true"] == 50
    agree = tables["Agreement of people"][0]
    assert (agree["all_agree"], agree["most_agree"]) == (25, 75)
    assert agree["pairs_agree"] == pytest.approx(100 * (1 + 1 / 3 + 1 / 3 + 0) / 4)
    assert agree["kappa"] == pytest.approx(fleiss(np.array([[3, 0, 0], [2, 1, 0], [0, 2, 1], [1, 1, 1]])))
    time = tables["Time"][0]
    assert (time["votes"], time["seconds_mean"], time["seconds_median"], time["hours"]) == (12, 2.0, 2.0, 24 / 3600)
    people = {row["who"]: row for row in tables["People"]}
    assert people["a"]["with_verdict"] == 100 and people["c"]["with_verdict"] == pytest.approx(100 / 3)
    assert report["counts"]["no_agreement"] == 1 and report["samples"][0]["votes"] == [TRUE] * 3
    json.dumps(report, allow_nan=False)
    assert "## Verdicts" in render(report, markdown=True)


def test_what_is_not_finished_is_counted_and_no_table_is_made_of_nothing(toy_scene: Scene) -> None:
    sitting = Sitting(study_of(toy_scene, 3))
    sitting.answer("a", right, most=2)
    report = tally(sitting.desk)
    assert report["counts"]["unfinished"] == 3 and report["counts"]["votes"] == 2 and report["counts"]["n"] == 0
    assert set(report["tables"]) == {"Time", "People"}
    assert tally(Desk(study_of(toy_scene, 3)))["tables"] == {}


def test_one_person_on_each_task_has_verdicts_but_no_agreement(toy_scene: Scene) -> None:
    sitting = Sitting(study_of(toy_scene, 3, votes=1))
    sitting.answer("a", right)
    tables = tally(sitting.desk)["tables"]
    assert tables["Verdicts"][0]["true"] == 100 and "Agreement of people" not in tables


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_language_model_is_held_against_people(toy_scene: Scene, tmp_path: Path) -> None:
    words = {"w0": "ttt", "w1": "ttn", "w2": "nnt", "w3": "nnn", "w4": "tnc", "w5": "ttt"}
    desk = voted(study_of(toy_scene, 6), words).desk
    rows = [("w0", "True"), ("w1", "NO."), ("w2", False), ("w3", "not_true"), ("w4", "true"), ("w5", "As an AI, I cannot see it")]
    judge = read_judge(write(tmp_path / "j.jsonl", [{"task_id": k, "answer": v} for k, v in rows]), desk, Rejects())
    row = tally(desk, judge)["tables"]["Language model and people"][0]
    assert row["n"] == 5 and row["valid"] == 80 and row["agree"] == 75  # w4 has no verdict
    assert row["kappa"] == pytest.approx(cohen(np.array([[1, 0], [1, 2]])))
    assert row["recall"] == 100 and row["precision"] == pytest.approx(200 / 3)


def test_broken_judgements_are_named_or_left_out_and_counted(toy_scene: Scene, tmp_path: Path) -> None:
    desk = Desk(study_of(toy_scene, 2))
    rows = [
        {"task_id": "w0", "answer": "true"},
        {"task_id": "w0", "answer": "true"},
        {"task_id": "x", "answer": "true"},
        3,
        {"answer": "true"},
    ]
    path = write(tmp_path / "j.jsonl", [*rows, {"task_id": "w1"}])
    with pytest.raises(GrandError, match=r"j\.jsonl:2: .*expected"):
        read_judge(path, desk, Rejects())
    rejects = Rejects(skip_bad=True)
    assert read_judge(path, desk, rejects) == {"w0": TRUE, "w1": None}
    assert rejects.counts() == {"second answer": 1, "unknown task": 1, "wrong type": 1, "missing key": 1}


def test_texts_that_people_let_through_are_kept_and_the_others_counted_by_cause(toy_scene: Scene) -> None:
    desk = voted(study_of(toy_scene, 4), {"w0": "ttt", "w1": "nnn", "w2": "cct", "w3": "tnc"}).desk
    rejects = Rejects()
    assert [sample.sample_id for sample in kept(desk, rejects).samples] == ["s0"]
    wanted = {"people say: not true (truth)": 1, "people say: cannot decide (truth)": 1, "no agreement": 1}
    assert rejects.counts() == wanted and all(row["noted"] for row in rejects.rows)


def plan_study(scene: Scene, says: Callable[[str, str], dict[str, str]]) -> Sitting:
    sitting = Sitting(study_of(scene, 4, check="steps"))
    for who in "abc":
        while (task := sitting.look(who)) is not None:
            sitting.do(who, "answer", task=task.task_id, seconds=1.0, **says(who, task.task_id))
    return sitting


def test_plans_are_kept_revised_and_dropped_as_two_of_three_say(toy_scene: Scene) -> None:
    def says(who: str, task_id: str) -> dict[str, str]:
        if task_id == "w0":
            return {"answer": "keep"}
        if task_id == "w1":  # a marks another step: two of three still agree on the second
            return {"answer": "revise 1"} if who == "a" else {"answer": "revise 2", "object_id": "2"}
        return {"answer": "drop"} if task_id == "w2" else {"answer": "revise 3"}

    desk = plan_study(toy_scene, says).desk
    row = tally(desk)["tables"]["Plans"][0]
    assert (row["kept"], row["revised"], row["dropped"], row["no_agreement"]) == (25, 50, 25, 0)
    rejects = Rejects()
    plans = {sample.sample_id: sample for sample in kept(desk, rejects).samples}
    assert plans["s0"].answer == PLAN and set(plans) == {"s0", "s1"}
    assert plans["s1"].answer == PLAN.replace("<p>table lamp</p>[<3>]", "<p>office chair</p>[<2>]") and plans["s1"].meta == {
        "revised_step": 2
    }
    assert rejects.counts() == {"people say: drop": 1, "one step is wrong, and nobody put it right": 1}


def test_revised_steps_keep_the_plan_well_formed(toy_scene: Scene) -> None:
    steps, ids = ["Walk to the desk.", "Switch on the lamp.", "Sit down."], ["0", "3", "1"]
    plan = Sample("p", "toy_room", "plan", "Read.", PLAN, ("0", "3", "1"), meta={"steps": steps, "step_ids": ids})
    text = revise(plan, 2, "Turn the <step>lamp on</step>.", "", toy_scene)
    assert text is not None and not parse(text.answer).faults and text.meta["step_ids"] == ids
    assert text.meta["steps"][1] == "Turn the lamp on." and "2. Turn the lamp on. <p>table lamp</p>[<3>]" in text.answer
    both = revise(plan, 3, "Lie down.", "4", toy_scene)
    assert (
        both is not None
        and both.target_ids == ("0", "3", "4")
        and both.answer.endswith("<step>3. Lie down. <p>bed</p>[<4>]</step>")
    )
    assert both.meta["steps"][2] == "Lie down." and both.meta["step_ids"] == ["0", "3", "4"]
    assert revise(plan, 1, "Walk to the desk.", "", toy_scene) is None and revise(plan, 1, "", "0", toy_scene) is None
