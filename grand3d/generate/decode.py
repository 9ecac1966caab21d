"""Many questions about few scenes: every scene is read once, its questions are answered together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grand3d.errors import GrandError, shown
from grand3d.generate.cache import GROWTH, Prefix, Rows, ready
from grand3d.tokens import Encoded, decode, stop_ids

Ids = tuple[int, ...]
Memory = dict[Ids, Prefix]
Choose = Callable[[Tensor], list[int]]

# A pass over the tokens that all questions begin with costs about as much as this many tokens more in a batch.
PASS_TOKENS = 16

MAX_NEW_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn. Temperature 0 takes the likeliest, always.

    Attributes:
        temperature: Divides the logits before they are drawn from.
        top_p: Only the likeliest tokens that together reach this probability are drawn from.
        seed: Of the draw; the same seed and requests give the same replies.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.temperature == 0 or 1e-6 <= self.temperature <= 1e6):  # beyond, logits divided by it are no numbers
            raise GrandError(
                f"temperature is {self.temperature}, expected 0 (always the likeliest token) or 0.000001 to 1,000,000"
            )
        if not 0 < self.top_p <= 1:
            raise GrandError(f"top_p is {self.top_p}, expected a probability above 0 and up to 1")
        if not 0 <= self.seed < 2**63:
            raise GrandError(f"seed is {shown(self.seed)}, expected 0 to {2**63 - 1:,}")


GREEDY = Sampling()


def generate(
    model: Any,
    tokenizer: Any,
    requests: Sequence[Encoded],
    max_new_tokens: int = MAX_NEW_TOKENS,
    batch_size: int = 96,
    sampling: Sampling = GREEDY,
    on_token: Callable[[str], None] | None = None,
    memory: Memory | None = None,
) -> Iterator[tuple[int, str, bool]]:
    """Answer every request; requests with the same prefix share one forward pass over it.

    Args:
        model: A causal language model of transformers, with or without a PEFT adapter.
        requests: Encoded prompts whose suffix ends where the reply begins.
        max_new_tokens: A reply is cut here, its stop token included.
        batch_size: Questions of one scene that are answered at a time.
        on_token: Receives the text of a single request piece by piece, as it grows.
        memory: Prefixes read by earlier calls, by their tokens; those read now are added. The caller empties it.

    Yields:
        ``(index into requests, reply text, finished)`` in the order they are done; ``finished`` is False when the token
        limit cut the reply. Equal requests are answered once where the likeliest token is taken.

    Raises:
        GrandError: If a request and its reply are more than the model takes.
    """
    assert on_token is None or len(requests) == 1, "streaming is for one request"
    assert max_new_tokens >= 1 and batch_size >= 1
    _check_fits(model, requests, max_new_tokens)
    stop = stop_ids(tokenizer)
    choose = _chooser(sampling)
    for prefix_ids, questions in _group(requests, merge_equal=sampling.temperature == 0).items():
        prefix = None if memory is None else memory.get(prefix_ids)
        for batch in _batches(sorted(questions), batch_size):
            suffixes = [suffix for suffix, _ in batch]
            on_ids = None if on_token is None else _streamer(tokenizer, on_token)
            with ready(model) as base:
                if prefix is None:
                    prefix = _read(base, Prefix(), prefix_ids)
                    if memory is not None:
                        memory[prefix_ids] = prefix
                replies = _answer(base, prefix, suffixes, stop, max_new_tokens, choose, on_ids)
            for (_, indices), (ids, finished) in zip(batch, replies, strict=True):
                text = decode(tokenizer, ids)
                for index in indices:
                    yield index, text, finished


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


def _group(requests: Sequence[Encoded], merge_equal: bool) -> dict[Ids, list[tuple[Ids, list[int]]]]:
    """For each prefix its questions: suffix, and the requests that ask it."""
    groups: dict[Ids, dict[Any, tuple[Ids, list[int]]]] = {}
    for index, request in enumerate(requests):
        suffix = tuple(request.suffix)
        questions = groups.setdefault(tuple(request.prefix), {})
        questions.setdefault(suffix if merge_equal else index, (suffix, []))[1].append(index)
    return {prefix: list(questions.values()) for prefix, questions in groups.items()}


def _batches(questions: list[tuple[Ids, list[int]]], batch_size: int) -> Iterator[list[tuple[Ids, list[int]]]]:
    """Batches of nearly equal size, so that no small one is left over."""
    num = -(-len(questions) // batch_size)
    for i in range(num):
        yield questions[len(questions) * i // num : len(questions) * (i + 1) // num]


def _read(base: Any, prefix: Prefix, ids: Ids) -> Prefix:
    """Append tokens to a prefix."""
    start = len(prefix)
    _forward(base, list(ids), list(range(start, start + len(ids))), prefix, keep=1)
    return prefix


def _answer(
    base: Any,
    prefix: Prefix,
    suffixes: list[Ids],
    stop: set[int],
    max_new_tokens: int,
    choose: Choose,
    on_ids: Callable[[list[int], bool], None] | None,
) -> list[tuple[list[int], bool]]:
    """Reply tokens without the stop token, and whether it came, for each of the sorted suffixes."""
    num = len(suffixes)
    common = _common(suffixes)
    if common * (num - 1) >= PASS_TOKENS or common > 512:  # a long one alone would need a large square of scores
        prefix = _read(base, prefix.fork(), suffixes[0][:common])
    else:
        common = 0
    longest = max(map(len, suffixes)) - common
    rows = Rows(prefix, num, longest + min(max_new_tokens, GROWTH))
    replies: list[list[int]] = [[] for _ in suffixes]
    finished = [False] * num
    owner = list(range(num))  # the suffix behind each row
    going = list(range(num))  # rows that have not ended
    feed = [list(suffix[common:]) for suffix in suffixes]
    for left in reversed(range(max_new_tokens)):
        chosen = choose(_step(base, rows, going, feed))
        still = []
        for row, token in zip(going, chosen, strict=True):
            if token in stop:
                finished[owner[row]] = True
            else:
                replies[owner[row]].append(token)
                still.append(row)
        if on_ids is not None:
            on_ids(replies[0], finished[0] or left == 0)
        going = still
        if not going:
            break
        feed = [replies[owner[row]][-1:] for row in going]
        if len(going) <= 0.75 * len(rows):
            rows.keep(torch.tensor(going, device=base.device))
            owner = [owner[row] for row in going]
            going = list(range(len(going)))
    return list(zip(replies, finished, strict=True))


def _common(suffixes: list[Ids]) -> int:
    """Tokens that all sorted suffixes begin with; one token of each is left to be asked with."""
    first, last = suffixes[0], suffixes[-1]
    most = min(map(len, suffixes)) - 1
    return next((i for i in range(most) if first[i] != last[i]), most)


def _step(base: Any, rows: Rows, going: list[int], feed: list[list[int]]) -> Tensor:
    """Logits (rows going, vocabulary) after each of them has taken in its new tokens."""
    device = base.device
    counts = torch.tensor([len(ids) for ids in feed], device=device)
    ends = counts.cumsum(0)
    row_of = torch.tensor(going, device=device).repeat_interleave(counts)
    slot_of = torch.arange(len(row_of), device=device) - (ends - counts).repeat_interleave(counts)
    positions = rows.place(row_of, slot_of)
    return _forward(base, [i for ids in feed for i in ids], positions, rows, keep=ends - 1)


def _forward(base: Any, ids: list[int], positions: Any, shared: Prefix | Rows, keep: Any) -> Tensor:
    return base(
        input_ids=torch.tensor([ids], device=base.device),
        position_ids=torch.as_tensor(positions, device=base.device)[None],
        use_cache=False,
        logits_to_keep=keep,
        shared=shared,
    ).logits[0]


def _chooser(sampling: Sampling) -> Choose:
    """Logits (rows, vocabulary) -> one token a row."""
    if sampling.temperature == 0:
        return lambda logits: logits.argmax(-1).tolist()
    rng = torch.Generator().manual_seed(sampling.seed)

    def choose(logits: Tensor) -> list[int]:
        probabilities = torch.softmax(logits.float().cpu() / sampling.temperature, -1)
        ranked, order = probabilities.sort(-1, descending=True)
        before = ranked.cumsum(-1) - ranked
        ranked[before >= sampling.top_p] = 0  # the likeliest has nothing before it and always stays
        return order.gather(-1, torch.multinomial(ranked, 1, generator=rng)).squeeze(-1).tolist()

    return choose


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
