"""Where a thing may be put on a table: what an instruction asks for, and which places do as it says.

ReRef-3D's task (its code and data are not public). What its paper leaves open is a field of ``PlacementRules``. Units are
CLEVR's; a thing stands on the table, so that a place is (x, y) and its height the thing's radius.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grand3d import markup
from grand3d import relations as rel
from grand3d.errors import GrandError, shown
from grand3d.files import field, refuse_unknown
from grand3d.places import STEP, Mask, Points, grid, place_text
from grand3d.programs import INVALID, RELATE_EPS, SIDES, Node, Table, attribute, num_hops, run
from grand3d.scene import Object

NUM_ANCHORS = {
    **dict.fromkeys(SIDES, 1),
    **{f"{side}_adjacent": 1 for side in SIDES},
    **{"near": 1, "aligned": 1, "nearest": 1, "farthest": 1, "between": 2, "centre": 0, "edge": 0, "corner": 0},
}
"""The 16 families, and how many anchors each names. The paper counts 16 and does not list them all: this list is ours."""
FAMILIES = tuple(NUM_ANCHORS)
DEPTHS = ("direct", "one-hop", "two-hop")


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """What ReRef-3D's paper leaves open, with the values proposed here; lengths in CLEVR's units.

    Attributes:
        relax: How much wider every relation but ``between`` is taken: 1 is strict, 1.5 the paper's main figure.
        side_eps: Left, right, front, behind: how far beyond the anchor, more than; divided by ``relax``.
        side_angle: and degrees off that direction at most; times ``relax``.
        near_gap: ``near`` and ``*_adjacent``: gap between the two discs at most; times ``relax``.
        align_off: ``aligned``: how far x or y may differ from the anchor's; times ``relax``.
        between_off: ``between``: how far off the line between the anchors, in radii of the smaller one; never relaxed.
        centre_reach: ``centre``: distance from the middle of the table at most; times ``relax``.
        edge_reach: ``edge``: x or y this far out at least, ``corner``: both; divided by ``relax``.
        half_side: The table: x and y from minus this to this.
        whole_inside: Whether all of the disc must be on the table, not just its centre.
        min_gap: Gap to every other disc at least, for a place to be free; CLEVR's own scenes keep 0.25.

    ``nearest`` and ``farthest`` hold the distance to the anchor against that of all other things: at most ``relax`` times their
    least, at least their greatest divided by ``relax``.
    """

    relax: float = 1.0
    side_eps: float = RELATE_EPS
    side_angle: float = 45.0
    near_gap: float = 0.5
    align_off: float = 0.3
    between_off: float = 0.5
    centre_reach: float = 1.0
    edge_reach: float = 2.0
    half_side: float = 3.0
    whole_inside: bool = False
    min_gap: float = 0.0


STRICT = PlacementRules()
RELAXED = PlacementRules(relax=1.5)
ROUNDING = 1e-9  # a disc that touches another overlaps it by no more than this
NEW = "new"
"""Id of a thing that is not on the table yet."""


@dataclass(frozen=True, slots=True)
class Program:
    """An instruction in its exact form.

    Attributes:
        family: One of FAMILIES.
        target: Program that gives the thing to be moved; empty where a new thing is put down.
        anchors: Programs that give what it is placed by, as many as NUM_ANCHORS says.
        radius: Of a new thing.
    """

    family: str
    target: tuple[Node, ...] = ()
    anchors: tuple[tuple[Node, ...], ...] = ()
    radius: float | None = None


@dataclass(frozen=True, slots=True)
class Placing:
    """An instruction about one table: the thing, its anchors, and all that stays on the table, the thing's old place free."""

    family: str
    thing: Object
    anchors: tuple[Object, ...]
    others: tuple[Object, ...]
    forward: rel.Point


def program_to_dict(program: Program) -> dict[str, Any]:
    """The JSON form: family, target, anchors, radius; empty fields are left out."""
    row: dict[str, Any] = {"family": program.family}
    if program.target:
        row["target"] = [dict(node) for node in program.target]
    if program.anchors:
        row["anchors"] = [[dict(node) for node in nodes] for nodes in program.anchors]
    return row if program.radius is None else row | {"radius": program.radius}


def program_from_dict(row: Any) -> Program:
    """Read and check the JSON form; nodes are checked by ``resolve``.

    Raises:
        GrandError: If it is none.
    """
    if not isinstance(row, dict):
        raise GrandError(f"program is {shown(row)}, expected an object with family, target and anchors", "bad program")
    refuse_unknown(row, ("family", "target", "anchors", "radius"), "program")
    family = field(row, "family", str, "program")
    if family not in NUM_ANCHORS:
        raise GrandError(f"program: family is {shown(family)}, expected one of {', '.join(FAMILIES)}", "bad program")
    target, anchors = field(row, "target", list, "program", []), field(row, "anchors", list, "program", [])
    if len(anchors) != NUM_ANCHORS[family]:
        raise GrandError(f"program: {family} has {len(anchors)} anchors, expected {NUM_ANCHORS[family]}", "bad program")
    for nodes in (target, *anchors):
        if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
            raise GrandError(f"program: {shown(nodes)} is no chain, expected a list of nodes", "bad program")
    radius = field(row, "radius", float, "program", None)
    if bool(target) == (radius is not None):
        raise GrandError("program: expected either target, a thing to move, or radius, that of a new one", "bad program")
    if radius is not None and radius <= 0:
        raise GrandError(f"program: radius is {shown(radius)}, expected more than 0", "bad program")
    return Program(family, tuple(target), tuple(map(tuple, anchors)), radius)


def _references(program: Program) -> tuple[tuple[Node, ...], ...]:
    """What makes an instruction hard to follow: its anchors, or the target of one that names none."""
    return program.anchors or ((program.target,) if program.target else ())


def depth(program: Program) -> str:
    """How far its anchors (without any: its target) are named by other things: ``direct``, ``one-hop``, ``two-hop`` (or further),
    or ``none`` where it names nothing."""
    hops = [num_hops(nodes) for nodes in _references(program)]
    return DEPTHS[min(max(hops), 2)] if hops else "none"


def is_ordinal(program: Program) -> bool:
    """Whether an anchor (without any: the target) is named by counting, such as the second from the left."""
    return any(node.get("type", node.get("function")) == "ordinal" for nodes in _references(program) for node in nodes)


def resolve(program: Program, table: Table) -> Placing:
    """Find the things that a program speaks of.

    Raises:
        GrandError: If one is not exactly one object of the table, or an anchor is the thing itself or another anchor.
    """

    def one(nodes: Sequence[Node], what: str) -> Object:
        found = run(list(nodes), table)
        if found == INVALID:
            raise GrandError(f"program: {what} fits no or several objects, expected exactly one", "not unique")
        if not isinstance(found, Object):
            raise GrandError(f"program: {what} gives {shown(found)}, expected an object; end it with unique", "bad program")
        return found

    target = one(program.target, "the target") if program.target else None
    anchors = tuple(one(nodes, f"anchor {number}") for number, nodes in enumerate(program.anchors, 1))
    if len({id(item) for item in (target, *anchors)}) <= len(anchors):
        raise GrandError("program: it names one object twice, expected a target and anchors that differ", "bad program")
    side = 2 * (program.radius or 0.0)
    thing = target or Object(NEW, "thing", (0.0, 0.0, side / 2), (side, side, side))
    return Placing(program.family, thing, anchors, tuple(item for item in table.objects if item is not target), table.forward)


def answer(placing: Placing, point: Sequence[float]) -> str:
    """What is learnt: the thing and its anchors, each with its object, then the place."""
    named = placing.anchors if placing.thing.object_id == NEW else (placing.thing, *placing.anchors)
    spans = [markup.span(item.category, (item.object_id,)) for item in named]
    return " ".join([*spans, place_text((*point[:2], rel.radius(placing.thing)))])


def put(placing: Placing, point: Sequence[float]) -> Object:
    """The thing with its centre over (x, y), standing on the table; any z of the point is passed over."""
    return replace(placing.thing, centroid=(float(point[0]), float(point[1]), rel.radius(placing.thing)))


def satisfied(placing: Placing, point: Sequence[float], rules: PlacementRules = STRICT) -> bool:
    """Whether the thing stands as the instruction asks once its centre is over (x, y)."""
    return bool(holds_at(placing, np.array([point[:2]], float), rules)[0])


def holds_at(placing: Placing, points: Points, rules: PlacementRules = STRICT) -> Mask:
    """``satisfied`` for many points at once, (n, 2) -> (n,)."""
    return _HOLDS[placing.family](points, placing, rules)


def fault(placing: Placing, point: Sequence[float], rules: PlacementRules = STRICT) -> str:
    """Why the thing cannot stand there: ``out of bounds``, ``overlap``, or nothing. ``rules.relax`` has no part in it."""
    points = np.array([point[:2]], float)
    if not _inside(placing.thing, points, rules)[0]:
        return "out of bounds"
    return "" if _apart(placing.thing, placing.others, points, rules)[0] else "overlap"


def free_at(thing: Object, others: Sequence[Object], points: Points, rules: PlacementRules = STRICT) -> Mask:
    """Where a thing can stand among others that stay, (n, 2) -> (n,): on the table, and clear of them all."""
    return _inside(thing, points, rules) & _apart(thing, others, points, rules)


def free_columns(
    thing: Object, others: Sequence[Object], rules: PlacementRules = STRICT, step: float = STEP
) -> list[tuple[float, list[tuple[float, float]]]]:
    """Where a thing can stand among others that stay: for each x of the grid, the closed intervals of y, exactly."""
    limit = rules.half_side - (rel.radius(thing) if rules.whole_inside else 0.0)
    out = []
    for x in np.unique(grid(rules.half_side, step)[:, 0]):
        if abs(x) > limit + ROUNDING:
            continue
        blocked = []
        for other in others:
            reach = rel.radius(thing) + rel.radius(other) + rules.min_gap
            aside = abs(float(x) - other.centroid[0])
            if aside < reach - ROUNDING:
                half = math.sqrt(reach * reach - aside * aside)
                blocked.append((other.centroid[1] - half, other.centroid[1] + half))
        free, low = [], -limit
        for start, end in sorted(blocked):
            if start >= low:
                free.append((low, min(start, limit)))
            low = max(low, end)
        if low <= limit:
            free.append((low, limit))
        out.append((float(x), [(a, b) for a, b in free if a <= b]))
    return out


def _inside(thing: Object, points: Points, rules: PlacementRules) -> Mask:
    limit = rules.half_side - (rel.radius(thing) if rules.whole_inside else 0.0) + ROUNDING
    return np.abs(points).max(axis=1) <= limit


def _apart(thing: Object, others: Sequence[Object], points: Points, rules: PlacementRules) -> Mask:
    if not others:
        return np.ones(len(points), bool)
    reach = np.array([rel.radius(other) + rel.radius(thing) for other in others])
    return (_distances(points, others) - reach >= rules.min_gap - ROUNDING).all(axis=1)


def _distances(points: Points, items: Sequence[Object]) -> Points:
    """Units from each point to the centre of each object, (n, objects)."""
    offset = points[:, None] - np.array([item.centroid[:2] for item in items])[None]
    return np.hypot(offset[..., 0], offset[..., 1])


def mistaken(placing: Placing, point: Sequence[float], rules: PlacementRules = STRICT) -> bool:
    """Whether the place would be right had one anchor been another object of its shape."""
    for number, anchor in enumerate(placing.anchors):
        for other in placing.others:
            if other not in placing.anchors and attribute(other, "shape") == attribute(anchor, "shape"):
                anchors = (*placing.anchors[:number], other, *placing.anchors[number + 1 :])
                if satisfied(replace(placing, anchors=anchors), point, rules):
                    return True
    return False


def feasible(placing: Placing, rules: PlacementRules = STRICT, step: float = STEP) -> Points:
    """The points of ``grid`` where the thing can stand and stands as asked, (n, 2)."""
    points = grid(rules.half_side, step)
    return points[holds_at(placing, points, rules) & free_at(placing.thing, placing.others, points, rules)]


_Holds = Callable[[Points, Placing, PlacementRules], Mask]


def _side(side: str) -> _Holds:
    def holds(points: Points, placing: Placing, rules: PlacementRules) -> Mask:
        ways = rel.directions(placing.forward)
        offset = points - np.array(placing.anchors[0].centroid[:2])
        along = offset @ np.array(ways[side])
        aside = np.abs(offset @ np.array(ways["behind" if side in ("left", "right") else "right"]))
        angle = np.degrees(np.arctan2(aside, along))
        return (along > rules.side_eps / rules.relax) & (angle <= min(180.0, rules.side_angle * rules.relax) + ROUNDING)

    return holds


def _near(points: Points, placing: Placing, rules: PlacementRules) -> Mask:
    gap = _distances(points, placing.anchors)[:, 0] - rel.radius(placing.anchors[0]) - rel.radius(placing.thing)
    return gap <= rules.near_gap * rules.relax + ROUNDING


def _both(first: _Holds, second: _Holds) -> _Holds:
    return lambda points, placing, rules: first(points, placing, rules) & second(points, placing, rules)


def _aligned(points: Points, placing: Placing, rules: PlacementRules) -> Mask:
    off = np.abs(points - np.array(placing.anchors[0].centroid[:2])).min(axis=1)
    return off <= rules.align_off * rules.relax + ROUNDING


def _between(points: Points, placing: Placing, rules: PlacementRules) -> Mask:
    a, b = (np.array(anchor.centroid[:2]) for anchor in placing.anchors)
    length = float(np.hypot(*(b - a)))
    if length < 1e-6:
        return np.zeros(len(points), bool)
    offset, way = points - a, (b - a) / length
    along, off = offset @ way / length, np.abs(offset[:, 0] * way[1] - offset[:, 1] * way[0])
    reach = rules.between_off * min(map(rel.radius, placing.anchors)) + ROUNDING
    return (along > 0) & (along < 1) & (off <= reach)


def _rivals(placing: Placing) -> list[float]:
    (anchor,) = placing.anchors
    return [rel.floor_distance(other, anchor) for other in placing.others if other.object_id != anchor.object_id]


def _nearest(points: Points, placing: Placing, rules: PlacementRules) -> Mask:
    least = min(_rivals(placing), default=math.inf)
    return _distances(points, placing.anchors)[:, 0] <= rules.relax * least + ROUNDING


def _farthest(points: Points, placing: Placing, rules: PlacementRules) -> Mask:
    most = max(_rivals(placing), default=0.0)
    return _distances(points, placing.anchors)[:, 0] >= most / rules.relax - ROUNDING


def _centre(points: Points, placing: Placing, rules: PlacementRules) -> Mask:
    return np.hypot(points[:, 0], points[:, 1]) <= rules.centre_reach * rules.relax + ROUNDING


def _outward(pick: Callable[..., Any]) -> _Holds:
    return lambda points, placing, rules: (
        pick(np.abs(points[:, 0]), np.abs(points[:, 1])) >= rules.edge_reach / rules.relax - ROUNDING
    )


_HOLDS: Mapping[str, _Holds] = {
    **{side: _side(side) for side in SIDES},
    **{f"{side}_adjacent": _both(_side(side), _near) for side in SIDES},
    **{"near": _near, "aligned": _aligned, "nearest": _nearest, "farthest": _farthest, "between": _between},
    **{"centre": _centre, "edge": _outward(np.maximum), "corner": _outward(np.minimum)},
}
