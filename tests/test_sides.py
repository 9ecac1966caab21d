"""Contrast with another scene, against two models read by hand; and what several orders agree on."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
pytest.importorskip("llguidance", reason="llguidance is not installed (extra train)")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from test_weigh import NUM, OBJECTS  # noqa: E402

from grand3d import markup  # noqa: E402
from grand3d.decoding import Decoding  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.generate import ask  # noqa: E402
from grand3d.generate.agree import agree  # noqa: E402
from grand3d.generate.decode import Contrast, choose, generate  # noqa: E402
from grand3d.generate.sides import contrasted  # noqa: E402
from grand3d.grammar import reply_grammar  # noqa: E402
from grand3d.sample import Data, Reply  # noqa: E402
from grand3d.schema import PromptConfig  # noqa: E402
from grand3d.synth import make_data  # noqa: E402
from grand3d.tokens import Encoded, text_ids  # noqa: E402


def by_hand(model: Any, ours: list[int], theirs: list[int], weight: float, num: int) -> list[int]:
    out: list[int] = []
    for _ in range(num):
        with torch.no_grad():
            p, q = (model(torch.tensor([ids + out])).logits[0, -1].log_softmax(-1) for ids in (ours, theirs))
        score = torch.where(p >= p.max() + math.log(0.1), p + weight * (p - q), -math.inf)
        out.append(int(score.argmax()))
    return out


@pytest.mark.parametrize("weight", [0.5, 3.0])
def test_contrast_is_that_of_two_whole_prompts(lively: Any, weight: float) -> None:
    model, tokenizer = lively
    generator = torch.Generator().manual_seed(5)
    draw = lambda n: torch.randint(300, 40_000, (n,), generator=generator).tolist()  # noqa: E731
    prefix, other = draw(40), draw(33)  # the scenes may differ in length
    requests = [Encoded(prefix, draw(n), [False]) for n in (3, 6, 4)]
    contrast = Contrast({tuple(prefix): tuple(other)}, weight)
    replies = sorted(generate(model, tokenizer, requests, 10, batch_size=2, contrast=contrast))
    plain = sorted(generate(model, tokenizer, requests, 10))
    for (_, text, _), request in zip(replies, requests, strict=True):
        expected = by_hand(model, prefix + request.suffix, other + request.suffix, weight, 10)
        assert text == tokenizer.decode(expected)
    assert replies != plain


def test_contrast_of_candidates_is_that_of_two_whole_prompts(lively: Any) -> None:
    model, tokenizer = lively
    generator = torch.Generator().manual_seed(6)
    prefix, other, *suffixes = (torch.randint(300, 40_000, (n,), generator=generator).tolist() for n in (40, 33, 3, 6, 4))
    requests = [Encoded(prefix, suffix, [False]) for suffix in suffixes]
    grammars = [reply_grammar("reference", [f"obj_{k}" for k in range(NUM)], "none")] * 3
    contrast = Contrast({tuple(prefix): tuple(other)}, 0.7)
    replies = list(choose(model, tokenizer, requests, [OBJECTS] * 3, grammars, 60, contrast=contrast))
    for index, text, _, chances in replies:
        ways = [text_ids(tokenizer, text[: OBJECTS.place(text)] + way + OBJECTS.end) for way in OBJECTS.candidates]
        for way, chance in zip(ways, chances, strict=True):
            with torch.no_grad():
                p, q = (
                    model(torch.tensor([ids + suffixes[index] + way])).logits[0, -len(way) - 1 :].double()
                    for ids in (prefix, other)
                )
            expected = 1.0
            for i, token in enumerate(way):
                among = sorted({w[i] for w in ways if w[:i] == way[:i]})
                ours, theirs = p[i, among].softmax(-1), q[i, among].softmax(-1)
                left = torch.where(ours >= 0.1 * ours.max(), ours**1.7 / theirs**0.7, 0)
                expected *= float(left[among.index(token)] / left.sum())
            assert chance == pytest.approx(expected, rel=1e-3, abs=1e-9)
        assert math.isclose(sum(chances), 1, abs_tol=1e-9)
    plain = {index: chances for index, _, _, chances in choose(model, tokenizer, requests, [OBJECTS] * 3, grammars, 60)}
    assert all(chances != plain[index] for index, _, _, chances in replies)


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=6), st.floats(0, 10))
def test_contrasted_with_itself_changes_no_order(logits: list[float], weight: float) -> None:
    row = torch.tensor([logits], dtype=torch.float32)
    out = contrasted(row, row.clone(), weight)
    assert row[0, out.argmax()] == pytest.approx(max(logits), abs=1e-5) and torch.isfinite(out).all()


def test_contrast_and_orders_go_through_ask(tiny_base: Any) -> None:
    model, tokenizer = tiny_base
    data = make_data(2, 8, 5)
    for decoding in (
        Decoding(70, contrast=1.0),
        Decoding(70, candidates=True, contrast=1.0),
        Decoding(70, orders=3, candidates=True),
    ):
        replies = list(ask(model, tokenizer, PromptConfig(), data, data.samples, decoding))
        assert sorted(reply.sample_id for reply in replies) == sorted(sample.sample_id for sample in data.samples)
        for reply in replies:
            assert not markup.parse(reply.text).faults
            assert sorted(reply.object_ids) == sorted(set(reply.object_ids)) and reply.object_ids
            assert not reply.chances or math.isclose(sum(reply.chances), 1, abs_tol=1e-6)


def reply(order: str, answer: str | None, chances: tuple[float, ...] = ()) -> Reply:
    """To a scene of the objects a, b and c, listed in some order, that names one of them, or none."""
    name = "" if answer is None else f"<obj_{order.index(answer)}>"
    text = f"{markup.ANSWER}<p>it</p>[{name}]{markup.ANSWER_END}"
    return Reply("q", "s", text, tuple(order), chances=chances)


def test_agree_takes_what_most_orders_name_and_the_first_in_a_tie() -> None:
    first, second, third = reply("abc", "a"), reply("cab", "b"), reply("bca", "b")
    assert agree("object_reference", [first, second, third]) is second
    assert agree("object_reference", [first, second]) is first
    assert agree("object_reference", [reply("abc", None), reply("bca", None), second]).text == reply("abc", None).text
    assert agree("object_reference", [Reply("q", "s", "?", ("a",)), second]) is second  # what cannot be read has no vote
    assert agree("scene_description", [first, second, third]) is first
    yes, no, neither = (Reply("q", "s", text) for text in ("Yes, there is.", "No.", "Nothing can be said."))
    assert agree("existence", [yes, no, no]) is no and agree("existence", [yes, neither, neither]) is yes


def test_agree_means_chances_by_object_not_by_number() -> None:
    first = reply("abc", "a", (0.5, 0.4, 0.0, 0.1))
    second = reply("cab", "b", (0.0, 0.3, 0.7, 0.0))  # c, a, b, none
    taken = agree("object_reference", [first, second])
    assert taken.text == second.text and taken.object_ids == ("c", "a", "b")
    assert taken.chances == pytest.approx((0.0, 0.4, 0.55, 0.05))
    yes, no = Reply("q", "s", "Yes", chances=(0.6, 0.4)), Reply("q", "s", "No", chances=(0.1, 0.9))
    assert agree("existence", [yes, no]).text == "No" and agree("existence", [yes, no]).chances == pytest.approx((0.35, 0.65))


@given(
    st.lists(
        st.tuples(st.permutations("abcd"), st.integers(2, 4), st.lists(st.integers(1, 9), min_size=5, max_size=5)), min_size=2
    )
)
def test_agree_names_what_the_mean_of_chances_says_also_where_no_order_does(drawn: list[Any]) -> None:
    replies, means = [], dict.fromkeys("abcd-", 0.0)
    for order, num, weights in drawn:  # a context may have room for fewer objects in another order
        shown = "".join(order[:num])
        chances = tuple(weight / sum(weights[: num + 1]) for weight in weights[: num + 1])
        best = (*shown, None)[chances.index(max(chances))]
        replies.append(reply(shown, best, chances))
        for name, chance in zip(f"{shown}-", chances, strict=True):
            means[name] += chance
    taken = agree("object_reference", replies)
    parsed = markup.parse(taken.text)
    named = [taken.object_ids[int(name.removeprefix("obj_"))] for name in markup.answer_ids(parsed) or ()] or ["-"]
    assert not parsed.faults and means[named[0]] == pytest.approx(max(means.values()))
    ways = (*taken.object_ids, "-")
    assert sum(taken.chances) == pytest.approx(1) and len(taken.chances) == len(ways)
    assert taken.chances[ways.index(named[0])] == pytest.approx(max(taken.chances))


def test_agree_second_everywhere_beats_first_once() -> None:
    taken = agree("object_reference", [reply("abc", "a", (0.5, 0.4, 0.0, 0.1)), reply("cab", "c", (0.5, 0.0, 0.4, 0.1))])
    assert taken.text == reply("abc", "b").text and taken.chances == pytest.approx((0.25, 0.4, 0.25, 0.1))


@pytest.mark.parametrize("wrong", [{"contrast": -1.0}, {"contrast": math.nan}, {"orders": 0}, {"orders": 1000}])
def test_settings_out_of_their_limits_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(GrandError, match="expected"):
        Decoding(**wrong)


def test_orders_leave_out_a_question_that_cannot_be_asked_once(tiny_base: Any) -> None:
    from grand3d.files import Rejects

    model, tokenizer = tiny_base
    data = make_data(1, 8, 3)
    long = data.samples[0].__class__("long", data.samples[0].scene_id, "existence", "word " * 5000, "Yes")
    rejects = Rejects(skip_bad=True)
    asked = Data(data.scenes, (*data.samples, long))
    replies = list(ask(model, tokenizer, PromptConfig(), asked, asked.samples, Decoding(70, orders=2), rejects))
    assert len(replies) == len(data.samples) and len(rejects.rows) == 1
