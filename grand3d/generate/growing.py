"""A question behind a room, and its reply as it grows."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from grand3d.decoding import Sampling
from grand3d.generate.guide import Grammar, Guide
from grand3d.generate.weigh import Choice
from grand3d.tokens import Encoded

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decided:
    """What a reply has been decided for before its answer stands.

    Attributes:
        start: Tokens of the reply up to the decision, the chosen candidate included.
        candidate: Its index among those of the choice.
        chances: The probability of each.
    """

    start: Ids
    candidate: int
    chances: tuple[float, ...]


@dataclass(slots=True)
class Question:
    """What is asked behind a prefix, and the requests that ask it.

    Attributes:
        seed: Of the draws for its reply. It is made of what is asked, not of its place, so that no other question changes it.
        decided: Set where the reply is written again from a decision on.
    """

    suffix: Ids
    grammar: str | None
    choice: Choice | None
    seed: int
    requests: list[int] = field(default_factory=list)
    decided: Decided | None = None


def group(
    requests: Sequence[Encoded],
    grammars: Sequence[str] | None,
    choices: Sequence[Choice | None] | None,
    sampling: Sampling,
) -> dict[Ids, list[Question]]:
    """For each prefix its questions; equal ones are one question where the likeliest token is taken."""
    groups: dict[Ids, dict[Any, Question]] = {}
    for index, request in enumerate(requests):
        prefix, suffix = tuple(request.prefix), tuple(request.suffix)
        questions = groups.setdefault(prefix, {})
        grammar = grammars[index] if grammars is not None else None
        choice = choices[index] if choices is not None else None
        seed = 0
        if sampling.temperature:
            seed = zlib.crc32(repr((sampling.seed, prefix, suffix, grammar)).encode())
            while (suffix, grammar, choice, seed) in questions:
                seed += 1
        question = Question(suffix, grammar, choice, seed)
        questions.setdefault((suffix, grammar, choice, seed), question).requests.append(index)
    return {prefix: list(questions.values()) for prefix, questions in groups.items()}


@dataclass(slots=True)
class Row:
    """A reply as it grows.

    Attributes:
        begin: Tokens of the question behind the common beginning.
        feed: Tokens that the model has not seen yet.
        draw: Where its random numbers come from; None where the likeliest token is taken.
        text: The whole reply, once it has been chosen among candidates of these chances.
    """

    question: Question
    begin: list[int]
    feed: list[int]
    reply: list[int]
    guide: Guide | None
    draw: torch.Generator | None
    ended: bool = False
    finished: bool = False
    text: str | None = None
    chances: list[float] = field(default_factory=list)

    def put(self, token: int, stop: set[int], limit: int) -> bool:
        """Take a token, and those that must follow it, into the reply; False if it may not follow."""
        if self.guide is None:
            self.feed = [] if token in stop else [token]
            self.finished = token in stop
        else:
            tokens = self.guide.take(token)
            if tokens is None:
                return False
            self.feed = tokens
            self.finished = self.guide.ended and not self.guide.cut
        self.reply += self.feed
        self.ended = self.finished or (self.guide.ended if self.guide is not None else len(self.reply) == limit)
        return True


def begin(question: Question, common: int, grammars: Mapping[str, Grammar], limit: int, sampling: Sampling) -> Row:
    """The row of a question of which ``common`` tokens have been read with the prefix."""
    guide = None if question.grammar is None else grammars[question.grammar].follow(limit)
    first: list[int] = []
    if guide is not None:
        first = guide.first() if question.decided is None else guide.resume(question.decided.start)
    draw = torch.Generator().manual_seed(question.seed) if sampling.temperature else None
    asked = list(question.suffix[common:])
    return Row(question, asked, asked + first, list(first), guide, draw)
