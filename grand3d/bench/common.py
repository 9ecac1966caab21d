"""What every benchmark does before it counts: which reply belongs to which sample, and what is missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from grand3d import markup
from grand3d.boxes import iou, objects_bounds
from grand3d.duplicates import merge_duplicates
from grand3d.errors import GrandError
from grand3d.files import shown
from grand3d.metrics import binary_rates, bootstrap, calibration_error, confusion, mean_interval, paired_difference, reliability
from grand3d.sample import Data, Reply, Sample
from grand3d.scene import Scene

MISSING = ("wrong", "skip")
LENGTHS = ("distance",)
"""Figures of single samples that are no shares."""


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """What a row of a published result file answers; a ``Reply`` is its counterpart that a model wrote.

    Attributes:
        sample_id: The question.
        scene_id: Its scene.
        boxes: Bounds (n, 2, 3) or 9-DoF boxes (n, 9), metres; None where the row answers with ids or text alone.
        object_ids: Objects named, in the id space that the targets of the data are in; None where it answers otherwise.
        scores: One for each box or object, more is surer; empty where the form has none.
        text: The answer as text, where it is one.
    """

    sample_id: str
    scene_id: str
    boxes: NDArray[np.float64] | None = None
    object_ids: tuple[str, ...] | None = None
    scores: tuple[float, ...] = ()
    text: str = ""
    finished: bool = True


Answer = Reply | Prediction
A = TypeVar("A", Reply, Prediction, Answer)


def pair(
    data: Data, replies: Sequence[A], task: str, missing: str | None
) -> tuple[list[tuple[Sample, A | None]], dict[str, int]]:
    """Every sample of a task with its reply, and the counts a report must show.

    Args:
        missing: ``wrong`` keeps a sample without a reply (its reply is None); ``skip`` leaves it out of every denominator;
            None refuses.

    Returns:
        Pairs in the order of the data, and counts: ``n`` (pairs), ``missing`` (samples without a reply), ``extra`` (replies
        to samples that are not scored here), ``other_tasks`` (samples of other tasks), ``unfinished`` (replies cut off),
        and those of ``left_out``.

    Raises:
        GrandError: If no sample is of the task, no reply fits, a sample has two replies, a reply names another scene, or
            replies are missing and ``missing`` is None.
    """
    if missing is not None and missing not in MISSING:
        raise GrandError(f"missing is {shown(missing)}, expected one of {', '.join(MISSING)}")
    samples = [sample for sample in data.samples if sample.task == task]
    if not samples:
        there = Counter(sample.task for sample in data.samples).most_common()
        seen = ", ".join(f"{number} {name}" for name, number in there) or "no sample at all"
        hint = "; the benchmark 'synth' scores every task" if there else ""
        raise GrandError(f"nothing to score: the data hold {seen}, expected samples of task {task!r}{hint}")
    by_id: dict[str, A] = {}
    for reply in replies:
        if reply.sample_id in by_id:
            raise GrandError(f"sample {shown(reply.sample_id)} has two replies; which one counts?", "second reply")
        by_id[reply.sample_id] = reply
    for sample in samples:
        reply = by_id.get(sample.sample_id)
        if reply is not None and reply.scene_id != sample.scene_id:
            text = f"the reply is about scene {shown(reply.scene_id)}, the sample about {shown(sample.scene_id)}"
            raise GrandError(f"sample {shown(sample.sample_id)}: {text}; are the replies from other data?")
    absent = [sample.sample_id for sample in samples if sample.sample_id not in by_id]
    if len(absent) == len(samples) and replies:
        first = f"first reply: {shown(replies[0].sample_id)}, first sample: {shown(absent[0])}"
        raise GrandError(
            f"none of the {len(replies)} replies is to one of the {len(samples)} samples, expected the same ids ({first})"
        )
    if len(absent) == len(samples) and missing == "skip":
        raise GrandError(f"nothing to score: no replies to the {len(samples)} samples of task {task!r}, expected at least one")
    if absent and missing is None:
        first = f"(first: {absent[0]}). Pass --missing=wrong to count them as wrong, --missing=skip to leave them out."
        raise GrandError(f"{len(absent)} of {len(samples)} samples have no reply {first}", "missing reply")
    pairs = [(sample, by_id.get(sample.sample_id)) for sample in samples]
    if missing == "skip":
        pairs = [(sample, reply) for sample, reply in pairs if reply is not None]
    counts = {
        "n": len(pairs),
        "missing": len(absent),
        "extra": len(by_id) - (len(samples) - len(absent)),
        "other_tasks": len(data.samples) - len(samples),
        "unfinished": sum(reply is not None and not reply.finished for _, reply in pairs),
    } | left_out(data, pairs)
    return pairs, counts


def read_reply(reply: Reply) -> tuple[tuple[str, ...] | None, bool]:
    """The object ids a reply answers with, in its order, and whether only lenient reading found them.

    ``<obj_k>`` is ``reply.object_ids[k]``; a reply without ``object_ids`` speaks of object ids itself. Ids that no object
    bears come back as ``""``. None when no answer can be read.
    """
    ids, lenient = markup.answer_ids(markup.parse(reply.text)), False
    if ids is None:
        ids, lenient = markup.answer_ids(markup.parse(reply.text, lenient=True)), True
    if ids is None:
        return None, False
    if not reply.object_ids:
        return ids, lenient
    table = {f"obj_{k}": object_id for k, object_id in enumerate(reply.object_ids)}
    return tuple(table.get(i, "") for i in ids), lenient


def answer_boxes(answer: Answer, data: Data) -> NDArray[np.float64] | None:
    """The boxes (n, 2, 3) that an answer gives: its own, or those of the objects it names; None when none can be read.

    A reply names objects that its prompt showed, a published row those of the id space that targets are in; an id that the
    scene does not have spoils the answer.
    """
    if isinstance(answer, Reply):
        (ids, _), scenes = read_reply(answer), data.scenes
    elif answer.boxes is not None:
        return answer.boxes
    else:
        ids, scenes = answer.object_ids, data.scenes if data.truth is None else data.truth
    scene = scenes[answer.scene_id]
    if ids is None or not set(ids) <= set(scene.object_ids):
        return None
    return objects_bounds([scene[item] for item in ids])


def target_boxes(data: Data, sample: Sample) -> NDArray[np.float64]:
    """The boxes (n, 2, 3) of a sample's targets, from ``truth`` where there is one.

    Raises:
        GrandError: If its scene does not have them.
    """
    scene = (data.scenes if data.truth is None else data.truth)[sample.scene_id]
    absent = [item for item in sample.target_ids if item not in scene.object_ids]
    if absent:
        seen = f"target {shown(absent[0])} has no box among the {len(scene.objects)} objects of scene {shown(sample.scene_id)}"
        hint = "" if scene.objects else "; a file of questions holds no boxes: give the graph of the true objects, --truth"
        raise GrandError(f"sample {shown(sample.sample_id)}: {seen}, expected the boxes of all targets{hint}", "no true box")
    return objects_bounds([scene[item] for item in sample.target_ids])


def file_bounds(found: Any, corners: Collection[int] = (2,)) -> NDArray[np.float64]:
    """Bounds (n, 2, 3) of boxes that a file gives by that many corners each, in any order; an empty list is no box.

    Raises:
        GrandError: For another form.
    """
    try:
        points = np.asarray(found, np.float64)
        if isinstance(found, list) and not found:
            return np.zeros((0, 2, 3))
        if points.ndim != 3 or points.shape[1] not in corners or points.shape[2] != 3 or not np.isfinite(points).all():
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        number = " or ".join(map(str, corners))
        raise GrandError(
            f"boxes are {shown(found)}, expected a list of boxes, {number} points [x, y, z] each", "bad box"
        ) from None
    return np.stack([points.min(axis=1), points.max(axis=1)], axis=1)


def refuse_second(name: str, seen: set[str]) -> None:
    """Note a name that a file answers.

    Raises:
        GrandError: If it was noted before: the first answer counts.
    """
    if name in seen:
        raise GrandError(f"a second prediction for {shown(name)}, expected one; the first one counts", "second reply")
    seen.add(name)


def left_out(data: Data, pairs: Iterable[tuple[Sample, Answer | None]]) -> dict[str, int]:
    """What prompts did not show, by ``top_k`` or for lack of room.

    Returns:
        ``partial_scenes``: replies whose prompt left objects out. ``dropped_objects``: objects left out, each scene once, with
        the most that a reply of it lacked. ``dropped_targets``: samples with a target that was there to be shown but was not:
        its own proposal (or one with the same box), or with ``truth`` all those that overlap it by 0.25.
    """
    partial, targets = 0, 0
    objects: dict[str, int] = {}
    places: dict[str, dict[str, set[str]]] = {}
    for sample, reply in pairs:
        scene = data.scenes.get(sample.scene_id)
        if not isinstance(reply, Reply) or not reply.num_dropped or scene is None:
            continue
        if sample.scene_id not in places:
            places[sample.scene_id] = _stands_for(data, scene)
        stands = places[sample.scene_id]
        partial += 1
        objects[sample.scene_id] = max(reply.num_dropped, objects.get(sample.scene_id, 0))
        targets += any(stands.get(item) and stands[item].isdisjoint(reply.object_ids) for item in sample.target_ids)
    return {"partial_scenes": partial, "dropped_objects": sum(objects.values()), "dropped_targets": targets}


def _stands_for(data: Data, scene: Scene) -> dict[str, set[str]]:
    """Possible target -> the objects of the scene by any of which a prompt shows it."""
    if data.truth is None:
        same = merge_duplicates(scene)[1]
        groups: dict[str, set[str]] = {}
        for item in scene.object_ids:
            groups.setdefault(same.get(item, item), set()).add(item)
        return {item: groups[same.get(item, item)] for item in scene.object_ids}
    true = data.truth[scene.scene_id].objects if scene.scene_id in data.truth else ()
    close = iou(objects_bounds(true), objects_bounds(scene.objects)) >= 0.25
    return {item.object_id: {scene.object_ids[k] for k in np.flatnonzero(row)} for item, row in zip(true, close, strict=True)}


def percent(value: float) -> float | None:
    """A fraction in percent; None (JSON null) for NaN, a figure over nothing."""
    return None if math.isnan(value) else 100 * float(value)


def percents(rates: Mapping[str, float]) -> dict[str, float | None]:
    """:func:`percent` of every value."""
    return {name: percent(value) for name, value in rates.items()}


def reliability_of(replies: Sequence[Reply | None], right: Sequence[bool]) -> dict[str, Any]:
    """What a report adds where replies carry chances: the reliability of the likeliest answer's chance, and the expected
    calibration error; nothing otherwise.
    """
    sure = [
        (max(reply.chances), bool(hit)) for reply, hit in zip(replies, right, strict=True) if reply is not None and reply.chances
    ]
    if not sure:
        return {}
    chances, hits = zip(*sure, strict=True)
    rows = [row | percents({key: row[key] for key in ("confidence", "accuracy")}) for row in reliability(chances, hits)]
    return {"confidence": rows, "ece": percent(calibration_error(chances, hits))}


def target_rows(
    scenes: Sequence[str], wanted: Sequence[Collection[str]], named: Sequence[Collection[str] | None]
) -> dict[str, list[dict[str, Any]]]:
    """What a report adds where references may mean nothing or several things; nothing where each means one.

    Args:
        scenes: The scene of each reference.
        wanted: The objects it means.
        named: Those that its reply names; None where that cannot be read, which is never right.

    Returns:
        ``targets``: a row for references to none, one and several, with the share named exactly and the mean F1 of the objects
        named (1 where none are named and none meant, as in Multi3DRefer). ``abstention``: precision, recall and F1 of saying
        that nothing fits. Percent, with 95 % intervals clustered by scene.
    """
    sizes = np.array([len(items) for items in wanted])
    if not len(sizes) or (sizes == 1).all():
        return {}
    exact = np.array([given is not None and set(given) == set(items) for items, given in zip(wanted, named, strict=True)], float)
    shared = np.array([0.0 if given is None else set_f1(items, given) for items, given in zip(wanted, named, strict=True)])
    where, rows = np.asarray(scenes), []
    for name, mask in (("nothing", sizes == 0), ("one object", sizes == 1), ("several", sizes > 1)):
        if mask.any():
            row: dict[str, Any] = {"name": name, "n": int(mask.sum())}
            for figure, values in (("exact", exact), ("f1", shared)):
                low, high = mean_interval(values[mask], where[mask])
                row |= percents({figure: values[mask].mean(), f"{figure}_low": low, f"{figure}_high": high})
            rows.append(row)
    said = np.array([given is not None and not given for given in named])
    counts = confusion(sizes == 0, said)
    row = {"name": "nothing fits", "n": len(sizes), "said": int(said.sum()), "true": int((sizes == 0).sum())}
    rates = binary_rates(counts.sum(axis=0))
    for figure in ("precision", "recall", "f1"):
        low, high = bootstrap(counts, where, lambda sums, figure=figure: binary_rates(sums)[figure])
        row |= percents({figure: float(rates[figure]), f"{figure}_low": low, f"{figure}_high": high})
    return {"targets": rows, "abstention": [row]}


def set_f1(wanted: Collection[str], named: Collection[str]) -> float:
    """F1 of the objects named against those meant; 1 where both are none, 0 where one is."""
    wanted, named = set(wanted), set(named)
    if not wanted or not named:
        return float(wanted == named)
    return 2 * len(wanted & named) / (len(wanted) + len(named))


def against(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Paired differences of two reports' ``samples``, one row a figure, over the samples that both have.

    Returns:
        ``name``, ``n``, the means of both, ``difference`` with its 95 % interval clustered by scene (all in percent), and how
        many samples were ``won`` and ``lost``.

    Raises:
        GrandError: If they share no sample.
    """
    other = {row["sample_id"]: row for row in theirs}
    pairs = [(row, other[row["sample_id"]]) for row in ours if row["sample_id"] in other]
    if not pairs:
        raise GrandError("the two replies files answer no sample in common, expected replies to the same data")
    scenes, rows = [row["scene_id"] for row, _ in pairs], []
    for name in (key for key, value in pairs[0][0].items() if isinstance(value, float) and key not in LENGTHS):
        left, right = ([row[name] for row in column] for column in zip(*pairs, strict=True))
        found = paired_difference(left, right, scenes)
        means = {"this": np.mean(left), "other": np.mean(right), "difference": found["difference"]}
        rows.append(
            {"name": name, "n": len(pairs)}
            | percents(means | {"difference_low": found["low"], "difference_high": found["high"]})
            | {"won": found["won"], "lost": found["lost"]}
        )
    return rows
