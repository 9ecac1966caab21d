"""Boxes that stand at any angle: forms, and exact overlap where it can matter.

A 9-DoF box is ``(cx, cy, cz, dx, dy, dz, alpha, beta, gamma)``: centre and full sides in metres, Euler angles in radians. As in
EmbodiedScan and MMScan, its axes are the columns of R = Rz(alpha) Rx(beta) Ry(gamma) ("ZXY").

Overlap is exact, unlike pytorch3d's (off by up to 0.025 on random pairs, and 1.24 on a pair whose IoU is 0.945): boxes that
only turn about z are cut as rectangles, others as solids by manifold3d. Most pairs of a room need neither: an upper bound shows
that they cannot reach the least overlap that counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grand3d.boxes import hull, to_bounds
from grand3d.errors import GrandError, import_extra, shown

Floats = NDArray[np.float64]

UPRIGHT = 1e-12
"""Most that the third axis of a box that turns about z only leans."""
SLACK = 1e-9
"""Bounds below a threshold by less than this are not trusted."""
_SIGNS = np.array([[x, y, z] for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)], np.float64) / 2


def rotation_zxy(angles: ArrayLike) -> Floats:
    """Matrices (..., 3, 3) of Euler angles (..., 3): Rz(alpha) Rx(beta) Ry(gamma), from box axes to scene axes."""
    angles = np.asarray(angles, np.float64)
    (ca, cb, cg), (sa, sb, sg) = np.moveaxis(np.cos(angles), -1, 0), np.moveaxis(np.sin(angles), -1, 0)
    rows = [
        [ca * cg - sa * sb * sg, -sa * cb, ca * sg + sa * sb * cg],
        [sa * cg + ca * sb * sg, ca * cb, sa * sg - ca * sb * cg],
        [-cb * sg, sb, cb * cg],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def angles_zxy(rotation: ArrayLike) -> Floats:
    """Euler angles (..., 3) of matrices (..., 3, 3), the inverse of ``rotation_zxy``."""
    r = np.asarray(rotation, np.float64)
    return np.stack(
        [
            np.arctan2(-r[..., 0, 1], r[..., 1, 1]),
            np.arcsin(np.clip(r[..., 2, 1], -1, 1)),
            np.arctan2(-r[..., 2, 0], r[..., 2, 2]),
        ],
        axis=-1,
    )


def as_boxes(boxes: Any, where: str = "boxes") -> Floats:
    """9-DoF boxes (n, 9) from rows of 6 (no angles), 7 (a yaw) or 9 numbers, or from ``{center, size, rot}`` with ``rot`` 3 x 3.

    Raises:
        GrandError: For another form, numbers that are not finite, or negative sides.
    """
    rows = []
    for index, box in enumerate(boxes):
        try:
            if isinstance(box, dict):
                row = np.concatenate([box["center"], box["size"], angles_zxy(box["rot"])]).astype(np.float64)
            else:
                row = np.asarray(box, np.float64)
        except (KeyError, TypeError, ValueError):
            row = np.empty(0)
        if row.ndim != 1 or len(row) not in (6, 7, 9):
            reason = "6, 7 or 9 numbers, or an object with center, size and rot"
            raise GrandError(f"{where}: box {index} is {shown(box)}, expected {reason}", "bad box")
        row = np.concatenate([row, np.zeros(9 - len(row))])
        if not np.isfinite(row).all() or (row[3:6] < 0).any():
            raise GrandError(f"{where}: box {index} is {shown(box)}, expected finite numbers and sides of 0 or more", "bad box")
        rows.append(row)
    return np.stack(rows) if rows else np.zeros((0, 9))


def corners(boxes: ArrayLike) -> Floats:
    """The eight corners (n, 8, 3) of 9-DoF boxes (n, 9)."""
    boxes = np.asarray(boxes, np.float64).reshape(-1, 9)
    return boxes[:, None, :3] + (_SIGNS * boxes[:, None, 3:6]) @ rotation_zxy(boxes[:, 6:]).transpose(0, 2, 1)


def iou_oriented(a: ArrayLike, b: ArrayLike, at_least: float = 0.0) -> Floats:
    """Intersection over union (n, m) of 9-DoF boxes (n, 9) and (m, 9), float64.

    Args:
        at_least: Pairs that cannot reach this are 0, without being computed: with the lowest threshold of a metric nothing that
            it reads changes.

    Raises:
        GrandError: If boxes lean and manifold3d is missing (extra ``bench``).
    """
    a, b = (np.asarray(boxes, np.float64).reshape(-1, 9) for boxes in (a, b))
    out = np.zeros((len(a), len(b)))
    volume_a, volume_b = a[:, 3:6].prod(axis=1), b[:, 3:6].prod(axis=1)
    turn_a, turn_b = rotation_zxy(a[:, 6:]), rotation_zxy(b[:, 6:])
    most = _most_shared(a, b, turn_a, turn_b)
    union = np.maximum(volume_a[:, None] + volume_b[None] - most, 0)
    bound = np.divide(most, union, out=np.zeros_like(most), where=union > 0)
    left = np.argwhere((most > 0) & (bound >= at_least - SLACK))
    if not len(left):
        return out
    upright = [np.hypot(turn[:, 0, 2], turn[:, 1, 2]) <= UPRIGHT for turn in (turn_a, turn_b)]
    flat = upright[0][left[:, 0]] & upright[1][left[:, 1]]
    shared = np.zeros(len(left))
    if flat.any():
        shared[flat] = _upright(a, b, left[flat])
    if not flat.all():
        shared[~flat] = _solids(a, b, turn_a, turn_b, left[~flat])
    shared = np.minimum(shared, np.minimum(volume_a[left[:, 0]], volume_b[left[:, 1]]))  # rounding
    out[left[:, 0], left[:, 1]] = shared / (volume_a[left[:, 0]] + volume_b[left[:, 1]] - shared)
    return out


def _most_shared(a: Floats, b: Floats, turn_a: Floats, turn_b: Floats) -> Floats:
    """A volume (n, m) that the intersection of each pair does not exceed: hulls cut in the scene's, in a's and in b's frame."""
    hull_a, hull_b = hull(a[:, :3], a[:, 3:6], turn_a), hull(b[:, :3], b[:, 3:6], turn_b)
    most = _shared(hull_a[:, None], hull_b[None])
    most = np.minimum(most, _shared_in_frame(a, turn_a, b, turn_b, most > 0))
    return np.minimum(most, _shared_in_frame(b, turn_b, a, turn_a, (most > 0).T).T)


def _shared(a: Floats, b: Floats) -> Floats:
    sides = np.minimum(a[..., 1, :], b[..., 1, :]) - np.maximum(a[..., 0, :], b[..., 0, :])
    return np.maximum(sides, 0).prod(axis=-1)


def _shared_in_frame(a: Floats, turn_a: Floats, b: Floats, turn_b: Floats, wanted: NDArray[np.bool_]) -> Floats:
    """Overlap of a, which is axis-aligned in its own frame, with the hull of b there; of the wanted pairs (n, m) only."""
    out = np.zeros(wanted.shape)
    i, j = np.nonzero(wanted)
    if len(i):
        back = turn_a.transpose(0, 2, 1)[i]
        centre = (back @ (b[j, :3] - a[i, :3])[..., None])[..., 0]
        out[i, j] = _shared(to_bounds(np.zeros((len(i), 3)), a[i, 3:6]), hull(centre, b[j, 3:6], back @ turn_b[j]))
    return out


def _upright(a: Floats, b: Floats, pairs: NDArray[np.intp]) -> Floats:
    """Shared volumes of pairs that turn about z only: area of two rectangles, times the height that both have.

    The one rectangle is axis-aligned in its own frame. The outline of the other is cut there at the lines of its sides, and what
    lies beyond a line is moved onto it: moved parts enclose nothing, so the outline then encloses the intersection. The area
    depends continuously on the boxes: sides that lie in each other do no harm, as they do to general polygon clipping.
    """
    i, j = pairs.T
    outline = corners(b)[:, [0, 1, 3, 2], :2][j] - a[i, None, :2]
    turn = rotation_zxy(a[i, 6:])[:, :2, :2]
    outline = outline @ turn  # rows: into a's frame
    half = a[i, 3:5] / 2
    start, along = outline, np.roll(outline, -1, axis=1) - outline
    with np.errstate(divide="ignore", invalid="ignore"):
        cuts = np.concatenate([(side * half[:, None] - start) / along for side in (-1, 1)], axis=2)  # (pairs, 4 sides, 4 lines)
    cuts = np.sort(np.clip(np.nan_to_num(cuts, nan=0.0, posinf=0.0, neginf=0.0), 0, 1), axis=2)
    cuts = np.concatenate([np.zeros_like(cuts[:, :, :1]), cuts], axis=2)
    points = (start[:, :, None] + cuts[..., None] * along[:, :, None]).reshape(len(pairs), -1, 2)
    points = np.clip(points, -half[:, None], half[:, None])
    ahead = np.roll(points, -1, axis=1)
    area = (points[..., 0] * ahead[..., 1] - points[..., 1] * ahead[..., 0]).sum(axis=1) / 2
    high = np.minimum(a[i, 2] + a[i, 5] / 2, b[j, 2] + b[j, 5] / 2)
    low = np.maximum(a[i, 2] - a[i, 5] / 2, b[j, 2] - b[j, 5] / 2)
    return np.abs(area) * np.maximum(high - low, 0)


def _solids(a: Floats, b: Floats, turn_a: Floats, turn_b: Floats, pairs: NDArray[np.intp]) -> Floats:
    """Shared volumes of any pairs."""
    manifold = import_extra("manifold3d", "bench").Manifold
    made: dict[tuple[str, int], Any] = {}

    def solid(side: str, index: int) -> Any:
        if (side, index) not in made:
            boxes, turns = (a, turn_a) if side == "a" else (b, turn_b)
            centre = boxes[index, :3] - a[0, :3]  # near the origin: its tolerance grows with the coordinates
            cube = manifold.cube(tuple(boxes[index, 3:6]), True)
            made[side, index] = cube.transform(np.concatenate([turns[index], centre[:, None]], axis=1))
        return made[side, index]

    return np.array([(solid("a", int(i)) ^ solid("b", int(j))).volume() for i, j in pairs])
