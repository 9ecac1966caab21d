"""The draw of a token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grand3d.decoding import Sampling


def draw(logits: Tensor, allowed: Tensor | None, generators: Sequence[torch.Generator], sampling: Sampling) -> list[int]:
    """One token a row.

    Args:
        logits: (rows, vocabulary).
        allowed: Which tokens may be drawn, (rows, vocabulary); None allows all.
        generators: One a row.
    """
    logits = logits.float().cpu()
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    chances, order = torch.softmax(logits / sampling.temperature, -1), None
    if sampling.top_p < 1:
        chances, order = chances.sort(-1, descending=True)
        before = chances.cumsum(-1) - chances
        chances[before >= sampling.top_p] = 0  # the likeliest has nothing before it and always stays
    reached = chances.double().cumsum(-1)
    points = torch.stack([torch.rand(1, generator=rng, dtype=torch.double) for rng in generators]) * reached[:, -1:]
    picked = torch.searchsorted(reached, points, right=True).clamp_(max=logits.shape[1] - 1)
    return (picked if order is None else order.gather(-1, picked)).squeeze(-1).tolist()
