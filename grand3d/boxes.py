"""Boxes as arrays: forms, overlap, suppression, matching. Metres, z up; numpy only, no state.

Two forms are used. ``centroid`` and ``extent`` (full sides) are what scenes store; ``bounds`` of shape (..., 2, 3), the
lowest and the highest corner, are what overlap is computed from. A rotated box is reduced to its axis-aligned hull.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.floating]

SCANREFER_EPS = 1e-8
"""Added to the union by the ScanRefer evaluator (float64): boxes that overlap by exactly a threshold then miss it."""

_CORNERS = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)])


class Boxed(Protocol):
    """Anything with a box, such as ``scene.Object``."""

    @property
    def centroid(self) -> tuple[float, float, float]: ...
    @property
    def extent(self) -> tuple[float, float, float]: ...
    @property
    def rotation(self) -> tuple[tuple[float, float, float], ...] | None: ...


def to_bounds(centroid: ArrayLike, extent: ArrayLike) -> Floats:
    """Box centres (..., 3) and full side lengths (..., 3) to bounds (..., 2, 3)."""
    centre, half = np.asarray(centroid, np.float64), np.asarray(extent, np.float64) / 2
    return np.stack([centre - half, centre + half], axis=-2)


def from_bounds(bounds: ArrayLike) -> tuple[Floats, Floats]:
    """Bounds (..., 2, 3) to box centres (..., 3) and full side lengths (..., 3)."""
    bounds = np.asarray(bounds, np.float64)
    low, high = bounds[..., 0, :], bounds[..., 1, :]
    return (low + high) / 2, high - low


def corners(bounds: ArrayLike) -> Floats:
    """The 8 corners (..., 8, 3) of bounds (..., 2, 3); x changes fastest, then y, then z."""
    bounds = np.asarray(bounds, np.float64)
    return np.where(_CORNERS == 0, bounds[..., 0:1, :], bounds[..., 1:2, :])


def points_bounds(points: ArrayLike) -> Floats:
    """The bounds (..., 2, 3) of points (..., n, 3) in any order, n >= 1: corners of a box, or vertices of a mesh."""
    points = np.asarray(points, np.float64)
    return np.stack([points.min(axis=-2), points.max(axis=-2)], axis=-2)


def hull(centroid: ArrayLike, extent: ArrayLike, rotation: ArrayLike) -> Floats:
    """Axis-aligned bounds (..., 2, 3) around rotated boxes.

    Args:
        centroid: Box centres (..., 3).
        extent: Full sides along the box's own axes (..., 3).
        rotation: Matrices (..., 3, 3) from box axes to scene axes, acting on column vectors.
    """
    reach = np.abs(np.asarray(rotation, np.float64)) @ np.asarray(extent, np.float64)[..., None]
    return to_bounds(centroid, reach[..., 0])


def objects_bounds(objects: Iterable[Boxed]) -> Floats:
    """Bounds (n, 2, 3) of objects; of a rotated object, its hull. No objects give shape (0, 2, 3)."""
    rows = [to_bounds(o.centroid, o.extent) if o.rotation is None else hull(o.centroid, o.extent, o.rotation) for o in objects]
    return np.stack(rows) if rows else np.zeros((0, 2, 3))


def iou(a: ArrayLike, b: ArrayLike, eps: float = 0.0, dtype: type[np.floating] = np.float64) -> Floats:
    """Intersection over union of every box of ``a`` with every box of ``b``, axis-aligned.

    Benchmarks differ in ``eps`` and ``dtype``, and a pair that overlaps by exactly 0.25 or 0.5 tells them apart:
    ScanRefer 1e-8 in float64; M3DRef-CLIP and torchmetrics_ext the float32 machine epsilon in float32; ViGiL3D none.

    Args:
        a: Bounds (n, 2, 3).
        b: Bounds (m, 2, 3).
        eps: Added to the union, cubic metres.
        dtype: Precision of the whole computation.

    Returns:
        (n, m) in ``dtype``. Two boxes without volume have 0.
    """
    a, b = np.asarray(a, dtype).reshape(-1, 2, 3), np.asarray(b, dtype).reshape(-1, 2, 3)
    sides = np.minimum(a[:, None, 1], b[None, :, 1]) - np.maximum(a[:, None, 0], b[None, :, 0])
    shared = np.maximum(sides, 0).prod(axis=-1)
    volume_a, volume_b = (a[:, 1] - a[:, 0]).prod(axis=-1), (b[:, 1] - b[:, 0]).prod(axis=-1)
    union = volume_a[:, None] + volume_b[None, :] - shared + dtype(eps)
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def paired_iou(a: ArrayLike, b: ArrayLike, eps: float = 0.0) -> Floats:
    """Overlap (n,) of box i of ``a`` (n, 2, 3) with box i of ``b`` (n, 2, 3); as :func:`iou` in float64."""
    a, b = np.asarray(a, np.float64).reshape(-1, 2, 3), np.asarray(b, np.float64).reshape(-1, 2, 3)
    shared = np.maximum(np.minimum(a[:, 1], b[:, 1]) - np.maximum(a[:, 0], b[:, 0]), 0).prod(axis=-1)
    union = (a[:, 1] - a[:, 0]).prod(axis=-1) + (b[:, 1] - b[:, 0]).prod(axis=-1) - shared + eps
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def nms(bounds: ArrayLike, scores: ArrayLike, threshold: float) -> NDArray[np.intp]:
    """Non-maximum suppression: indices of the boxes kept, best score first.

    A box goes when its IoU with a better kept one is above ``threshold``. Equal scores keep their order.

    Args:
        bounds: (n, 2, 3); n may be 0.
        scores: (n,).
        threshold: IoU, 0 to 1.
    """
    bounds = np.asarray(bounds, np.float64).reshape(-1, 2, 3)
    order = np.argsort(-np.asarray(scores, np.float64).reshape(-1), kind="stable")
    kept: list[int] = []
    while order.size:
        best, rest = order[0], order[1:]
        kept.append(int(best))
        order = rest[iou(bounds[best][None], bounds[rest])[0] <= threshold]
    return np.array(kept, np.intp)


def match_greedy(overlap: ArrayLike, threshold: float = 0.0) -> list[tuple[int, int]]:
    """Pairs (row, column) taken in order of falling overlap, each row and column at most once.

    Args:
        overlap: (n, m) matrix such as that of :func:`iou`.
        threshold: Pairs must lie above it, so that 0 leaves out boxes that do not touch.
    """
    overlap = np.asarray(overlap, np.float64)
    pairs: list[tuple[int, int]] = []
    rows: set[int] = set()
    columns: set[int] = set()
    for flat in np.argsort(-overlap, axis=None, kind="stable"):
        row, column = divmod(int(flat), overlap.shape[1])
        if overlap[row, column] <= threshold:
            break
        if row not in rows and column not in columns:
            rows.add(row)
            columns.add(column)
            pairs.append((row, column))
    return pairs
