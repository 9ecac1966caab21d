"""How far the probabilities of replies may be believed: fitted on held-out data, and used to decide again.

The chances of a reply (``predict --candidates``) are sharpened or flattened by one temperature a task, chosen for the least
negative log-likelihood of the right answers (Guo et al., On Calibration of Modern Neural Networks, 2017). What the detector was
sure of is taken in as a prior: the chance that an object is meant, times its score to a power. Two thresholds then decide:
nothing is named when no object is likely enough, and others are named beside the likeliest when nearly as likely.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from grand3d import markup
from grand3d.bench.common import set_f1 as overlap
from grand3d.duplicates import merge_duplicates
from grand3d.errors import GrandError, place, shown
from grand3d.files import field as read_field
from grand3d.files import read_json, write_json
from grand3d.sample import Data, Reply, Sample
from grand3d.scene import Scene, confidence

REFERENCE, EXISTENCE = "object_reference", "existence"
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was fitted.

    Attributes:
        temperature: By task; 1 leaves chances as they are, more makes them less sure.
        score_weight: Power of the detector's scores; 0 leaves them out. True objects score 1.
        none_below: An object of a smaller chance than this is not named: nothing fits.
        also_above: Objects of this share of the likeliest one's chance are named with it; above 1 none is.
    """

    temperature: Mapping[str, float] = field(default_factory=dict)
    score_weight: float = 0.0
    none_below: float = 0.0
    also_above: float = 2.0


def sharpen(chances: Sequence[float], temperature: float, prior: Sequence[float] | Floats = ()) -> Floats:
    """Chances at another temperature, times a prior where one is given; they add up to 1 again."""
    logs = np.log(np.maximum(np.asarray(chances, np.float64), 1e-300)) / temperature
    if len(prior):
        logs = logs + np.log(np.maximum(prior, 1e-300))
    raised = np.exp(logs - logs.max())
    return raised / raised.sum()


def fit(data: Data, replies: Sequence[Reply], score_weight: float = 0.0) -> Calibration:
    """Temperatures, and thresholds of most F1, over the replies with chances.

    Args:
        data: Held out from training, and not what is to be reported. Targets are ids of the scenes shown; references
            without a target teach when to name none, those with several when to name more.
        score_weight: See ``Calibration``; not fitted, since generated scores are not a real detector's.

    Raises:
        GrandError: If no reply has chances, or the targets are not among what is shown.
    """
    if data.truth is not None:
        raise GrandError("a calibration is fitted where targets are objects that were shown, expected data without truth.jsonl")
    given = {reply.sample_id: reply for reply in replies if reply.chances}
    pairs = [(sample, given[sample.sample_id]) for sample in data.samples if sample.sample_id in given]
    if not pairs:
        raise GrandError("no reply to these data has chances, expected replies of predict --candidates")
    temperature = {}
    for task in (REFERENCE, EXISTENCE):
        known = []
        for sample, reply in pairs:
            index = right_index(sample, reply, data) if sample.task == task else None
            if index is not None:
                known.append((reply.chances, index, _prior(reply, task, data.scenes[sample.scene_id], score_weight)))
        if known:
            temperature[task] = fit_temperature(*zip(*known, strict=True))
    references = [(sample, reply) for sample, reply in pairs if sample.task == REFERENCE]
    out = Calibration(temperature, score_weight)
    if any(not sample.target_ids for sample, _ in references):
        out = dataclasses.replace(out, none_below=_best(references, data, lambda x: dataclasses.replace(out, none_below=x)))
    if any(len(sample.target_ids) > 1 for sample, _ in references):
        out = dataclasses.replace(out, also_above=_best(references, data, lambda x: dataclasses.replace(out, also_above=x)))
    return out


def right_index(sample: Sample, reply: Reply, data: Data) -> int | None:
    """Which of a reply's chances is the right answer's; None where several are or it was not weighed."""
    if sample.task == EXISTENCE:
        return 0 if sample.answer.strip().lower().startswith("yes") else 1
    if not sample.target_ids:
        return len(reply.object_ids)
    same = merge_duplicates(data.scenes[sample.scene_id])[1]
    wanted = {same.get(item, item) for item in sample.target_ids}
    found = [k for k, item in enumerate(reply.object_ids) if same.get(item, item) in wanted]
    return found[0] if len(found) == 1 else None


def fit_temperature(
    chances: Sequence[Sequence[float]], right: Sequence[int], priors: Sequence[Sequence[float] | Floats] = ()
) -> float:
    """The temperature, between 0.05 and 20, of least mean negative log-likelihood."""
    priors = priors or [()] * len(right)

    def loss(log_temperature: float) -> float:
        rows = zip(chances, right, priors, strict=True)
        each = [sharpen(row, np.exp(log_temperature), prior)[index] for row, index, prior in rows]
        return float(-np.log(np.maximum(each, 1e-300)).mean())

    low, high = np.log(0.05), np.log(20.0)
    for _ in range(60):  # the loss is convex in 1/T, so it has one valley in log T too
        third = (high - low) / 3
        if loss(low + third) <= loss(high - third):
            high -= third
        else:
            low += third
    return float(np.exp((low + high) / 2))


def _best(pairs: Sequence[tuple[Sample, Reply]], data: Data, with_threshold: Callable[[float], Calibration]) -> float:
    """The threshold of most mean F1 of the objects named."""
    steps = [round(0.05 * k, 2) for k in range(20)]
    values = [np.mean([set_f1(sample, reply, data, with_threshold(step)) for sample, reply in pairs]) for step in steps]
    return steps[int(np.argmax(values))]


def set_f1(sample: Sample, reply: Reply, data: Data, calibration: Calibration) -> float:
    """F1 of the objects named against the targets; 1 where both are none (Multi3DRefer's rule for zero targets)."""
    same = merge_duplicates(data.scenes[sample.scene_id])[1]
    prior = _prior(reply, REFERENCE, data.scenes[sample.scene_id], calibration.score_weight)
    named = (reply.object_ids[k] for k in decide(reply.chances, calibration, prior))
    return overlap({same.get(item, item) for item in sample.target_ids}, {same.get(item, item) for item in named})


def _prior(reply: Reply, task: str, scene: Scene, weight: float) -> Floats:
    """What a detector's scores say of each object and, last, of none, as against the best-scored one; empty without weight."""
    if not weight or task != REFERENCE:
        return np.empty(0)
    scores = np.array([confidence(scene[item]) for item in reply.object_ids]) ** weight
    return np.append(scores / scores.max(initial=1e-300), 1.0)


def decide(chances: Sequence[float], calibration: Calibration, prior: Sequence[float] | Floats = ()) -> tuple[int, ...]:
    """Which objects to name, by the chances of each and, last, of none."""
    weights = sharpen(chances, calibration.temperature.get(REFERENCE, 1.0), prior)
    objects, none = weights[:-1], weights[-1]
    top = objects.max(initial=0.0)
    if top < none or top < calibration.none_below or not len(objects):
        return ()
    if calibration.also_above > 1:
        return (int(np.argmax(objects)),)
    return tuple(np.flatnonzero(objects >= calibration.also_above * top).tolist())


def apply(reply: Reply, task: str, calibration: Calibration, scene: Scene) -> Reply:
    """The reply as the calibration decides it, with the calibrated chances; unchanged without chances.

    Args:
        scene: What its objects are in.
    """
    if not reply.chances or task not in (REFERENCE, EXISTENCE):
        return reply
    prior = _prior(reply, task, scene, calibration.score_weight)
    chances = tuple(sharpen(reply.chances, calibration.temperature.get(task, 1.0), prior).tolist())
    text = reply.text
    if task == REFERENCE:
        text = answer_with(text, [f"obj_{k}" for k in decide(reply.chances, calibration, prior)])
    return dataclasses.replace(reply, text=text, chances=chances)


def answer_with(text: str, ids: Sequence[str]) -> str:
    """A reply to a reference with these ids in place of those it answers with; unchanged without an answer."""
    start = text.find("[", text.find(markup.PHRASE_END, max(0, text.find(markup.ANSWER))))
    if markup.ANSWER not in text or start < 0:
        return text
    return text[:start] + markup.span("", ids) + text[text.index("]", start) + 1 :]


def load_calibration(path: str | Path) -> Calibration:
    """Read what ``save_calibration`` wrote.

    Raises:
        GrandError: If it cannot be read or a value is out of its limits.
    """
    row, where = read_json(path), place(path)
    if not isinstance(row, dict):
        raise GrandError(f"{where}: holds {shown(row)}, expected the JSON object that grand3d calibrate writes")
    temperature = read_field(row, "temperature", dict, where)
    none_below, also_above = (float(read_field(row, key, float, where)) for key in ("none_below", "also_above"))
    score_weight = float(read_field(row, "score_weight", float, where, 0.0))
    bad = [name for name, value in temperature.items() if not isinstance(value, int | float) or not 0.05 <= value <= 20]
    if bad:
        raise GrandError(f"{where}: temperature of {bad[0]!r} is {shown(temperature[bad[0]])}, expected 0.05 to 20")
    if not 0 <= none_below <= 1 or not 0 <= also_above <= 2:
        raise GrandError(f"{where}: none_below {none_below} and also_above {also_above}, expected 0 to 1 and 0 to 2")
    if not 0 <= score_weight <= 100:
        raise GrandError(f"{where}: score_weight is {score_weight}, expected 0 to 100")
    return Calibration({name: float(value) for name, value in temperature.items()}, score_weight, none_below, also_above)


def save_calibration(path: str | Path, calibration: Calibration) -> None:
    write_json(path, dataclasses.asdict(calibration))
