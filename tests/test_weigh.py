"""Probabilities of candidates against the model's own, one whole sequence at a time."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
pytest.importorskip("llguidance", reason="llguidance is not installed (extra train)")

from test_guide import questions  # noqa: E402

from grand3d import markup  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.generate import Choice, choose, generate  # noqa: E402
from grand3d.generate.guide import Grammar  # noqa: E402
from grand3d.generate.weigh import branchings  # noqa: E402
from grand3d.grammar import reply_grammar  # noqa: E402
from grand3d.tokens import stop_ids, text_ids  # noqa: E402

NUM = 12
OBJECTS = Choice((markup.ANSWER, "</p>["), (*(f"<obj_{k}>]" for k in range(NUM)), "]"), markup.ANSWER_END)


def by_hand(model: Any, context: list[int], sequences: list[list[int]]) -> list[float]:
    """The product of each sequence's probabilities, among the tokens that some sequence goes on with."""
    out = []
    for sequence in sequences:
        with torch.no_grad():
            logits = model(torch.tensor([context + sequence])).logits[0, len(context) - 1 :].double()
        total = 0.0
        for i, token in enumerate(sequence):
            ways = sorted({other[i] for other in sequences if other[:i] == sequence[:i]})
            total += torch.log_softmax(logits[i, ways], -1)[ways.index(token)].item()
        out.append(math.exp(total))
    return out


@pytest.mark.parametrize("grounding", ["none", "first"])
def test_choose_gives_the_models_own_probabilities_of_each_object(tiny_base: Any, grounding: str) -> None:
    model, tokenizer = tiny_base
    grammar = reply_grammar("reference", [f"obj_{k}" for k in range(NUM)], grounding)
    requests = questions(3, 1)
    replies = list(choose(model, tokenizer, requests, [OBJECTS] * 3, [grammar] * 3, 70))
    assert sorted(index for index, *_ in replies) == [0, 1, 2]
    for index, text, _, chances in replies:
        assert math.isclose(sum(chances), 1, abs_tol=1e-9) and len(chances) == NUM + 1
        parsed = markup.parse(text)
        assert not parsed.faults
        best = chances.index(max(chances))
        assert markup.answer_ids(parsed) == (() if best == NUM else (f"obj_{best}",))
        before = text[: OBJECTS.place(text)]
        context = requests[index].prefix + requests[index].suffix
        ways = [text_ids(tokenizer, before + way + OBJECTS.end) for way in OBJECTS.candidates]
        expected = by_hand(model, context, ways)
        assert chances == pytest.approx(expected, rel=1e-4)


def test_choose_traced_weighs_where_the_answered_object_was_first_named(lively: Any) -> None:
    model, tokenizer = lively
    few, num = (*(f"<obj_{k}>]" for k in range(26)), "]"), 24
    plain, traced = replace(OBJECTS, candidates=few), replace(OBJECTS, candidates=few, traced=True)
    grammar = reply_grammar("reference", [f"obj_{k}" for k in range(26)])
    grammar = grammar.replace(f'"{markup.DETAILED}" TEXT', f'"{markup.DETAILED}" MENTION "." MENTION MENTION')
    grammar = re.sub(r"(?m)^MENTION: .*$", 'MENTION: "<p>" /[0-9]{1,2}/ "</p>[" LIST? "]"', grammar)  # a random model names few
    requests = questions(num, 1)
    first = {i: (text, ways) for i, text, _, ways in choose(model, tokenizer, requests, [plain] * num, [grammar] * num, 150)}
    kinds: Counter[str] = Counter()
    for index, text, finished, chances in choose(model, tokenizer, requests, [traced] * num, [grammar] * num, 150):
        before, at_answer = first[index]
        written = few[at_answer.index(max(at_answer))]
        place = before.find("[" + written, 0, plain.place(before) - 1) + 1
        assert not markup.parse(text).faults and finished
        if not place:
            kinds["only in the answer"] += 1
            assert (text, chances) == (before, at_answer)
            continue
        behind = before[place + len(written) :]  # "]." is one token, and says that no object is meant as "]" does
        ways = [text_ids(tokenizer, before[:place] + way + behind) for way in few]
        assert chances == pytest.approx(by_hand(model, requests[index].prefix + requests[index].suffix, ways), rel=1e-4)
        best = few[chances.index(max(chances))]
        kinds["stands" if best == written else "written again"] += 1
        assert text.startswith(before[:place] + best) and text.endswith(best + plain.end)
        assert best != written or text == before
    assert kinds["stands"] and kinds["written again"] and kinds["only in the answer"], kinds


def test_choose_traced_gives_readable_replies_however_tight_the_limit(lively: Any) -> None:
    model, tokenizer = lively
    grammar, traced = reply_grammar("reference", [f"obj_{k}" for k in range(NUM)]), replace(OBJECTS, traced=True)
    shortest = Grammar(grammar, tokenizer, model.config.vocab_size, stop_ids(tokenizer)).shortest
    for limit in range(shortest, shortest + 40, 3):
        for _, text, _, chances in choose(model, tokenizer, questions(6, limit), [traced] * 6, [grammar] * 6, limit):
            parsed = markup.parse(text)
            assert not parsed.faults and math.isclose(sum(chances), 1, abs_tol=1e-9)


def test_a_choice_that_does_not_fit_behind_the_decision_leaves_the_reply_as_it_was(lively: Any) -> None:
    model, tokenizer = lively
    grammar = Grammar(reply_grammar("reference", ["obj_0"]), tokenizer, model.config.vocab_size, stop_ids(tokenizer))
    guide = grammar.follow(grammar.shortest + 4)
    begun = text_ids(tokenizer, markup.DETAILED + " a")
    assert guide.fits(begun) and not guide.fits(begun * 20) and not guide.fits(text_ids(tokenizer, "<p>"))
    assert not guide.fits(text_ids(tokenizer, markup.DETAILED + " one two three four five six seven eight"))


def test_choose_between_yes_and_no_begins_at_the_reply(tiny_base: Any) -> None:
    model, tokenizer = tiny_base
    requests = questions(4, 2)
    choice = Choice((), ("Yes", "No"), "")
    grammar = reply_grammar("existence", [])
    for index, text, finished, chances in choose(model, tokenizer, requests, [choice] * 4, [grammar] * 4, 8):
        context = requests[index].prefix + requests[index].suffix
        assert chances == pytest.approx(
            by_hand(model, context, [text_ids(tokenizer, way) for way in choice.candidates]), rel=1e-4
        )
        assert finished and text == choice.candidates[chances.index(max(chances))]


def test_requests_without_a_choice_are_answered_as_ever(tiny_base: Any) -> None:
    model, tokenizer = tiny_base
    requests = questions(3, 4)
    grammars = [reply_grammar("text", ["obj_0"])] * 3
    mixed = {
        i: (text, done, ways) for i, text, done, ways in choose(model, tokenizer, requests, [None, OBJECTS, None], grammars, 12)
    }
    plain = {i: (text, done) for i, text, done in generate(model, tokenizer, requests, 12, grammars=grammars)}
    assert {i: row[:2] for i, row in mixed.items()} == plain and all(row[2] == [] for row in mixed.values())


def test_candidates_that_tokens_cannot_tell_apart_are_refused() -> None:
    assert branchings([[1, 2, 3], [1, 2, 4], [1, 5]]) == {(1,): {2: [0, 1], 5: [2]}, (1, 2): {3: [0], 4: [1]}}
    for same in ([[1, 2], [1, 2]], [[1, 2], [1, 2, 3]]):
        with pytest.raises(GrandError, match="expected ones that part"):
            branchings(same)
