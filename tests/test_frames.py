from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d import frames
from grand3d.boxes import objects_bounds
from grand3d.errors import GrandError
from grand3d.oriented import as_boxes, corners
from grand3d.scene import Object, Scene, scene_from_dict, scene_to_dict

angles = st.floats(-math.pi, math.pi)
places = st.tuples(*[st.floats(-20, 20)] * 3)
sides = st.tuples(*[st.floats(0.01, 5)] * 3)
quaternions = st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: sum(x * x for x in q) > 0.01)


def _corners(item: Object) -> np.ndarray:
    rotation = np.eye(3) if item.rotation is None else np.asarray(item.rotation)
    return corners(as_boxes([{"center": item.centroid, "size": item.extent, "rot": rotation}]))[0]


def _sorted(points: np.ndarray) -> np.ndarray:
    return points[np.lexsort(np.round(points, 5).T)]


@settings(max_examples=60, deadline=None)
@given(places, sides, quaternions, places, st.floats(0.01, 10))
def test_a02_a_box_moved_there_and_back_is_the_box_it_was(
    centroid: tuple[float, ...], extent: tuple[float, ...], turn: tuple[float, ...], shift: tuple[float, ...], scale: float
) -> None:
    item = Object("0", "desk", centroid, extent)
    matrix = frames.compose(frames.from_quaternion(turn, shift), frames.scaled(scale))
    scene = Scene("room", (frames.move_object(item, matrix),), transform=matrix)
    stored = scene_from_dict(scene_to_dict(scene))
    back = frames.source_objects(stored)[0]
    assert np.allclose(objects_bounds([back]), objects_bounds([item]), atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(places, sides, quaternions, quaternions, places)
def test_a_moved_box_has_the_moved_corners(
    centroid: tuple[float, ...],
    extent: tuple[float, ...],
    own: tuple[float, ...],
    turn: tuple[float, ...],
    shift: tuple[float, ...],
) -> None:
    rotation = tuple(row[:3] for row in frames.from_quaternion(own)[:3])
    item = Object("0", "desk", centroid, extent, rotation)
    matrix = frames.from_quaternion(turn, shift)
    moved = frames.move_object(item, matrix)
    distance = np.linalg.norm(frames.apply(matrix, _corners(item))[:, None] - _corners(moved)[None], axis=-1)
    assert distance.min(axis=0).max() < 1e-6 and distance.min(axis=1).max() < 1e-6


def test_a_quarter_turn_keeps_a_box_axis_aligned_and_swaps_its_sides() -> None:
    quarter = frames.from_quaternion((0, 0, math.sin(math.pi / 4), math.cos(math.pi / 4)))
    moved = frames.move_object(Object("0", "bed", (1, 2, 0.5), (2, 1, 0.5)), quarter)
    assert moved.rotation is None
    assert moved.extent == pytest.approx((1, 2, 0.5)) and moved.centroid == pytest.approx((-2, 1, 0.5))


def test_two_half_quarter_turns_leave_a_box_axis_aligned() -> None:
    eighth = frames.from_quaternion((0, 0, math.sin(math.pi / 8), math.cos(math.pi / 8)))
    once = frames.move_object(Object("0", "bed", (1, 2, 0.5), (2, 1, 0.5)), eighth)
    twice = frames.move_object(once, eighth)
    assert once.rotation is not None and twice.rotation is None and twice.extent == pytest.approx((1, 2, 0.5))


def test_y_up_puts_the_height_last_and_keeps_hands() -> None:
    assert frames.apply(frames.Y_UP, [1, 2, 3]) == pytest.approx([1, -3, 2])
    moved = frames.move_object(Object("0", "lamp", (0, 1, 0), (0.2, 2.0, 0.4)), frames.Y_UP)
    assert moved.extent == pytest.approx((0.2, 0.4, 2.0)) and moved.rotation is None
    assert np.linalg.det(np.asarray(frames.Y_UP)[:3, :3]) == pytest.approx(1)


@pytest.mark.parametrize(
    "value",
    [
        [1, 0, 0, 0] * 4,
        list(range(16)),
        [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 5, 6, 7, 1],  # transposed
        [-1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1],  # a mirror
        [1, 0, 0, float("nan"), 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1],
        "identity",
        None,
    ],
)
def test_as_matrix_refuses_what_does_not_turn_scale_and_shift(value: object) -> None:
    with pytest.raises(GrandError, match=r"M is .*expected 16 numbers"):
        frames.as_matrix(value, "M")


def test_source_objects_of_a_scene_without_a_transform_is_refused() -> None:
    with pytest.raises(GrandError, match="has no transform, expected"):
        frames.source_objects(Scene("room", ()))
