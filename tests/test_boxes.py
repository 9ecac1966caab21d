from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d import boxes
from grand3d.scene import Object

UNIT = [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
coordinates = st.floats(-20, 20, allow_nan=False, width=32)
sides = st.floats(0, 8, allow_nan=False, width=32)
some_boxes = st.lists(st.tuples(*[coordinates] * 3, *[sides] * 3), min_size=1, max_size=6).map(
    lambda rows: boxes.to_bounds([r[:3] for r in rows], [r[3:] for r in rows])
)
quick = settings(max_examples=40, deadline=None)


@quick
@given(some_boxes)
def test_from_bounds_of_to_bounds_returns_centroid_and_extent(bounds: np.ndarray) -> None:
    centroid, extent = boxes.from_bounds(bounds)
    np.testing.assert_allclose(boxes.to_bounds(centroid, extent), bounds, atol=1e-12)


@quick
@given(some_boxes)
def test_points_bounds_of_corners_in_any_order_returns_the_bounds(bounds: np.ndarray) -> None:
    points = boxes.corners(bounds)
    assert points.shape == (len(bounds), 8, 3)
    np.testing.assert_array_equal(boxes.points_bounds(points[:, [3, 0, 7, 4, 1, 6, 2, 5]]), bounds)


def test_corners_are_eight_different_points_with_x_changing_fastest() -> None:
    points = boxes.corners(UNIT)
    assert points[1].tolist() == [1, 0, 0]
    assert points[4].tolist() == [0, 0, 1]
    assert len({tuple(p) for p in points.tolist()}) == 8


@quick
@given(some_boxes, some_boxes)
def test_iou_is_symmetric_and_between_zero_and_one(a: np.ndarray, b: np.ndarray) -> None:
    overlap = boxes.iou(a, b)
    assert overlap.shape == (len(a), len(b))
    assert ((overlap >= 0) & (overlap <= 1 + 1e-9)).all()
    np.testing.assert_allclose(overlap, boxes.iou(b, a).T, atol=1e-12)


@quick
@given(some_boxes, st.floats(-4e4, 4e4))
def test_iou_of_boxes_far_from_the_origin_stays(bounds: np.ndarray, shift: float) -> None:
    solid = boxes.to_bounds(boxes.from_bounds(bounds)[0], boxes.from_bounds(bounds)[1] + 0.1)
    np.testing.assert_allclose(boxes.iou(solid + shift, solid + shift), boxes.iou(solid, solid), atol=1e-6)
    np.testing.assert_allclose(np.diag(boxes.iou(solid + shift, solid + shift)), 1, atol=1e-12)


def test_iou_of_two_flat_boxes_is_zero_not_nan() -> None:
    flat = [[[0, 0, 0], [1, 1, 0]]]
    assert boxes.iou(flat, flat).tolist() == [[0.0]]
    assert boxes.paired_iou(flat, flat).tolist() == [0.0]


def test_iou_with_no_boxes_has_an_empty_side() -> None:
    none = boxes.objects_bounds([])
    assert none.shape == (0, 2, 3)
    assert boxes.iou(none, [UNIT]).shape == (0, 1)
    assert boxes.iou([UNIT], none).shape == (1, 0)


def test_iou_eps_turns_an_exact_half_into_a_miss() -> None:
    half = [[[0, 0, 0], [1, 1, 0.5]]]
    assert boxes.iou([UNIT], half)[0, 0] == 0.5
    assert boxes.iou([UNIT], half, boxes.SCANREFER_EPS)[0, 0] == 0.4999999950000001


def test_iou_golden_cases_give_the_value_of_every_evaluator(golden: Callable[[str], Path]) -> None:
    cases = json.loads(golden("scanrefer/aabb_iou_cases.json").read_text())["cases"]
    small = float(np.finfo(np.float32).eps)
    rules = {
        "scanrefer_box3d_iou": (boxes.SCANREFER_EPS, np.float64),
        "torchmetrics_ext_iou_f32": (small, np.float32),
        "m3dref_iou_f32": (small, np.float32),
        "vigil3d_repo_iou_f32": (0.0, np.float32),
    }
    assert len(cases) >= 10
    for case in cases:
        for name, (eps, dtype) in rules.items():
            assert float(boxes.iou(case["a"], case["b"], eps, dtype)[0, 0]) == case[name], (case["name"], name)


@quick
@given(some_boxes, some_boxes)
def test_paired_iou_is_the_diagonal_of_iou(a: np.ndarray, b: np.ndarray) -> None:
    n = min(len(a), len(b))
    np.testing.assert_array_equal(boxes.paired_iou(a[:n], b[:n], 1e-8), np.diag(boxes.iou(a[:n], b[:n], 1e-8)))


def _turn(angle: float) -> list[list[float]]:
    return [[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]]


def test_hull_of_a_cube_turned_by_45_degrees_is_wider_by_root_two() -> None:
    _, extent = boxes.from_bounds(boxes.hull([1, 2, 3], [1, 1, 1], _turn(math.pi / 4)))
    np.testing.assert_allclose(extent, [math.sqrt(2), math.sqrt(2), 1])


@quick
@given(st.tuples(*[sides] * 3), st.floats(-math.pi, math.pi))
def test_hull_contains_exactly_the_turned_corners(extent: tuple[float, ...], angle: float) -> None:
    turned = boxes.corners(boxes.to_bounds([0, 0, 0], extent)) @ np.array(_turn(angle)).T
    np.testing.assert_allclose(boxes.hull([0, 0, 0], extent, _turn(angle)), boxes.points_bounds(turned), atol=1e-9)


def test_objects_bounds_takes_the_hull_of_a_rotated_object_only() -> None:
    turn = tuple(map(tuple, _turn(math.pi / 2)))
    plain, turned = Object("0", "desk", (0, 0, 0), (2, 1, 1)), Object("1", "desk", (0, 0, 0), (2, 1, 1), rotation=turn)  # type: ignore[arg-type]
    _, extent = boxes.from_bounds(boxes.objects_bounds([plain, turned]))
    np.testing.assert_allclose(extent, [[2, 1, 1], [1, 2, 1]])


@pytest.mark.parametrize("count", [0, 1])
def test_nms_of_no_or_one_box_returns_them_all(count: int) -> None:
    kept = boxes.nms(np.array([UNIT] * count), [0.3] * count, 0.5)
    assert kept.tolist() == list(range(count))


def test_nms_drops_the_worse_of_two_near_boxes_and_keeps_the_far_one() -> None:
    bounds = [UNIT, [[0, 0, 0.1], [1, 1, 1.1]], [[5, 5, 5], [6, 6, 6]]]
    assert boxes.nms(bounds, [0.2, 0.9, 0.1], 0.5).tolist() == [1, 2]
    assert boxes.nms(bounds, [0.2, 0.9, 0.1], 0.95).tolist() == [1, 0, 2]


def test_nms_of_equal_scores_keeps_the_first() -> None:
    assert boxes.nms([UNIT, UNIT], [0.5, 0.5], 0.5).tolist() == [0]


def test_match_greedy_takes_the_best_pair_first_and_each_side_once() -> None:
    assert boxes.match_greedy([[0.9, 0.8], [0.85, 0.0]]) == [(0, 0)]
    assert boxes.match_greedy([[0.5, 0.8], [0.6, 0.7]], 0.55) == [(0, 1), (1, 0)]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_match_greedy_of_an_empty_matrix_is_empty(shape: tuple[int, int]) -> None:
    assert boxes.match_greedy(np.zeros(shape)) == []
