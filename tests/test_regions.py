from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d import regions
from grand3d.scene import Object, Region, Scene

SQUARE = ((0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0))
L_SHAPE = ((0.0, 0.0), (4.0, 0.0), (4.0, 1.0), (1.0, 1.0), (1.0, 3.0), (0.0, 3.0))


def test_area_of_a_ring_has_the_sign_of_its_direction() -> None:
    assert regions.area(SQUARE) == 16 and regions.area(SQUARE[::-1]) == -16
    assert regions.area(L_SHAPE) == 6 and regions.area(()) == 0 and regions.area(SQUARE[:2]) == 0


@settings(max_examples=200, deadline=None)
@given(st.floats(-1, 5), st.floats(-1, 5))
def test_inside_of_an_l_shape_is_that_of_its_two_rectangles(x: float, y: float) -> None:
    expected = (0 < x < 4 and 0 < y < 1) or (0 < x < 1 and 0 < y < 3)
    on_a_side = any(abs(v - w) < 1e-9 for v, w in ((x, 0), (x, 1), (x, 4), (y, 0), (y, 1), (y, 3)))
    assert on_a_side or regions.inside(L_SHAPE, [(x, y)])[0] == expected


def joined(cells: set[tuple[int, int]]) -> list[set[tuple[int, int]]]:
    """Parts of a floor whose cells share sides."""
    left, parts = set(cells), []
    while left:
        part, todo = set(), [left.pop()]
        while todo:
            x, y = todo.pop()
            part.add((x, y))
            near = {(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)} & left
            left -= near
            todo += near
        parts.append(part)
    return parts


@settings(max_examples=150, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=20))
def test_outline_of_cells_encloses_what_they_cover_where_it_is_one_ring(cells: set[tuple[int, int]]) -> None:
    vertices: list[tuple[float, float]] = []
    triangles: list[tuple[int, int, int]] = []
    for x, y in sorted(cells):
        k = len(vertices)
        vertices += [(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)]
        triangles += [(k, k + 1, k + 2), (k, k + 2, k + 3)]
    ring = regions.outline(vertices, triangles)
    assert regions.area(ring) > 0
    largest = max(joined(cells), key=lambda part: (len(part), -min(part)[0]))
    assert regions.area(ring) >= len(largest)  # a part with a hole encloses more than it covers
    within = {cell for cell in cells if regions.inside(ring, [(cell[0] + 0.5, cell[1] + 0.5)])[0]}
    assert any(part <= within for part in joined(cells))
    if cells == {(0, 0), (1, 0)}:
        assert ring == ((0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (0.0, 1.0))


def test_outline_leaves_out_corners_on_a_straight_line_and_says_nothing_of_no_ring() -> None:
    vertices = [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (0, 1)]
    ring = regions.outline(vertices, [(0, 1, 4), (0, 4, 5), (1, 2, 3), (1, 3, 4)])
    assert set(ring) == {(0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (0.0, 1.0)} and regions.area(ring) == 2
    assert regions.outline([(0, 0), (1, 0)], np.zeros((0, 3))) == ()


def test_members_are_those_named_else_those_inside_the_smallest_polygon() -> None:
    objects = (
        Object("a", "desk", (0.5, 0.5, 0.4), (1, 1, 1)),
        Object("b", "bed", (3.5, 3.5, 0.4), (1, 1, 1)),
        Object("c", "tree", (9, 9, 1), (1, 1, 1)),
        Object("d", "lamp", (3.5, 3.5, 0.4), (1, 1, 1), region_id="nook"),
        Object("e", "sink", (9, 9, 1), (1, 1, 1)),
    )
    rooms = (
        Region("room", "room", SQUARE),
        Region("nook", "nook", ((0, 0), (1, 0), (1, 1), (0, 1))),
        Region("bath", "bath", (), ("e",)),
    )
    scene = regions.with_members(Scene("s", objects, rooms))
    assert [item.region_id for item in scene.objects] == ["nook", "room", None, "nook", "bath"]
    assert [region.object_ids for region in scene.regions] == [("b",), ("a", "d"), ("e",)]
    assert regions.with_members(scene) == scene


def test_rectangle_runs_counter_clockwise() -> None:
    assert regions.area(regions.rectangle((1, 2, 9), (3, 5, 9))) == pytest.approx(6)
