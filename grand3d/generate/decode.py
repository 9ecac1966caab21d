"""Many questions about few scenes: every scene is read once, its questions are answered together."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from grand3d.decoding import GREEDY, MAX_NEW_TOKENS, Sampling
from grand3d.errors import GrandError, shown
from grand3d.generate.cache import Prefix, Rows, inner, read, ready
from grand3d.generate.decide import decide
from grand3d.generate.growing import Ids, Question, Row, begin, group
from grand3d.generate.guide import Grammar
from grand3d.generate.sampling import draw
from grand3d.generate.sides import Sides, contrasted
from grand3d.generate.weigh import Choice
from grand3d.tokens import Encoded, decode, stop_ids

Memory = dict[Ids, Prefix]

# A pass over the tokens that all questions begin with costs about as much as this many tokens more in a batch.
PASS_TOKENS = 16
JOIN_AT = 0.75  # share of the batch that still goes on when waiting questions join it
SHRINK_AT = 0.75  # share of the rows that still go on when the ended ones are dropped; dropping copies the others


@dataclass(frozen=True, slots=True)
class Contrast:
    """For each prefix one to contrast it with, and how much of that is taken off."""

    prefixes: Mapping[Ids, Ids]
    weight: float


@dataclass(slots=True)
class Times:
    """Seconds spent, added up over calls: reading prefixes, stepping the model, and choosing what the grammar allows."""

    prefix: float = 0.0
    steps: float = 0.0
    grammar: float = 0.0


def generate(
    model: Any,
    tokenizer: Any,
    requests: Sequence[Encoded],
    max_new_tokens: int = MAX_NEW_TOKENS,
    batch_size: int = 96,
    sampling: Sampling = GREEDY,
    on_token: Callable[[str], None] | None = None,
    memory: Memory | None = None,
    grammars: Sequence[str] | None = None,
    times: Times | None = None,
    contrast: Contrast | None = None,
) -> Iterator[tuple[int, str, bool]]:
    """Answer every request; requests with the same prefix share one forward pass over it.

    Args:
        model: A causal language model of transformers, with or without a PEFT adapter.
        requests: Encoded prompts whose suffix ends where the reply begins.
        max_new_tokens: A reply is cut here, its stop token included.
        batch_size: Questions of one scene that are answered at a time; as some end, others take their places.
        on_token: Receives the text of a single request piece by piece, as it grows.
        memory: Prefixes read by earlier calls, by their tokens; those read now are added. The caller empties it.
        grammars: What each reply may be (``grammar.reply_grammar``); a reply that the token limit would cut is brought to
            its shortest end before. None lets the model write whatever it likes.
        times: Filled with where the time went.
        contrast: What the model would say over other prefixes is taken off what it says (``sides``).

    Yields:
        ``(index into requests, reply text, finished)`` in the order they are done; ``finished`` is False when the token
        limit cut the reply. Equal requests are answered once where the likeliest token is taken.

    Raises:
        GrandError: If a request and its reply are more than the model takes, or no reply is as short as the limit.
    """
    every = _replies(
        model,
        tokenizer,
        requests,
        max_new_tokens,
        batch_size,
        grammars,
        times,
        sampling=sampling,
        on_token=on_token,
        memory=memory,
        contrast=contrast,
    )
    for index, text, finished, _ in every:
        yield index, text, finished


def choose(
    model: Any,
    tokenizer: Any,
    requests: Sequence[Encoded],
    choices: Sequence[Choice | None],
    grammars: Sequence[str],
    max_new_tokens: int = MAX_NEW_TOKENS,
    batch_size: int = 96,
    times: Times | None = None,
    contrast: Contrast | None = None,
) -> Iterator[tuple[int, str, bool, list[float]]]:
    """Answer every request by the likeliest of its candidates; up to the decision as ``generate`` with the likeliest tokens.

    Args:
        choices: What each request is to be decided between; None for one that is answered as by ``generate``.

    Yields:
        ``(index into requests, reply text, finished, probability of each candidate)``. The reply ends with the likeliest
        candidate and its end; no probabilities without a choice, or when the reply ended before the decision.

    Raises:
        GrandError: As ``generate``; and if candidates cannot be told apart by their tokens.
    """
    yield from _replies(
        model, tokenizer, requests, max_new_tokens, batch_size, grammars, times, choices=choices, contrast=contrast
    )


def _replies(
    model: Any,
    tokenizer: Any,
    requests: Sequence[Encoded],
    max_new_tokens: int,
    batch_size: int,
    grammars: Sequence[str] | None,
    times: Times | None,
    *,
    sampling: Sampling = GREEDY,
    on_token: Callable[[str], None] | None = None,
    memory: Memory | None = None,
    choices: Sequence[Choice | None] | None = None,
    contrast: Contrast | None = None,
) -> Iterator[tuple[int, str, bool, list[float]]]:
    assert on_token is None or len(requests) == 1, "streaming is for one request"
    assert max_new_tokens >= 1 and batch_size >= 1
    _check_fits(model, requests, max_new_tokens)
    times = times if times is not None else Times()
    stop = stop_ids(tokenizer)
    compiled: dict[str, Grammar] = {}
    with _timed(times, "grammar", model):
        for text in dict.fromkeys(grammars or ()):
            compiled[text] = Grammar(text, tokenizer, model.get_output_embeddings().weight.shape[0], stop)
    memory, keep = ({}, False) if memory is None else (memory, True)
    for prefix_ids, questions in group(requests, grammars, choices, sampling).items():
        on_ids = None if on_token is None else _streamer(tokenizer, on_token)
        wanted = [prefix_ids] if contrast is None else [prefix_ids, contrast.prefixes[prefix_ids]]
        for ids in wanted:
            if ids not in memory:
                with ready(model) as base, _timed(times, "prefix", base):
                    memory[ids] = read(base, Prefix(), ids)
        prefixes = [memory[ids] for ids in wanted]
        if not keep:
            memory.clear()
        questions.sort(key=lambda question: question.suffix)
        share = 0.0 if contrast is None else contrast.weight
        answers = _answer(
            model, tokenizer, prefixes, share, questions, compiled, stop, max_new_tokens, batch_size, sampling, on_ids, times
        )
        while True:
            with ready(model):  # never while the caller has its turn
                done = list(islice(answers, batch_size))
            for row in done:
                text = decode(tokenizer, row.reply) if row.text is None else row.text
                for index in row.question.requests:
                    yield index, text, row.finished, row.chances
            if not done:
                break


def positions(model: Any) -> int:
    """Tokens of prompt and reply that a model can take: those it was made for, and no more than its window sees at once."""
    limits = (getattr(model.config, name, None) for name in ("max_position_embeddings", "sliding_window"))
    return min((limit for limit in limits if limit), default=1 << 30)


def prompt_limit(model: Any, max_tokens: int, max_new_tokens: int) -> int:
    """Tokens that a prompt may have, so that its reply still fits.

    Args:
        max_tokens: ``prompt.max_tokens``, of prompt and reply.

    Raises:
        GrandError: If the reply alone takes all there is.
    """
    context, owner = min((max_tokens, "prompt.max_tokens"), (positions(model), "what the model takes"))
    if max_new_tokens >= context:
        raise GrandError(
            f"a reply may have {shown(max_new_tokens)} tokens (max_new_tokens), expected fewer than {context}, which is {owner}: "
            "the prompt needs room beside it"
        )
    return context - max_new_tokens


def _check_fits(model: Any, requests: Sequence[Encoded], max_new_tokens: int) -> None:
    limit = positions(model)
    for index, request in enumerate(requests):
        length = len(request.prefix) + len(request.suffix)
        if length + max_new_tokens > limit:
            raise GrandError(
                f"request {index}: {length} tokens of prompt and room for {max_new_tokens} of reply, but the model takes "
                f"{limit}; give a smaller prompt.top_k or prompt.max_tokens"
            )


def _answer(
    model: Any,
    tokenizer: Any,
    prefixes: Sequence[Prefix],
    contrast: float,
    questions: list[Question],
    grammars: Mapping[str, Grammar],
    stop: set[int],
    max_new_tokens: int,
    batch_size: int,
    sampling: Sampling,
    on_ids: Callable[[list[int], bool], None] | None,
    times: Times,
) -> Iterator[Row]:
    """The questions, sorted by suffix, with their replies as they end; ``prefixes``: the scene and, for a contrast, another."""
    base = inner(model)
    with _timed(times, "prefix", base):
        read_on = [_read_common(base, prefix, [question.suffix for question in questions]) for prefix in prefixes]
    common = read_on[0][1]
    sides = Sides(*(Rows(prefix) for prefix, _ in read_on), contrast=contrast)
    waiting, live = deque(questions), []  # live: a row for each line of ``sides``, None once it has ended
    while waiting or any(live):
        if waiting and sum(row is not None for row in live) <= JOIN_AT * batch_size:
            sides.keep([i for i, row in enumerate(live) if row is not None])
            live = [row for row in live if row is not None]
            new = [waiting.popleft() for _ in range(min(len(waiting), batch_size - len(live)))]
            with _timed(times, "grammar", base):
                live += [begin(question, common, grammars, max_new_tokens, sampling) for question in new]
            sides.add(len(new))
        going = [row for row in live if row is not None]
        with _timed(times, "steps", base):
            lines = [i for i, row in enumerate(live) if row is not None]
            logits = contrasted(*sides.step(base, lines, [row.feed for row in going]), sides.contrast)
            tokens = _draw(logits, going, sampling) if sampling.temperature else logits.argmax(-1).tolist()
        with _timed(times, "grammar", base):
            for i, (row, token) in enumerate(zip(going, tokens, strict=True)):
                if not row.put(token, stop, max_new_tokens):
                    row.put(_allowed(logits[i : i + 1], row, sampling), stop, max_new_tokens)
        if on_ids is not None:
            on_ids(going[0].reply, going[0].ended)
        with _timed(times, "steps", base):
            waiting.extend(decide(base, tokenizer, sides, live))
        yield from (row for row in going if row.ended)
        live = [None if row is None or row.ended else row for row in live]
        left = [i for i, row in enumerate(live) if row is not None]
        if len(left) <= SHRINK_AT * len(live):
            sides.keep(left)
            live = [live[i] for i in left]


def _read_common(base: Any, prefix: Prefix, suffixes: list[Ids]) -> tuple[Prefix, int]:
    """The prefix with the tokens that all sorted suffixes begin with, where reading them once is worth a pass; and how many."""
    common = _common(suffixes)
    if common * (len(suffixes) - 1) >= PASS_TOKENS or common > 512:  # a long one alone would need a large square of scores
        return read(base, prefix.fork(), suffixes[0][:common]), common
    return prefix, 0


def _common(suffixes: list[Ids]) -> int:
    """Tokens that all sorted suffixes begin with; one token of each is left to be asked with."""
    first, last = suffixes[0], suffixes[-1]
    most = min(map(len, suffixes)) - 1
    return next((i for i in range(most) if first[i] != last[i]), most)


def _draw(logits: Tensor, rows: Sequence[Row], sampling: Sampling) -> list[int]:
    """A token a row. Only top_p must know first what may follow: without it a token is drawn from all, and one that is refused is
    drawn again from those allowed (``_allowed``), which gives each of them the probability that drawing from them at once gives.
    """
    known = sampling.top_p < 1 and rows[0].guide is not None
    allowed = torch.stack([row.guide.mask() for row in rows]) if known else None
    return draw(logits, allowed, [row.draw for row in rows], sampling)


def _allowed(logits: Tensor, row: Row, sampling: Sampling) -> int:
    """A token that may follow in this row, from its logits (1, vocabulary)."""
    allowed = row.guide.mask()[None]
    if sampling.temperature:
        return draw(logits, allowed, [row.draw], sampling)[0]
    return int(logits.masked_fill(~allowed.to(logits.device), -torch.inf).argmax())


@contextmanager
def _timed(times: Times, name: str, model: Any) -> Iterator[None]:
    """Adds the seconds spent inside to one of the times."""
    start = time.perf_counter()
    yield
    if model.device.type == "cuda":
        torch.cuda.synchronize()
    setattr(times, name, getattr(times, name) + time.perf_counter() - start)


def _streamer(tokenizer: Any, on_token: Callable[[str], None]) -> Callable[[list[int], bool], None]:
    """Passes on the text that each further token adds; a character spread over several tokens waits for its end."""
    sent = 0

    def on_ids(ids: list[int], last: bool) -> None:
        nonlocal sent
        text = decode(tokenizer, ids)
        if len(text) > sent and (last or not text.endswith("\ufffd")):
            on_token(text[sent:])
            sent = len(text)

    return on_ids
