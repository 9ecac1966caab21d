"""Constrained replies of a model that knows nothing: every one is valid, whatever the limit."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
pytest.importorskip("llguidance", reason="llguidance is not installed (extra train)")

from grand3d import markup  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.generate import Sampling, decode, generate  # noqa: E402
from grand3d.generate.guide import Grammar  # noqa: E402
from grand3d.grammar import reply_grammar  # noqa: E402
from grand3d.tokens import Encoded, stop_ids, text_ids  # noqa: E402

ROOM = ((-1.5, -2.0, 0.0), (3.25, 2.0, 2.5))
KINDS = ("reference", "existence", "counting", "text", "plan", "place")


def make(kind: str, num: int, grounding: str = "first") -> str:
    return reply_grammar(kind, [f"obj_{k}" for k in range(num)], grounding, ROOM)


def faults(kind: str, text: str, num: int, grounding: str = "first") -> list[str]:
    """What is wrong with a reply, as its readers would find."""
    parsed = markup.parse(text)
    out = [fault.reason for fault in markup.check(parsed, {f"obj_{k}" for k in range(num)})]
    if kind == "reference":
        blocks = [i for i in (text.find(markup.DETAILED), text.find(markup.ANSWER)) if i >= 0]
        expected = {"first": 2, "later": 2, "none": 1}[grounding]
        if markup.answer_ids(parsed) is None or len(blocks) != expected or (blocks != sorted(blocks)) != (grounding == "later"):
            out.append("blocks")
    if kind == "existence" and text[:3].lower() != "yes" and text[:2].lower() != "no":
        out.append("no yes or no")
    if kind == "counting" and not text[:1].isdigit():
        out.append("no number")
    if kind == "text" and not text.strip():
        out.append("blank")
    if kind == "plan" and not (parsed.steps and all(any(span.ids for span in step.spans) for step in parsed.steps)):
        out.append("a step names no object")
    if kind == "place":
        inside = [all(low <= x <= high for x, low, high in zip(place, *ROOM, strict=True)) for place in parsed.places]
        if inside != [True]:
            out.append(f"places {parsed.places}")
    return out


def questions(count: int, seed: int) -> list[Encoded]:
    rng = random.Random(seed)
    prefix = [rng.randrange(100, 49000) for _ in range(20)]
    out = []
    for _ in range(count):
        suffix = [rng.randrange(100, 49000) for _ in range(3)]
        out.append(Encoded(prefix, suffix, [False] * 3))
    return out


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens each reply took; encoding its text again may take others."""
    seen: list[int] = []
    plain = decode.decode
    monkeypatch.setattr(decode, "decode", lambda tokenizer, ids: seen.append(len(ids)) or plain(tokenizer, ids))
    return seen


def run(base: Any, kind: str, num: int, count: int, limit: int, sampling: Sampling, grounding: str = "first") -> list[Any]:
    """``(text, finished, faults)`` of replies to random questions."""
    model, tokenizer = base
    grammars = [make(kind, num, grounding)] * count
    replies = generate(model, tokenizer, questions(count, num), limit, sampling=sampling, grammars=grammars)
    return [(text, finished, faults(kind, text, num, grounding)) for _, text, finished in replies]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [60, 100])
def test_constrained_replies_of_a_random_model_are_valid(tiny_base: Any, lengths: list[int], kind: str, limit: int) -> None:
    for num, sampling in itertools.product((1, 12, 100), (Sampling(), Sampling(1.0, 1.0, 7))):
        replies = run(tiny_base, kind, num, 4, limit, sampling)
        assert len(replies) == 4
        assert [bad for _, _, bad in replies if bad] == [], replies
    assert len(lengths) == 24 and max(lengths) <= limit


@pytest.mark.parametrize("grounding", ["later", "none"])
def test_constrained_replies_keep_the_order_of_blocks(tiny_base: Any, grounding: str) -> None:
    assert all(not bad for *_, bad in run(tiny_base, "reference", 9, 6, 80, Sampling(1.0), grounding))


def test_constrained_replies_over_a_scene_without_objects_name_none(tiny_base: Any) -> None:
    for kind in ("reference", "existence", "counting", "text", "place"):
        assert all(not bad for *_, bad in run(tiny_base, kind, 0, 3, 70, Sampling(1.0)))
    with pytest.raises(GrandError, match="at least one object"):
        make("plan", 0)


def test_every_limit_from_the_shortest_reply_on_gives_valid_replies(tiny_base: Any, lengths: list[int]) -> None:
    model, tokenizer = tiny_base
    for kind in KINDS:
        shortest = Grammar(make(kind, 12), tokenizer, model.config.vocab_size, stop_ids(tokenizer)).shortest
        for limit in range(shortest, shortest + 16):
            assert all(not bad for *_, bad in run(tiny_base, kind, 12, 2, limit, Sampling(1.0, 1.0, limit))), (kind, limit)
            assert max(lengths[-2:]) <= limit
        if shortest > 1:
            with pytest.raises(GrandError, match=f"expected max_new_tokens of {shortest}"):
                run(tiny_base, kind, 12, 1, shortest - 1, Sampling())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_constrained_replies_hold_no_fault(tiny_base: Any, lengths: list[int]) -> None:
    counts = {"replies": 0, "faults": 0}
    for seed, (kind, num) in enumerate(itertools.product(KINDS, (1, 31, 100))):
        for limit in (48, 90):
            for _, _, bad in run(tiny_base, kind, num, 280, limit, Sampling(1.0, 1.0, seed)):
                counts["replies"] += 1
                counts["faults"] += bool(bad)
            assert max(lengths) <= limit
            lengths.clear()
    assert counts["replies"] >= 10_000 and counts["faults"] == 0


def test_a_reply_the_grammar_allows_is_the_one_the_model_writes_freely(tiny_base: Any) -> None:
    """A grammar that allows all of what the model writes changes nothing."""
    model, tokenizer = tiny_base
    requests = questions(6, 3)
    free = sorted(generate(model, tokenizer, requests, 12))
    anything = "start: /(.|\\n)*/"
    assert sorted(generate(model, tokenizer, requests, 12, grammars=[anything] * 6)) == free


def test_draws_under_a_grammar_have_the_probabilities_of_what_it_allows(lively: Any) -> None:
    """A token is drawn from all, and again from those allowed where it was refused: together that is the masked distribution."""
    model, tokenizer = lively
    request, num = questions(1, 3)[0], 1500
    digits = {text_ids(tokenizer, str(k))[0]: k for k in range(10)}
    with torch.no_grad():
        logits = model(torch.tensor([request.prefix + request.suffix])).logits[0, -1]
    # so hot that most draws are refused, and that the digits still differ
    heat = float(logits[list(digits)].std())
    expected = torch.softmax(logits[list(digits)] / heat, -1)
    replies = generate(model, tokenizer, [request] * num, 2, 96, Sampling(heat, seed=5), grammars=["start: /[0-9]/"] * num)
    found = Counter(text for _, text, _ in replies)
    assert set(found) <= set("0123456789") and found.total() == num
    shares = torch.tensor([found[str(k)] / num for k in digits.values()])
    assert float((shares - expected).abs().sum()) / 2 < 0.05  # total variation; about 0.03 is chance
