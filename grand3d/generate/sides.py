"""The rows behind a scene, and beside them the same rows behind a scene that they are contrasted with.

What a model would answer had it not looked at where things are, is taken off what it answers: contrastive decoding (Li et al.,
2023; Leng et al., Mitigating Object Hallucinations by Visual Contrastive Decoding, 2024).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grand3d.generate.cache import Rows, step

PLAUSIBLE = 0.1
"""Only tokens of at least this share of the likeliest one's probability are weighed against the other scene (beta of VCD)."""
FAR = 1e4


@dataclass(slots=True)
class Sides:
    """Rows that go on together.

    Attributes:
        rows: Behind the scene.
        other: Behind the scene of the contrast; None without one.
        contrast: How much of the other side is taken off.
    """

    rows: Rows
    other: Rows | None = None
    contrast: float = 0.0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> Tensor:
        return self.rows.lengths

    def add(self, num: int) -> None:
        """See ``Rows.add``."""
        self.rows.add(num)
        if self.other is not None:
            self.other.add(num)

    def keep(self, lines: Sequence[int]) -> None:
        """See ``Rows.keep``."""
        self.rows.keep(lines)
        if self.other is not None:
            self.other.keep(lines)

    def fork(self, lines: Sequence[int], lengths: Sequence[int]) -> Sides:
        """See ``Rows.fork``."""
        other = None if self.other is None else self.other.fork(lines, lengths)
        return Sides(self.rows.fork(lines, lengths), other, self.contrast)

    def step(self, base: Any, going: list[int], feed: list[list[int]]) -> tuple[Tensor, Tensor | None]:
        """See ``cache.step``; the logits of both sides, for ``contrasted``."""
        logits = step(base, self.rows, going, feed)
        return logits, None if self.other is None else step(base, self.other, going, feed)


def contrasted(logits: Tensor, other: Tensor | None, contrast: float) -> Tensor:
    """(1 + contrast) log p - contrast log q over the plausible tokens; the others keep their order, far below.

    Args:
        logits: (..., tokens), of p, over the tokens that there are to choose from; ``other`` of q. Without the other they
            are given back as they are.
    """
    if other is None:
        return logits
    ours, theirs = torch.log_softmax(logits.float(), -1), torch.log_softmax(other.float(), -1)
    plausible = ours >= ours.amax(-1, keepdim=True) + math.log(PLAUSIBLE)
    return torch.where(plausible, ours + contrast * (ours - theirs), ours - FAR)
