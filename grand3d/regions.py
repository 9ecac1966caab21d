"""Parts of the floor: which objects lie in which region, and the outline of a floor's triangles. Metres, x and y only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grand3d.scene import Scene

Polygon = tuple[tuple[float, float], ...]


def area(polygon: ArrayLike) -> float:
    """The area that a ring (n, 2) of corners encloses, square metres; below 0 where it runs clockwise."""
    x, y = np.asarray(polygon, np.float64).reshape(-1, 2).T
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2) if len(x) > 2 else 0.0


def inside(polygon: ArrayLike, points: ArrayLike) -> NDArray[np.bool_]:
    """Whether points (n, 2) lie inside a ring (m, 2): an odd number of sides crosses the ray to the right of them."""
    ring, points = np.asarray(polygon, np.float64).reshape(-1, 2), np.asarray(points, np.float64).reshape(-1, 2)
    (ax, ay), (bx, by) = ring.T, np.roll(ring, -1, axis=0).T
    px, py = points[:, :1], points[:, 1:]
    spans = (ay > py) != (by > py)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = ax + (py - ay) * (bx - ax) / (by - ay)
    return (spans & (px < crossing)).sum(axis=1) % 2 == 1


def with_members(scene: Scene) -> Scene:
    """A scene whose objects and regions know each other.

    An object whose ``region_id`` is not set belongs to the regions that list it, else to the smallest region whose polygon its
    centroid lies in, else to none. Regions then list their objects in the scene's order.
    """
    listed = {object_id: region.region_id for region in scene.regions for object_id in region.object_ids}
    centres = np.array([item.centroid[:2] for item in scene.objects]).reshape(-1, 2)
    for region in sorted(scene.regions, key=lambda region: -abs(area(region.polygon))):  # the smaller one has the last word
        if len(region.polygon) > 2:
            within = np.flatnonzero(inside(region.polygon, centres))
            listed |= {scene.objects[k].object_id: region.region_id for k in within if not _is_listed(scene, k)}
    objects = tuple(
        item if item.region_id is not None else replace(item, region_id=listed.get(item.object_id)) for item in scene.objects
    )
    members: dict[str, list[str]] = defaultdict(list)
    for item in objects:
        if item.region_id is not None:
            members[item.region_id].append(item.object_id)
    regions = tuple(replace(region, object_ids=tuple(members[region.region_id])) for region in scene.regions)
    return replace(scene, objects=objects, regions=regions)


def _is_listed(scene: Scene, k: int) -> bool:
    return any(scene.objects[k].object_id in region.object_ids for region in scene.regions)


def outline(vertices: ArrayLike, triangles: ArrayLike, digits: int = 4) -> Polygon:
    """The ring around a floor, counter-clockwise: the sides that only one triangle has, chained.

    Args:
        vertices: (n, 2); those that agree in ``digits`` decimals are one.
        triangles: (m, 3) numbers of vertices.

    Returns:
        Its corners without those on a straight line; of several rings the one that encloses most. Empty where the sides form
        no ring, as where triangles meet at other places than their corners.
    """
    points, one = np.unique(np.round(np.asarray(vertices, np.float64), digits), axis=0, return_inverse=True)
    corners = one.reshape(-1)[np.asarray(triangles, np.int64).reshape(-1, 3)]
    turned = np.array([area(points[corner]) for corner in corners])
    corners = np.where((turned < 0)[:, None], corners[:, ::-1], corners)[turned != 0]
    sides = Counter(pair for a, b, c in corners.tolist() for pair in ((a, b), (b, c), (c, a)))
    ways: dict[int, list[int]] = defaultdict(list)
    for (a, b), number in sides.items():  # the floor lies to the left of each
        if (b, a) not in sides and number == 1:
            ways[a].append(b)
    rings = []
    while any(ways.values()):
        start = here = min(key for key, ends in ways.items() if ends)
        ring, came = [], None
        while ways[here]:
            ring.append(here)
            # where parts of a floor touch in a corner, the way furthest to the left stays with its part
            ahead = max(ways[here], key=lambda end, here=here, came=came: _turn(points, came, here, end))
            ways[here].remove(ahead)
            came, here = here, ahead
            if here == start:
                break
        if here != start or len(ring) < 3:
            return ()
        rings.append(points[ring])
    best = max(rings, key=area, default=None)
    return () if best is None or area(best) <= 0 else _without_straight(best)


def _turn(points: NDArray[np.float64], came: int | None, here: int, end: int) -> float:
    """How far to the left a way turns, radians from -pi to pi."""
    if came is None:
        return 0.0
    (ax, ay), (bx, by) = points[here] - points[came], points[end] - points[here]
    return float(np.arctan2(ax * by - ay * bx, ax * bx + ay * by))


def _without_straight(ring: NDArray[np.float64]) -> Polygon:
    before, after = ring - np.roll(ring, 1, axis=0), np.roll(ring, -1, axis=0) - ring
    bends = ring[np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]) > 1e-9]
    first = int(np.lexsort((bends[:, 0], bends[:, 1]))[0])
    return tuple((float(x), float(y)) for x, y in np.roll(bends, -first, axis=0))


def rectangle(low: Sequence[float], high: Sequence[float]) -> Polygon:
    """The four corners of an upright box's floor, counter-clockwise."""
    (x0, y0), (x1, y1) = low[:2], high[:2]
    return (float(x0), float(y0)), (float(x1), float(y0)), (float(x1), float(y1)), (float(x0), float(y1))
