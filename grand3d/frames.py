"""From the coordinates of a source to those of a scene and back: homogeneous matrices (4, 4) that act on column vectors.

A box keeps its own axes when it is moved, so nothing is lost on the way: an axis-aligned box turned by 20 degrees is an oriented
one, and turned back it is the box it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grand3d.errors import GrandError, shown
from grand3d.files import is_number
from grand3d.scene import Matrix, Object, Scene, is_similarity

Floats = NDArray[np.float64]

IDENTITY: Matrix = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))
Y_UP: Matrix = ((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, -1.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
"""From y up to z up: (x, y, z) becomes (x, -z, y)."""
UNIT_SCALES = {"m": 1.0, "cm": 0.01, "mm": 0.001}
_PARALLEL = 1e-9
"""Largest sine of the angle between two axes that are taken for one."""


def as_matrix(value: Any, what: str) -> Matrix:
    """A matrix from 16 numbers, row by row, or 4 rows of 4.

    Raises:
        GrandError: Starting with ``what``, unless it turns, scales alike in all directions and shifts.
    """
    if isinstance(value, list | tuple) and len(value) == 16 and all(map(is_number, value)):
        value = [value[4 * row : 4 * row + 4] for row in range(4)]
    if not is_similarity(value):
        expected = "expected 16 numbers, row by row, of a turn, a scale and a shift, the last four 0 0 0 1"
        raise GrandError(f"{what} is {shown(value)}, {expected}; is it transposed?", "bad transform")
    return tuple(tuple(float(x) for x in row) for row in value)  # type: ignore[return-value]


def rows_of(matrix: ArrayLike) -> Matrix:
    """A matrix as plain rows, for ``Scene.transform``."""
    return tuple(tuple(float(x) for x in row) for row in np.asarray(matrix, np.float64))  # type: ignore[return-value]


def inverse(matrix: ArrayLike) -> Matrix:
    """The way back."""
    return rows_of(np.linalg.inv(np.asarray(matrix, np.float64)))


def compose(*matrices: ArrayLike) -> Matrix:
    """One matrix for several, the last of which acts first."""
    product = np.eye(4)
    for matrix in matrices:
        product = product @ np.asarray(matrix, np.float64)
    return rows_of(product)


def scaled(factor: float) -> Matrix:
    """The matrix that makes everything larger by a factor, such as 0.01 for centimetres."""
    return rows_of(np.diag([factor, factor, factor, 1.0]))


def from_quaternion(xyzw: Sequence[float], shift: Sequence[float] = (0.0, 0.0, 0.0)) -> Matrix:
    """The matrix of a quaternion (x, y, z, w) of any length above 0, and a shift.

    Raises:
        GrandError: If all four numbers are 0.
    """
    x, y, z, w = xyzw
    norm = x * x + y * y + z * z + w * w
    if not norm > 0:
        raise GrandError(f"the quaternion is {shown(list(xyzw))}, expected four numbers that are not all 0", "bad rotation")
    s = 2 / norm
    turn = [
        [1 - s * (y * y + z * z), s * (x * y - z * w), s * (x * z + y * w)],
        [s * (x * y + z * w), 1 - s * (x * x + z * z), s * (y * z - x * w)],
        [s * (x * z - y * w), s * (y * z + x * w), 1 - s * (x * x + y * y)],
    ]
    return rows_of([*([*row, move] for row, move in zip(turn, shift, strict=True)), [0, 0, 0, 1]])


def apply(matrix: ArrayLike, points: ArrayLike) -> Floats:
    """Points (..., 3) moved by a matrix, float64."""
    matrix = np.asarray(matrix, np.float64)
    return np.asarray(points, np.float64) @ matrix[:3, :3].T + matrix[:3, 3]


def move_object(item: Object, matrix: ArrayLike) -> Object:
    """An object in other coordinates: the same box, oriented if its axes are no longer those of the scene."""
    matrix = np.asarray(matrix, np.float64)
    scale = float(np.cbrt(np.linalg.det(matrix[:3, :3])))
    own = np.eye(3) if item.rotation is None else np.asarray(item.rotation, np.float64)
    turn = matrix[:3, :3] / scale @ own
    centroid = tuple(float(x) for x in apply(matrix, item.centroid))
    sides = scale * np.asarray(item.extent, np.float64)
    order = np.argmax(np.abs(turn), axis=1)  # order[k]: which own axis lies along axis k of the scene
    aside = np.abs(turn)
    aside[np.arange(3), order] = 0
    if sorted(order) == [0, 1, 2] and aside.max() <= _PARALLEL:
        return replace(item, centroid=centroid, extent=tuple(float(x) for x in sides[order]), rotation=None)
    rotation = tuple(tuple(float(x) for x in row) for row in turn)
    return replace(item, centroid=centroid, extent=tuple(float(x) for x in sides), rotation=rotation)


def source_objects(scene: Scene) -> tuple[Object, ...]:
    """The objects of a scene in the coordinates of its source's files: the way back to the scan.

    Raises:
        GrandError: If the scene does not know its transform.
    """
    if scene.transform is None:
        reason = "has no transform, expected the matrix from its source's coordinates; was it converted from a scan?"
        raise GrandError(f"scene {shown(scene.scene_id)} {reason}", "no transform")
    back = inverse(scene.transform)
    return tuple(move_object(item, back) for item in scene.objects)
