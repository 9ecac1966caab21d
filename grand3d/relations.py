"""Spatial predicates between boxes, each defined once.

All objects of one call share one frame: metres, z up. Boxes are taken as axis-aligned (centroid, extent); a box's own rotation
is ignored. No predicate looks at categories, and none changes when the whole scene is moved. A viewpoint is ``(x, y)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from grand3d.scene import Object

Point = tuple[float, float]
Bounds = tuple[float, float, float, float]  # min x, min y, max x, max y of a floor, metres

NEAR_GAP = 0.75  # m between two boxes (straight line, three dimensions) that still count as near
BESIDE_GAP = 0.45  # m between two footprints that stand beside each other
ON_SINK = 0.75  # share of the supporter's height a thing may sink into its box: a mattress lies below the head of its bed
ON_GAP = 0.12  # m a thing may float above what supports it
COVER = 0.5  # share of the smaller footprint that must lie inside the other for on, above, below, under
CORNER_REACH = 0.8  # m between a box and both walls of a corner
WALL_REACH = 0.35  # m between a box and the wall it stands against
MIDDLE_SHARE = 0.2  # share of the room's sides an object in the middle may be off the centre
BETWEEN_SHARE = (0.2, 0.8)  # where, along the way from one anchor to the other, a thing between them lies
BETWEEN_OFF = 0.35  # how far off that way, as a share of its length
ALIGN_OFF = 0.25  # m a centre may be off the line of a row
SIDE_ANGLE = math.radians(60)  # half-width of the cone for left, right, in front, behind
CLEAR_MARGIN = 0.15  # share by which the nearest, farthest, largest or tallest must beat the runner-up


def low(item: Object) -> float:
    """Height of the bottom, metres."""
    return item.centroid[2] - item.extent[2] / 2


def high(item: Object) -> float:
    """Height of the top, metres."""
    return item.centroid[2] + item.extent[2] / 2


def volume(item: Object) -> float:
    """Cubic metres; sides below 5 cm count as 5 cm, so that flat things still compare by their face."""
    return max(item.extent[0], 0.05) * max(item.extent[1], 0.05) * max(item.extent[2], 0.05)


def distance(a: Object, b: Object) -> float:
    """Metres between the centres."""
    return math.dist(a.centroid, b.centroid)


def floor_distance(a: Object, b: Object) -> float:
    """Metres between the centres, seen from above."""
    return math.hypot(a.centroid[0] - b.centroid[0], a.centroid[1] - b.centroid[1])


def _axis_gap(a: Object, b: Object, axis: int) -> float:
    return max(0.0, abs(a.centroid[axis] - b.centroid[axis]) - (a.extent[axis] + b.extent[axis]) / 2)


def gap(a: Object, b: Object) -> float:
    """Metres between the nearest points of two boxes; 0 when they touch or overlap."""
    return math.hypot(_axis_gap(a, b, 0), _axis_gap(a, b, 1), _axis_gap(a, b, 2))


def floor_gap(a: Object, b: Object) -> float:
    """Metres between two footprints; 0 when they touch or overlap."""
    return math.hypot(_axis_gap(a, b, 0), _axis_gap(a, b, 1))


def cover(a: Object, b: Object) -> float:
    """Share of the smaller footprint that lies inside the other, 0 to 1; symmetric."""
    ax, ay, _ = a.centroid
    bx, by, _ = b.centroid
    aw, ad, _ = a.extent
    bw, bd, _ = b.extent
    x = min(ax + aw / 2, bx + bw / 2) - max(ax - aw / 2, bx - bw / 2)
    if x <= 0:
        return 0.0
    y = min(ay + ad / 2, by + bd / 2) - max(ay - ad / 2, by - bd / 2)
    if y <= 0:
        return 0.0
    return min(1.0, x * y / min(max(aw * ad, 1e-6), max(bw * bd, 1e-6)))


def radius(item: Object) -> float:
    """Radius of the disc that stands for a footprint: half its longer side, metres."""
    return max(item.extent[0], item.extent[1]) / 2


def disc_gap(a: Object, b: Object) -> float:
    """Metres between two footprints taken as discs (``radius``); negative where they overlap."""
    return floor_distance(a, b) - radius(a) - radius(b)


def beyond(a: Object, b: Object, direction: Point) -> float:
    """Metres that the centre of ``a`` lies from that of ``b`` along a unit direction of the floor; antisymmetric.

    CLEVR's relations: ``a`` is left of ``b`` when this is more than 0.2 along the viewer's left.
    """
    return (a.centroid[0] - b.centroid[0]) * direction[0] + (a.centroid[1] - b.centroid[1]) * direction[1]


def near(a: Object, b: Object) -> bool:
    """The boxes are within NEAR_GAP; symmetric."""
    return gap(a, b) <= NEAR_GAP


def beside(a: Object, b: Object) -> bool:
    """Footprints apart but within BESIDE_GAP, heights overlapping; symmetric. Next to each other, neither above nor inside."""
    return cover(a, b) < COVER and floor_gap(a, b) <= BESIDE_GAP and _axis_gap(a, b, 2) <= 0.1


def on(a: Object, b: Object) -> bool:
    """``a`` rests on ``b``: mostly over it, its bottom near ``b``'s top or sunk into ``b``'s upper part, and smaller than it."""
    floats = low(a) - high(b)
    return (
        -ON_SINK * b.extent[2] <= floats <= ON_GAP
        and a.centroid[2] > b.centroid[2]
        and a.extent[0] * a.extent[1] < b.extent[0] * b.extent[1]
        and cover(a, b) >= COVER
    )


def supports(a: Object, b: Object) -> bool:
    """``b`` rests on ``a``."""
    return on(b, a)


def above(a: Object, b: Object) -> bool:
    """``a`` hangs over ``b`` without touching it; antisymmetric."""
    return low(a) > high(b) + ON_GAP and cover(a, b) >= COVER


def below(a: Object, b: Object) -> bool:
    """``b`` is above ``a``."""
    return above(b, a)


def under(a: Object, b: Object) -> bool:
    """``a`` is below ``b`` or stands within its footprint with its top no higher than ``b``'s: a bin under a desk."""
    if below(a, b):
        return True
    smaller = a.extent[0] * a.extent[1] < b.extent[0] * b.extent[1]
    lower = high(a) <= high(b) and a.centroid[2] < b.centroid[2] and low(a) < low(b) + 0.15
    return smaller and lower and cover(a, b) >= COVER


def way(item: Object, a: Object, b: Object) -> tuple[float, float] | None:
    """Seen from above, how far along the way from ``a`` to ``b`` the centre of ``item`` lies (0 at a, 1 at b), and metres off it.

    None where a and b stand at one place.
    """
    dx, dy = b.centroid[0] - a.centroid[0], b.centroid[1] - a.centroid[1]
    length = math.hypot(dx, dy)
    if length < 1e-6:
        return None
    px, py = item.centroid[0] - a.centroid[0], item.centroid[1] - a.centroid[1]
    return (px * dx + py * dy) / length**2, abs(px * dy - py * dx) / length


def between(item: Object, a: Object, b: Object) -> bool:
    """Seen from above, ``item`` lies on the way from ``a`` to ``b``; symmetric in ``a`` and ``b``."""
    found = way(item, a, b)
    if found is None:
        return False
    along, off = found
    return BETWEEN_SHARE[0] <= along <= BETWEEN_SHARE[1] and off <= BETWEEN_OFF * floor_distance(a, b)


def aligned(items: Sequence[Object]) -> int | None:
    """The axis (0 = x, 1 = y) along which at least three objects stand in one row, or None."""
    if len(items) < 3:
        return None
    for axis in (0, 1):
        other = sorted(item.centroid[1 - axis] for item in items)
        middle = other[len(other) // 2]
        if other[-1] - middle <= ALIGN_OFF and middle - other[0] <= ALIGN_OFF:
            return axis
    return None


def _best(scores: Sequence[float]) -> int | None:
    if len(scores) < 2:
        return 0 if scores else None
    order = sorted(range(len(scores)), key=scores.__getitem__)
    first, second = scores[order[0]], scores[order[1]]
    return order[0] if second - first > CLEAR_MARGIN * max(abs(first), abs(second)) else None


def nearest(items: Sequence[Object], anchor: Object) -> Object | None:
    """The one whose centre is nearest to the anchor's by a clear margin (CLEAR_MARGIN), or None."""
    index = _best([distance(item, anchor) for item in items])
    return None if index is None else items[index]


def farthest(items: Sequence[Object], anchor: Object) -> Object | None:
    """The one whose centre is farthest from the anchor's by a clear margin, or None."""
    index = _best([-distance(item, anchor) for item in items])
    return None if index is None else items[index]


def largest(items: Sequence[Object]) -> Object | None:
    """The one of greatest volume by a clear margin, or None."""
    index = _best([-volume(item) for item in items])
    return None if index is None else items[index]


def smallest(items: Sequence[Object]) -> Object | None:
    """The one of least volume by a clear margin, or None."""
    index = _best([volume(item) for item in items])
    return None if index is None else items[index]


def tallest(items: Sequence[Object]) -> Object | None:
    """The one of greatest own height by a clear margin, or None."""
    index = _best([-item.extent[2] for item in items])
    return None if index is None else items[index]


def larger(a: Object, b: Object) -> bool:
    """``a`` has the greater volume by a clear margin; antisymmetric."""
    return volume(a) > (1 + CLEAR_MARGIN) * volume(b)


def taller(a: Object, b: Object) -> bool:
    """``a`` is higher from its bottom to its top, by a clear margin; antisymmetric."""
    return a.extent[2] > (1 + CLEAR_MARGIN) * b.extent[2]


def room_bounds(items: Iterable[Object]) -> Bounds:
    """The floor rectangle that all boxes fill: stands for the walls, which no detector reports."""
    rows = list(items)
    if not rows:
        return (0.0, 0.0, 0.0, 0.0)
    return (
        min(o.centroid[0] - o.extent[0] / 2 for o in rows),
        min(o.centroid[1] - o.extent[1] / 2 for o in rows),
        max(o.centroid[0] + o.extent[0] / 2 for o in rows),
        max(o.centroid[1] + o.extent[1] / 2 for o in rows),
    )


def wall_gaps(item: Object, bounds: Bounds) -> tuple[float, float, float, float]:
    """Metres from the box to the sides min x, min y, max x, max y of the floor."""
    x, y, half_x, half_y = item.centroid[0], item.centroid[1], item.extent[0] / 2, item.extent[1] / 2
    return (x - half_x - bounds[0], y - half_y - bounds[1], bounds[2] - x - half_x, bounds[3] - y - half_y)


def against_wall(item: Object, bounds: Bounds) -> bool:
    """The box is within WALL_REACH of a side of the floor."""
    return min(wall_gaps(item, bounds)) <= WALL_REACH


def in_corner(item: Object, bounds: Bounds) -> bool:
    """The box is within CORNER_REACH of two sides that meet, and its centre lies in that quarter's outer half."""
    gaps = wall_gaps(item, bounds)
    x = (
        min(gaps[0], gaps[2]) <= CORNER_REACH
        and abs(item.centroid[0] - (bounds[0] + bounds[2]) / 2) > (bounds[2] - bounds[0]) / 4
    )
    y = (
        min(gaps[1], gaps[3]) <= CORNER_REACH
        and abs(item.centroid[1] - (bounds[1] + bounds[3]) / 2) > (bounds[3] - bounds[1]) / 4
    )
    return x and y


def in_middle(item: Object, bounds: Bounds) -> bool:
    """The centre is within MIDDLE_SHARE of the floor's centre, along both sides."""
    off_x = abs(item.centroid[0] - (bounds[0] + bounds[2]) / 2)
    off_y = abs(item.centroid[1] - (bounds[1] + bounds[3]) / 2)
    return off_x <= MIDDLE_SHARE * (bounds[2] - bounds[0]) and off_y <= MIDDLE_SHARE * (bounds[3] - bounds[1])


def bearing(viewpoint: Point, look_at: Point, item: Object) -> tuple[float, float]:
    """(rightward, forward) metres of an object for someone at ``viewpoint`` who looks at ``look_at``."""
    fx, fy = look_at[0] - viewpoint[0], look_at[1] - viewpoint[1]
    length = math.hypot(fx, fy) or 1.0
    dx, dy = item.centroid[0] - viewpoint[0], item.centroid[1] - viewpoint[1]
    return ((dx * fy - dy * fx) / length, (dx * fx + dy * fy) / length)


def _offset(a: Object, b: Object, viewpoint: Point) -> tuple[float, float]:
    look_at = ((a.centroid[0] + b.centroid[0]) / 2, (a.centroid[1] + b.centroid[1]) / 2)
    ra, fa = bearing(viewpoint, look_at, a)
    rb, fb = bearing(viewpoint, look_at, b)
    return ra - rb, fa - fb


def side_of(a: Object, b: Object, viewpoint: Point) -> str | None:
    """Where ``a`` is seen from ``b``: ``left``, ``right``, ``front`` or ``behind``, for someone who looks at both; or None.

    Front means nearer to the viewer. None when the direction is not clearly one of the four, or they are one above the other.
    """
    right, forward = _offset(a, b, viewpoint)
    if math.hypot(right, forward) < 0.1:
        return None
    limit = math.tan(SIDE_ANGLE / 2)
    if abs(forward) <= limit * abs(right) * 1.5:
        return "right" if right > 0 else "left"
    if abs(right) <= limit * abs(forward):
        return "behind" if forward > 0 else "front"
    return None


def facing(item: Object, heading: float, other: Object) -> bool:
    """``item``, whose front points along ``heading`` (radians from +x towards +y), looks at ``other``."""
    dx, dy = other.centroid[0] - item.centroid[0], other.centroid[1] - item.centroid[1]
    if math.hypot(dx, dy) < 1e-6:
        return False
    turn = math.atan2(dy, dx) - heading
    return abs(math.atan2(math.sin(turn), math.cos(turn))) <= SIDE_ANGLE / 2


def directions(forward: Point) -> dict[str, Point]:
    """Unit directions of the floor that left, right, front and behind mean to someone who looks along ``forward``."""
    length = math.hypot(*forward)
    x, y = forward[0] / length, forward[1] / length
    return {"left": (-y, x), "right": (y, -x), "front": (-x, -y), "behind": (x, y)}


def order_from(items: Sequence[Object], viewpoint: Point) -> list[Object]:
    """The objects from left to right as someone at the viewpoint sees them who looks at their common centre."""
    look_at = (sum(o.centroid[0] for o in items) / len(items), sum(o.centroid[1] for o in items) / len(items))
    return sorted(items, key=lambda o: bearing(viewpoint, look_at, o)[0])
