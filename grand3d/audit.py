"""What is doubtful about data that are well formed: leaks between them, targets that no proposal reaches, labels that do not
meet, things seen twice, boxes that no room holds, one text with two answers. None of it stops a run: it is counted and told.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from grand3d.boxes import iou, objects_bounds
from grand3d.duplicates import centimetres
from grand3d.markup import plain
from grand3d.mixture import room_of
from grand3d.sample import Data, Sample
from grand3d.scene import Object, Scene

NUM_EXAMPLES = 3
REACH = 0.25
"""IoU from which a proposal stands for a true object, as the benchmarks have it."""
SAME = 0.9
"""IoU from which two objects of one label are one thing seen twice."""
LONGEST, FARTHEST = 30.0, 200.0
"""Metres: of a side, and from the origin, beyond which a box is none of a room."""

Note = tuple[str, str]
"""(what it is counted by, where and what)"""


def audit(data: Data) -> dict[str, dict[str, Any]]:
    """Doubtful things of data, by kind: ``count`` and the first ``examples``. Memory does not grow with the data, but for the
    texts of one scene, the labels, and a hash of each scene.
    """
    found: dict[str, dict[str, Any]] = {}
    for kind, text in _notes(data):
        entry = found.setdefault(kind, {"count": 0, "examples": []})
        entry["count"] += 1
        if len(entry["examples"]) < NUM_EXAMPLES:
            entry["examples"].append(text)
    return found


def leaks(data: Data, other: Data) -> dict[str, dict[str, Any]]:
    """Rooms of ``other`` that are in ``data`` too, also as another scan of the room.

    Under another name a room is known by its labels and boxes, to the centimetre.
    """
    rooms: dict[str, str] = {room_of(scene_id): scene_id for scene_id in data.scenes}
    pairs = [(scene_id, rooms[room_of(scene_id)]) for scene_id in other.scenes if room_of(scene_id) in rooms]
    out = {}
    if pairs:
        examples = [f"{a} is a scan of a room of the other data, {b}" if a != b else f"{a} is in both" for a, b in pairs]
        out["room in both"] = {"count": len(pairs), "examples": examples[:NUM_EXAMPLES]}
    contents = {_content(data.scenes[scene_id]): scene_id for scene_id in data.scenes if data.scenes[scene_id].objects}
    told = {scene_id for scene_id, _ in pairs}
    others = [(scene_id, contents.get(_content(other.scenes[scene_id]))) for scene_id in other.scenes if scene_id not in told]
    twins = [f"{a} is {b} of the other data, box for box" for a, b in others if b is not None]
    if twins:
        out["room in both under another name"] = {"count": len(twins), "examples": twins[:NUM_EXAMPLES]}
    return out


def _notes(data: Data) -> Iterator[Note]:
    for part in (data.scenes, data.truth or {}):
        for scene_id in part:
            yield from _scene_notes(part[scene_id])
    known: dict[bytes, str] = {}
    for scene_id in data.scenes:
        if data.scenes[scene_id].objects:
            first = known.setdefault(_content(data.scenes[scene_id]), scene_id)
            if first != scene_id:
                yield "room under two names", f"scene {scene_id} is {first}, box for box"
    by_scene: dict[str, list[Sample]] = defaultdict(list)
    borne, meant = Counter[str](), Counter[str]()
    if data.truth is not None:
        for scene_id in data.scenes:
            borne.update(item.category.lower() for item in data.scenes[scene_id].objects)
    # stored samples come sorted by scene, so that one scene is held at a time; others are grouped first
    for scene_id, samples in _by_scene(data, by_scene):
        yield from _text_notes(samples)
        if data.truth is not None and scene_id in data.truth:
            yield from _reach_notes(data.scenes[scene_id], data.truth[scene_id], samples)
            truth = {item.object_id: item for item in data.truth[scene_id].objects}
            meant.update(truth[item].category.lower() for sample in samples for item in sample.target_ids if item in truth)
    for label, number in meant.most_common():
        if label not in borne:
            yield "target label that no proposal bears", f"{label!r}: {number} targets"


def _content(scene: Scene) -> bytes:
    rows = sorted((item.category, centimetres(item)) for item in scene.objects)
    return hashlib.blake2b(repr(rows).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _by_scene(data: Data, groups: dict[str, list[Sample]]) -> Iterator[tuple[str, list[Sample]]]:
    ranges = getattr(data.scenes, "samples_of", None)
    if ranges is not None:
        for scene_id in data.scenes:
            yield scene_id, [data.samples[k] for k in ranges(scene_id)]
        return
    for sample in data.samples:
        groups[sample.scene_id].append(sample)
    yield from groups.items()


def _scene_notes(scene: Scene) -> Iterator[Note]:
    for item in scene.objects:
        where = f"scene {scene.scene_id}: {item.category} {item.object_id}"
        if min(item.extent) == 0:
            yield "flat box", f"{where}: its sides are {_metres(item)} m"
        if max(item.extent) > LONGEST or max(map(abs, item.centroid)) > FARTHEST:
            yield "box larger than a room", f"{where}: sides {_metres(item)} m at {tuple(round(x, 1) for x in item.centroid)}"
    labels: dict[str, list[Object]] = defaultdict(list)
    for item in scene.objects:
        labels[item.category.lower()].append(item)
    for group in labels.values():
        if len(group) > 1:
            bounds = objects_bounds(group)
            for a, b in np.argwhere(np.triu(iou(bounds, bounds) >= SAME, 1)):
                yield (
                    "thing seen twice",
                    f"scene {scene.scene_id}: {group[a].category} {group[a].object_id} and {group[b].object_id}",
                )


def _reach_notes(scene: Scene, truth: Scene, samples: Sequence[Sample]) -> Iterator[Note]:
    named = {item for sample in samples for item in sample.target_ids}
    targets = [item for item in truth.objects if item.object_id in named]
    if not targets:
        return
    best = np.zeros(len(targets))
    if scene.objects:
        best = iou(objects_bounds(targets), objects_bounds(scene.objects)).max(axis=1)
    reached = {item.object_id: value >= REACH for item, value in zip(targets, best, strict=True)}
    for sample in samples:
        lost = [item for item in sample.target_ids if not reached.get(item, True)]
        if lost:
            told = f"sample {sample.sample_id}: no proposal of {scene.scene_id} overlaps target {lost[0]} by {REACH}"
            yield "target that no proposal reaches", told


def _text_notes(samples: Sequence[Sample]) -> Iterator[Note]:
    """One text asked twice in a scene, of which the answers differ, or are the same."""
    seen: dict[tuple[Any, ...], Sample] = {}
    for sample in samples:
        if not sample.text.strip():
            continue
        key = (sample.task, " ".join(plain(sample.text).lower().split()), sample.viewpoint)
        first = seen.setdefault(key, sample)
        if first is not sample and "template" not in sample.meta:
            same = (first.target_ids, first.answer) == (sample.target_ids, sample.answer)
            kind = "text asked twice" if same else "one text, two answers"
            yield kind, f"samples {first.sample_id} and {sample.sample_id} of {sample.scene_id}: {plain(sample.text)[:80]!r}"


def _metres(item: Object) -> str:
    return " x ".join(f"{side:.2f}" for side in item.extent)
