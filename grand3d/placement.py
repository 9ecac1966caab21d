"""Where a thing may be put on a table: what an instruction asks for, and which places do as it says.

ReRef-3D's task (its code and data are not public). What its paper leaves open is a field of ``PlacementRules``. Units are
CLEVR's; a thing stands on the table, so that a place is (x, y) and its height the thing's radius.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grand3d import relations as rel
from grand3d.errors import GrandError, shown
from grand3d.files import field, refuse_unknown
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


def depth(program: Program) -> str:
    """How far its anchors are named by other things: ``direct``, ``one-hop``, ``two-hop`` (or further), or ``none``."""
    hops = [num_hops(nodes) for nodes in program.anchors]
    return DEPTHS[min(max(hops), 2)] if hops else "none"


def is_ordinal(program: Program) -> bool:
    """Whether a thing is named by counting, such as the second from the left."""
    return any(node.get("type", node.get("function")) == "ordinal" for nodes in program.anchors for node in nodes)


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
    thing = target or Object("new", "thing", (0.0, 0.0, side / 2), (side, side, side))
    return Placing(program.family, thing, anchors, tuple(item for item in table.objects if item is not target), table.forward)


def put(placing: Placing, point: Sequence[float]) -> Object:
    """The thing with its centre over (x, y), standing on the table; any z of the point is passed over."""
    return replace(placing.thing, centroid=(float(point[0]), float(point[1]), rel.radius(placing.thing)))


def satisfied(placing: Placing, point: Sequence[float], rules: PlacementRules = STRICT) -> bool:
    """Whether the thing stands as the instruction asks once its centre is over (x, y)."""
    return _HOLDS[placing.family](put(placing, point), placing, rules)


def fault(placing: Placing, point: Sequence[float], rules: PlacementRules = STRICT) -> str:
    """Why the thing cannot stand there: ``out of bounds``, ``overlap``, or nothing. ``rules.relax`` has no part in it."""
    thing = put(placing, point)
    limit = rules.half_side - (rel.radius(thing) if rules.whole_inside else 0.0) + ROUNDING
    if max(abs(thing.centroid[0]), abs(thing.centroid[1])) > limit:
        return "out of bounds"
    crowded = any(rel.disc_gap(thing, other) < rules.min_gap - ROUNDING for other in placing.others)
    return "overlap" if crowded else ""


def mistaken(placing: Placing, point: Sequence[float], rules: PlacementRules = STRICT) -> bool:
    """Whether the place would be right had one anchor been another object of its shape."""
    for number, anchor in enumerate(placing.anchors):
        for other in placing.others:
            if other not in placing.anchors and attribute(other, "shape") == attribute(anchor, "shape"):
                anchors = (*placing.anchors[:number], other, *placing.anchors[number + 1 :])
                if satisfied(replace(placing, anchors=anchors), point, rules):
                    return True
    return False


def feasible(placing: Placing, rules: PlacementRules = STRICT, step: float = 0.1) -> list[tuple[float, float]]:
    """The points of a grid over the table where the thing can stand and stands as asked."""
    count = math.floor(2 * rules.half_side / step + ROUNDING)
    axis = [-rules.half_side + step * k for k in range(count + 1)]
    return [p for p in itertools.product(axis, axis) if satisfied(placing, p, rules) and not fault(placing, p, rules)]


_Holds = Callable[[Object, Placing, PlacementRules], bool]


def _side(side: str) -> _Holds:
    def holds(thing: Object, placing: Placing, rules: PlacementRules) -> bool:
        ways = rel.directions(placing.forward)
        aside = ways["behind" if side in ("left", "right") else "right"]
        along = rel.beyond(thing, placing.anchors[0], ways[side])
        angle = math.degrees(math.atan2(abs(rel.beyond(thing, placing.anchors[0], aside)), along))
        return along > rules.side_eps / rules.relax and angle <= min(180.0, rules.side_angle * rules.relax) + ROUNDING

    return holds


def _near(thing: Object, placing: Placing, rules: PlacementRules) -> bool:
    return rel.disc_gap(thing, placing.anchors[0]) <= rules.near_gap * rules.relax + ROUNDING


def _both(first: _Holds, second: _Holds) -> _Holds:
    return lambda thing, placing, rules: first(thing, placing, rules) and second(thing, placing, rules)


def _aligned(thing: Object, placing: Placing, rules: PlacementRules) -> bool:
    off = [abs(thing.centroid[axis] - placing.anchors[0].centroid[axis]) for axis in (0, 1)]
    return min(off) <= rules.align_off * rules.relax + ROUNDING


def _between(thing: Object, placing: Placing, rules: PlacementRules) -> bool:
    a, b = placing.anchors
    found = rel.way(thing, a, b)
    return found is not None and 0 < found[0] < 1 and found[1] <= rules.between_off * min(rel.radius(a), rel.radius(b)) + ROUNDING


def _rivals(placing: Placing) -> list[float]:
    (anchor,) = placing.anchors
    return [rel.floor_distance(other, anchor) for other in placing.others if other.object_id != anchor.object_id]


def _nearest(thing: Object, placing: Placing, rules: PlacementRules) -> bool:
    least = min(_rivals(placing), default=math.inf)
    return rel.floor_distance(thing, placing.anchors[0]) <= rules.relax * least + ROUNDING


def _farthest(thing: Object, placing: Placing, rules: PlacementRules) -> bool:
    most = max(_rivals(placing), default=0.0)
    return rel.floor_distance(thing, placing.anchors[0]) >= most / rules.relax - ROUNDING


def _centre(thing: Object, placing: Placing, rules: PlacementRules) -> bool:
    return math.hypot(*thing.centroid[:2]) <= rules.centre_reach * rules.relax + ROUNDING


def _outward(pick: Callable[..., float]) -> _Holds:
    def holds(thing: Object, placing: Placing, rules: PlacementRules) -> bool:
        return pick(abs(thing.centroid[0]), abs(thing.centroid[1])) >= rules.edge_reach / rules.relax - ROUNDING

    return holds


_HOLDS: Mapping[str, _Holds] = {
    **{side: _side(side) for side in SIDES},
    **{f"{side}_adjacent": _both(_side(side), _near) for side in SIDES},
    **{"near": _near, "aligned": _aligned, "nearest": _nearest, "farthest": _farthest, "between": _between},
    **{"centre": _centre, "edge": _outward(max), "corner": _outward(min)},
}
