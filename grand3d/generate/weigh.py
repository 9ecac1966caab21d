"""Probabilities of the answers that a question can have, from one pass over the few places where they part.

A reply is written up to the point of decision; from there each candidate is a sequence of tokens, and together they form a
tree. Where the tree does not branch nothing is decided, so it costs nothing; at each branching the model's probabilities are
taken among the branches that candidates go on with. The products over the branchings add up to 1, and are what drawing under
the reply's grammar would give: a longer id is not at a disadvantage for its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from grand3d.errors import GrandError
from grand3d.generate.sides import Sides, contrasted


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a reply decides, and between what.

    Attributes:
        after: Texts; the decision stands behind the last of them when they are found one after the other in the reply. None:
            at its beginning.
        candidates: What may stand there, all different; none is the beginning of another, unless ``end`` begins differently
            from what follows there.
        end: Follows each of the candidates and ends the reply.
        traced: The candidates are id lists, and the decision is looked for where the reply first wrote the one it answers
            with (``decide``).
    """

    after: tuple[str, ...]
    candidates: tuple[str, ...]
    end: str
    traced: bool = False

    def place(self, text: str) -> int | None:
        """Length of the text before the decision; None if it does not stand there yet."""
        position = 0
        for part in self.after:
            found = text.find(part, position)
            if found < 0:
                return None
            position = found + len(part)
        return position


@dataclass(frozen=True, slots=True)
class Asked:
    """One decision.

    Attributes:
        row: Of the rows.
        known: Tokens of the row that are in its cache, and more that will be there or not.
        sequences: Tokens of the row from its first on, one list a candidate.
    """

    row: int
    known: list[int]
    sequences: list[list[int]]


def weigh(base: Any, sides: Sides, asked: Sequence[Asked]) -> list[list[float]]:
    """For each decision the probability of each candidate, as numbers that add up to 1.

    A contrast is taken among the tokens that a branching decides between, whatever else the model would rather write there.
    """
    forks, lengths, feeds, owners = [], [], [], []
    for number, item in enumerate(asked):
        cached = min(int(sides.lengths[item.row]), len(item.known))
        for node, children in branchings(item.sequences).items():
            shared = _common([item.known[:cached], list(node)])
            start = min(shared, len(node) - 1)  # the last token is fed again where all are there: its logits are wanted
            if start < 0:
                raise GrandError("candidates part at the first token of a row, where no logits are; give a question a suffix")
            forks.append(item.row)
            lengths.append(start)
            feeds.append(list(node[start:]))
            owners.append((number, children))
    totals = [[0.0] * len(item.sequences) for item in asked]
    if forks:
        logits, others = sides.fork(forks, lengths).step(base, list(range(len(forks))), feeds)
        for line, (number, children) in enumerate(owners):
            tokens = list(children)
            left = contrasted(logits[line, tokens], None if others is None else others[line, tokens], sides.contrast)
            chances = torch.log_softmax(left.double(), -1).tolist()
            for token, chance in zip(tokens, chances, strict=True):
                for candidate in children[token]:
                    totals[number][candidate] += chance
    return [torch.tensor(line, dtype=torch.double).exp().tolist() for line in totals]


def branchings(sequences: Sequence[Sequence[int]]) -> dict[tuple[int, ...], dict[int, list[int]]]:
    """``{tokens up to a branching: {next token: candidates that go on with it}}``.

    Raises:
        GrandError: If a sequence is the beginning of another, so that the tokens do not decide between them.
    """
    nodes: dict[tuple[int, ...], dict[int, list[int]]] = {}
    ends = {tuple(sequence) for sequence in sequences}
    alike = min((_common([sequences[0], sequence]) for sequence in sequences), default=0)  # nothing is decided up to there
    for candidate, sequence in enumerate(sequences):
        for i, token in enumerate(sequence[alike:], alike):
            nodes.setdefault(tuple(sequence[:i]), {}).setdefault(token, []).append(candidate)
    mixed = next((node for node in nodes if node in ends), None)
    if mixed is not None or len(ends) < len(sequences):
        raise GrandError(f"candidates of {len(sequences)} tokens lists are equal or begin each other; expected ones that part")
    return {node: children for node, children in nodes.items() if len(children) > 1}


def _common(sequences: Sequence[Sequence[int]]) -> int:
    first, second = sequences
    return next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
