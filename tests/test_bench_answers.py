"""Short answers against the official evaluators' values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grand3d.bench.answers import clean, match, match_leo, match_mmscan, match_scanqa


def test_golden_cases_of_four_evaluators(golden: Callable[[str], Path]) -> None:
    cases = json.loads(golden("qa/em_cases.json").read_text())["cases"]
    assert len(cases) == 21
    for case in cases:
        pred, gts = case["pred"], case["gts"]
        assert clean(pred) == case["cleaned_pred"] and [clean(text) for text in gts] == case["cleaned_gts"], case["name"]
        leo, theirs = match_leo(pred, gts), case["leo"]
        assert leo == (theirs["em"], theirs["em_refined"]) == tuple(case["beacon3d"].values()), case["name"]
        assert match_mmscan(pred, gts) == (case["mmscan"]["em"], case["mmscan"]["refined_em"]), case["name"]
        assert match_scanqa(pred, gts) == case["scanqa_official_em"], case["name"]


def test_leo_em_depends_on_the_order_of_the_references_and_ours_does_not() -> None:
    assert match_leo("brown", ["light brown", "brown"]) == (False, True)
    assert match_leo("brown", ["brown", "light brown"]) == (True, True)
    assert match("brown", ["light brown", "brown"]) == match("brown", ["brown", "light brown"]) == (True, True)


def test_leo_gives_an_empty_answer_full_refined_credit_and_ours_none() -> None:
    assert match_leo("", ["black"]) == (False, True)
    assert match("", ["black"]) == match_mmscan("", ["black"]) == (False, False)


def test_a_letter_is_part_of_a_table_by_every_refined_rule() -> None:
    assert match_leo("t", ["table"]) == match_mmscan("t", ["table"]) == match("t", ["table"]) == (False, True)


def test_mmscan_reads_256_characters_and_no_marks_of_a_chat() -> None:
    assert match_mmscan("ASSISTANT: <p>brown</p></s>", ["brown"]) == (True, True)
    assert match_mmscan("light\nbrown", ["lightbrown"]) == (True, True)  # a line break goes without a blank
    assert match_mmscan("x" * 256 + " brown", ["brown"]) == (False, False)


@given(st.text(max_size=40))
def test_an_answer_matches_itself_unless_nothing_is_left_of_it(text: str) -> None:
    assert match(text, ["other", text]) == (True, bool(clean(text).split()))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("The TVs", "tvs"),
        ("at 3 o' clock", "at three o'clock"),
        ("an apple", "apple"),
        ("a a b", "a b"),
        ("the 2 . Tables1", "two  tables"),
    ],
)
def test_clean(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
