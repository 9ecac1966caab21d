"""One reply out of several that were given over different orders of a scene's objects.

Where an object stands in the list should not decide whether it is meant; what most orders agree on depends on it less. With
chances their means decide, otherwise the number of replies; the first order breaks ties.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grand3d import markup
from grand3d.sample import Reply


def agree(task: str, replies: Sequence[Reply]) -> Reply:
    """The reply to take of those to one question, the first of them over the usual order.

    References agree on the objects they name, yes/no questions on their first word; other tasks on nothing: the first reply
    stands. The reply taken is the first that says what was agreed on. Its chances are the means over the orders, by object.
    """
    if len(replies) == 1 or task not in ("object_reference", "existence"):
        return replies[0]
    if all(reply.chances for reply in replies):
        shown = replies[0].object_ids
        if task == "existence":
            means = np.mean([reply.chances for reply in replies], axis=0)
            wanted: Any = ("yes", "no")[int(means.argmax())]
        else:
            means = np.mean([_in_order(reply, shown) for reply in replies], axis=0)
            best = int(means.argmax())
            wanted = frozenset() if best == len(shown) else frozenset((shown[best],))
        taken = next((reply for reply in replies if _answer(task, reply) == wanted), replies[0])
        chances = means if task == "existence" else _by_object(means, shown, taken.object_ids)
        return replace(taken, chances=tuple(float(x) for x in chances))
    answers = [_answer(task, reply) for reply in replies]
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return replies[0]
    most = max(votes.values())
    return next(reply for reply, answer in zip(replies, answers, strict=True) if answer is not None and votes[answer] == most)


def _answer(task: str, reply: Reply) -> Any:
    """What a reply says, whatever its object numbers: the ids of objects, or yes or no; None where it says nothing."""
    if task == "existence":
        word = reply.text.strip().lower()
        return next((name for name in ("yes", "no") if word.startswith(name)), None)
    ids = markup.answer_ids(markup.parse(reply.text, lenient=True))
    if ids is None:
        return None
    meant = {f"obj_{k}": object_id for k, object_id in enumerate(reply.object_ids)}
    return frozenset(meant.get(name, "") for name in ids)


def _in_order(reply: Reply, shown: Sequence[str]) -> list[float]:
    """Chances of a reply in the order of these objects, none last."""
    return _by_object(reply.chances, reply.object_ids, shown)


def _by_object(chances: Sequence[float], old: Sequence[str], new: Sequence[str]) -> list[float]:
    of = dict(zip(old, chances[:-1], strict=True))
    return [of[item] for item in new] + [chances[-1]]
