"""Replies that end by a decision among candidates, weighed where the decision falls.

Where the detailed block stands before the answer, the answer copies an id that stands there already, and nothing is decided
any more. The place that counts is then the list in the detailed block where the answer's id was written first: the candidates
are weighed there, and where another one is likelier than what greedy writing took, the reply is written again from there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grand3d.generate.growing import Decided, Question, Row
from grand3d.generate.sides import Sides
from grand3d.generate.weigh import Asked, weigh
from grand3d.tokens import decode, text_ids

Found = tuple[int, Row, str, str]
"""Line of the rows, the reply, its text up to the decision, and what stands behind the candidates."""
BEHIND = 8
"""Characters of the reply behind an earlier place: enough for every token that a list's last bracket may be part of."""


def decide(base: Any, tokenizer: Any, sides: Sides, live: Sequence[Row | None]) -> list[Question]:
    """End the replies that have come to their decision by the likeliest candidate.

    Returns:
        Questions whose replies are to be written again from a decision on; their rows have ended and are no replies
        (``requests`` is empty).
    """
    found = []
    for line, row in enumerate(live):
        if row is not None and row.question.choice is not None:
            text = decode(tokenizer, row.reply)
            place = row.question.choice.place(text)
            if place is not None:
                found.append((line, row, text[:place], row.question.choice.end))
    known = [item for item in found if item[1].question.decided is not None]
    for _, row, text, _ in known:
        _end(row, text, row.question.decided.candidate, row.question.decided.chances)
    found = [item for item in found if item[1].question.decided is None]
    weights = _weighed(base, tokenizer, sides, found)
    earlier = []
    for (line, row, text, _), chances in zip(found, weights, strict=True):
        best = _best(chances)
        place = _first_named(text, row.question.choice.candidates[best])
        if row.question.choice.traced and place is not None:
            earlier.append((line, row, text, place, best))
        else:
            _end(row, text, best, chances)
    again = []
    places = []
    for line, row, text, place, written in earlier:
        behind = place + len(row.question.choice.candidates[written])
        places.append((line, row, text[:place], text[behind : behind + BEHIND]))
    for (_, row, text, place, written), chances in zip(earlier, _weighed(base, tokenizer, sides, places), strict=True):
        best = _best(chances)
        start = text_ids(tokenizer, text[:place] + row.question.choice.candidates[best])
        if best == written or not (row.guide is None or row.guide.fits(start)):
            _end(row, text, written, chances)
        else:
            again.append(_again(row, Decided(tuple(start), best, tuple(chances))))
    return again


def _first_named(text: str, candidate: str) -> int | None:
    """Where the id list that a candidate is was written first, behind its bracket; None where it was not."""
    place = text.find("[" + candidate)
    return None if place < 0 else place + 1


def _weighed(base: Any, tokenizer: Any, sides: Sides, found: Sequence[Found]) -> list[list[float]]:
    asked = []
    for line, row, text, behind in found:
        # with what follows, as the last bracket of a list may be one token with it
        ways = [row.begin + text_ids(tokenizer, text + way + behind) for way in row.question.choice.candidates]
        asked.append(Asked(line, row.begin + row.reply, ways))
    return weigh(base, sides, asked)


def _end(row: Row, text: str, best: int, chances: Sequence[float]) -> None:
    choice = row.question.choice
    row.text = text + choice.candidates[best] + choice.end
    row.chances, row.ended = list(chances), True
    row.finished = row.guide is None or not row.guide.cut


def _again(row: Row, decided: Decided) -> Question:
    old = row.question
    requests, old.requests = old.requests, []
    row.ended = True
    return Question(old.suffix, old.grammar, old.choice, old.seed, requests, decided)


def _best(chances: Sequence[float]) -> int:
    return max(range(len(chances)), key=chances.__getitem__)
