"""References that fit nothing in the room, or several things: decided by the proposals alone, like those of ``exact``.

What decides must not be close: a thing counts as not near only when it is well away, so that no reader would call the
expression true of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from grand3d import relations as rel
from grand3d.sample import Sample
from grand3d.scene import Object
from grand3d.synth.exact import WORDS, Exact
from grand3d.synth.phrases import Part, finish, render
from grand3d.synth.presence import Presence
from grand3d.synth.view import STRUCTURE
from grand3d.synth.vocabulary import KINDS, plural

RELATIONS = ("on", "under", "above", "near", "supports")
FAR = 1.5
"""Times NEAR_GAP from which on a thing is not near."""
MOST = 5
SMALL = ("top", "seat")
"""Where things lie on others (``vocabulary.Kind.place``)."""
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}
STARTS = ("{}", "{}", "{}", "find {}", "select {}", "choose {}", "I mean {}")


def fitting(name: str, group: Sequence[Object], anchor: Object) -> list[Object] | None:
    """Those of a group that stand in a relation to the anchor; None where one of them is close to doing so."""
    if any(o is anchor for o in group):
        return None
    if name == "near":
        if any(rel.NEAR_GAP < rel.gap(o, anchor) < FAR * rel.NEAR_GAP for o in group):
            return None
        return [o for o in group if rel.near(o, anchor)]
    fits = [o for o in group if getattr(rel, name)(o, anchor)]
    # a box that overlaps the anchor is neither clearly on it nor clearly not
    close = [o for o in group if o not in fits and name in ("on", "supports", "under", "above") and rel.gap(o, anchor) == 0]
    return None if close else fits


def _usual(name: str, label: str, anchor: str) -> bool:
    """Whether things of a label may well stand so to an anchor: an absurd expression fits nothing without a look at the room."""
    where, other = (KINDS[item].place if item in KINDS else "floor" for item in (label, anchor))
    if name == "on":
        return where in SMALL and other not in (*SMALL, "wall", "high")
    if name == "supports":
        return other in SMALL and where not in (*SMALL, "wall", "high")
    return where in (*SMALL, "wall", "high") if name == "above" else name != "under" or where not in ("wall", "high")


def none_fits(clean: Exact, asked: Presence, rng: Random, sample_id: str) -> Sample | None:
    """A reference to what is not there: a category that the room lacks, or a relation that none of its category stands in."""
    if not clean.anchors:
        return None
    anchor, ways = rng.choice(clean.anchors), rng.sample(RELATIONS, len(RELATIONS))
    if rng.random() < 0.5:
        label, why = asked.absent(rng), "absent"
        name = "only" if rng.random() < 0.25 else next(way for way in ways if _usual(way, label, anchor.category))
    else:
        labels = sorted({o.category for o in clean.usable} - {anchor.category})
        if not labels:
            return None
        label, why = rng.choice(labels), "relation"
        name = next(way for way in ways if _usual(way, label, anchor.category))
        if fitting(name, clean.groups[label], anchor) != []:
            return None
    anchors = [] if name == "only" else [anchor]
    parts = [(f"the {label}", ()), *_where(rng, name, anchors)]
    return _sample(clean, rng, sample_id, parts, (), {"targets": "none", "why": why}, label, name, anchors)


def several_fit(clean: Exact, rng: Random, sample_id: str) -> Sample | None:
    """A reference to two to five things: all of a category, or those of it that stand in a relation."""
    labels = sorted(label for label, group in clean.groups.items() if len(group) > 1 and label not in STRUCTURE)
    if not labels:
        return None
    label = rng.choice(labels)
    group, anchors, name = clean.groups[label], [], "only"
    fits: Sequence[Object] = group
    if rng.random() < 0.7:
        # several things seldom carry one, so "supports" is not among these
        ways = [(way, o) for o in rng.sample(clean.anchors, min(8, len(clean.anchors))) for way in RELATIONS[:4]]
        rng.shuffle(ways)
        found = ((way, o, fitting(way, group, o)) for way, o in ways)
        name, anchor, fits = next((row for row in found if row[2] and 2 <= len(row[2]) <= MOST), (name, None, group))
        anchors = [] if anchor is None else [anchor]
    if len(fits) > MOST:
        return None
    words = [f"the {NUMBERS[len(fits)]} {plural(label)}", f"the {plural(label)}", f"all the {plural(label)}"]
    if len(fits) == 2:
        words.append(f"both {plural(label)}")
    ids = tuple(o.object_id for o in fits)
    parts = [(rng.choice(words), ids), *_where(rng, name, anchors)]
    return _sample(clean, rng, sample_id, parts, ids, {"targets": "several"}, label, name, anchors)


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
