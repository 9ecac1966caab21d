"""Cues: the ways a speaker says where a thing is, each true of the room and with the number of look-alikes it leaves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from grand3d import relations as rel
from grand3d.scene import Object
from grand3d.synth.phrases import ROOMS, Part, many, spoken
from grand3d.synth.view import STRUCTURE, Cue, View, anchors
from grand3d.synth.vocabulary import plural

# How often people use a kind of cue, beside how well it tells things apart.
HABIT = {
    "left": 3.4, "right": 3.4, "near": 3.2, "order": 3.0, "on": 4.5, "on left": 1.5, "on right": 1.5, "under": 4.5, "above": 4.5,
    "between": 1.2, "nearest": 1.8, "farthest": 0.4, "corner": 5.0, "middle": 5.0, "wall": 4.0, "room side": 4.0, "largest": 0.4,
    "smallest": 0.2, "tallest": 0.3, "front": 3.6, "behind": 2.0, "supports": 1.4, "around": 1.6, "facing": 1.8, "floor": 0.7,
    "near side": 1.8, "at end": 2.6, "beside same": 0.9, "between same": 0.7,
}  # fmt: skip
NUMBERS = ("first", "second", "third", "fourth", "fifth")


def _rivals(others: Sequence[Object], test: Callable[[Object], bool]) -> int:
    return sum(test(other) for other in others)


def cues(view: View, target: Object, others: Sequence[Object]) -> list[Cue]:
    """Cues that are true of the target; ``others`` are the things that would be called the same."""
    rng, out = view.rng, []
    near = anchors(view, target)
    for anchor in near:
        out.extend(_pair(view, target, anchor, others))
    if len(near) >= 2:
        for i, a in enumerate(near[:4]):
            for b in near[i + 1 : 5]:
                if rel.between(target, a, b) and rel.floor_distance(a, b) < 4:
                    rivals = _rivals(others, lambda o, a=a, b=b: rel.between(o, a, b))
                    word = rng.choice(("between", "between", "in between"))
                    if a.category == b.category:
                        parts: tuple[Part, ...] = (word, (f"the {many(rng, spoken(rng, a.category), 2)}", view.ids(a, b)))
                    else:
                        parts = (word, view.phrase(a), "and", view.phrase(b))
                    out.append(Cue("between", parts, rivals))
    out.extend(_around(view, target, others))
    out.extend(_among(view, target, others, near))
    out.extend(_in_room(view, target, others))
    return out


def _pair(view: View, target: Object, anchor: Object, others: Sequence[Object]) -> list[Cue]:
    rng, out = view.rng, []

    def add(name: str, words: Sequence[str], test: Callable[[Object], bool]) -> None:
        out.append(Cue(name, (rng.choice(words), view.phrase(anchor), view.where(anchor)), _rivals(others, test)))

    if rel.on(target, anchor):
        add(
            "on",
            ("on", "on", "on top of", "sitting on", "sitting on top of", "placed on", "atop", "resting on"),
            lambda o: rel.on(o, anchor),
        )
        side = rel.side_of(target, anchor, view.viewpoint)
        if side in ("left", "right") and rng.random() < 0.5:
            words = (f"on the {side} side of", f"on the {side} of", f"at the {side} end of")
            add("on " + side, words, lambda o: rel.on(o, anchor) and rel.side_of(o, anchor, view.viewpoint) == side)
        return out
    if rel.on(anchor, target):
        words = view.phrase(anchor, kind="a")
        out.append(
            Cue(
                "supports",
                (rng.choice(("the one with", "the one holding")), words, rng.choice(("on it", "on top", "on top of it"))),
                _rivals(others, lambda o: rel.on(anchor, o)),
            )
        )
        return out
    if rel.under(target, anchor):
        add("under", ("under", "under", "underneath", "below", "beneath", "directly under"), lambda o: rel.under(o, anchor))
        return out
    if rel.above(target, anchor):
        add("above", ("above", "above", "over", "directly above", "hanging above"), lambda o: rel.above(o, anchor))
        return out
    gap = rel.gap(target, anchor)
    if gap <= rel.NEAR_GAP:
        words = (
            "next to",
            "next to",
            "next to",
            "beside",
            "near",
            "by",
            "close to",
            "right next to",
            "adjacent to",
            "directly next to",
        )
        add("near", words, lambda o: rel.near(o, anchor))
        if target.category.endswith(("chair", "stool")) and anchor.category.endswith(("table", "desk", "counter")):
            out.extend(_at_table(view, target, anchor, others))
    if gap < 2.5:
        if target.category.endswith(("chair", "couch", "bed", "monitor", "tv")) and gap > 0.2:
            add("facing", ("facing", "facing", "facing towards", "looking at"), lambda o: rel.gap(o, anchor) < 1.5)
        side = rel.side_of(target, anchor, view.viewpoint)
        if side in ("left", "right"):
            words = (f"to the {side} of",) * 6 + (
                f"on the {side} of",
                f"{side} of",
                f"on the {side} side of",
                f"directly to the {side} of",
            )
            for _ in range(2):
                add(side, words, lambda o: rel.gap(o, anchor) < 1.5 and rel.side_of(o, anchor, view.viewpoint) == side)
        elif side == "front":
            add(
                side,
                ("in front of", "in front of", "in front of", "across from", "facing", "opposite"),
                lambda o: rel.gap(o, anchor) < 1.5 and rel.side_of(o, anchor, view.viewpoint) == side,
            )
        elif side == "behind":
            add(
                side,
                ("behind", "behind", "in back of"),
                lambda o: rel.gap(o, anchor) < 1.5 and rel.side_of(o, anchor, view.viewpoint) == side,
            )
    return out


def _at_table(view: View, target: Object, table: Object, others: Sequence[Object]) -> list[Cue]:
    """How a chair stands at a table."""
    rng = view.rng
    words = (
        "at",
        "at",
        "at",
        "in front of",
        "pushed up to",
        "pulled up to",
        "tucked under",
        "pushed under",
        "pushed into",
        "under",
        "around",
        "pulled out from",
        "slightly pulled out from",
        "facing",
        "tucked into",
        "sitting at",
        "partially underneath",
    )
    out = [Cue("near", (rng.choice(words), view.phrase(table)), _rivals(others, lambda o: rel.near(o, table)))]
    long = 0 if table.extent[0] >= table.extent[1] else 1

    def at_end(o: Object) -> bool:
        return rel.near(o, table) and abs(o.centroid[long] - table.centroid[long]) > table.extent[long] / 2

    if at_end(target) and max(table.extent[:2]) > 1.25 * min(table.extent[:2]):
        words = ("at the end of", "at the end of", "at the head of", "at the short end of", "at one end of")
        out.append(Cue("at end", (rng.choice(words), view.phrase(table)), _rivals(others, at_end)))
    side = rel.side_of(target, table, view.viewpoint)
    spot = {"left": "left", "right": "right", "front": "near", "behind": "far"}.get(side or "", "long")
    words = (
        f"on the {spot} side of",
        f"at the {spot} side of",
        f"at the {spot} end of",
        f"on the {spot} of" if spot in ("left", "right") else "across",
    )
    out.append(
        Cue(
            "near side",
            (rng.choice(words), view.phrase(table)),
            _rivals(others, lambda o: rel.near(o, table) and rel.side_of(o, table, view.viewpoint) == side),
        )
    )
    return out


def _around(view: View, target: Object, others: Sequence[Object]) -> list[Cue]:
    """Things of one category that stand about the target: chairs at a table."""
    rng, out = view.rng, []
    by_name: dict[str, list[Object]] = {}
    for o in view.objects:
        if o is not target and o.category not in STRUCTURE and o.category != target.category and rel.gap(o, target) < 0.6:
            by_name.setdefault(o.category, []).append(o)
    for name, group in by_name.items():
        if len(group) < 2:
            continue
        phrase = (many(rng, name, len(group)), view.ids(*group))
        rivals = _rivals(others, lambda o, group=group: sum(rel.gap(g, o) < 0.6 for g in group) >= 2)
        if name.endswith(("chair", "stool")) and len(group) > 2:
            phrase = (rng.choice((plural(name), phrase[0], f"many {plural(name)}")), phrase[1])
            out.append(Cue("around", (rng.choice(("surrounded by", "surrounded by", "the one surrounded by")), phrase), rivals))
        else:
            where = (
                rng.choice(("on it", "on top of it"))
                if rel.on(group[0], target)
                else rng.choice(("next to it", "around it", "near it"))
            )
            out.append(Cue("around", (rng.choice(("the one with", "with")), phrase, where), rivals))
    return out


def _among(view: View, target: Object, others: Sequence[Object], near: Sequence[Object]) -> list[Cue]:
    """Cues that set the target against its look-alikes."""
    rng, out = view.rng, []
    if not others:
        return out
    group = [target, *others]
    name = rng.choice(("one", "one", spoken(rng, target.category)))
    far = [o for o in view.objects if o.category not in STRUCTURE and o.category != target.category]
    for anchor in [*near[:4], *rng.sample(far, min(3, len(far)))]:
        if rel.nearest(group, anchor) is target:
            words = rng.choice(("closest to", "closest to", "closest to", "nearest to", "nearest"))
            out.append(Cue("nearest", (f"the {name} {words}", view.phrase(anchor, kind="the")), 0))
        elif rel.farthest(group, anchor) is target:
            words = rng.choice(("farthest from", "furthest from", "farthest away from", "furthest away from"))
            out.append(Cue("farthest", (f"the {name} {words}", view.phrase(anchor, kind="the")), 0))
    if len(group) <= 9:
        order = rel.order_from(group, view.viewpoint)
        k = next(i for i, o in enumerate(order) if o is target)
        side, k = ("left", k) if k < len(order) / 2 else ("right", len(order) - 1 - k)
        if k == 0 and len(group) == 2:
            out.append(Cue("order", (rng.choice((f"the {name} on the {side}", f"on the {side}", f"the {side} {name}")),), 0))
        elif k == 0:
            words = (
                f"the {side}most {name}",
                f"the {side} - most {name}",
                f"the {name} on the far {side}",
                f"the {name} furthest to the {side}",
                f"the first {name} from the {side}",
                f"the {name} to the far {side}",
                f"the last {name} on the {side}",
            )
            out.append(Cue("order", (rng.choice(words),), 0))
        elif k < 5:
            if len(group) == 3 and k == 1:
                out.append(
                    Cue(
                        "order",
                        (rng.choice((f"the middle {name}", f"the {name} in the middle", "in the middle of the three")),),
                        0,
                    )
                )
            else:
                out.append(Cue("order", (f"the {NUMBERS[k]} {name} from the {side}",), 0))
    beside = [o for o in others if rel.floor_gap(o, target) < 1.0 and abs(o.centroid[2] - target.centroid[2]) < 0.6]
    beside = [o for o in beside if view.ids(o) != view.ids(target)]
    if beside:
        other = min(beside, key=lambda o: rel.floor_gap(o, target))
        side = rel.side_of(target, other, view.viewpoint)
        words = "next to" if side not in ("left", "right") else f"to the {side} of"
        out.append(
            Cue("beside same", (words, (f"another {spoken(rng, other.category)}", view.ids(other))), max(0, len(others) - 1))
        )
        if len(beside) >= 2:
            out.append(
                Cue(
                    "between same",
                    ("between", (many(rng, f"{rng.choice(('', 'other '))}{target.category}", 2), view.ids(*beside[:2]))),
                    len(others) // 2,
                )
            )
    for word, winner in (("largest", rel.largest(group)), ("smallest", rel.smallest(group)), ("tallest", rel.tallest(group))):
        if winner is target:
            words = {
                "largest": ("largest", "biggest", "larger"),
                "smallest": ("smallest", "smaller"),
                "tallest": ("tallest", "taller"),
            }[word]
            out.append(Cue(word, (f"the {rng.choice(words)} {name}",), 0))
    return out


def _in_room(view: View, target: Object, others: Sequence[Object]) -> list[Cue]:
    rng, out, bounds = view.rng, [], view.bounds
    room = rng.choice(ROOMS)
    if rel.in_corner(target, bounds):
        compass = rng.choice(
            (
                "northwest",
                "northeast",
                "southwest",
                "southeast",
                "far right",
                "far left",
                "back left",
                "front right",
                "back",
                "far",
            )
        )
        words = (
            f"in the {compass} corner of the {room}",
            f"in the corner of the {room}",
            "in the corner",
            "in a corner",
            f"in the corner of the {room}",
        )
        out.append(Cue("corner", (rng.choice(words),), _rivals(others, lambda o: rel.in_corner(o, bounds))))
    if rel.in_middle(target, bounds):
        words = (f"in the middle of the {room}", f"in the center of the {room}", f"at the center of the {room}")
        out.append(Cue("middle", (rng.choice(words),), _rivals(others, lambda o: rel.in_middle(o, bounds))))
    if rel.against_wall(target, bounds):
        if target.centroid[2] > 1.0 and target.extent[2] < 1.5:
            out.append(
                Cue(
                    "wall",
                    (
                        rng.choice(
                            (
                                "on the wall",
                                "hanging on the wall",
                                "mounted on the wall",
                                "attached to the wall",
                                "high on the wall",
                            )
                        ),
                    ),
                    len(others),
                )
            )
        words = (
            "against the wall",
            "against the wall",
            "on the wall",
            "along the wall",
            "next to the wall",
            "up against the wall",
            "by the wall",
            "on the far wall",
            "against the back wall",
            f"on the wall of the {room}",
        )
        out.append(Cue("wall", (rng.choice(words),), _rivals(others, lambda o: rel.against_wall(o, bounds))))
    middle = ((bounds[0] + bounds[2]) / 2, (bounds[1] + bounds[3]) / 2)
    right, forward = rel.bearing(view.viewpoint, middle, target)
    reach = math.hypot(middle[0] - view.viewpoint[0], middle[1] - view.viewpoint[1])
    if abs(right) > 0.7 and reach > 0.5:
        side = "right" if right > 0 else "left"
        words = (
            f"on the {side} side of the {room}",
            f"on the {side}",
            f"on the {side} side",
            f"to the {side}",
            f"on your {side} as you enter the {room}",
        )
        out.append(Cue("room side", (rng.choice(words),), len(others) // 2))
    elif abs(forward - reach) > 1.0 and reach > 0.5:
        words = ("back", "far end") if forward > reach else ("front", "near side")
        out.append(
            Cue("room side", (rng.choice(("in the", "at the")) + f" {rng.choice(words)} of the {room}",), len(others) // 2)
        )
    if target.centroid[2] < 0.5 and rng.random() < 0.15:
        out.append(Cue("floor", (rng.choice(("on the floor", "sitting on the floor", "on the ground")),), len(others)))
    return out


def pick(view: View, found: Sequence[Cue], taken: Sequence[Cue] = ()) -> Cue | None:
    """One cue, sooner one that leaves few look-alikes and is not of a kind already used."""
    used = {cue.name for cue in taken}
    said = {p for cue in taken for part in cue.parts if not isinstance(part, str) for p in part[1]}
    rows = [c for c in found if c.name not in used and not any(not isinstance(p, str) and set(p[1]) & said for p in c.parts)]
    if not rows:
        return None
    kinds: dict[str, list[Cue]] = {}
    for cue in rows:
        kinds.setdefault(cue.name, []).append(cue)
    names = list(kinds)
    weights = [HABIT.get(n, 1.0) / (0.8 + min(c.rivals for c in kinds[n])) ** 0.6 for n in names]
    name = view.rng.choices(names, weights)[0]
    return view.rng.choices(kinds[name], [1.0 / (0.6 + c.rivals) for c in kinds[name]])[0]
