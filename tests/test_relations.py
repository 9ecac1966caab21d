from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d import relations as rel
from grand3d.scene import Object

few = settings(max_examples=60, deadline=None)
# Steps of 1/8 m are exact in binary, so that moving a scene by whole metres changes no sum.
place = st.integers(-40, 40).map(lambda n: n / 8)
side = st.integers(1, 16).map(lambda n: n / 8)
boxes = st.builds(lambda c, e: Object("o", "thing", c, e), st.tuples(place, place, place), st.tuples(side, side, side))
shifts = st.tuples(*[st.integers(-5, 5).map(float)] * 3)


def box(x: float, y: float, z: float, w: float = 0.5, d: float = 0.5, h: float = 0.5) -> Object:
    return Object("o", "thing", (x, y, z), (w, d, h))


def moved(item: Object, shift: tuple[float, float, float]) -> Object:
    return replace(item, centroid=tuple(c + s for c, s in zip(item.centroid, shift, strict=True)))  # type: ignore[arg-type]


SYMMETRIC = (rel.near, rel.beside, rel.gap, rel.floor_gap, rel.cover, rel.distance, rel.floor_distance)
ONE_WAY = (rel.on, rel.above, rel.below, rel.under, rel.supports, rel.larger, rel.taller)


@pytest.mark.parametrize("relation", SYMMETRIC, ids=lambda f: f.__name__)
@few
@given(a=boxes, b=boxes)
def test_symmetric_relation_swapped_arguments_equal(relation, a, b) -> None:
    assert relation(a, b) == relation(b, a)


@pytest.mark.parametrize("relation", ONE_WAY, ids=lambda f: f.__name__)
@few
@given(a=boxes, b=boxes)
def test_one_way_relation_swapped_arguments_not_both(relation, a, b) -> None:
    assert not (relation(a, b) and relation(b, a))


@pytest.mark.parametrize("relation", [*SYMMETRIC[:2], *ONE_WAY], ids=lambda f: f.__name__)
@few
@given(a=boxes, b=boxes, shift=shifts)
def test_relation_scene_moved_unchanged(relation, a, b, shift) -> None:
    assert relation(a, b) == relation(moved(a, shift), moved(b, shift))


@few
@given(items=st.lists(boxes, min_size=3, max_size=5), shift=shifts)
def test_room_relations_scene_moved_unchanged(items, shift) -> None:
    there = [moved(o, shift) for o in items]
    here_bounds, there_bounds = rel.room_bounds(items), rel.room_bounds(there)
    for test in (rel.in_corner, rel.in_middle, rel.against_wall):
        assert [test(o, here_bounds) for o in items] == [test(o, there_bounds) for o in there]
    assert rel.between(*items[:3]) == rel.between(*there[:3])


@few
@given(a=boxes, b=boxes, viewpoint=st.tuples(place, place))
def test_side_of_swapped_arguments_opposite(a, b, viewpoint) -> None:
    opposite = {"left": "right", "right": "left", "front": "behind", "behind": "front", None: None}
    assert rel.side_of(a, b, viewpoint) == opposite[rel.side_of(b, a, viewpoint)]


@few
@given(items=st.lists(boxes, min_size=2, max_size=5), anchor=boxes)
def test_nearest_found_is_nearer_than_all_others(items, anchor) -> None:
    found = rel.nearest(items, anchor)
    if found is not None:
        assert all(rel.distance(found, anchor) < rel.distance(o, anchor) for o in items if o is not found)
    else:
        first, second = sorted(rel.distance(o, anchor) for o in items)[:2]
        assert second - first <= rel.CLEAR_MARGIN * second


def test_on_cup_on_desk_true_and_supported() -> None:
    desk, cup = box(0, 0, 0.36, 1.6, 0.8, 0.72), box(0.3, 0.1, 0.77, 0.1, 0.1, 0.1)
    assert rel.on(cup, desk)
    assert rel.supports(desk, cup)
    assert not rel.above(cup, desk)


def test_on_pillow_below_head_of_bed_true() -> None:
    bed, pillow = box(0, 0, 0.5, 2.0, 1.6, 1.0), box(-0.7, 0.3, 0.62, 0.6, 0.4, 0.2)
    assert rel.on(pillow, bed)


def test_under_bin_within_desk_true_on_false() -> None:
    desk, bin_ = box(0, 0, 0.36, 1.6, 0.8, 0.72), box(0.5, 0, 0.2, 0.3, 0.3, 0.4)
    assert rel.under(bin_, desk)
    assert not rel.on(bin_, desk)
    assert not rel.under(desk, bin_)


def test_above_cabinet_over_counter_true() -> None:
    counter, cabinet = box(0, 0, 0.45, 2, 0.6, 0.9), box(0, 0.1, 1.8, 2, 0.4, 0.7)
    assert rel.above(cabinet, counter)
    assert rel.below(counter, cabinet)


def test_beside_gap_too_wide_false() -> None:
    assert rel.beside(box(0, 0, 0.5), box(0.5 + rel.BESIDE_GAP - 0.01, 0, 0.5))
    assert not rel.beside(box(0, 0, 0.5), box(0.5 + rel.BESIDE_GAP + 0.01, 0, 0.5))


def test_between_thing_on_the_way_true_off_it_false() -> None:
    a, b = box(-2, 0, 0.5), box(2, 0, 0.5)
    assert rel.between(box(0, 0.5, 0.5), a, b)
    assert not rel.between(box(0, 2, 0.5), a, b)
    assert not rel.between(box(1.9, 0, 0.5), a, b)


def test_between_anchors_in_one_place_false() -> None:
    assert not rel.between(box(0, 0, 0.5), box(1, 1, 0.5), box(1, 1, 1.5))


def test_nearest_two_equally_far_none() -> None:
    assert rel.nearest([box(1, 0, 0), box(-1, 0, 0)], box(0, 0, 0)) is None
    assert rel.nearest([], box(0, 0, 0)) is None


def test_extremes_clear_winner_found() -> None:
    small, big, tall = box(0, 0, 0, 0.2, 0.2, 0.2), box(0, 0, 0, 2, 2, 0.5), box(0, 0, 0, 0.3, 0.3, 2)
    group = [small, big, tall]
    assert rel.largest(group) is big
    assert rel.smallest(group) is small
    assert rel.tallest(group) is tall
    assert rel.larger(big, small)
    assert rel.taller(tall, big)


def test_side_of_left_seen_from_the_other_side_is_right() -> None:
    a, b = box(-1, 0, 0.5), box(1, 0, 0.5)
    assert rel.side_of(a, b, (0, -5)) == "left"
    assert rel.side_of(a, b, (0, 5)) == "right"


def test_side_of_what_is_nearer_to_the_viewer_is_front() -> None:
    assert rel.side_of(box(0, -1, 0.5), box(0, 1, 0.5), (0, -5)) == "front"
    assert rel.side_of(box(0, -1, 0.5), box(0, 1, 0.5), (0, 5)) == "behind"


def test_room_places_corner_wall_middle() -> None:
    bounds = (-3.0, -3.0, 3.0, 3.0)
    assert rel.in_corner(box(2.6, 2.6, 0.5), bounds)
    assert not rel.in_corner(box(2.6, 0, 0.5), bounds)
    assert rel.against_wall(box(2.6, 0, 0.5), bounds)
    assert not rel.against_wall(box(0, 0, 0.5), bounds)
    assert rel.in_middle(box(0.2, -0.2, 0.5), bounds)
    assert not rel.in_middle(box(2.0, 0, 0.5), bounds)


def test_room_bounds_no_objects_zero() -> None:
    assert rel.room_bounds([]) == (0.0, 0.0, 0.0, 0.0)


def test_order_from_left_to_right_as_seen() -> None:
    items = [box(1, 0, 0), box(-1, 0, 0), box(0, 0, 0)]
    assert [o.centroid[0] for o in rel.order_from(items, (0, -4))] == [-1, 0, 1]
    assert [o.centroid[0] for o in rel.order_from(items, (0, 4))] == [1, 0, -1]


def test_aligned_row_names_its_axis() -> None:
    row = [box(x, 0.1 * (x % 2), 0) for x in range(4)]
    assert rel.aligned(row) == 0
    assert rel.aligned([replace(o, centroid=(o.centroid[1], o.centroid[0], 0)) for o in row]) == 1
    assert rel.aligned(row[:2]) is None
    assert rel.aligned([*row, box(0, 2, 0)]) is None


def test_facing_heading_towards_other_true() -> None:
    chair = box(0, 0, 0.5)
    assert rel.facing(chair, 0.0, box(2, 0.3, 0.5))
    assert not rel.facing(chair, math.pi, box(2, 0.3, 0.5))
    assert not rel.facing(chair, 0.0, chair)
