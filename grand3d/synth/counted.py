"""References that fit nothing in the room, or several things: decided by the proposals alone, like those of ``exact``.

What decides must not be close: whatever does not fit is well away from fitting, so that no reader would call the expression
true of it. That goes for things of another label too, where a reader may call them by the one that is said (``alike``): while
a coffee table stands by the window, "the table by the window" does not fit nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from grand3d import boxes
from grand3d import relations as rel
from grand3d.sample import Sample
from grand3d.scene import Object
from grand3d.synth.exact import WORDS, Exact
from grand3d.synth.phrases import Part, finish, render
from grand3d.synth.presence import Presence
from grand3d.synth.view import STRUCTURE
from grand3d.synth.vocabulary import KINDS, Range, alike, plural

PLACES = ("on", "under", "above", "near")
RELATIONS = (*PLACES, "supports", "taller", "larger")
FAR = 1.5
"""Times NEAR_GAP from which on a thing is not near."""
ASIDE = 0.3  # m between footprints from which on neither thing is over the other
SAME_IOU = 0.25  # two boxes that overlap so much may be one thing seen twice, which nobody can count
MOST = 5
SMALL = ("top", "seat")
"""Where things lie on others (``vocabulary.Kind.place``)."""
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}
STARTS = ("{}", "{}", "{}", "find {}", "select {}", "choose {}", "I mean {}")


def close(name: str, item: Object, anchor: Object) -> bool:
    """Whether a thing stands in a relation to the anchor or nearly so; true wherever the relation holds."""
    if name == "near":
        return rel.gap(item, anchor) < FAR * rel.NEAR_GAP
    if name in ("taller", "larger"):
        return not getattr(rel, name)(anchor, item)
    upper, lower = (item, anchor) if name in ("on", "above") else (anchor, item)
    return rel.floor_gap(item, anchor) < ASIDE and upper.centroid[2] > lower.centroid[2]


def fitting(clean: Exact, label: str, name: str, anchor: Object | None) -> list[Object] | None:
    """Things of a label in a relation to the anchor, all there are for ``only``; None where it is not plain which those are."""
    group = clean.groups.get(label, [])
    others = [o for o in _alike(clean, label) if not any(o is own for own in group)]
    if anchor is None:
        return None if others else group
    if any(o is anchor for o in group):
        return None
    fits = [o for o in group if getattr(rel, name)(o, anchor)]
    rest = [o for o in (*group, *others) if o is not anchor and not any(o is own for own in fits)]
    return None if any(close(name, o, anchor) for o in rest) else fits


def _alike(clean: Exact, label: str) -> list[Object]:
    """Things of other labels that a reader may call by this one."""
    return [o for other, group in clean.groups.items() if other != label and alike(other, label) for o in group]


def _anchors(clean: Exact) -> list[Object]:
    """Things that a reader finds by their label alone."""
    return [o for o in clean.anchors if all(other is o for other in _alike(clean, o.category))]


def _usual(name: str, label: str, anchor: str) -> bool:
    """Whether things of a label may well stand so to an anchor: an absurd expression fits nothing without a look at the room."""
    if name in ("taller", "larger"):
        return label in KINDS and anchor in KINDS and _overlap(*(_sizes(item, name) for item in (label, anchor)))
    where, other = (KINDS[item].place if item in KINDS else "floor" for item in (label, anchor))
    if name == "on":
        return where in SMALL and other not in (*SMALL, "wall", "high")
    if name == "supports":
        return other in SMALL and where not in (*SMALL, "wall", "high")
    return where in (*SMALL, "wall", "high") if name == "above" else name != "under" or where not in ("wall", "high")


def _sizes(label: str, name: str) -> Range:
    """The usual heights, or volumes, of a category."""
    long, short, height = KINDS[label].size
    return height if name == "taller" else (long[0] * short[0] * height[0], long[1] * short[1] * height[1])


def _overlap(a: Range, b: Range) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def none_fits(clean: Exact, asked: Presence, rng: Random, sample_id: str) -> Sample | None:
    """A reference to what is not there: a category that the room lacks, or a relation that none of its category stands in."""
    plain = _anchors(clean)
    if not plain:
        return None
    anchor, ways = rng.choice(plain), rng.sample(RELATIONS, len(RELATIONS))
    if rng.random() < 0.5:
        label, why = asked.absent(rng), "absent"
    else:
        labels = sorted({o.category for o in clean.usable} - {anchor.category})
        if not labels:
            return None
        label, why = rng.choice(labels), "relation"
    if why == "absent" and rng.random() < 0.25:
        name, anchors = "only", []
    else:
        name, anchors = next(way for way in ways if _usual(way, label, anchor.category)), [anchor]
    if fitting(clean, label, name, anchors[0] if anchors else None) != []:
        return None
    parts = [(f"the {label}", ()), *_where(rng, name, anchors)]
    return _sample(clean, rng, sample_id, parts, (), {"targets": "none", "why": why}, label, name, anchors)


def several_fit(clean: Exact, rng: Random, sample_id: str) -> Sample | None:
    """A reference to two to five things: all of a category, or those of it that stand in a relation."""
    labels = sorted(label for label, group in clean.groups.items() if len(group) > 1 and label not in STRUCTURE)
    if not labels:
        return None
    label, name, anchors = rng.choice(labels), "only", []
    fits = None
    if rng.random() < 0.7:
        # what stands on, under or over one thing is seldom several, so these ways are tried first
        plain = _anchors(clean)
        ways = [[(way, o) for o in plain for way in some] for some in (PLACES[:3], (*PLACES[3:], "taller", "larger"))]
        ways = [pair for some in ways for pair in rng.sample(some, len(some))]
        found = ((way, o, fitting(clean, label, way, o)) for way, o in ways if _usual(way, label, o.category))
        name, anchor, fits = next((row for row in found if row[2] and 2 <= len(row[2]) <= MOST), (name, None, None))
        anchors = [] if anchor is None else [anchor]
    if not anchors:
        fits = fitting(clean, label, "only", None)
    if not fits or len(fits) > MOST or _doubles(fits):
        return None
    words = [f"the {NUMBERS[len(fits)]} {plural(label)}", f"the {plural(label)}", f"all the {plural(label)}"]
    if len(fits) == 2:
        words.append(f"both {plural(label)}")
    ids = tuple(o.object_id for o in fits)
    parts = [(rng.choice(words), ids), *_where(rng, name, anchors)]
    return _sample(clean, rng, sample_id, parts, ids, {"targets": "several"}, label, name, anchors)


def _doubles(items: Sequence[Object]) -> bool:
    """Whether two boxes overlap so much that they may be one thing."""
    bounds = boxes.objects_bounds(items)
    return bool((boxes.iou(bounds, bounds) >= SAME_IOU).sum() > len(items))


def _where(rng: Random, name: str, anchors: Sequence[Object]) -> list[Part]:
    out: list[Part] = [rng.choice(WORDS[name]), *((f"the {o.category}", (o.object_id,)) for o in anchors)]
    return [*out, rng.choice(("on it", "on top"))] if name == "supports" else out


def _sample(
    clean: Exact,
    rng: Random,
    sample_id: str,
    parts: Sequence[Part],
    target_ids: tuple[str, ...],
    meta: dict[str, str],
    label: str,
    name: str,
    anchors: Sequence[Object],
) -> Sample:
    start = rng.choice(STARTS).partition("{}")[0].strip()
    text, _ = render([start, *parts, rng.choice(("", "", "."))])
    about = {"strict": True, "label": label, "relation": name, "anchors": [o.object_id for o in anchors]} | meta
    text = finish(rng, text, rng.random() < 0.7)
    return Sample(sample_id, clean.scene_id, "object_reference", text, "", target_ids, meta=about)
