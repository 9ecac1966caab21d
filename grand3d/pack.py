"""Packing: one scene prefix with K questions behind it, as one sequence.

The prefix is computed once for all questions. Each question's positions start again at the end of the prefix and it sees
the prefix and itself, so losses and gradients are those of K separate samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional as F

from grand3d.attention import Layout, dense_mask, make_layout
from grand3d.errors import GrandError
from grand3d.tokens import Encoded


@dataclass(frozen=True, slots=True)
class Pack:
    """Tensors of one pack with P prefix tokens and S suffix tokens in all, T = P + S.

    Attributes:
        input_ids: (1, T).
        position_ids: (1, T), 0 .. P - 1, then P, P + 1, ... anew for each suffix.
        rows: (L,) positions in the sequence whose next token is trained.
        labels: (L,) that next token.
        layout: Where suffixes begin and end.
        num_samples: K.
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
        moved = {name: getattr(self, name).to(device) for name in ("input_ids", "position_ids", "rows", "labels", "layout")}
        return replace(self, **moved)


def make_pack(prefix: Sequence[int], suffixes: Sequence[Encoded], flash: bool = False) -> Pack:
    """Lay K encoded questions behind their shared prefix.

    Raises:
        GrandError: If there is no question, one does not have this prefix, or one has no trained token.
    """
    if not suffixes:
        raise GrandError("a pack needs at least one question")
    prefix = list(prefix)
    ids, positions, rows, labels = list(prefix), list(range(len(prefix))), [], []
    for number, encoded in enumerate(suffixes):
        if encoded.prefix != prefix:
            raise GrandError(
                f"question {number} of the pack has another scene prefix than the pack; only questions about one scene share one"
            )
        if not any(encoded.mask):
            raise GrandError(f"question {number} of the pack has no trained token; does it have an answer?")
        start = len(ids)
        for offset, (token, trained) in enumerate(zip(encoded.suffix, encoded.mask, strict=True)):
            if trained:
                # the token before a suffix's first one is the prefix's last, wherever the suffix stands
                rows.append(start + offset - 1 if offset else len(prefix) - 1)
                labels.append(token)
        ids += encoded.suffix
        positions += range(len(prefix), len(prefix) + len(encoded.suffix))
    return Pack(
        torch.tensor([ids]),
        torch.tensor([positions]),
        torch.tensor(rows),
        torch.tensor(labels),
        make_layout(len(prefix), [len(encoded.suffix) for encoded in suffixes], flash),
        len(suffixes),
    )


def pack_loss(model: Any, pack: Pack, attention: str = "auto") -> tuple[torch.Tensor, int]:
    """Summed cross entropy of a pack's label tokens, and their number.

    Args:
        model: A causal language model loaded by ``model.load_base``, with or without an adapter or a wrapper of accelerate's.
        attention: ``dense`` takes the plain mask; everything else the split attention of ``attention.attend``.
    """
    if attention == "dense":
        dtype = next(model.parameters()).dtype
        how = {"attention_mask": dense_mask(pack.layout.num_prefix, list(pack.layout.lengths), dtype).to(pack.input_ids.device)}
    else:
        # a ready-made mask of four dimensions keeps transformers from building its own; the layout takes its place
        how = {"attention_mask": torch.zeros(1, 1, 1, 1, device=pack.input_ids.device), "layout": pack.layout}
    out = model(
        input_ids=pack.input_ids,
        position_ids=pack.position_ids,
        logits_to_keep=pack.rows,
        use_cache=False,
        return_dict=True,
        **how,
    )
    return F.cross_entropy(
        out.logits[0].float() if out.logits.dtype != torch.float64 else out.logits[0], pack.labels, reduction="sum"
    ), pack.num_labels
