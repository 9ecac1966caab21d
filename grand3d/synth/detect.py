"""What a detector would report of a room: noisy boxes, wrong and doubled labels, misses and inventions, with scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from grand3d import boxes
from grand3d.scene import Object, Scene
from grand3d.synth.vocabulary import KINDS, RELATED

MATCH_IOU = 0.25  # a proposal stands for a true object from this overlap on
GOOD_IOU = 0.5  # among proposals this good, the best scored stands for the object
MIN_SIDE = 0.02  # m
STRAY = (
    "object",
    "box",
    "book",
    "door",
    "doorframe",
    "window",
    "ceiling",
    "trash can",
    "chair",
    "picture",
    "towel",
    "pillow",
    "shelf",
)


def _jitter(rng: Random, item: Object, amount: float) -> tuple[list[float], list[float]]:
    low, high = [], []
    for c, e in zip(item.centroid, item.extent, strict=True):
        spread = amount * (0.09 * e + 0.025)
        a, b = c - e / 2 + rng.gauss(0, spread), c + e / 2 + rng.gauss(0, spread)
        low.append(min(a, b - MIN_SIDE))
        high.append(max(b, a + MIN_SIDE))
    return low, high


def _box(label: str, low: list[float], high: list[float], score: float) -> Object:
    centroid = tuple(round((a + b) / 2, 3) for a, b in zip(low, high, strict=True))
    extent = tuple(round(max(b - a, MIN_SIDE), 3) for a, b in zip(low, high, strict=True))
    return Object("", label, centroid, extent, score=min(1.0, max(0.005, round(score, 3))))  # type: ignore[arg-type]


def _label(rng: Random, name: str, wrong: float) -> str:
    if rng.random() >= wrong:
        return name
    if name in RELATED and rng.random() < 0.75:
        return rng.choice(RELATED[name])
    return rng.choice(("object", "box", "cabinet", "shelf", "table", "chair", "bag", "trash can", "picture", "clothes"))


LIMITS = (5, 8, 11, 14, 18, 22, 26, 31, 31, 31, 36)
"""Proposals kept of a room. Real scenes hold about 31; to find a thing among few is learnt first, and costs less."""


def _score(rng: Random, ease: float) -> float:
    """Most scores lie near 1, the rest trail off; ``ease`` in [0, 1] says how plain the thing is to see."""
    return 1.0 - rng.random() ** 2.2 * (0.12 if rng.random() < 0.25 + 0.6 * ease else 0.98)


def detect(scene: Scene, seed: int, limit: int | None = None) -> tuple[Scene, Mapping[str, str | None]]:
    """Proposals for a room, best score first, and which proposal stands for which true object.

    Args:
        limit: Most proposals kept; drawn from LIMITS when None.

    Returns:
        The proposals (ids ``0``, ``1``, ... in the id space ``synthetic_proposals``) and ``{true id: proposal id or None}``;
        None for objects that no proposal overlaps by MATCH_IOU.
    """
    rng = Random(f"detect {seed} {scene.scene_id}")
    noise = rng.uniform(0.5, 1.5)
    found: list[Object] = []
    for item in scene.objects:
        size = max(item.extent)
        ease = min(1.0, size / 0.9)
        if rng.random() < 0.03 + 0.25 * (1 - ease):
            continue
        amount = noise * rng.choice((0.5, 1, 1, 1.5, 2.5))
        low, high = _jitter(rng, item, amount)
        kind = rng.random()
        if kind < 0.05 and size > 0.7:  # only a part was seen
            axis = max(range(3), key=lambda i: item.extent[i])
            cut = low[axis] + (high[axis] - low[axis]) * rng.uniform(0.35, 0.65)
            if rng.random() < 0.5:
                found.append(_box(item.category, low, [*high[:axis], cut, *high[axis + 1 :]], _score(rng, ease / 2)))
            low[axis] = cut
        elif kind < 0.09:  # two neighbours of one category in one box
            near = [o for o in scene.objects if o is not item and o.category == item.category and _touch(o, item)]
            if near:
                low = [min(a, c - e / 2) for a, c, e in zip(low, near[0].centroid, near[0].extent, strict=True)]
                high = [max(a, c + e / 2) for a, c, e in zip(high, near[0].centroid, near[0].extent, strict=True)]
        name = _label(rng, item.category, 0.07 + 0.1 * (1 - ease))
        score = _score(rng, ease)
        found.append(_box(name, low, high, score))
        if rng.random() < 0.14:  # the same mask again, mostly under a related name
            again = rng.choice(RELATED[name]) if name in RELATED and rng.random() < 0.8 else _label(rng, name, 0.5)
            found.append(_box(again, low, high, score * rng.uniform(0.05, 0.95)))
        elif rng.random() < 0.05:  # and again with another mask
            found.append(_box(name, *_jitter(rng, item, 2.0), score * rng.uniform(0.1, 0.9)))
    found.extend(_strays(rng, scene))
    found.sort(key=lambda o: -(o.score or 0))
    kept = found[: limit if limit is not None else rng.choice(LIMITS)]
    proposals = tuple(Object(str(k), o.category, o.centroid, o.extent, score=o.score) for k, o in enumerate(kept))
    out = Scene(scene.scene_id, proposals, id_space="synthetic_proposals")
    # all pairs at once: a call for each object would take eight times as long
    overlaps = boxes.iou(_bounds(scene), _bounds(out)).tolist()
    return out, {item.object_id: stands_for(item, out, row) for item, row in zip(scene.objects, overlaps, strict=True)}


def _bounds(scene: Scene) -> boxes.Floats:
    return boxes.to_bounds([o.centroid for o in scene.objects], [o.extent for o in scene.objects])


def _touch(a: Object, b: Object) -> bool:
    return all(abs(a.centroid[i] - b.centroid[i]) < (a.extent[i] + b.extent[i]) / 2 + 0.15 for i in range(3))


def _strays(rng: Random, scene: Scene) -> list[Object]:
    strays = []
    for _ in range(rng.choice((0, 1, 1, 2, 3, 4))):
        name = rng.choice(STRAY) if rng.random() < 0.7 else rng.choice(list(KINDS))
        host = rng.choice(scene.objects)
        size = [rng.uniform(0.05, 0.6) for _ in range(3)] if rng.random() < 0.7 else [rng.uniform(0.3, 1.5) for _ in range(3)]
        low = [c + rng.gauss(0, 0.4) - s / 2 for c, s in zip(host.centroid, size, strict=True)]
        strays.append(_box(name, low, [a + s for a, s in zip(low, size, strict=True)], _score(rng, 0.0) * rng.uniform(0.3, 1)))
    return strays


def stands_for(item: Object, proposals: Scene, overlaps: Sequence[float]) -> str | None:
    """The proposal for a true object: the best scored of those with GOOD_IOU, else the best overlapping from MATCH_IOU on."""
    best: tuple[float, str] | None = None
    for proposal, overlap in zip(proposals.objects, overlaps, strict=True):
        if overlap >= GOOD_IOU:
            rank = 10 + (proposal.score or 0) + (0.5 if proposal.category == item.category else 0)
        elif overlap >= MATCH_IOU:
            rank = overlap
        else:
            continue
        if best is None or rank > best[0]:
            best = (rank, proposal.object_id)
    return None if best is None else best[1]
