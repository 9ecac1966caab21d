"""Probabilities that are believed as far as they deserve it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grand3d import markup
from grand3d.calibration import (
    Calibration,
    apply,
    decide,
    fit,
    fit_temperature,
    load_calibration,
    right_index,
    save_calibration,
    sharpen,
)
from grand3d.errors import GrandError
from grand3d.figures import score
from grand3d.metrics import calibration_error, reliability
from grand3d.report import render
from grand3d.sample import Data, Reply, Sample, reply_from_dict, reply_to_dict
from grand3d.scene import Object, Scene

ROOM = Scene("room", tuple(Object(str(k), "chair", (float(k), 0.0, 0.0), (0.5, 0.5, 1.0)) for k in range(4)))
CHANCES = st.lists(st.floats(0.001, 1), min_size=2, max_size=6).map(lambda x: [v / sum(x) for v in x])


def reply(sample_id: str, chances: tuple[float, ...], text: str = "") -> Reply:
    return Reply(sample_id, "room", text, ROOM.object_ids, chances=chances)


@given(CHANCES, st.floats(0.1, 10))
def test_sharpen_keeps_the_order_and_adds_up_to_one(chances: list[float], temperature: float) -> None:
    out = sharpen(chances, temperature)
    assert math.isclose(out.sum(), 1) and np.allclose(sharpen(chances, 1.0), chances)
    assert (np.diff(out[np.argsort(chances)]) >= -1e-12).all()


def test_fit_temperature_finds_how_much_too_sure_a_model_is() -> None:
    rng = np.random.default_rng(0)
    honest = rng.dirichlet(np.ones(4), 4000)
    right = [int(rng.choice(4, p=row)) for row in honest]
    too_sure = [sharpen(row, 1 / 3) for row in honest]  # three times sharper than deserved
    assert fit_temperature(too_sure, right) == pytest.approx(3, rel=0.08)
    assert fit_temperature(list(honest), right) == pytest.approx(1, rel=0.08)


def test_calibration_error_by_hand() -> None:
    # bin 0.9-1.0: confidence 0.95, right half the time; bin 0.5-0.6: confidence 0.55, always right
    confidence, correct = [0.95, 0.95, 0.55, 0.55], [1, 0, 1, 1]
    assert calibration_error(confidence, correct) == pytest.approx(0.5 * 0.45 + 0.5 * 0.45)
    assert [row["n"] for row in reliability(confidence, correct)] == [2, 2]
    assert math.isnan(calibration_error([], []))
    assert reliability([1.0, 0.0], [1, 0])[-1]["to"] == 1.0  # a chance of 1 has a bin


@pytest.mark.parametrize(
    ("chances", "calibration", "named"),
    [
        ((0.6, 0.3, 0.05, 0.02, 0.03), Calibration(), (0,)),
        ((0.2, 0.1, 0.05, 0.05, 0.6), Calibration(), ()),
        ((0.4, 0.35, 0.1, 0.1, 0.05), Calibration(also_above=0.8), (0, 1)),
        ((0.4, 0.35, 0.1, 0.1, 0.05), Calibration(none_below=0.5), ()),
        ((0.4, 0.35, 0.1, 0.1, 0.05), Calibration({"object_reference": 0.1}, none_below=0.5), (0,)),
        ((0.25, 0.25, 0.25, 0.25, 0.0), Calibration(), (0,)),
        ((1.0,), Calibration(), ()),
    ],
)
def test_decide(chances: tuple[float, ...], calibration: Calibration, named: tuple[int, ...]) -> None:
    assert decide(chances, calibration) == named


def test_apply_writes_the_decision_into_the_answer_and_leaves_the_rest() -> None:
    text = markup.reference_reply([("the chair", ("obj_2",))], "chair", ("obj_0",), "first")
    before = reply("q", (0.5, 0.45, 0.02, 0.02, 0.01), text)
    after = apply(before, "object_reference", Calibration(also_above=0.5), ROOM)
    assert after.text == markup.reference_reply([("the chair", ("obj_2",))], "chair", ("obj_0", "obj_1"), "first")
    assert apply(before, "object_reference", Calibration(none_below=0.9), ROOM).text.endswith(
        "<p>chair</p>[]</refer_expression_grounding>"
    )
    assert apply(before, "counting", Calibration(none_below=0.9), ROOM) == before
    plain = replace(before, chances=())
    assert apply(plain, "object_reference", Calibration(none_below=0.9), ROOM) == plain


def test_fit_learns_when_to_name_none_and_several() -> None:
    samples, replies = [], []
    for i in range(12):
        kind = i % 3
        targets = [("0",), (), ("0", "1")][kind]
        samples.append(Sample(f"q{i}", "room", "object_reference", "the chair", target_ids=targets))
        chances = [(0.9, 0.05, 0.02, 0.02, 0.01), (0.3, 0.3, 0.2, 0.15, 0.05), (0.48, 0.46, 0.03, 0.02, 0.01)][kind]
        replies.append(reply(f"q{i}", chances, markup.reference_reply([], "chair", ("obj_0",), "none")))
    data = Data({"room": ROOM}, tuple(samples))
    found = fit(data, replies)
    assert found.none_below > 0 and found.also_above <= 1
    tasks = {sample.sample_id: sample.task for sample in samples}
    before = score(data, replies)["rows"][0]
    after = score(data, [apply(item, tasks[item.sample_id], found, data.scenes[item.scene_id]) for item in replies])["rows"][0]
    assert before["accuracy"] == pytest.approx(100 / 3) and after["accuracy"] == 100 and "ece" in after


def test_fit_refuses_what_it_cannot_learn_from() -> None:
    data = Data({"room": ROOM}, (Sample("q", "room", "object_reference", "the chair", target_ids=("0",)),))
    with pytest.raises(GrandError, match="expected replies of predict --candidates"):
        fit(data, [Reply("q", "room", "x")])
    with pytest.raises(GrandError, match="expected data without truth"):
        fit(replace(data, truth=data.scenes), [])


def test_calibration_file_comes_back_and_nonsense_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    made = Calibration({"existence": 1.5}, 1.5, 0.25, 0.8)
    save_calibration(file, made)
    assert load_calibration(file) == made
    for change in ({"temperature": {"existence": 0}}, {"none_below": 2}, {"also_above": -1}, {"temperature": 3}):
        file.write_text(json.dumps({"temperature": {}, "none_below": 0, "also_above": 2} | change))
        with pytest.raises(GrandError, match="expected"):
            load_calibration(file)
    file.write_text("[]")
    with pytest.raises(GrandError, match="expected the JSON object that grand3d calibrate writes"):
        load_calibration(file)


def test_chances_of_a_reply_are_kept_and_checked() -> None:
    made = reply("q", (0.25, 0.75))
    assert reply_from_dict(reply_to_dict(made)) == made
    for bad in ([2], [-0.1], ["x"], "x", [0.5], [1.0] * 5, [0.5, 0.3], [0.2] * 6):
        with pytest.raises(GrandError, match="chances"):
            reply_from_dict(reply_to_dict(made) | {"chances": bad})


def test_scores_of_the_detector_decide_between_equals_and_leave_the_sum_at_one() -> None:
    scored = replace(
        ROOM, objects=tuple(replace(item, score=score) for item, score in zip(ROOM.objects, (0.2, 0.9, 0.5, 0.9), strict=True))
    )
    text = f"{markup.ANSWER}<p>it</p>[<obj_0>]{markup.ANSWER_END}"
    before = reply("q", (0.4, 0.35, 0.2, 0.0, 0.05), text)
    after = apply(before, "object_reference", Calibration(score_weight=1.0), scored)
    weighed = np.array([0.4 * 0.2, 0.35 * 0.9, 0.2 * 0.5, 0.0, 0.05 * 0.9])
    assert np.allclose(after.chances, weighed / weighed.sum()) and "[<obj_1>]" in after.text
    assert apply(before, "object_reference", Calibration(score_weight=1.0), ROOM).chances == pytest.approx(before.chances)
    assert apply(before, "object_reference", Calibration(), scored).text == text


def test_fit_takes_the_weight_of_the_scores_into_the_temperature() -> None:
    rng, scores = np.random.default_rng(1), np.array([0.1, 0.3, 0.5, 0.7])
    scored = replace(ROOM, objects=tuple(replace(item, score=float(x)) for item, x in zip(ROOM.objects, scores, strict=True)))
    samples, replies = [], []
    for k in range(1500):
        chances = rng.dirichlet(np.ones(5))
        meant = chances * np.append(scores / scores.max(), 1)  # what the model saw, times what the detector knew
        right = int(rng.choice(5, p=meant / meant.sum()))
        targets = () if right == 4 else (str(right),)
        samples.append(Sample(str(k), "room", "object_reference", "it", target_ids=targets))
        replies.append(reply(str(k), tuple(chances.tolist())))
    data = Data({"room": scored}, tuple(samples))
    plain, weighed = fit(data, replies), fit(data, replies, 1.0)
    assert weighed.temperature["object_reference"] == pytest.approx(1, abs=0.15)
    right = [right_index(sample, row, data) for sample, row in zip(samples, replies, strict=True)]

    def loss(found: Calibration) -> float:
        kept = (apply(row, "object_reference", found, scored).chances for row in replies)
        return -float(np.mean([math.log(chances[index]) for chances, index in zip(kept, right, strict=True)]))

    assert loss(weighed) < loss(plain) - 0.05


def test_reliability_is_drawn_with_a_mark_where_the_confidence_is() -> None:
    row = {"from": 0.8, "to": 0.9, "n": 4, "confidence": 85.0, "accuracy": 50.0}
    report = {"benchmark": "x", "counts": {"n": 4}, "rules": {}, "rows": [{"name": "all"}], "confidence": [row]}
    assert f"{'=' * 10}{' ' * 7}o" in render(report)
    sure = row | {"confidence": 100.0, "accuracy": 100.0}
    assert f"{'=' * 20}o" in render(report | {"confidence": [sure]}, markdown=True)
