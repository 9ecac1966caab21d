"""Objects merged into one line, and objects in another order or with other boxes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_serial import box, proposals, scenes

from grand3d.boxes import iou, objects_bounds
from grand3d.duplicates import merge_duplicates
from grand3d.scene import Scene
from grand3d.serial import FORMS, fit_scene, read_scene, swap_boxes, write_scene


@given(scenes(), st.floats(0.05, 0.95))
def test_merged_overlaps_stand_in_the_line_of_a_better_one(scene: Scene, overlap: float) -> None:
    merged, same = merge_duplicates(scene, overlap)
    assert set(merged.object_ids) | set(same) == set(scene.object_ids) and not set(merged.object_ids) & set(same)
    assert not set(same.values()) & set(same)
    score = {item.object_id: 1.0 if item.score is None else item.score for item in scene.objects}
    for gone, kept in same.items():
        assert score[kept] >= score[gone]
        assert scene[gone].category in merged[kept].category
    bounds = objects_bounds(merged.objects)
    shared = iou(bounds, bounds)
    assert all(shared[i, j] < overlap for i in range(len(bounds)) for j in range(i))


def test_merged_overlap_of_one_is_the_merging_of_equal_boxes() -> None:
    scene = Scene("s", (box("a", score=0.5), box("b", "stool", 0.004, score=0.9), box("c", "sofa", 0.2, score=0.7)))
    assert merge_duplicates(scene)[1] == {"a": "b"}
    assert merge_duplicates(scene, 0.6)[1] == {"a": "b", "c": "b"}
    assert merge_duplicates(scene, 0.6)[0]["b"].category == "stool/sofa/chair"
    assert fit_scene(scene, overlap=0.6).same == {"a": "b", "c": "b"}


@pytest.mark.parametrize("form", FORMS)
def test_swapped_boxes_keep_labels_and_ids(form: str) -> None:
    text = write_scene(proposals(9), form)
    swapped = swap_boxes(text.text, form, "seed")
    ours, theirs = read_scene(text.text, form).objects, read_scene(swapped, form).objects
    assert [item.category for item in ours] == [item.category for item in theirs]
    assert sorted(item.centroid for item in ours) == sorted(item.centroid for item in theirs)
    assert all(a.centroid != b.centroid for a, b in zip(ours, theirs, strict=True))
    assert swapped != text.text and swapped == swap_boxes(text.text, form, "seed") != swap_boxes(text.text, form, "other")


def test_fit_scene_in_another_order_shows_the_same_objects() -> None:
    orders = [fit_scene(proposals(12), top_k=8, order=k).object_ids for k in (0, 1, 2, 1)]
    assert orders[0] == tuple(f"p{k}" for k in range(8))
    assert all(sorted(ids) == sorted(orders[0]) for ids in orders)
    assert orders[1] == orders[3] and len(set(orders)) == 3
