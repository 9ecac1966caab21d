from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d.duplicates import merge_duplicates
from grand3d.errors import GrandError
from grand3d.scene import Object, Scene
from grand3d.serial import (
    COORD_STEP,
    FORMS,
    HIGHEST,
    TABLE_HEADER,
    SceneText,
    added_tokens,
    fit_scene,
    read_scene,
    write_scene,
)

HOSTILE = [
    "a <p>b</p> [<obj_1>]",
    "} ; <obj_9>: {",
    "'}; <obj_1>: {'category': 'x', 'centroid': '[0.00, 0.00, 0.00]', 'extent': '[1.00, 1.00, 1.00]'};%%%%",
    "chair 1 2 3 4 5 6\n7 desk 1 2 3 4 5 6",
    "obj_3",
    "7",
    '12" monitor',
    '"quoted"',
    "\"both' kinds",
    "round 2\\",
    "tissue \\`paper",
    "\\n \\u003c",
    "cabinet's side",
    "chair w/table",
    "stairs (exit)",
    "floor]floo",
    ";amps",
    "w.c.",
    "coffee_table",
    "table & chair",
    "wardrobe ",
    " /",
    "-",
    "tuvalet kağıdı",
    "tường",
    "tu\u031bo\u031b\u0300ng",
    "chiffonière",
    "椅子",
    "\u2028\u2029\x85\u200b\ufeff\x00\x1f\x7f",
    "\U0001f6cb\U000e0001",
    "</s><|im_end|>",
    "%%%%",
    TABLE_HEADER,
]
labels = st.sampled_from(HOSTILE) | st.text(min_size=1, max_size=12)
sides = st.floats(0, 20)
places = st.floats(-50, 50) | st.sampled_from([-0.0, -0.004, 0.005, -0.005, 1.005])
objects = st.builds(
    Object,
    object_id=st.just(""),
    category=labels,
    centroid=st.tuples(places, places, places),
    extent=st.tuples(sides, sides, sides),
    score=st.none() | st.floats(0, 1),
    description=st.none() | labels,
)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    found = draw(st.lists(objects, max_size=6))
    copies = draw(st.lists(st.tuples(st.integers(0, 5), labels, st.floats(0, 1)), max_size=4))
    found += [replace(found[i], category=label, score=score) for i, label, score in copies if i < len(found)]
    return Scene("s", tuple(replace(item, object_id=f"id {k}") for k, item in enumerate(found)))


def box(object_id: str, category: str = "chair", x: float = 0.0, score: float | None = None, **more: Any) -> Object:
    return Object(object_id, category, (x, 0.0, 0.5), (1.0, 1.0, 1.0), score=score, **more)


def proposals(count: int) -> Scene:
    """Scores fall with the number; every object is one line of nine words."""
    return Scene("s", tuple(box(f"p{k}", x=k, score=1 - k / 1000) for k in range(count)))


def words(text: str) -> int:
    return len(text.split())


def assert_same_within_rounding(read: Object, written: Object) -> None:
    for new, old in zip((*read.centroid, *read.extent), (*written.centroid, *written.extent), strict=True):
        assert abs(new - old) <= 0.005 + 1e-9


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_read_scene_of_written_table_returns_the_merged_scene(scene: Scene) -> None:
    merged, _ = merge_duplicates(scene)
    written = write_scene(scene, "table")
    read = read_scene(written.text, "table")
    assert [o.category for o in read.objects] == [o.category for o in merged.objects]
    assert read.object_ids == tuple(f"obj_{k}" for k in range(len(merged.objects)))
    assert written.object_ids == merged.object_ids
    for new, old in zip(read.objects, merged.objects, strict=True):
        assert_same_within_rounding(new, old)
    assert write_scene(read, "table").text == written.text


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_read_scene_of_written_coord_returns_the_merged_scene_within_half_a_step(scene: Scene) -> None:
    merged, _ = merge_duplicates(scene)
    written = write_scene(scene, "coord")
    read = read_scene(written.text, "coord")
    header = re.match(r"steps of ([0-9]+) cm", written.text)
    step = int(header[1]) / 100 if header else COORD_STEP / 100
    widest = max((max(item.extent) for item in merged.objects), default=0)
    for axis in range(3):
        centres = [item.centroid[axis] for item in merged.objects] or [0]
        widest = max(widest, max(centres) - min(centres))
    assert COORD_STEP / 100 <= step <= max(COORD_STEP / 100, widest / HIGHEST + 0.01)
    assert [o.category for o in read.objects] == [o.category for o in merged.objects]
    for new, old in zip(read.objects, merged.objects, strict=True):
        for a, b in zip((*new.centroid, *new.extent), (*old.centroid, *old.extent), strict=True):
            assert abs(a - b) <= step / 2 + 0.01 + 1e-9
    known = set(added_tokens("coord"))
    assert set(re.findall(r"<[^>]*>", written.text)) <= known


def test_write_scene_coord_widest_scene_of_a_step_stays_within_the_tokens() -> None:
    for widest in (1533, 1534, 5115, 10230, 10231):
        scene = Scene(
            "s", (box("a"), replace(box("b"), centroid=(widest / 100, 0.0, 0.5)), replace(box("c"), centroid=(-8, 0, 0)))
        )
        assert set(re.findall(r"<[^>]*>", write_scene(scene, "coord").text)) <= set(added_tokens("coord"))


@pytest.mark.parametrize(
    "text",
    [
        "objects:",
        "steps of 3 cm from 0 0\n",
        "{head} chair<obj_1><c_0><c_0><c_0><c_1><c_1><c_1>",
        "{head} chair<obj_0><c_0><c_0><c_0><c_1><c_1>",
        "{head} chair<obj_0><c_0><c_0><c_0><c_1><c_1><c_1> desk",
        "{head}chair<obj_0><c_0><c_0><c_0><c_1><c_1><c_1>",
    ],
)
def test_read_scene_of_broken_coord_text_is_refused_with_its_place(text: str) -> None:
    head = "steps of 3 cm from 0 0 0\n"
    with pytest.raises(GrandError, match=r"scene text.*expected"):
        read_scene(text.format(head=head), "coord")


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_read_scene_of_written_grand_returns_the_scene(scene: Scene) -> None:
    written = write_scene(scene, "grand")
    read = read_scene(written.text, "grand")
    assert [(o.category, o.description) for o in read.objects] == [(o.category, o.description) for o in scene.objects]
    assert (written.object_ids, written.same) == (scene.object_ids, {})
    for new, old in zip(read.objects, scene.objects, strict=True):
        assert_same_within_rounding(new, old)
    assert write_scene(read, "grand").text == written.text


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_write_scene_table_label_never_forges_a_line_an_id_or_a_tag(scene: Scene) -> None:
    text = write_scene(scene, "table").text
    lines = text.split("\n")
    assert len(lines) == 1 + len(merge_duplicates(scene)[0].objects)
    assert text.splitlines() == lines
    assert not set("<>[]") & set(text)
    assert not re.search(r"(?<![\w\"])obj_[0-9]", re.sub(r'"(?:[^"\\]|\\.)*"', "", text))
    assert not re.search(r" -0\b", re.sub(r'"(?:[^"\\]|\\.)*"', "", text))
    text.encode("utf-8")


@pytest.mark.parametrize("label", HOSTILE)
@pytest.mark.parametrize("form", FORMS)
def test_read_scene_returns_a_hostile_label_unchanged(label: str, form: str) -> None:
    scene = Scene("s", (box("a", label, description=label), box("b", "desk", 2.0)))
    read = read_scene(write_scene(scene, form).text, form)
    assert [item.category for item in read.objects] == [label, "desk"]
    assert read.objects[0].description == (label if form == "grand" else None)


def test_write_scene_table_is_one_line_an_object_in_whole_centimetres() -> None:
    scene = Scene(
        "s",
        (
            Object("9", "office chair", (0.64, 0.75, 0.57), (0.76, 1.6, 0.82), score=0.9),
            Object("4", "chair", (0.6399, 0.7501, 0.57), (0.76, 1.6, 0.82), score=0.4),
            Object("7", "tường", (-0.004, -1.996, 0.0), (0.1, 0.1, 0.3)),
            Object("5", "round 2", (1, 1, 1), (1, 1, 1)),
        ),
    )
    written = write_scene(scene, "table")
    assert written.text.split("\n") == [
        "label and id: center x y z, size x y z in cm",
        " office chair/chair0 64 75 57 76 160 82",
        " tường1 0 -200 0 10 10 30",
        ' "round 2"2 100 100 100 100 100 100',
    ]
    assert written == SceneText(written.text, ("9", "7", "5"), {"4": "9"}, 0, ("office chair", "tường", "round 2"))


GRAND = (
    "%%%% Object-centric context: <obj_0>: {'category': \"cook's shelf\", 'description': 'a tall \"one\"', "
    "'centroid': '[-0.00, 2.67, 10.01]', 'extent': '[0.10, 0.55, 1.00]'}; "
    "<obj_1>: {'category': 'bed', 'centroid': '[1.00, 2.00, 3.00]', 'extent': '[1.00, 1.00, 1.00]'};%%%%"
)


def test_write_scene_grand_is_the_text_of_a_python_dict_an_object() -> None:
    scene = Scene(
        "s",
        (
            Object("x", "cook's shelf", (-0.004, 2.675, 10.005), (0.1, 0.545, 1), description='a tall "one"'),
            Object("y", "bed", (1, 2, 3), (1, 1, 1)),
        ),
    )
    assert write_scene(scene, "grand").text == GRAND
    assert write_scene(Scene("s", ()), "grand").text == "%%%% Object-centric context:%%%%"
    assert read_scene(GRAND, "grand").objects[0].description == 'a tall "one"'


def test_write_scene_grand_reproduces_the_golden_file(golden: Callable[[str], Path]) -> None:
    cases = json.loads(golden("grand/scene_text.json").read_text("utf-8"))["cases"]
    assert len(cases) >= 4
    for case in cases:
        found = tuple(
            Object(str(k), row["category"], tuple(row["centroid"]), tuple(row["extent"]), description=row.get("description"))
            for k, row in enumerate(case["objects"])
        )
        assert write_scene(Scene("s", found), "grand").text == case["text"], case["name"]
        assert write_scene(read_scene(case["text"], "grand"), "grand").text == case["text"], case["name"]


def test_write_scene_of_rotated_box_writes_the_box_around_it() -> None:
    half = math.sqrt(0.5)
    turned = ((half, -half, 0.0), (half, half, 0.0), (0.0, 0.0, 1.0))
    scene = Scene("s", (Object("a", "table", (0, 0, 0), (2.0, 1.0, 0.5), rotation=turned),))
    for form in FORMS:
        read = read_scene(write_scene(scene, form).text, form).objects[0]
        assert read.extent == pytest.approx((2.12, 2.12, 0.5), abs=0.016 if form == "coord" else 1e-9)


@pytest.mark.parametrize("form", ["", "Table", "json"])
def test_write_scene_in_unknown_form_is_refused(form: str) -> None:
    for call in (lambda: write_scene(proposals(1), form), lambda: read_scene("", form), lambda: fit_scene(proposals(1), form)):
        with pytest.raises(GrandError, match="table, scored, coord, grand"):
            call()


def test_merge_duplicates_keeps_the_best_score_and_all_labels_once() -> None:
    scene = Scene(
        "s",
        (box("a", "chair", score=0.2), box("b", "desk", 3, 0.5), box("c", "stool", 0.004, 0.9), box("d", "chair", -0.004, 0.3)),
    )
    merged, same = merge_duplicates(scene)
    assert [(o.object_id, o.category) for o in merged.objects] == [("b", "desk"), ("c", "stool/chair")]
    assert same == {"a": "c", "d": "c"}
    assert merge_duplicates(merged) == (merged, {})


def test_merge_duplicates_with_equal_scores_keeps_the_first() -> None:
    merged, same = merge_duplicates(Scene("s", (box("a", "x", score=0.5), box("b", "y", score=0.5))))
    assert ([o.category for o in merged.objects], same) == (["x/y"], {"b": "a"})


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "line 1"),
        ("nonsense\n a0 1 2 3 4 5 6", "line 1"),
        (f"{TABLE_HEADER}\n chair0 1 2 3 4 5", "line 2"),
        (f"{TABLE_HEADER}\n chair1 1 2 3 4 5 6", "line 2"),
        (f"{TABLE_HEADER}\n chair0 1 2 3 4 5 -6", "line 2"),
        (f"{TABLE_HEADER}\n chair0 1 2 3 4 5 6.5", "line 2"),
        (f"{TABLE_HEADER}\n ch<air0 1 2 3 4 5 6", "line 2"),
        (f'{TABLE_HEADER}\n a0 1 2 3 4 5 6\n "a1 1 2 3 4 5 6', "line 3"),
        (f"{TABLE_HEADER}\n {{}}0 1 2 3 4 5 6", "line 2"),
        (f"{TABLE_HEADER}\n {'[' * 100_000}0 1 2 3 4 5 6", "line 2"),
        (f"{TABLE_HEADER}\n", "line 2"),
        (f"{TABLE_HEADER}\n chair0 1 2 3 4 5 {'6' * 5000}", "line 2"),
    ],
)
def test_read_scene_of_broken_table_names_the_line(text: str, where: str) -> None:
    with pytest.raises(GrandError, match=where):
        read_scene(text, "table")


@pytest.mark.parametrize(
    "text",
    [
        "",
        GRAND[:-1],
        GRAND[: len(GRAND) // 2],
        GRAND + " ",
        GRAND.replace("<obj_1>", "<obj_2>"),
        GRAND.replace("'category': 'bed', ", ""),
        GRAND.replace("'category': 'bed'", "'category': 'bed', 'category': 'bed'"),
        GRAND.replace("'bed'", "__import__('os').getcwd()"),
        GRAND.replace("'bed'", "'b\\q'"),
        GRAND.replace("'bed'", "'\\U00110000'"),
        GRAND.replace("[1.00, 2.00, 3.00]", "[1.00, nan, 3.00]"),
        GRAND.replace("[1.00, 2.00, 3.00]", "[1.00, 2.00]"),
        "%%%% Object-centric context:" + "[" * 100_000,
    ],
)
def test_read_scene_of_broken_grand_text_is_refused_with_its_place(text: str) -> None:
    assert text != GRAND
    with pytest.raises(GrandError, match=r"scene text.*expected"):
        read_scene(text, "grand")


def test_fit_scene_shows_the_best_scores_first_and_counts_the_rest() -> None:
    scene = Scene("s", (box("a", x=1, score=0.1), box("b", x=2, score=0.9), box("c", x=3), box("d", x=4, score=0.9)))
    fitted = fit_scene(scene, top_k=3)
    assert (fitted.object_ids, fitted.num_dropped) == (("c", "b", "d"), 1)
    assert fit_scene(scene, top_k=3, keep=["a"]).object_ids == ("c", "b", "a")
    assert fit_scene(scene, top_k=1, keep=["a", "b"]).object_ids == ("b", "a")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("budget", [120, 121, 200, 500])
def test_fit_scene_drops_as_few_as_the_budget_needs_and_never_a_kept_one(form: str, budget: int) -> None:
    scene = proposals(40)
    fitted = fit_scene(scene, form, budget=budget, count_tokens=words, keep=["p39", "p20"])
    shown = len(fitted.object_ids)
    assert words(fitted.text) <= budget
    assert {"p39", "p20"} <= set(fitted.object_ids)
    assert fitted.num_dropped == 40 - shown
    expected = sorted([*[f"p{k}" for k in range(40) if k not in (20, 39)][: shown - 2], "p20", "p39"], key=lambda p: int(p[1:]))
    assert list(fitted.object_ids) == expected
    if shown < 40:
        one_more = next(f"p{k}" for k in range(40) if f"p{k}" not in fitted.object_ids)
        more = replace(scene, objects=tuple(o for o in scene.objects if o.object_id in {*fitted.object_ids, one_more}))
        assert words(write_scene(more, form).text) > budget
    for item, name in zip(read_scene(fitted.text, form).objects, fitted.object_ids, strict=True):
        assert item.centroid == pytest.approx(scene[name].centroid, abs=0.051 if form == "coord" else 0)


def test_fit_scene_tokenises_a_large_scene_few_times() -> None:
    seen: list[int] = []

    def count(text: str) -> int:
        seen.append(len(text))
        return words(text)

    fitted = fit_scene(proposals(1000), top_k=1000, budget=1000, count_tokens=count)
    assert 0 < len(fitted.object_ids) < 150
    assert sum(seen) < 12 * seen[0]


def test_fit_scene_keeps_the_stand_in_of_a_merged_duplicate() -> None:
    scene = Scene("s", (box("best", x=9, score=0.9), box("stand", x=1, score=0.5), box("twin", "stool", x=1, score=0.1)))
    size = words(write_scene(replace(scene, objects=scene.objects[1:])).text)
    fitted = fit_scene(scene, budget=size, count_tokens=words, keep=["twin"])
    assert (fitted.object_ids, dict(fitted.same), fitted.num_dropped) == (("stand",), {"twin": "stand"}, 1)
    assert fitted.labels == ("chair",)
    assert fit_scene(scene, top_k=1).same == {}


def test_fit_scene_that_cannot_fit_names_all_counts() -> None:
    with pytest.raises(GrandError, match=r"may have 20 tokens; the 3 objects that must stay take 3\d and all 40 take 2\d\d"):
        fit_scene(proposals(40), budget=20, count_tokens=words, keep=["p1", "p2", "p3"])
    with pytest.raises(GrandError, match=r"\['p77'\] are not among its 40 objects"):
        fit_scene(proposals(40), keep=["p77"])
    with pytest.raises(GrandError, match="count_tokens"):
        fit_scene(proposals(40), budget=10)


@given(scenes())
def test_scored_table_reads_back_with_scores(scene: Scene) -> None:
    text = write_scene(scene, "scored")
    back = read_scene(text.text, "scored")
    shown = {item.object_id: item for item in scene.objects}
    for item, object_id in zip(back.objects, text.object_ids, strict=True):
        score = shown[object_id].score
        assert item.score == round(100 * (1.0 if score is None else score)) / 100
    lines = [line.rpartition(";")[0] for line in text.text.split("\n")]
    assert lines[1:] == write_scene(scene, "table").text.split("\n")[1:] and lines[0] == TABLE_HEADER


@pytest.mark.parametrize("line", [" chair0 1 2 3 4 5 6", " chair0 1 2 3 4 5 6; 101", " chair0 1 2 3 4 5 6; x"])
def test_scored_table_without_a_score_is_refused(line: str) -> None:
    with pytest.raises(GrandError, match="expected"):
        read_scene(f"{TABLE_HEADER}; score in %\n{line}", "scored")
