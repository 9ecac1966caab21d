"""Packing: scenes, each once with the questions about it behind it, as one row of tokens.

A scene's prefix is computed once for all its questions. Each question's positions start again at the end of the prefix and
it sees the prefix and itself, so losses and gradients are those of separate samples (docs/shared_prefix.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional as F

from grand3d.attention import BackEnd, prepare
from grand3d.errors import GrandError
from grand3d.layout import Layout, make_layout
from grand3d.tokens import Encoded


@dataclass(frozen=True, slots=True)
class Pack:
    """Tensors of one row of T tokens: scenes one after the other, each a prefix with its questions' suffixes behind it.

    Attributes:
        input_ids: (1, T).
        position_ids: (1, T), for a scene with a prefix of P tokens 0 .. P - 1, then P, P + 1, ... anew for each suffix.
        rows: (L,) positions in the row whose next token is trained.
        labels: (L,) that next token.
        layout: Where scenes and suffixes begin and end.
        num_samples: Questions in the row.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    rows: torch.Tensor
    labels: torch.Tensor
    layout: Layout
    num_samples: int

    @property
    def num_labels(self) -> int:
        """Label tokens in the pack."""
        return self.labels.numel()

    @property
    def num_tokens(self) -> int:
        return self.input_ids.numel()

    def to(self, device: Any) -> Pack:
        moved = {name: getattr(self, name).to(device) for name in ("input_ids", "position_ids", "rows", "labels")}
        return replace(self, **moved)


def make_pack(groups: Sequence[Sequence[Encoded]]) -> Pack:
    """Lay groups of encoded questions behind each other, each behind the prefix that its questions share.

    Raises:
        GrandError: If a group or its prefix is empty, its questions differ in their prefix, or one has no trained token.
    """
    ids: list[int] = []
    positions: list[int] = []
    rows: list[int] = []
    labels: list[int] = []
    if not groups or not all(groups):
        raise GrandError("a pack needs at least one question of each scene")
    for group in groups:
        prefix = group[0].prefix
        if not prefix:  # a first token is predicted by the prefix's last, which would be that of the scene before
            raise GrandError("a scene of the pack has an empty prefix, at least one token is expected before its questions")
        ids += prefix
        positions += range(len(prefix))
        last = len(ids) - 1
        for number, encoded in enumerate(group):
            if encoded.prefix != prefix:
                raise GrandError(
                    f"question {number} of the pack has another scene prefix than its group; "
                    "only questions about one scene share one"
                )
            if not any(encoded.mask):
                raise GrandError(f"question {number} of the pack has no trained token; does it have an answer?")
            start = len(ids)
            for offset, (token, trained) in enumerate(zip(encoded.suffix, encoded.mask, strict=True)):
                if trained:
                    # the token before a suffix's first one is the prefix's last, wherever the suffix stands
                    rows.append(start + offset - 1 if offset else last)
                    labels.append(token)
            ids += encoded.suffix
            positions += range(len(prefix), len(prefix) + len(encoded.suffix))
    return Pack(
        torch.tensor([ids]),
        torch.tensor([positions]),
        torch.tensor(rows),
        torch.tensor(labels),
        make_layout([(len(group[0].prefix), [len(encoded.suffix) for encoded in group]) for group in groups]),
        sum(map(len, groups)),
    )


def fill_rows(sizes: Sequence[int], budget: int) -> list[list[int]]:
    """Put groups of so many tokens into as few rows as it simply takes; the indices of each row's groups.

    First fit, longest first: rows come out nearly full and of like length. A group above the budget has a row of its own.
    """
    rows: list[list[int]] = []
    free: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        row = next((r for r, left in enumerate(free) if sizes[index] <= left), None)
        if row is None:
            rows.append([index])
            free.append(budget - sizes[index])
        else:
            rows[row].append(index)
            free[row] -= sizes[index]
    return rows


def pack_logits(model: Any, pack: Pack, back_end: BackEnd) -> tuple[torch.Tensor, int]:
    """(L, V) logits before the label tokens of a pack, and how many times a layer attended by its layout.

    Args:
        model: A causal language model loaded by ``model.load_base``, with or without an adapter or a wrapper of accelerate's,
            on the pack's device.
        back_end: As ``attention.choose`` gives it.
    """
    device = pack.input_ids.device
    row = prepare(pack.layout, back_end, device)
    out = model(
        input_ids=pack.input_ids,
        position_ids=pack.position_ids,
        # a ready-made mask of four dimensions keeps transformers from building its own; the row takes its place, and a layer
        # that reads the mask all the same shall not go unnoticed
        attention_mask=torch.full((1, 1, 1, 1), torch.nan, device=device),
        row=row,
        logits_to_keep=pack.rows,
        use_cache=False,
        return_dict=True,
    )
    return out.logits[0], row.calls


def pack_loss(model: Any, pack: Pack, back_end: BackEnd) -> tuple[torch.Tensor, int]:
    """Summed cross entropy of a pack's label tokens, and their number; the arguments are those of ``pack_logits``."""
    logits, _ = pack_logits(model, pack, back_end)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits, pack.labels, reduction="sum"), pack.num_labels
