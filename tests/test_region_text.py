"""Regions from the scene to the prompt, the reply and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_serial import HOSTILE

from grand3d import markup
from grand3d.chat import Answer, resolve
from grand3d.errors import GrandError
from grand3d.figures import _text_row
from grand3d.prompts import dialogue
from grand3d.repl import answer_to_dict, render
from grand3d.sample import Data, Reply, Sample, reply_from_dict, reply_to_dict
from grand3d.scene import Object, Region, Scene
from grand3d.schema import PromptConfig
from grand3d.serial import REGION_HEADER, fit_scene, read_scene, swap_boxes, write_scene

WITH_REGIONS = ("table", "scored", "coord")


def _flat(count: int = 4) -> Scene:
    """A flat of two rooms and an empty hall; the last object stands in none."""
    objects = tuple(
        Object(
            f"o{k}", "chair", (k, 0, 0.5), (0.5, 0.5, 1), score=1 - k / 100, region_id=("kitchen", "bath", None)[min(k % 3, 2)]
        )
        for k in range(count)
    )
    return Scene(
        "flat", objects, (Region("kitchen", "kitchen"), Region("bath", "bath room 2", (), ("o1",)), Region("hall", "hall"))
    )


def test_a_scene_text_ends_with_its_regions_and_what_they_hold() -> None:
    text = write_scene(_flat())
    assert text.text.split("\n")[-4:] == [REGION_HEADER, " kitchen0: 0 3", ' "bath room 2"1: 1', " hall2:"]
    assert text.region_ids == ("kitchen", "bath", "hall")


@pytest.mark.parametrize("form", WITH_REGIONS)
@settings(max_examples=50, deadline=None)
@given(names=st.lists(st.sampled_from([*HOSTILE, REGION_HEADER, "kitchen", "a: 1"]), max_size=4), seed=st.integers(0, 99))
def test_regions_read_back_whatever_they_are_called(form: str, names: list[str], seed: int) -> None:
    objects = tuple(Object(f"o{k}", "chair", (k, 0, 0), (1, 1, 1), score=0.5) for k in range(3))
    rooms = tuple(
        Region(f"r{k}", name, (), tuple(f"o{i}" for i in range(3) if (seed >> i + k) % 2)) for k, name in enumerate(names)
    )
    read = read_scene(write_scene(Scene("s", objects, rooms), form).text, form)
    assert [region.name for region in read.regions] == names
    expected = [tuple(f"obj_{item[1:]}" for item in region.object_ids) for region in rooms]
    assert [region.object_ids for region in read.regions] == expected and len(read.objects) == 3


def test_grand_text_knows_no_regions() -> None:
    text = write_scene(_flat(), "grand")
    assert text.region_ids == () and text.text == write_scene(replace(_flat(), regions=()), "grand").text


@pytest.mark.parametrize("line", [" kitchen0: 9", " kitchen1: 0", "kitchen0: 0", " kitchen0", " kitchen0: x", ""])
def test_a_broken_line_of_a_region_is_refused(line: str) -> None:
    text = write_scene(replace(_flat(), regions=())).text
    with pytest.raises(GrandError, match=r"scene text, line 7: seen .*expected ' label0: ids' of the 4 objects above"):
        read_scene(f"{text}\n{REGION_HEADER}\n{line}")


def test_regions_hold_what_is_shown_and_count_in_the_budget() -> None:
    scene = _flat(30)
    text = fit_scene(scene, top_k=4)
    assert text.text.split("\n")[-3:] == [" kitchen0: 0 3", ' "bath room 2"1: 1', " hall2:"]
    whole = fit_scene(scene).text
    budget = len(whole.split()) - 1
    fitted = fit_scene(scene, budget=budget, count_tokens=lambda words: len(words.split()))
    assert fitted.num_dropped == 1 and len(fitted.text.split()) <= budget and fitted.region_ids == ("kitchen", "bath", "hall")


def test_a_merged_duplicate_counts_as_what_stands_for_it() -> None:
    scene = Scene(
        "s",
        (Object("a", "chair", (0, 0, 0), (1, 1, 1)), Object("b", "stool", (0, 0, 0), (1, 1, 1), region_id="r")),
        (Region("r", "room"),),
    )
    assert write_scene(scene).text.endswith(" room0: 0")


def test_swapped_boxes_leave_the_regions() -> None:
    text = write_scene(_flat()).text
    assert swap_boxes(text, "table", "x").split("\n")[-4:] == text.split("\n")[-4:]


def test_stored_regions_become_those_of_the_prompt() -> None:
    scene = _flat()
    sample = Sample(
        "s",
        "flat",
        "question",
        "What is in <p>the bath</p>[<bath>]?",
        "<p>A chair</p>[<o1>], not in <p>the hall</p>[<hall>, <o2>].",
    )
    (turn,) = dialogue(sample, write_scene(scene), PromptConfig(), with_answer=True).turns
    assert turn.question == "What is in <p>the bath</p>[<region_1>]?"
    assert turn.answer == "<p>A chair</p>[<obj_1>], not in <p>the hall</p>[<obj_2>, <region_2>]."


def test_a_reply_names_regions_by_what_the_prompt_meant() -> None:
    scene, text = _flat(), "In <p>the kitchen</p>[<region_0>] stands <p>a chair</p>[<obj_3>], <p>a tub</p>[<region_7>]."
    mentions = resolve(text, scene, write_scene(scene))
    assert [region.name for region in mentions[0].regions] == ["kitchen"] and mentions[0].unknown == ()
    assert mentions[2].unknown == ("region_7",) and mentions[2].regions == ()
    answer = Answer("?", text, mentions, True, 0)
    assert render(answer).startswith("In the kitchen [kitchen] stands a chair [o3], a tub [region_7?].")
    assert answer_to_dict(answer, "?", "flat")["mentions"][0]["regions"] == [{"region_id": "kitchen", "name": "kitchen"}]


def test_replies_keep_their_regions_and_known_ones_are_no_fault() -> None:
    reply = Reply("s", "flat", "<p>the hall</p>[<region_2>]", ("o0",), region_ids=("kitchen", "bath", "hall"))
    assert reply_from_dict(reply_to_dict(reply)) == reply
    data: Any = Data({"flat": _flat()}, (Sample("s", "flat", "question", "Where?", "There."),))
    assert _text_row(data, [reply], None)[1] == 1
    assert _text_row(data, [replace(reply, region_ids=())], None)[1] == 0


def test_grammars_let_texts_name_regions_and_references_objects_alone() -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra train)")
    from grand3d.generate.ask import task_grammar

    assert "<region_1>" in task_grammar("question", 2, PromptConfig(), 2)
    assert "region_" not in task_grammar("object_reference", 2, PromptConfig(), 2)
    assert not markup.parse("<p>the hall</p>[<obj_0>, <region_1>]").faults
