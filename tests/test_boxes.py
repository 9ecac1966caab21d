from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
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
@given(some_boxes, some_boxes)
def test_iou_is_symmetric_and_between_zero_and_one(a: np.ndarray, b: np.ndarray) -> None:
    overlap = boxes.iou(a, b)
    assert overlap.shape == (len(a), len(b))
    assert ((overlap >= 0) & (overlap <= 1 + 1e-9)).all()
    np.testing.assert_allclose(overlap, boxes.iou(b, a).T, atol=1e-12)


@quick
@given(some_boxes, st.floats(-4e4, 4e4))
def test_iou_of_boxes_far_from_the_origin_stays(bounds: np.ndarray, shift: float) -> None:
    solid = bounds + np.array([[-0.05], [0.05]])
    np.testing.assert_allclose(boxes.iou(solid + shift, solid + shift), boxes.iou(solid, solid), atol=1e-6)
    np.testing.assert_allclose(np.diag(boxes.iou(solid + shift, solid + shift)), 1, atol=1e-12)


def test_iou_of_two_flat_boxes_is_zero_not_nan() -> None:
    flat = [[[0, 0, 0], [1, 1, 0]]]
    assert boxes.iou(flat, flat).tolist() == [[0.0]]


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


def _turn(angle: float) -> list[list[float]]:
    return [[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]]


def test_hull_of_a_cube_turned_by_45_degrees_is_wider_by_root_two() -> None:
    low, high = boxes.hull([1, 2, 3], [1, 1, 1], _turn(math.pi / 4))
    np.testing.assert_allclose(high - low, [math.sqrt(2), math.sqrt(2), 1])
    np.testing.assert_allclose((low + high) / 2, [1, 2, 3])


@quick
@given(st.tuples(*[sides] * 3), st.floats(-math.pi, math.pi))
def test_hull_contains_exactly_the_turned_corners(extent: tuple[float, ...], angle: float) -> None:
    corners = np.array(list(itertools.product((-0.5, 0.5), repeat=3))) * extent
    turned = corners @ np.array(_turn(angle)).T
    expected = [turned.min(axis=0), turned.max(axis=0)]
    np.testing.assert_allclose(boxes.hull([0, 0, 0], extent, _turn(angle)), expected, atol=1e-9)


def test_objects_bounds_takes_the_hull_of_a_rotated_object_only() -> None:
    turn = tuple(map(tuple, _turn(math.pi / 2)))
    plain, turned = Object("0", "desk", (0, 0, 0), (2, 1, 1)), Object("1", "desk", (0, 0, 0), (2, 1, 1), rotation=turn)  # type: ignore[arg-type]
    bounds = boxes.objects_bounds([plain, turned])
    np.testing.assert_allclose(bounds[:, 1] - bounds[:, 0], [[2, 1, 1], [1, 2, 1]])
