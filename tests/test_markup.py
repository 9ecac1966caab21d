"""Text of the grammar: properties of any string, correct text, hostile text, and writing."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d import marks, markup
from grand3d.errors import GrandError
from grand3d.markup import (
    ANSWER,
    ANSWER_END,
    DETAILED,
    DETAILED_END,
    answer_ids,
    check,
    map_ids,
    parse,
    plain,
    reference_reply,
    span,
)

FRAGMENTS = [
    *sorted(markup.TAGS),
    *("<P>", "</ p >", "[", "]", "[]", "<", ">", ",", "\n", " ", "and", "none", "1. ", "0.5", "nan"),
    *("<obj_1>", "[<obj_2>]", "[<obj_3>, <obj_4>]", "obj_5", "[12]", "[obj 6]", "<obj_007>", "［", "＞", "】", "chair", "é"),
]
texts = st.one_of(st.text(), st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=30).map("".join))
ids = st.lists(
    st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="<>,"), min_size=1, max_size=8), max_size=4
)
clean_ids = ids.map(lambda names: [n.strip() for n in names if n.strip() and f"<{n.strip()}>" not in markup.TAGS])
phrases = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20).filter(
    lambda words: words.strip() and not list(marks.marks(words))
)
examples = settings(max_examples=200, deadline=None)


def told(text: str, lenient: bool = False) -> list[tuple[str, tuple[str, ...]]]:
    return [(item.phrase, item.ids) for item in parse(text, lenient).spans]


@examples
@given(texts, st.booleans())
def test_parse_any_string_returns_spans_inside_the_text(text: str, lenient: bool) -> None:
    parsed = parse(text, lenient)
    for item in parsed.spans:
        assert 0 <= item.start < item.end <= len(text)
        assert len(set(item.ids)) == len(item.ids)
        assert item.listed or not item.ids
    assert set(parsed.answer or ()) | set(parsed.detailed or ()) <= set(parsed.spans)
    assert all(0 <= fault.position <= len(text) for fault in parsed.faults)
    answer_ids(parsed)
    check(parsed, {"obj_1"})


@examples
@given(texts)
def test_parse_any_string_strict_ids_are_literally_in_the_text(text: str) -> None:
    for item in parse(text).spans:
        assert all(f"<{name}>" in text[item.start : item.end] for name in item.ids)


@examples
@given(texts)
def test_parse_lenient_finds_every_strict_prompt_id(text: str) -> None:
    strict = {name for item in parse(text).spans for name in item.ids if re.fullmatch(r"obj_[1-9][0-9]*", name)}
    assert strict <= {name for item in parse(text, lenient=True).spans for name in item.ids}


@examples
@given(texts)
def test_plain_any_string_leaves_no_mark(text: str) -> None:
    words = plain(text)
    assert parse(words).faults == ()
    assert parse(words).spans == ()
    assert plain(words) == words
    assert told(span(words, ["obj_1"])) == [(words, ("obj_1",))]


@examples
@given(texts)
def test_map_ids_to_themselves_keeps_the_words_and_ids(text: str) -> None:
    same, unknown = map_ids(text, lambda name: name)
    assert unknown == []
    assert [item.ids for item in parse(same).spans if item.ids] == [item.ids for item in parse(text).spans if item.ids]


@examples
@given(st.lists(st.tuples(phrases, clean_ids), max_size=4), st.sampled_from(["", " ", " near "]))
def test_span_then_parse_returns_the_same_phrases_and_ids(pairs: list[tuple[str, list[str]]], between: str) -> None:
    text = between.join(span(words, names) for words, names in pairs)
    parsed = parse(text)
    assert told(text) == [(words, tuple(dict.fromkeys(names))) for words, names in pairs]
    assert {fault.reason for fault in parsed.faults} <= {"an id is listed twice"}
    assert [text[item.start : item.end] for item in parsed.spans] == [span(words, names) for words, names in pairs]
    assert not parsed.truncated


@examples
@given(st.lists(st.tuples(phrases, clean_ids), max_size=3), phrases, clean_ids, st.sampled_from(markup.GROUNDINGS), st.booleans())
def test_reference_reply_then_parse_returns_blocks_and_answer(
    detailed: list[tuple[str, list[str]]], phrase: str, names: list[str], grounding: str, lenient: bool
) -> None:
    parsed = parse(reference_reply(detailed, phrase, names, grounding), lenient)
    assert [item.phrase for item in parsed.answer or ()] == [phrase]
    assert (parsed.detailed is None) == (grounding == "none")
    if not lenient:
        assert answer_ids(parsed) == tuple(dict.fromkeys(names))
        if parsed.detailed is not None:
            assert [(s.phrase, s.ids) for s in parsed.detailed] == [(w, tuple(dict.fromkeys(n))) for w, n in detailed]


def test_reference_reply_has_the_order_of_the_setting() -> None:
    detailed = [("the chair", ["obj_3"]), ("the desk", ["obj_1"])]
    listed = f"{DETAILED}<p>the chair</p>[<obj_3>] <p>the desk</p>[<obj_1>]{DETAILED_END}"
    answer = f"{ANSWER}<p>chair</p>[<obj_3>]{ANSWER_END}"
    assert reference_reply(detailed, "chair", ["obj_3"], "first") == listed + answer
    assert reference_reply(detailed, "chair", ["obj_3"], "later") == answer + listed
    assert reference_reply(detailed, "chair", ["obj_3"], "none") == answer
    with pytest.raises(GrandError, match="first, later, none"):
        reference_reply(detailed, "chair", ["obj_3"], "before")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>brown wooden desk</p>[<obj_12>]", [("brown wooden desk", ("obj_12",))]),
        ("<p>two chairs</p>[<obj_3>, <obj_4>]", [("two chairs", ("obj_3", "obj_4"))]),
        ("<p>a piano</p>[]", [("a piano", ())]),
        ("Describe [<obj_3>].", [("", ("obj_3",))]),
        ("<p>corner</p>[<region_2>]", [("corner", ("region_2",))]),
        ("<p>sofa</p>[<floor]floo-1>,<three-seat/multi-seat sofa (left)-7>]", None),
        ("a < b & c [sic] (1) [12] 3>2", []),
        ("Is <p>the lamp</p>[<5>] on <p>a desk</p>[<2>]?", [("the lamp", ("5",)), ("a desk", ("2",))]),
    ],
)
def test_parse_correct_text_returns_no_fault(text: str, expected: list[tuple[str, tuple[str, ...]]] | None) -> None:
    expected = expected if expected is not None else [("sofa", ("floor]floo-1", "three-seat/multi-seat sofa (left)-7"))]
    for_strict = parse(text)
    assert told(text) == expected
    assert (for_strict.faults, for_strict.truncated) == ((), False)


def test_parse_plan_returns_steps_with_their_spans() -> None:
    first, second = "<step>1. Walk to <p>the desk</p>[<obj_2>].</step>", "<step>2. Sit on <p>it</p>[<obj_3>].</step>"
    parsed = parse(first + second)
    assert [step.text for step in parsed.steps] == ["1. Walk to <p>the desk</p>[<obj_2>].", "2. Sit on <p>it</p>[<obj_3>]."]
    assert [[item.ids for item in step.spans] for step in parsed.steps] == [[("obj_2",)], [("obj_3",)]]
    assert (parsed.steps[1].start, parsed.steps[1].end) == (len(first), len(first + second))
    assert parsed.faults == ()
    assert [fault.reason for fault in parse("<step>2. Go.</step>").faults] == ["step 1 does not begin with its number"]


def test_parse_full_sentence_in_the_detailed_block_returns_its_spans() -> None:
    text = f"{DETAILED}It is <p>the chair</p>[<obj_3>] by <p>the desk</p>[<obj_1>].{DETAILED_END}"
    text += f" {ANSWER}<p>chair</p>[<obj_3>]{ANSWER_END}"
    parsed = parse(text)
    assert [item.ids for item in parsed.detailed or ()] == [("obj_3",), ("obj_1",)]
    assert (answer_ids(parsed), parsed.faults) == (("obj_3",), ())


def test_parse_phrases_without_lists_keep_their_own_empty_ids() -> None:
    parsed = parse("<p>a</p> and <p>b</p>[] and <p>c</p>[<obj_1>] and [<obj_2>]")
    assert [(s.phrase, s.ids, s.listed) for s in parsed.spans] == [
        ("a", (), False),
        ("b", (), True),
        ("c", ("obj_1",), True),
        ("", ("obj_2",), True),
    ]
    assert [fault.reason for fault in parsed.faults] == ["no id list behind the phrase"]


def test_parse_code_in_a_list_or_place_is_never_run(tmp_path: Path) -> None:
    target = tmp_path / "pwned"
    code = f"__import__('os').system('touch {target}')"
    for lenient in (False, True):
        parsed = parse(f"<p>a</p>[{code}] <place>{code},0,0</place> <p>b</p>[<obj_1>]", lenient)
        assert [item.ids for item in parsed.spans if item.listed] == [("obj_1",)]
        assert parsed.places == ()
        assert parsed.faults
    assert not target.exists()
    for module in (marks, markup):
        assert not re.search(r"\b(eval|exec|compile)\(", re.sub(r"re\.compile\(", "", Path(module.__file__).read_text("utf-8")))


HEAVY = (
    "[",
    "<",
    "[<",
    "<p>",
    "</p>",
    "<p><p>",
    "[<a>,",
    "[<a> ",
    "<p>a</p>[",
    "<p>[<a>",
    "obj_1 ",
    "[obj_1 and ",
    "［",
    DETAILED,
)
HEAVY += (ANSWER + "<p>a</p>[<obj_1>]", "<step>", "<place>", "[[<obj_1>", "<p><p>a</p>", "<obj_1", "[" + " " * 9)


@pytest.mark.parametrize("piece", HEAVY)
def test_parse_endless_brackets_take_linear_time(piece: str) -> None:
    def seconds(count: int) -> float:
        text = piece * count + "</p>" * count
        best = float("inf")
        for _ in range(2):
            start = time.process_time()
            parse(text)
            parse(text, lenient=True)
            plain(text)
            map_ids(text, lambda name: name)
            best = min(best, time.process_time() - start)
        return best

    small = seconds(250)
    assert seconds(4000) < 16 * small * 4 + 0.05  # quadratic time would be 256 times as much


def test_parse_hundred_thousand_brackets_stay_one_text() -> None:
    assert parse("[" * 100_000).spans == ()
    assert parse("[" * 100_000, lenient=True).spans == ()
    assert told("<p>a</p>" + "[" * 100_000 + "[<obj_1>]")[-1] == ("", ("obj_1",))


def test_parse_dialect_of_3d_grand_is_read_without_a_fault() -> None:
    text = "next to the<p>dining chairs</p>[<dining chair-2>, <dining chair-3>] and <p>sideboard</p>[<sideboard/side cabinet-9>]."
    assert told(text) == [("dining chairs", ("dining chair-2", "dining chair-3")), ("sideboard", ("sideboard/side cabinet-9",))]
    assert parse(text).faults == ()


def test_parse_published_examples_are_read_whole(real: Callable[[str], Path]) -> None:
    data = json.loads(real("grand3d/website_samples.json").read_text("utf-8"))
    examples = [part["text"] for scene in data.values() for part in scene.values() if isinstance(part, dict)]
    assert len(examples) == 6
    for text in examples:
        parsed = parse(text)
        assert parsed.faults == ()
        assert len(parsed.spans) == text.count("<p>") > 0
        assert sum(len(item.ids) for item in parsed.spans) == len(re.findall(r"<[^<>]+-[0-9]+>", text))


def test_check_names_faults_and_unknown_ids_with_their_positions() -> None:
    text = "<p>a</p> <p>chair</p>[<obj_99>, <obj_1>]"
    assert check(parse(text), ["obj_1"]) == [
        "at 0: no id list behind the phrase",
        "at 9: <obj_99> of 'chair' is none of the 1 known ids",
    ]
    assert check(parse("<p>chair</p>[<obj_1>]"), ["obj_1"]) == []


@pytest.mark.parametrize("phrase", ["<p>", "a</p>[<obj_1>]", "see [<obj_1>]", DETAILED])
def test_span_of_phrase_with_markup_is_refused(phrase: str) -> None:
    with pytest.raises(GrandError, match="holds markup"):
        span(phrase, ["obj_1"])


@pytest.mark.parametrize("name", ["", " ", "a,b", "a<b", "a>b", "a\nb", " a", "p", "/step"])
def test_span_of_id_that_cannot_be_read_back_is_refused(name: str) -> None:
    with pytest.raises(GrandError, match="cannot be written"):
        span("chair", [name])


def test_span_without_words_is_the_list_alone() -> None:
    assert span("", ["obj_3", "obj_4"]) == "[<obj_3>, <obj_4>]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<p>the chair</p>[<4>] left of <p>the desk</p>[<2>]", "the chair left of the desk"),
        ("<p>a</p> [<1>] b [<2>] c", "a b c"),
        (f"{DETAILED}<p>a</p>[]{DETAILED_END}<place>1, 2, 3</place>", "a1, 2, 3"),
        ("a < b [sic] [] <b>", "a < b [sic] [] <b>"),
        ("<<p>p>x", "px"),
        ("[[<a>]<b>]", "b"),
        ("on <obj_1> or <P>it", "on obj_1 or Pit"),
    ],
)
def test_plain_removes_markup_and_keeps_words(text: str, words: str) -> None:
    assert plain(text) == words


def test_map_ids_leaves_unknown_ids_out_and_returns_them() -> None:
    text = "<p>chairs</p>[<4>,<9>, <5>] by <p>desk</p>[<2>] and <4>"
    mapped, unknown = map_ids(text, {"4": "obj_0", "5": "obj_0"}.get)
    assert mapped == "<p>chairs</p>[<obj_0>] by <p>desk</p>[] and <4>"
    assert unknown == ["9", "2"]


def test_every_spelling_in_the_page_of_the_grammar_is_read_as_written_there(root: Path) -> None:
    page = (root / "docs" / "markup.md").read_text("utf-8")
    for line in page.split("```")[1].splitlines():
        line = re.sub(r" {8}.*", "", line)
        assert parse(line).faults == (), line
    for setting in markup.GROUNDINGS[:1]:
        row = re.search(rf"^\| `{setting}` \| `(.*)` \|$", page, re.MULTILINE)
        assert row is not None
        assert row[1] == reference_reply([("the chair", ["obj_3"]), ("the desk", ["obj_1"])], "chair", ["obj_3"], setting)
