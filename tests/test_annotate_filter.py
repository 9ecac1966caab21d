"""The hallucination filter: what it lets through and what it finds, sentence by sentence, and on texts with planted faults."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d.annotate import filters
from grand3d.annotate.claims import read
from grand3d.annotate.facts import Facts
from grand3d.annotate.filters import faults, pair_faults
from grand3d.markup import parse
from grand3d.scene import Region, Scene


@pytest.fixture
def facts(toy_scene: Scene) -> Facts:
    """The toy room with looks: a brown wooden desk, a black and a red chair, a white bed."""
    looks = {
        "0": {"colour": "brown", "material": "wooden"},
        "1": {"colour": "black", "material": "plastic"},
        "2": {"colour": "red"},
        "3": {"colour": "dark gray", "material": "steel"},
        "4": {"colour": "white"},
    }
    objects = tuple(replace(item, attributes=looks.get(item.object_id, {})) for item in toy_scene.objects)
    region = Region("region_0", "sleeping area", object_ids=("4", "5", "6"))
    return Facts(replace(toy_scene, objects=objects, regions=(region,)))


SOUND = (
    "This is <p>a brown wooden desk</p>[<0>]. It has <p>a table lamp</p>[<3>] on it.",
    "Next to <p>the desk</p>[<0>] stands <p>a black office chair</p>[<1>], which is made of plastic.",
    "<p>Two pillows</p>[<5>, <6>] lie on <p>the white bed</p>[<4>], and <p>the rug</p>[<8>] is next to <p>the bed</p>[<4>].",
    "There are <p>two chairs</p>[<1>, <2>] in the room; <p>the red one</p>[<2>] is farther away.",
    "No, there is no <p>piano</p>[] in this room.",
    "On <p>the desk</p>[<0>] there is <p>a lamp</p>[<3>]. It is dark gray and it is above the floor.",
    "<p>The bookshelf</p>[<7>] is taller than <p>the desk</p>[<0>] but not larger than <p>the bed</p>[<4>].",
    "<p>The lamp</p>[<3>] is not under <p>the bed</p>[<4>].",
    "<p>The desk</p>[<0>] is 1.60 m long and about 0.75 m tall.",
    "<p>The office chair</p>[<1>] is the one closest to <p>the desk</p>[<0>].",
    "<p>The pillows</p>[<5>, <6>] are in <p>the sleeping area</p>[<region_0>].",
    "<p>The metal lamp</p>[<3>] on <p>the table</p>[<0>] lights the corner.",
    "<p>The tallest piece of furniture</p>[<7>] is against the wall.",
    "In the corner of the room, <p>the desk</p>[<0>] invites to work.",
    "Is <p>the desk</p>[<0>] next to <p>the bed</p>[<4>]?",
)
FAULTY = (
    ("<p>The red desk</p>[<0>] is near <p>the window</p>[<9>].", filters.ATTRIBUTE),
    ("<p>The desk</p>[<0>] is green.", filters.ATTRIBUTE),
    ("This is <p>an office chair</p>[<1>]. It is made of leather.", filters.ATTRIBUTE),
    ("<p>The desk</p>[<0>] is about 1.20 m tall.", filters.ATTRIBUTE),
    ("<p>The light gray lamp</p>[<3>] is on <p>the desk</p>[<0>].", filters.ATTRIBUTE),
    ("<p>The lamp</p>[<3>] is on <p>the bed</p>[<4>].", filters.RELATION),
    ("<p>The lamp</p>[<3>] is on <p>the desk</p>[<0>] and next to <p>the bed</p>[<4>].", filters.RELATION),
    ("Under <p>the desk</p>[<0>] stands <p>the lamp</p>[<3>].", filters.RELATION),
    ("<p>The desk</p>[<0>] is taller than <p>the bookshelf</p>[<7>].", filters.RELATION),
    ("<p>The lamp</p>[<3>] is not on <p>the desk</p>[<0>].", filters.RELATION),
    ("<p>The chair</p>[<1>] is to the left of <p>the desk</p>[<0>].", filters.RELATION),
    ("<p>The desk</p>[<0>] is in <p>the sleeping area</p>[<region_0>].", filters.RELATION),
    ("<p>The bed</p>[<4>] is in the middle of the room.", filters.RELATION),
    ("<p>The piano</p>[<0>] is near <p>the window</p>[<9>].", filters.EXISTENCE),
    ("There is also <p>a piano</p>[].", filters.EXISTENCE),
    ("There is a piano near <p>the window</p>[<9>].", filters.EXISTENCE),
    ("No, there are no <p>beds</p>[] in the room.", filters.EXISTENCE),
    ("<p>The bed</p>[<0>] is brown.", filters.WRONG),
    ("<p>The pillows</p>[<5>, <7>] are soft.", filters.WRONG),
    ("<p>The desk</p>[<99>] is brown.", filters.UNKNOWN),
    ("The desk is next to <p>the office chair</p>[<1>].", filters.UNGROUNDED),
    ("<p>The desk</p> is brown.", filters.UNGROUNDED),
    ("There are <p>three chairs</p>[<1>, <2>].", filters.COUNT),
    ("3 <p>pillows</p>[<5>, <6>] are on <p>the bed</p>[<4>].", filters.COUNT),
    ("<p>The desk[<0>] is brown.", filters.MARKUP),
)


@pytest.mark.parametrize("text", SOUND)
def test_a_sound_text_is_let_through(facts: Facts, text: str) -> None:
    assert faults(text, facts, asks=text.endswith("?")) == []


@pytest.mark.parametrize(("text", "cause"), FAULTY)
def test_a_fault_is_found_by_its_cause(facts: Facts, text: str, cause: str) -> None:
    assert [finding.cause for finding in faults(text, facts)][:1] == [cause]


def test_left_of_is_decided_by_where_the_speaker_stands(facts: Facts) -> None:
    text = "<p>The desk</p>[<0>] is to the left of <p>the chair</p>[<2>]."
    assert faults(text, facts, viewpoint=(2.0, -3.0)) == []
    assert [finding.cause for finding in faults(text, facts, viewpoint=(2.0, 6.0))] == [filters.RELATION]


def test_an_answer_that_its_question_contradicts_is_found(facts: Facts) -> None:
    question = "Is <p>the lamp</p>[<3>] on <p>the desk</p>[<0>]?"
    assert pair_faults(question, "Yes, it is.", facts) == []
    assert [finding.cause for finding in pair_faults(question, "No.", facts)] == [filters.ANSWER]


@given(st.text(alphabet="<>p/[]obj_ 0123,.thedskis", max_size=60))
@settings(max_examples=150, deadline=None)
def test_no_text_raises(text: str) -> None:
    scene = Scene("empty", ())
    faults(text, Facts(scene))
    read(parse(text), frozenset())


@pytest.fixture(scope="module")
def bench() -> Any:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
    try:
        return importlib.import_module("bench_filter")
    finally:
        sys.path.pop(0)


def test_planted_faults_are_found_and_sound_texts_let_through(bench: Any) -> None:
    """A smaller measurement than ``tools/bench_filter.py`` makes by default, with the same thresholds."""
    found = bench.measure(300, 90, seed=1)
    assert found["sound"] == 300 and found["passed"] >= 294
    assert [row["planted"] for row in found["kinds"]] == [90] * 6
    assert all(row["recall"] >= 0.98 and row["precision"] >= 0.98 for row in found["kinds"]), found["kinds"]


@pytest.mark.slow
def test_a_thousand_sound_texts_and_three_hundred_faults_of_each_kind(bench: Any) -> None:
    found = bench.measure(1000, 300)
    assert found["any"]["recall"] >= 0.98 and found["any"]["precision"] >= 0.98
    assert all(row["planted"] == 300 and row["recall"] >= 0.98 and row["precision"] >= 0.98 for row in found["kinds"])
