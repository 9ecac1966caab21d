"""Boxes from points: which points belong to which object, and the axis-aligned boxes around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grand3d.boxes import Floats
from grand3d.errors import GrandError, shown
from grand3d.files import visible
from grand3d.scene import MAX_LABEL, Object, Triple


def boxes_by_instance(points: ArrayLike, instances: ArrayLike) -> dict[int, Floats]:
    """Bounds (2, 3) of the points of each instance, by ascending number; one pass over points sorted by instance.

    Args:
        points: (n, 3).
        instances: (n,) whole numbers.

    Raises:
        GrandError: If there are not as many numbers as points.
    """
    points, instances = np.asarray(points, np.float64).reshape(-1, 3), np.asarray(instances)
    if instances.shape != (len(points),):
        raise GrandError(f"{len(instances)} labels for {len(points)} points, expected one for each", "lengths differ")
    if not len(points):
        return {}
    order = np.argsort(instances, kind="stable")
    numbers, starts = np.unique(instances[order], return_index=True)
    low = np.minimum.reduceat(points[order], starts)
    high = np.maximum.reduceat(points[order], starts)
    return {int(number): np.stack([low[k], high[k]]) for k, number in enumerate(numbers)}


def object_of_bounds(object_id: str, category: str, bounds: ArrayLike, **more: Any) -> Object:
    """An object whose centroid is the middle of its box, never the mean of its points."""
    low, high = np.asarray(bounds, np.float64)
    return Object(object_id, category, triple((low + high) / 2), triple(high - low), **more)


def object_of_axes(
    object_id: str, category: str, centroid: ArrayLike, lengths: ArrayLike, axes: ArrayLike, **more: Any
) -> Object:
    """An object with an oriented box.

    Args:
        centroid: Middle of the box.
        lengths: Full sides along ``axes``, metres.
        axes: (3, 3), one axis a row. Axes that form a left hand are mirrored, which leaves the box what it is.

    Raises:
        GrandError: If the axes are not at right angles, or of no length.
    """
    turn = np.asarray(axes, np.float64).T  # columns: box axes in scene axes
    norms = np.linalg.norm(turn, axis=0)
    if not (np.isfinite(turn).all() and (norms > 0).all()):
        raise GrandError(f"axes are {shown(np.asarray(axes).tolist())}, expected three of some length", "bad rotation")
    turn = turn / norms
    if np.abs(turn.T @ turn - np.eye(3)).max() > 1e-2:
        raise GrandError(f"axes are {shown(np.asarray(axes).tolist())}, expected three at right angles", "bad rotation")
    left, _, right = np.linalg.svd(turn)
    turn = left @ right  # exactly at right angles
    if np.linalg.det(turn) < 0:
        turn[:, 2] = -turn[:, 2]
    sides = np.asarray(lengths, np.float64)
    order = np.argmax(np.abs(turn), axis=1)
    if sorted(order) == [0, 1, 2] and np.abs(turn[np.arange(3), order]).min() > 1 - 1e-12:
        return Object(object_id, category, triple(centroid), triple(sides[order]), **more)
    return Object(object_id, category, triple(centroid), triple(sides), tuple(triple(row) for row in turn), **more)


def triple(values: ArrayLike) -> Triple:
    """Three numbers as plain floats."""
    x, y, z = np.asarray(values, np.float64)
    return float(x), float(y), float(z)


def category_of(label: Any) -> str:
    """A label on one line, blanks within and around it made single.

    Raises:
        GrandError: If nothing is left of it, or too much to be a name.
    """
    if not isinstance(label, str):
        raise GrandError(f"label is {shown(label)}, expected text", "wrong type")
    text = " ".join(label.replace("\0", " ").split())
    if not visible(text):
        raise GrandError(f"label is {shown(label)}, expected a name with something to see in it", "blank label")
    if len(text) > MAX_LABEL:
        raise GrandError(f"label is {shown(label)}, {len(text)} characters, expected at most {MAX_LABEL}", "bad category")
    return text


def whole_numbers(values: Sequence[Any] | NDArray[Any], what: str) -> NDArray[np.int64]:
    """Whole numbers from a list or array, which may be stored as floats (``1.0``).

    Raises:
        GrandError: Starting with ``what``, if they are something else.
    """
    try:
        array = np.asarray(values)
        if array.ndim != 1 or (array.dtype.kind not in "iuf" and len(array)):
            raise ValueError
        whole = array.astype(np.int64)
        if len(array) and not (np.isfinite(array).all() and (whole == array).all()):
            raise ValueError
    except (ValueError, TypeError, OverflowError):
        seen = shown(values) if isinstance(values, list) else "of another kind"
        raise GrandError(f"{what} are {seen}, expected whole numbers", "bad number") from None
    return whole
