"""What is understood of an expression: its parts, ViGiL3D's measures of them, and their agreement with people's labels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grand3d.expressions import load_expressions
from grand3d.language import lexicon
from grand3d.language.measures import ATTRIBUTE_TYPES, COUNTS, RELATION_TYPES, measure
from grand3d.language.profile import LABELS, agreement, has
from grand3d.language.understand import understand
from grand3d.language.words import base, is_plural, singular, tokens


def in_development_half(name: str) -> bool:
    """The half of ViGiL3D's prompts that the rules were written on; the other half was only ever scored."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2 == 0


@pytest.mark.parametrize(("half", "precision", "recall"), [(True, 0.94, 0.93), (False, 0.88, 0.86), (None, 0.92, 0.91)])
def test_agreement_with_the_labels_of_vigil3d(
    real: Callable[[str], Path], half: bool | None, precision: float, recall: float
) -> None:
    rows = load_expressions(real("vigil3d/vigil3d_scannet.csv"))
    assert len(rows) == 239
    rows = [row for row in rows if half is None or in_development_half(row.expression_id) == half]
    found = agreement([measure(row.text) for row in rows], [row.labels or {} for row in rows])
    assert found["mean"]["precision"] >= precision and found["mean"]["recall"] >= recall
    assert max(found["absolute_errors"].values()) <= 0.43
    assert len(found["metrics"]) == 28


def stated(text: str, prefix: str) -> set[str]:
    return {name.removeprefix(prefix) for name, value in measure(text).items() if name.startswith(prefix) and value == 1}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("The tall crimson lamp.", {"size", "color"}),
        ("Find two oval mirrors.", {"number", "shape"}),
        ("A marble table with a scratchy surface.", {"material", "texture"}),
        ("This is the rustic bench.", {"style"}),
        ("It is the window that is ajar.", {"state"}),
        ("The appliance used for drying hands.", {"function"}),
        ("Pick a spot where you can wash dishes.", {"function"}),
        ("The pillow by the wall is meant for resting your head.", {"function"}),
        ("This machine dries clothes.", {"function"}),
        ('The box labeled "fragile".', {"text_label"}),
        ("The L-shaped sofa.", {"shape"}),
        ("The dark-green, queen-sized bed", {"color", "size"}),
        ("The light switch by the picture frame", set()),
        ("the trash can is next to the paper towel dispenser", set()),
        ("The largest of the chairs", {"size"}),
        ("The sofa with a checkered blanket draped over it", {"texture", "state"}),
        ("The lamp in the hall that is switched off", {"state"}),
        ("The door that leads to the hall", set()),
        ("This ornate piece of furniture", {"style"}),
        ("This shelf is grey and made of steel.", {"color", "material"}),
    ],
)
def test_types_of_attributes(text: str, kinds: set[str]) -> None:
    assert stated(text, "num_attribute_type_") == kinds


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("The chair beside the desk", {"near"}),
        ("The stool opposite the bar", {"far"}),
        ("The lamp to the left of the bed", {"viewpoint_dependent"}),
        ("The bag underneath the table", {"vertical"}),
        ("The cup inside the cupboard", {"contain"}),
        ("The rug between the bed and the wall", {"arrangement"}),
        ("The third window", {"ordinal"}),
        ("The taller cabinet", {"comparison"}),
        ("The chair closest to the door", {"near", "comparison"}),
        ("The picture on the wall", {"near"}),
        ("The vase on the table", {"near", "vertical"}),
        ("The second door from the right", {"ordinal", "viewpoint_dependent"}),
        ("The last stool in a row of stools", {"ordinal", "arrangement"}),
        ("The shelf with a clock on it", {"near", "vertical"}),
        ("The stool that is taller than the counter", {"comparison"}),
        ("Besides the one that is broken, find the bins", set()),
        ("A round red table", set()),
    ],
)
def test_types_of_relations(text: str, kinds: set[str]) -> None:
    assert stated(text, "num_relationship_type_") == kinds


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("The chair beside the desk", {"single"}),
        ("The chair beside the desks", {"multiple"}),
        ("The chair in the kitchen", {"non_object"}),
        ("Facing the sofa, find the lamp on your left.", {"single", "viewpoint"}),
        ("The rug between the bed and the wall", {"multiple"}),
        ("A round red table", set()),
    ],
)
def test_types_of_anchors(text: str, kinds: set[str]) -> None:
    assert stated(text, "num_anchor_type_") == kinds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Find the object near the door.", "generic"),
        ("This is the white thing under the bed. It is round.", "generic"),
        ("An appliance beside the sink.", "categorical"),
        ("There are two storage units. Pick the wider one.", "categorical"),
        ("The office chair", "fine-grained"),
        ("A heavy piece of furniture near the bed", "categorical"),
        ("There are two stools here. Take the one on the left.", "fine-grained"),
    ],
)
def test_granularity_is_that_of_the_most_exact_name(text: str, expected: str) -> None:
    assert measure(text)["granularity"] == expected


@pytest.mark.parametrize(
    ("text", "head", "later"),
    [
        ("The lamp beside the sofa", "lamp", 0),
        ("Beside the sofa is a lamp.", "lamp", 1),
        ("Under the window there is a radiator.", "radiator", 1),
        ("As you enter the room, this is the first shelf.", "shelf", 1),
        ("Find the door of the closet.", "door", 0),
        ("Look for the two desks. The chair of interest is behind them.", "chair", 1),
        ("There is a table. The lamp of interest is on it.", "lamp", 1),
        ("From the door, choose the last of the stools", "stool", 1),
        ("Of the four stools at the bar, choose the one beside the sink.", "stool", 1),
        ("Which of these chairs has wheels?", "chair", 0),
    ],
)
def test_target_and_whether_it_is_named_first(text: str, head: str, later: int) -> None:
    parse = understand(text)
    assert head in {parse.things[k].head for k in parse.same}
    assert measure(parse)["num_target_not_first_np"] == later


@pytest.mark.parametrize(
    ("text", "refers_back", "denies"),
    [
        ("The sofa is brown. It stands by the door.", 1, 0),
        ("It is the sofa by the door.", 0, 0),
        ("The sofa that isn't by the door.", 0, 1),
        ("It's the sofa by the door, and it's tall.", 1, 0),
        ("The drawer is ajar, unlike the rest.", 0, 1),
        ("A desk without drawers", 0, 1),
        ("There are three bins. Find the one that is open.", 1, 0),
        ("The note on the board", 0, 0),
    ],
)
def test_coreference_and_negation(text: str, refers_back: int, denies: int) -> None:
    found = measure(text)
    assert (found["num_coreferences"], found["num_negation"]) == (refers_back, denies)


def test_counts_go_to_the_target_or_to_its_anchors() -> None:
    found = measure("This is the small wooden box under the red chair near the window.")
    assert [found[name] for name in COUNTS] == [2, 1, 1, 1]


def test_what_is_said_of_a_set_is_said_of_the_one_picked_from_it() -> None:
    parse = understand("Beside the stove are two metal bins. This is the taller one.")
    said = {kind for k in parse.same for kind, _ in parse.things[k].attributes}
    assert said == {"number", "material", "size"}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("larger", ("large", "er")),
        ("biggest", ("big", "est")),
        ("messier", ("messy", "er")),
        ("farthest", ("far", "est")),
        ("corner", ("corner", "")),
        ("dryer", ("dryer", "")),
        ("printer", ("printer", "")),
    ],
)
def test_base_of_comparatives(word: str, expected: tuple[str, str]) -> None:
    assert base(word) == expected


@pytest.mark.parametrize(("word", "one"), [("shelves", "shelf"), ("boxes", "box"), ("glass", "glass"), ("stories", "story")])
def test_singular(word: str, one: str) -> None:
    assert singular(word) == one and is_plural(word) == (word != one)


SOME_WORDS = (
    "the a this is it one ones chair tables red most of in on next to left right two third with that which you can sit for"
    " if facing not , . ? \" ' and between from room has labeled more wooden larger no there are interest"
)
WORDS = st.sampled_from(SOME_WORDS.split())


@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=25).map(" ".join)))
def test_any_text_is_understood_without_an_error(text: str) -> None:
    parse = understand(text)
    found: dict[str, Any] = measure(parse)
    assert all(parse.text[t.start : t.end].strip("\"“”'‘’") == t.text.strip("\"“”'‘’") for t in parse.tokens)
    assert all(0 <= t.start < t.end <= len(parse.tokens) for t in (*parse.things, *parse.relations))
    assert (parse.target is None) == (not parse.same) and all(k < len(parse.things) for k in parse.same)
    assert all(found[name] >= 0 for name in COUNTS) and all(isinstance(has(found, label), bool) for label in LABELS)
    assert sum(has(found, label) for label in LABELS if label.startswith("granularity")) == 1


def test_tokens_keep_quotations_whole_and_cover_no_character_twice() -> None:
    row = tokens('The box labeled "keep out" isn\'t mine.')
    assert [t.text for t in row if t.tag == "QUOTE"] == ["keep out"]
    assert all(a.end <= b.start for a, b in pairwise(row))


def test_short_forms_are_two_words() -> None:
    assert [(t.text, t.tag) for t in tokens("It's Tom's")] == [("It", "PRO"), ("'s", "BE"), ("Tom", "N"), ("'s", "POS")]


def test_word_lists_hold_whole_words() -> None:
    sets = [value for value in vars(lexicon).values() if isinstance(value, frozenset)]
    words = frozenset().union(*sets, *lexicon.ATTRIBUTES.values())
    assert [word for word in words if word != word.lower().strip("-") or " " in word] == []


def test_columns_are_those_of_the_published_file(real: Callable[[str], Path]) -> None:
    labels = load_expressions(real("vigil3d/vigil3d_scannet.csv"))[0].labels
    assert labels is not None and set(measure("a chair")) == set(labels)
    assert len(ATTRIBUTE_TYPES) == 10 and len(RELATION_TYPES) == 8
