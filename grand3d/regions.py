"""Parts of the floor: which objects lie in which region, and the outline of a floor's triangles. Metres, x and y only."""

from __future__ import annotations

from collections import defaultdict
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
    count: dict[tuple[int, int], int] = defaultdict(int)
    for corner in corners.tolist():
        for a, b in zip(corner, corner[1:] + corner[:1], strict=True):
            if a != b:
                count[min(a, b), max(a, b)] += 1
    ways: dict[int, list[int]] = defaultdict(list)
    for (a, b), number in count.items():
        if number == 1:
            ways[a].append(b)
            ways[b].append(a)
    rings = []
    while ways:
        start = here = min(ways)
        ring = []
        while ways.get(here):
            ring.append(here)
            ahead = ways[here].pop()
            ways[ahead].remove(here)
            here = ahead
        if here != start or len(ring) < 3:
            return ()
        rings.append(points[ring])
        ways = defaultdict(list, {key: value for key, value in ways.items() if value})
    if not rings:
        return ()
    best = max(rings, key=lambda ring: abs(area(ring)))
    best = best if area(best) > 0 else best[::-1]
    return _without_straight(best)


def _without_straight(ring: NDArray[np.float64]) -> Polygon:
    before, after = ring - np.roll(ring, 1, axis=0), np.roll(ring, -1, axis=0) - ring
    bends = np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]) > 1e-9
    return tuple((float(x), float(y)) for x, y in ring[bends])


def rectangle(low: Sequence[float], high: Sequence[float]) -> Polygon:
    """The four corners of an upright box's floor, counter-clockwise."""
    (x0, y0), (x1, y1) = low[:2], high[:2]
    return (float(x0), float(y0)), (float(x1), float(y0)), (float(x1), float(y1)), (float(x0), float(y1))
