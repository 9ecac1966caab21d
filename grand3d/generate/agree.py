"""One reply out of several that were given over different orders of a scene's objects.

Where an object stands in the list should not decide whether it is meant; what most orders agree on depends on it less. With
chances their means decide, otherwise the number of replies; the first order breaks ties.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace

from grand3d import markup
from grand3d.calibration import answer_with
from grand3d.sample import Reply

YES_NO = ("yes", "no")


def agree(task: str, replies: Sequence[Reply]) -> Reply:
    """The reply to take of those to one question, the first of them over the usual order.

    References agree on the objects they name, yes/no questions on their first word; other tasks on nothing: the first reply
    stands. The reply taken is the first that says what was agreed on. Its chances are the means over the orders, by object; an
    object that an order had no room for has no chance there.
    """
    if len(replies) == 1 or task not in ("object_reference", "existence"):
        return replies[0]
    if all(reply.chances for reply in replies):
        return _by_means(task, replies)
    answers = [_answer(task, reply) for reply in replies]
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return replies[0]
    most = max(votes.values())
    return next(reply for reply, answer in zip(replies, answers, strict=True) if answer is not None and votes[answer] == most)


def _by_means(task: str, replies: Sequence[Reply]) -> Reply:
    means: dict[str | None, float] = defaultdict(float)  # None: none of the objects
    for reply in replies:
        for way, chance in zip(_ways(task, reply), reply.chances, strict=True):
            means[way] += chance / len(replies)
    best = max(means, key=means.__getitem__)  # the first order's first of equals
    wanted = best if task == "existence" else frozenset(() if best is None else (best,))
    taken = next((reply for reply in replies if _answer(task, reply) == wanted), None)
    if taken is None:  # second in each order, first in none: its number goes into the first reply that knows it
        taken = next(reply for reply in replies if best in _ways(task, reply))
        if task == "object_reference":
            ids = [] if best is None else [f"obj_{taken.object_ids.index(best)}"]
            taken = replace(taken, text=answer_with(taken.text, ids))
    chances = [means[way] for way in _ways(task, taken)]
    total = sum(chances)  # below 1 where another order showed more objects
    return replace(taken, chances=tuple(chance / total for chance in chances))


def _ways(task: str, reply: Reply) -> tuple[str | None, ...]:
    """What the chances of a reply are of."""
    return YES_NO if task == "existence" else (*reply.object_ids, None)


def _answer(task: str, reply: Reply) -> Hashable:
    """What a reply says, whatever its object numbers: the ids of objects, or yes or no; None where it says nothing."""
    if task == "existence":
        word = re.match(r"\s*(yes|no)\b", reply.text, re.IGNORECASE)
        return None if word is None else word[1].lower()
    ids = markup.answer_ids(markup.parse(reply.text, lenient=True))
    if ids is None:
        return None
    meant = {f"obj_{k}": object_id for k, object_id in enumerate(reply.object_ids)}
    return frozenset(meant.get(name, "") for name in ids)
