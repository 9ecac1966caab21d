"""Overlap of oriented boxes against exact values, each path against the other, and the bound against both."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from grand3d import boxes as aligned
from grand3d import oriented
from grand3d.errors import GrandError
from grand3d.oriented import angles_zxy, as_boxes, corners, iou_oriented, rotation_zxy

places, lengths, turns = st.floats(-1.5, 1.5), st.floats(0.05, 3), st.floats(-math.pi, math.pi)
any_box = st.tuples(*[places] * 3, *[lengths] * 3, *[turns] * 3).map(np.array)
# whole numbers and right angles: faces that lie in each other, where clipping is known to fail
grid_box = st.tuples(*[st.integers(-2, 2)] * 3, *[st.integers(1, 3)] * 3, *[st.integers(0, 3).map(lambda k: k * math.pi / 2)] * 3)
grid_box = grid_box.map(lambda row: np.array(row, np.float64))


def one(a: np.ndarray, b: np.ndarray) -> float:
    return float(iou_oriented(a[None], b[None])[0, 0])


def test_golden_pairs(golden: Callable[[str], Path]) -> None:
    cases = json.loads(golden("mmscan/obb_iou_9dof.json").read_text())["cases"]
    assert len(cases) == 12
    for case in cases:
        assert one(np.array(case["a"], float), np.array(case["b"], float)) == pytest.approx(case["exact_manifold3d"], abs=1e-9)


def test_the_pair_that_pytorch3d_gets_wrong(golden: Callable[[str], Path]) -> None:
    case = json.loads(golden("mmscan/pytorch3d_known_bad.json").read_text())
    found = []
    for name in ("corners_a", "corners_b"):
        points = np.array(case[name])
        x, y, z = points[1] - points[0], points[3] - points[0], points[4] - points[0]
        turn = np.stack([v / np.linalg.norm(v) for v in (x, y, z)], axis=1)
        found.append(np.concatenate([points.mean(axis=0), [np.linalg.norm(v) for v in (x, y, z)], angles_zxy(turn)]))
    assert one(*found) == pytest.approx(case["exact"], abs=2e-4)  # the corners are rounded to 0.1 mm


@given(turns, st.floats(-1.5, 1.5), turns)
def test_angles_are_those_of_the_matrix(alpha: float, beta: float, gamma: float) -> None:
    turn = rotation_zxy([alpha, beta, gamma])
    assert np.allclose(turn @ turn.T, np.eye(3)) and np.isclose(np.linalg.det(turn), 1)
    assert np.allclose(rotation_zxy(angles_zxy(turn)), turn)


@given(any_box, any_box)
@settings(max_examples=60)
def test_overlap_is_symmetric_between_0_and_1_and_below_its_bound(a: np.ndarray, b: np.ndarray) -> None:
    value = one(a, b)
    assert 0 <= value <= 1 and value == pytest.approx(one(b, a), abs=1e-9) and one(a, a) == pytest.approx(1)
    turns = rotation_zxy(a[None, 6:]), rotation_zxy(b[None, 6:])
    most = oriented._most_shared(a[None], b[None], *turns, np.zeros((1, 1)))[0, 0]
    volumes = a[3:6].prod() + b[3:6].prod()
    assert value * volumes / (1 + value) <= most + 1e-9


@given(any_box, any_box, turns, st.tuples(places, places, places))
@settings(max_examples=60)
def test_overlap_stays_when_both_move_together(a: np.ndarray, b: np.ndarray, turn: float, shift: tuple[float, ...]) -> None:
    whole = rotation_zxy([turn, 0.3, -0.7])

    def moved(box: np.ndarray) -> np.ndarray:
        return np.concatenate([whole @ box[:3] + shift, box[3:6], angles_zxy(whole @ rotation_zxy(box[6:]))])

    assert one(moved(a), moved(b)) == pytest.approx(one(a, b), abs=1e-7)


@given(st.lists(grid_box, min_size=1, max_size=4), st.lists(grid_box, min_size=1, max_size=4))
@settings(max_examples=80)
def test_right_angles_are_axis_aligned_boxes(a: list[np.ndarray], b: list[np.ndarray]) -> None:
    left, right = (corners(np.stack(rows)) for rows in (a, b))
    expected = aligned.iou(*(np.stack([c.min(axis=1), c.max(axis=1)], axis=1) for c in (left, right)))
    assert np.allclose(iou_oriented(a, b), expected, atol=1e-9)


@given(any_box, any_box)
@settings(max_examples=60)
def test_upright_and_leaning_agree(a: np.ndarray, b: np.ndarray) -> None:
    a[7:] = b[7:] = 0
    pair = np.zeros((1, 2), int)
    general = oriented._leaning(a[None], b[None], rotation_zxy(a[None, 6:]), rotation_zxy(b[None, 6:]), pair)
    assert oriented._upright(a[None], b[None], pair) == pytest.approx(general, abs=1e-9)


def solid(box: np.ndarray) -> Any:
    manifold = pytest.importorskip("manifold3d", reason="manifold3d is not installed").Manifold
    turn = np.concatenate([rotation_zxy(box[6:]), box[:3, None]], axis=1)
    return manifold.cube(tuple(box[3:6]), True).transform(turn)


@given(any_box | grid_box, any_box | grid_box)
@settings(max_examples=150)
def test_overlap_is_that_of_manifold3d(a: np.ndarray, b: np.ndarray) -> None:
    shared = (solid(a) ^ solid(b)).volume()
    assert one(a, b) == pytest.approx(shared / (a[3:6].prod() + b[3:6].prod() - shared), abs=1e-7)


@given(any_box, st.integers(0, 2), st.floats(0.5, 1))
@settings(max_examples=60)
def test_boxes_that_share_faces_overlap_exactly(a: np.ndarray, axis: int, share: float) -> None:
    """The pair on which general polygon clipping gives nothing: one box with a part of it."""
    for lean in (0, 1):
        box = np.concatenate([a[:7], lean * a[7:]])
        part = box.copy()
        part[3 + axis] *= share
        part[:3] += rotation_zxy(box[6:])[:, axis] * (box[3 + axis] - part[3 + axis]) / 2  # flush with one side
        assert one(box, part) == pytest.approx(share, abs=1e-6 if lean else 1e-9)


@given(st.lists(any_box, min_size=1, max_size=5), st.lists(any_box, min_size=1, max_size=3), st.sampled_from([0.25, 0.5]))
@settings(max_examples=50)
def test_skipping_changes_nothing_from_the_threshold_on(a: list[np.ndarray], b: list[np.ndarray], least: float) -> None:
    everything, some = iou_oriented(a, b), iou_oriented(a, b, least)
    assert ((everything >= least) == (some >= least)).all()
    assert (some[some > 0] == everything[some > 0]).all()


@pytest.mark.parametrize("side", [0.0, 1e-9])
def test_thin_boxes_do_not_fail(side: float) -> None:
    thin, cube = np.array([0, 0, 0, 1, 1, side, 0.3, 0.2, 0.1]), np.array([0, 0, 0, 1, 1, 1, 0, 0, 0.0])
    assert one(thin, cube) == pytest.approx(0, abs=1e-8)
    assert one(thin, thin) in (0.0, pytest.approx(1, abs=0.1))


def test_no_boxes_have_no_overlap() -> None:
    assert iou_oriented(np.zeros((0, 9)), np.zeros((2, 9))).shape == (0, 2)


def test_boxes_are_read_in_their_forms() -> None:
    turn = rotation_zxy([0.4, 0.2, -0.1])
    rows = [[0, 0, 0, 1, 2, 3], [0, 0, 0, 1, 2, 3, 0.5], {"center": [1, 2, 3], "size": [1, 1, 2], "rot": turn.tolist()}]
    found = as_boxes(rows)
    assert found.shape == (3, 9) and found[1, 6] == 0.5 and np.allclose(found[2, 6:], [0.4, 0.2, -0.1])
    for wrong in ([1, 2], "box", {"center": [0, 0, 0]}, [0, 0, 0, -1, 1, 1], [0, 0, 0, 1, 1, math.nan], None):
        with pytest.raises(GrandError, match=r"box 0 .* expected"):
            as_boxes([wrong])


@given(any_box)
def test_corners_lie_at_half_the_sides(box: np.ndarray) -> None:
    assume(box[3:6].min() > 0.1)
    points = corners(box[None])[0]
    inside = (points - box[:3]) @ rotation_zxy(box[6:])
    assert np.allclose(np.abs(inside), box[3:6] / 2)
