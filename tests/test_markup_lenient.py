"""Text that deviates from the grammar: what strict reading leaves out and lenient reading mends, as docs/markup.md promises."""

from __future__ import annotations

import pytest

from grand3d.markup import ANSWER, ANSWER_END, DETAILED, DETAILED_END, answer_ids, map_ids, parse, reference_reply


def told(text: str, lenient: bool = False) -> list[tuple[str, tuple[str, ...]]]:
    return [(item.phrase, item.ids) for item in parse(text, lenient).spans]


C1 = "<refer_expression_grounding><p>box</p>[<obj_4>, <obj_4>, <obj_9>, <obj_4>, <obj_"


def test_parse_reply_cut_inside_a_repeating_list_keeps_whole_ids_once() -> None:
    strict, lenient = parse(C1), parse(C1, lenient=True)
    assert [item.ids for item in strict.spans] == [item.ids for item in lenient.spans] == [("obj_4", "obj_9")]
    assert strict.truncated and lenient.truncated
    assert answer_ids(strict) is None
    assert answer_ids(lenient) == ("obj_4", "obj_9")


@pytest.mark.parametrize("length", range(len(C1) + 1))
@pytest.mark.parametrize("lenient", [False, True])
def test_parse_reply_cut_anywhere_is_truncated_and_never_says_none(length: int, lenient: bool) -> None:
    parsed = parse(C1[:length], lenient)
    assert parsed.truncated == (length > 1)  # a lone "<" is text
    assert answer_ids(parsed) != ()


@pytest.mark.parametrize(
    ("written", "strict", "lenient"),
    [  # what docs/markup.md promises, behind "<p>a</p>"; None: no list was read
        ("[<obj_12>]", ("obj_12",), ("obj_12",)),
        (" [<obj_12>]", ("obj_12",), ("obj_12",)),
        ("<obj_12>", None, ("obj_12",)),
        ("obj_12", None, ("obj_12",)),
        ("[obj_12]", None, ("obj_12",)),
        ("[obj 12]", None, ("obj_12",)),
        ("[object 12]", None, ("obj_12",)),
        ("[12]", None, ("obj_12",)),
        ("[<12>]", ("12",), ("obj_12",)),
        ("<OBJ_12>", None, ("obj_12",)),
        ("[<OBJ_12>]", ("OBJ_12",), ("obj_12",)),
        ("[<obj_012>]", ("obj_012",), ("obj_12",)),
        ("[<obj_000>]", ("obj_000",), ("obj_0",)),
        ("［＜obj_12＞］", None, ("obj_12",)),
        ("【<obj_12>】", None, ("obj_12",)),
        ("[<obj_1> <obj_2>]", ("obj_1",), ("obj_1", "obj_2")),
        ("[<obj_1>; <obj_2>]", ("obj_1",), ("obj_1", "obj_2")),
        ("[<obj_1> and <obj_2>]", ("obj_1",), ("obj_1", "obj_2")),
        ("[<obj_1, obj_2>]", None, ("obj_1", "obj_2")),
        ("['obj_1', 'obj_2']", None, ("obj_1", "obj_2")),
        ("[none]", None, ()),
        ("[<none>]", ("none",), ()),
        ("[]", (), ()),
        ("[Region 3]", None, ("region_3",)),
        ("[<dining chair-2>]", ("dining chair-2",), ("dining chair-2",)),
        ("[<obj_99999999999999999999>]", ("obj_99999999999999999999",), ("obj_99999999999999999999",)),
        ("[a chair]", None, None),
        ("[<obj_²>]", ("obj_²",), ("obj_²",)),
    ],
)
def test_parse_spelling_of_ids_has_its_documented_result(
    written: str, strict: tuple[str, ...] | None, lenient: tuple[str, ...] | None
) -> None:
    for mode, expected in ((False, strict), (True, lenient)):
        first = parse(f"<p>a</p>{written}", mode).spans[0]
        assert first.phrase == "a"
        assert (first.ids if first.listed else None) == expected
    if strict != lenient:
        assert parse(f"<p>a</p>{written}", lenient=True).faults, "mended, yet not noted"


@pytest.mark.parametrize("lenient", [False, True])
def test_parse_id_is_never_found_inside_a_longer_one(lenient: bool) -> None:
    for text in ("[<obj_27>]", "<p>a</p>[<obj_27>, <obj_127>]", "obj_27 xobj_2 obj_2x", "<obj_27>"):
        assert "obj_2" not in {name for item in parse(text, lenient).spans for name in item.ids}
    assert map_ids("[<obj_27>, <obj_2>]", {"obj_2": "5", "obj_27": "6"}.get)[0] == "[<6>, <5>]"


@pytest.mark.parametrize(
    "words", ["[NaN, 0.4, null]", "1e309,0,0", "1,2", "'a',0,0", "1,2,3,4", "", "1,,2", "inf,0,0", "1_0,0,0", "٣,0,0"]
)
def test_parse_bad_place_is_left_out_with_a_reason_and_others_are_kept(words: str) -> None:
    for lenient in (False, True):
        parsed = parse(f"<place>{words}</place> or <place>1.5, -2, .25</place>", lenient)
        assert parsed.places == ((1.5, -2.0, 0.25),)
        assert len(parsed.faults) == 1
        assert "number" in parsed.faults[0].reason


def test_parse_place_in_brackets_is_read_leniently_only() -> None:
    assert parse("<place>[1, 2, 3]</place>").places == ()
    assert parse("<place>[1, 2, 3]</place>", lenient=True).places == ((1.0, 2.0, 3.0),)


@pytest.mark.parametrize(
    ("text", "strict", "lenient"),
    [
        ("<P>desk</P>[<obj_1>]", [("", ("obj_1",))], [("desk", ("obj_1",))]),
        ("<p>the <p>red</p> chair</p>[<obj_1>]", [("the red chair", ("obj_1",)), ("red", ())], None),
        ("<p>a <p>b</p>[<obj_2>] c</p>[<obj_1>]", [("a b c", ("obj_1",)), ("b", ("obj_2",))], None),
        ("<p>desk [<obj_1>] and <p>lamp</p>[<obj_2>]", [("desk", ("obj_1",)), ("lamp", ("obj_2",))], None),
        ("<p>desk and <p>lamp</p>[<obj_2>] [<obj_1>]", [("lamp", ("obj_2",)), ("", ("obj_1",))], None),
        ("desk</p>[<obj_1>]", [("", ("obj_1",))], None),
        ("<p>a < b & c</p>[<obj_1>]", [("a < b & c", ("obj_1",))], None),
        ("<p></p>[<obj_1>]", [("", ("obj_1",))], None),
        ("<p>desk", [], None),
    ],
)
def test_parse_broken_phrase_loses_no_id(text: str, strict: list[object], lenient: list[object] | None) -> None:
    assert told(text) == strict
    assert told(text, lenient=True) == (strict if lenient is None else lenient)
    assert bool(parse(text).faults) == (text != "<p>a < b & c</p>[<obj_1>]")


def test_parse_block_inside_the_other_keeps_both() -> None:
    text = f"{ANSWER}{DETAILED}<p>a</p>[<obj_1>]{DETAILED_END}<p>b</p>[<obj_2>]{ANSWER_END}"
    for lenient in (False, True):
        parsed = parse(text, lenient)
        assert [item.ids for item in parsed.detailed or ()] == [("obj_1",)]
        assert answer_ids(parsed) == ("obj_2",)
        assert len(parsed.faults) == 1


def test_parse_block_without_end_is_read_leniently_only() -> None:
    cut = f"{DETAILED}<p>a</p>[<obj_1>]{ANSWER}<p>b</p>[<obj_2>]"
    strict, lenient = parse(cut), parse(cut, lenient=True)
    assert (strict.detailed, strict.answer, len(strict.spans)) == (None, None, 2)
    assert [item.ids for item in lenient.detailed or ()] == [("obj_1",)]
    assert answer_ids(lenient) == ("obj_2",)
    assert strict.truncated and lenient.truncated


def test_parse_second_answer_block_does_not_change_the_answer() -> None:
    text = reference_reply([], "a", ["obj_1"], "none") + reference_reply([], "b", ["obj_2"], "none")
    assert answer_ids(parse(text)) == ("obj_1",)
    assert [fault.reason for fault in parse(text).faults] == [f"a second {ANSWER}"]
    assert told(text) == [("a", ("obj_1",)), ("b", ("obj_2",))]


def test_parse_end_of_a_block_that_is_not_open_is_passed_over() -> None:
    parsed = parse(f"{DETAILED_END}{ANSWER}<p>b</p>[<obj_2>]{DETAILED_END}{ANSWER_END}")
    assert answer_ids(parsed) == ("obj_2",)
    assert [fault.reason for fault in parsed.faults] == [f"{DETAILED_END} closes nothing"] * 2


@pytest.mark.parametrize(
    ("text", "strict", "lenient"),
    [
        (f"{ANSWER}<p>chair</p>[<obj_3>]{ANSWER_END}", ("obj_3",), ("obj_3",)),
        (f"{ANSWER}<p>chairs</p>[<obj_3>] <p>x</p>[<obj_1>, <obj_3>]{ANSWER_END}", ("obj_3", "obj_1"), ("obj_3", "obj_1")),
        (f"{ANSWER}<p>piano</p>[]{ANSWER_END}", (), ()),
        (f"{ANSWER}<p>chair</p>{ANSWER_END}", None, None),
        (f"{ANSWER}the chair{ANSWER_END}<p>x</p>[<obj_1>]", None, None),
        ("<p>chair</p>[<obj_3>] by <p>desk</p>[<obj_1>]", None, ("obj_3",)),
        (f"{DETAILED}<p>chair</p>[<obj_3>]{DETAILED_END}", None, None),
        (f"{DETAILED}<p>chair</p>[<obj_3>]{DETAILED_END}<p>chair</p>[<obj_4>]", None, ("obj_4",)),
        ("It is obj_7.", None, ("obj_7",)),
        ("No idea.", None, None),
        ("", None, None),
    ],
)
def test_answer_ids_of_reply_is_none_only_when_nothing_is_said(text: str, strict: object, lenient: object) -> None:
    assert answer_ids(parse(text)) == strict
    assert answer_ids(parse(text, lenient=True)) == lenient
