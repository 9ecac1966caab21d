"""Pictures of what went wrong: rooms from above, with what was meant, what was answered, and what else was shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d import charts, markup
from grand3d.bench.common import Answer, answer_boxes, read_reply, target_boxes
from grand3d.boxes import iou, objects_bounds
from grand3d.errors import GrandError
from grand3d.sample import Data, Reply, Sample
from grand3d.scene import Object

NUM_WORST = 6
KEY = (
    "<p class=key><span class=target>■</span> target <span class=answer>■</span> answer <span class=both>■</span> both "
    "<span class=alike>□</span> also of the target's category <span class=other>□</span> others shown</p>"
)

Samples = Sequence[Mapping[str, Any]]
Box = NDArray[np.float64]


def worst(samples: Samples, figure: str, data: Data, answers: Iterable[Answer]) -> str:
    """Cards of the scenes with the lowest figure, each with one sample that went wrong there; empty where none did."""
    by_id = {sample.sample_id: sample for sample in data.samples}
    given = {answer.sample_id: answer for answer in answers}
    scenes: dict[str, list[Mapping[str, Any]]] = {}
    for row in samples:
        if row["sample_id"] in by_id and row.get(figure) is not None:
            scenes.setdefault(row["scene_id"], []).append(row)
    means = {name: float(np.mean([row[figure] for row in rows])) for name, rows in scenes.items()}
    cards: list[str] = []
    drawn = False
    for name in sorted(scenes, key=lambda name: (means[name], -len(scenes[name]), name)):
        wrong = [row for row in scenes[name] if row[figure] < 0.5]
        if not wrong or len(cards) == NUM_WORST:
            continue
        row = min(
            wrong, key=lambda row: (row[figure], row["sample_id"] not in given)
        )  # one that was answered, where there is one
        sample, answer = by_id[row["sample_id"]], given.get(row["sample_id"])
        told = {"asked": markup.plain(sample.text), "wanted": _wanted(data, sample), "answered": _said(data, sample, answer)}
        told |= {"overlap": _overlap(data, sample, answer), "error": row.get("error", "")}
        lines = "".join(f"<dt>{key}</dt><dd>{escape(text[:300])}</dd>" for key, text in told.items() if text)
        about = f"{figure} {100 * means[name]:.1f}, n {len(scenes[name])}; {sample.sample_id}"
        picture = _picture(data, sample, answer)
        drawn = drawn or bool(picture)
        cards.append(f"<article><h3>{escape(name)}</h3><p class=small>{escape(about)}</p>{picture}<dl>{lines}</dl></article>")
    return f"{KEY if drawn else ''}<div class=cards>{''.join(cards)}</div>" if cards else ""


def _wanted(data: Data, sample: Sample) -> str:
    return markup.plain(sample.answer) or ", ".join(_called(item) for item in targets_of(data, sample) or ())


def _said(data: Data, sample: Sample, answer: Answer | None) -> str:
    if answer is None:
        return "nothing"
    if sample.task != "object_reference":
        return markup.plain(answer.text)
    ids = read_reply(answer)[0] if isinstance(answer, Reply) else answer.object_ids
    scene = (data.scenes if isinstance(answer, Reply) or data.truth is None else data.truth).get(sample.scene_id)
    if ids is None:
        return markup.plain(answer.text) or "a box"
    known = {} if scene is None else {item.object_id: item for item in scene.objects}
    return ", ".join(_called(known[name]) if name in known else f"unknown {name}" for name in ids) or "nothing fits"


def _overlap(data: Data, sample: Sample, answer: Answer | None) -> str:
    """The best IoU of an answered box with a target's: seen from above, boxes of other heights look alike."""
    targets, answered = _boxes(data, sample, answer)
    return f"IoU {iou(np.array(targets), np.array(answered)).max():.2f}" if targets and answered else ""


def _boxes(data: Data, sample: Sample, answer: Answer | None) -> tuple[list[Box], list[Box]]:
    """Bounds of the targets and of what was answered, as far as they are known; turned boxes are left out."""
    try:
        targets = list(target_boxes(data, sample))
        answered = answer_boxes(answer, data) if answer is not None else None
    except (GrandError, KeyError):
        return [], []
    return targets, [] if answered is None else [box for box in answered if np.shape(box) == (2, 3)]


def _called(item: Object) -> str:
    return f"{item.category} {item.object_id}"


def _picture(data: Data, sample: Sample, answer: Answer | None) -> str:
    scene = data.scenes.get(sample.scene_id)
    if scene is None or not scene.objects:
        return ""
    targets, marked = _boxes(data, sample, answer)
    names = {item.category for item in targets_of(data, sample) or ()}
    drawn = []
    for item, box in zip(scene.objects, objects_bounds(scene.objects), strict=True):
        if not any(np.array_equal(box, other) for other in (*targets, *marked)):
            kind = "alike" if item.category in names else "other"
            drawn.append((kind == "alike", _footprint(item), kind, _called(item)))
    shapes = [(corners, kind, name) for _, corners, kind, name in sorted(drawn, key=lambda entry: entry[0])]
    label = ", ".join(sorted(names)) or "target"
    right = [any(np.array_equal(box, other) for other in marked) for box in targets]
    shapes += [(_corners(box), "both" if hit else "target", label) for box, hit in zip(targets, right, strict=True)]
    called = {
        np.asarray(box).tobytes(): item.category for item, box in zip(scene.objects, objects_bounds(scene.objects), strict=True)
    }
    for box in marked:
        if not any(np.array_equal(box, other) for other in targets):
            shapes.append((_corners(box), "answer", called.get(np.asarray(box).tobytes(), "answer")))
    return charts.room(shapes, f"{sample.scene_id} from above")


def _corners(bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    (x, y, _), (to_x, to_y, _) = bounds
    return np.array([(x, y), (to_x, y), (to_x, to_y), (x, to_y)])


def _footprint(item: Object) -> NDArray[np.float64]:
    """Corners of an object's box on the floor: its own where it turns about z alone, else those of its hull."""
    if item.rotation is None or abs(item.rotation[2][2]) < 1 - 1e-6:
        return _corners(objects_bounds([item])[0])
    turn, half = np.asarray(item.rotation)[:2, :2], np.asarray(item.extent[:2]) / 2
    return np.asarray(item.centroid[:2]) + (np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * half) @ turn.T


def targets_of(data: Data, sample: Sample | None) -> list[Object] | None:
    """The objects that a sample means; None where it means none by id, or they are not known."""
    scene = (data.scenes if data.truth is None else data.truth).get(sample.scene_id) if sample is not None else None
    if sample is None or scene is None or not sample.target_ids or not set(sample.target_ids) <= set(scene.object_ids):
        return None
    return [scene[item] for item in sample.target_ids]
