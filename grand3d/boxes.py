"""Boxes as arrays: forms and overlap. Metres, z up; numpy only, no state.

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
FLOAT32_EPS = float(np.finfo(np.float32).eps)
"""Likewise by M3DRef-CLIP and torchmetrics_ext, in float32."""


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
