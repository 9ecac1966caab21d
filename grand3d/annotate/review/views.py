"""A scene as four drawings of its boxes: from above, from two opposite corners, and from one side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from grand3d.scene import Object, Scene

Floats = NDArray[np.float64]

NUM_COLOURS = 8
"""Phrases beyond these take the colours again; their numbers differ."""
FLAT = ("wall", "ceiling", "floor", "room")
"""Things that hide a room: outlined only, and not where a person looks through them."""
EDGE = 16.0
WIDTH, HEIGHT = 460.0, 330.0
_CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float64) / 2
_FACES = (
    ((0, 1, 3, 2), (-1, 0, 0)),
    ((4, 5, 7, 6), (1, 0, 0)),
    ((0, 1, 5, 4), (0, -1, 0)),
    ((2, 3, 7, 6), (0, 1, 0)),
    ((0, 2, 6, 4), (0, 0, -1)),
    ((1, 3, 7, 5), (0, 0, 1)),
)
"""Corners of each face of a box in a ring, and where it faces, in the box's own axes."""


@dataclass(frozen=True, slots=True)
class View:
    """Where a drawing is made from: degrees from +x towards +y of the place of the eye, and above the floor."""

    name: str
    azimuth: float
    elevation: float


VIEWS = (
    View("From above", -90, 90),
    View("A: from the lower left", -125, 32),
    View("B: from the upper right", 55, 32),
    View("C: from the lower side, at eye level", -90, 10),
)


def draw_views(
    scene: Scene, marked: Mapping[str, Sequence[int]], viewpoint: tuple[Sequence[float], ...] | None = None
) -> list[str]:
    """The four drawings of a scene as SVG.

    Args:
        marked: Numbers of the phrases that name an object or region, by its id; a phrase has one colour and one number.
        viewpoint: Of a speaker, drawn into the plan as an arrow: position and look-at point.
    """
    objects = [item for item in scene.objects if item.category.lower() != "ceiling" or item.object_id in marked]
    boxes = [_corners(item) for item in objects]
    floor = _floor(boxes)
    return [_draw(scene, view, objects, boxes, floor, marked, viewpoint) for view in VIEWS]


def colour(number: int) -> str:
    """The style class of a phrase's colour; phrases are counted from 1."""
    return f"c{(number - 1) % NUM_COLOURS}"


def _corners(item: Object) -> Floats:
    turn = np.eye(3) if item.rotation is None else np.asarray(item.rotation, np.float64)
    return np.asarray(item.centroid) + (_CORNERS * np.asarray(item.extent)) @ turn.T


def _floor(boxes: Sequence[Floats]) -> Floats:
    """Bounds (2, 3) of all boxes, a little wider on the floor."""
    points = np.concatenate(boxes) if boxes else np.zeros((1, 3))
    low, high = points.min(axis=0), points.max(axis=0)
    edge = np.array([0.15, 0.15, 0.0])
    return np.stack([low - edge, high + edge])


def _axes(view: View) -> Floats:
    """Rows: right, up, and into the drawing."""
    a, e = math.radians(view.azimuth), math.radians(view.elevation)
    into = np.array([-math.cos(e) * math.cos(a), -math.cos(e) * math.sin(a), -math.sin(e)])
    right = np.array([-math.sin(a), math.cos(a), 0.0])
    return np.stack([right, np.cross(right, into), into])


class _Paper:
    """From metres to places on one drawing."""

    def __init__(self, view: View, bounds: Floats) -> None:
        self.axes = _axes(view)
        ends = np.array([[bounds[i, 0], bounds[j, 1], bounds[k, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
        flat = ends @ self.axes[:2].T * (1, -1)
        self.low, high = flat.min(axis=0), flat.max(axis=0)
        size = np.maximum(high - self.low, 0.2)
        self.scale = float(min((WIDTH - 2 * EDGE) / size[0], (HEIGHT - 2 * EDGE) / size[1]))
        self.shift = np.array([(WIDTH - size[0] * self.scale) / 2, EDGE])
        self.height = float(size[1] * self.scale + 2 * EDGE)

    def at(self, points: Floats) -> Floats:
        """Places (n, 2) of points (n, 3)."""
        return (points @ self.axes[:2].T * (1, -1) - self.low) * self.scale + self.shift


def _draw(
    scene: Scene,
    view: View,
    objects: Sequence[Object],
    boxes: Sequence[Floats],
    bounds: Floats,
    marked: Mapping[str, Sequence[int]],
    viewpoint: tuple[Sequence[float], ...] | None,
) -> str:
    paper, plan = _Paper(view, bounds), view.elevation == 90
    out = [
        f'<svg viewBox="0 0 {WIDTH:g} {paper.height + 20 * plan:.0f}" role="img" aria-label="{escape(view.name)}">',
        _grid(paper, bounds),
    ]
    for region in scene.regions:
        if region.region_id in marked and region.polygon:
            corners = np.array([(x, y, bounds[0, 2]) for x, y in region.polygon])
            number = marked[region.region_id][0]
            ring = f'<polygon points="{_path(paper.at(corners))}"/>'
            out.append(f'<g class="hit {colour(number)}" data-k="{number}"><title>{escape(region.name)}</title>{ring}</g>')
    depth = [float(box.mean(axis=0) @ paper.axes[2]) for box in boxes]
    order = sorted(range(len(objects)), key=lambda k: (objects[k].object_id in marked, -depth[k]))
    badges: list[str] = []
    for k in order:
        item, numbers = objects[k], marked.get(objects[k].object_id, ())
        shape = _box(paper, item, boxes[k], hollow=item.category.lower() in FLAT and not numbers)
        title = f"<title>{escape(told(item))}</title>"
        if numbers:
            keys = " ".join(map(str, numbers))
            out.append(f'<g class="hit {colour(numbers[0])}" data-k="{keys}">{title}{shape}</g>')
            badges.append(_badge(paper.at(boxes[k]), numbers))
        else:
            out.append(f'<g class="off">{title}{shape}</g>')
    if plan:
        out += [*_labels(paper, [(objects[k], boxes[k]) for k in order if objects[k].object_id not in marked]), _compass(paper)]
        if viewpoint is not None:
            out.append(_arrow(paper, viewpoint))
        y = paper.height + 6
        metre = f'<line class="ink" x1="{EDGE}" x2="{EDGE + paper.scale:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        out.append(f'{metre}<text x="{EDGE + paper.scale + 6:.1f}" y="{y + 4:.1f}">1 m</text>')
    return "".join([*out, *badges, "</svg>"])


def _grid(paper: _Paper, bounds: Floats) -> str:
    """The floor, with a line at every metre, or fewer where a building is large."""
    (x, y, z), (to_x, to_y, _) = bounds
    ring = np.array([(x, y, z), (to_x, y, z), (to_x, to_y, z), (x, to_y, z)])
    step = max(1.0, math.ceil(max(to_x - x, to_y - y) / 40))
    lines = [((u, y, z), (u, to_y, z)) for u in np.arange(math.ceil(x), to_x, step)]
    lines += [((x, v, z), (to_x, v, z)) for v in np.arange(math.ceil(y), to_y, step)]
    path = "".join("M{:.1f} {:.1f}L{:.1f} {:.1f}".format(*paper.at(np.array(line)).ravel()) for line in lines)
    return f'<polygon class="floor" points="{_path(paper.at(ring))}"/><path class="grid" d="{path}"/>'


def _box(paper: _Paper, item: Object, corners: Floats, hollow: bool) -> str:
    """The faces of a box that are seen."""
    turn = np.eye(3) if item.rotation is None else np.asarray(item.rotation, np.float64)
    flat = paper.at(corners)
    faces = [ring for ring, normal in _FACES if (turn @ np.array(normal, np.float64)) @ paper.axes[2] < -1e-9]
    style = ' class="hollow"' if hollow else ""
    return "".join(f'<polygon{style} points="{_path(flat[list(ring)])}"/>' for ring in faces)


def _path(points: Floats) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _badge(corners: Floats, numbers: Sequence[int]) -> str:
    """The numbers of a box at its middle; of one that they would hide, above it."""
    place = corners.mean(axis=0)
    if np.ptp(corners, axis=0).min() < 26:
        place[1] = max(corners[:, 1].min() - 11, 9)
    text = ",".join(map(str, numbers))
    width = 12 + 7 * len(text)
    box = f'<rect x="{place[0] - width / 2:.1f}" y="{place[1] - 9:.1f}" width="{width}" height="18" rx="9"/>'
    said = f'<text x="{place[0]:.1f}" y="{place[1] + 4:.1f}" text-anchor="middle">{text}</text>'
    return f'<g class="badge {colour(numbers[0])}" data-k="{" ".join(map(str, numbers))}">{box}{said}</g>'


def _labels(paper: _Paper, items: Sequence[tuple[Object, Floats]]) -> list[str]:
    """Names of unmarked things in the plan, largest first, where they fit without touching each other."""
    out: list[str] = []
    taken: list[tuple[float, float, float]] = []
    for item, corners in sorted(items, key=lambda entry: -entry[0].extent[0] * entry[0].extent[1]):
        flat = paper.at(corners)
        (x, y), span = flat.mean(axis=0), np.ptp(flat, axis=0)
        width = 5.2 * len(item.category)
        if item.category.lower() in FLAT or width > 1.6 * span[0] + 10 or span[1] < 9:
            continue
        x = min(max(x, width / 2), WIDTH - width / 2)
        if all(abs(y - v) > 11 or abs(x - u) > (width + w) / 2 + 3 for u, v, w in taken):
            taken.append((x, y, width))
            out.append(f'<text class="name" x="{x:.1f}" y="{y + 3:.1f}" text-anchor="middle">{escape(item.category)}</text>')
    return out


def _compass(paper: _Paper) -> str:
    """Where the other views look from: letters at the edge of the plan."""
    middle = np.array([WIDTH / 2, paper.height / 2])
    out = []
    for view in VIEWS[1:]:
        a = math.radians(view.azimuth)
        way = np.array([math.cos(a), -math.sin(a)])
        reach = min((WIDTH / 2 - 9) / max(abs(way[0]), 1e-9), (paper.height / 2 - 7) / max(abs(way[1]), 1e-9))
        x, y = middle + way * reach
        out.append(f'<text class="eye" x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle">{view.name[0]}</text>')
    return "".join(out)


def _arrow(paper: _Paper, viewpoint: tuple[Sequence[float], ...]) -> str:
    start, to = paper.at(np.asarray(viewpoint, np.float64))
    way = (to - start) / max(float(np.linalg.norm(to - start)), 1e-9)
    side = np.array([-way[1], way[0]])
    tip = np.stack([start + 26 * way, start + 14 * way + 6 * side, start + 14 * way - 6 * side])
    line = f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{tip[0, 0]:.1f}" y2="{tip[0, 1]:.1f}"/>'
    dot = f'<circle cx="{start[0]:.1f}" cy="{start[1]:.1f}" r="5"/>'
    return f'<g class="speaker"><title>the speaker looks this way</title>{dot}{line}<polygon points="{_path(tip)}"/></g>'


def told(item: Object) -> str:
    """An object in words: category, looks, and sides in metres."""
    looks = ", ".join(str(value) for value in item.attributes.values())
    sides = " x ".join(f"{side:.2f}" for side in item.extent)
    return f"{item.category}{f' ({looks})' if looks else ''}, {sides} m"
