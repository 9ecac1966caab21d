"""Keys and values of a shared prefix, and of many rows behind it.

All rows read one copy of the prefix: its scores are one large matrix product over all rows, instead of a small one per
row over a copied cache. The tokens of all rows lie one after the other in a batch of one, so that no padding passes
through the linear layers. transformers hands the attention of every layer to ``shared_attention`` below, with the
``Prefix`` or ``Rows`` of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface

from grand3d.errors import GrandError

NAME = "grand3d_shared"
GROWTH = 16  # columns added when the rows outgrow their buffers
_fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


class Prefix:
    """Keys and values per layer, each (kv heads, tokens, head size); a forward pass with it appends its tokens."""

    def __init__(self, keys: Sequence[Tensor] = (), values: Sequence[Tensor] = ()) -> None:
        self.keys = list(keys)
        self.values = list(values)

    def __len__(self) -> int:
        return self.keys[0].shape[1] if self.keys else 0

    def fork(self) -> Prefix:
        """A second prefix that starts with the same tokens; nothing is copied."""
        return Prefix(self.keys, self.values)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """Causal attention of new tokens over the prefix and themselves.

        Args:
            query: (heads, new tokens, head size); key and value have the kv heads.

        Returns:
            (new tokens, heads, head size).
        """
        if layer == len(self.keys):
            self.keys.append(key.contiguous())
            self.values.append(value.contiguous())
        else:
            self.keys[layer] = torch.cat([self.keys[layer], key], dim=1)
            self.values[layer] = torch.cat([self.values[layer], value], dim=1)
        repeats = query.shape[0] // key.shape[0]
        num_new, num_all = key.shape[1], self.keys[layer].shape[1]
        mask = None
        if num_all > num_new:
            mask = torch.ones(num_new, num_all, dtype=torch.bool, device=query.device).tril(num_all - num_new)
        out = functional.scaled_dot_product_attention(
            query[None],
            self.keys[layer].repeat_interleave(repeats, 0)[None],
            self.values[layer].repeat_interleave(repeats, 0)[None],
            attn_mask=mask,
            is_causal=mask is None,
            scale=scaling,
        )
        return out[0].transpose(0, 1)


class Rows:
    """Own keys and values of several rows behind one prefix, each (rows, kv heads, columns, head size) per layer.

    Before a forward pass ``place`` says which row each token belongs to.
    """

    def __init__(self, prefix: Prefix) -> None:
        kv_heads, _, size = prefix.keys[0].shape
        self.prefix = prefix
        self.keys = [k.new_zeros(0, kv_heads, 0, size) for k in prefix.keys]
        self.values = [v.new_zeros(0, kv_heads, 0, size) for v in prefix.values]
        self.lengths = torch.zeros(0, dtype=torch.long, device=prefix.keys[0].device)

    def __len__(self) -> int:
        return len(self.lengths)

    def place(self, rows: Tensor, slots: Tensor) -> Tensor:
        """Announce the next tokens, the n-th of them being number ``slots[n]`` of the new tokens of row ``rows[n]``.

        Returns:
            The position of every token in its row, prefix included.
        """
        self.rows, self.slots = rows, slots
        self.columns = self.lengths[rows] + slots
        self.num_slots = int(slots.max()) + 1
        self.used = int(self.columns.max()) + 1
        if self.used > self.keys[0].shape[2]:
            grow = (0, 0, 0, self.used - self.keys[0].shape[2] + GROWTH)
            self.keys = [functional.pad(k, grow) for k in self.keys]
            self.values = [functional.pad(v, grow) for v in self.values]
        last = self.lengths[:, None] + torch.arange(self.num_slots, device=rows.device)
        self.hidden = torch.arange(self.used, device=rows.device) > last[:, :, None]  # (rows, slots, used)
        self.lengths = self.lengths.scatter_add(0, rows, torch.ones_like(rows))
        return len(self.prefix) + self.columns

    def add(self, num: int) -> None:
        """Empty rows behind the others."""
        more = (0, 0, 0, 0, 0, 0, 0, num)
        self.keys = [functional.pad(k, more) for k in self.keys]
        self.values = [functional.pad(v, more) for v in self.values]
        self.lengths = functional.pad(self.lengths, (0, num))

    def keep(self, rows: Sequence[int]) -> None:
        """Forget all rows but these; they are renumbered from 0. A row that is named twice is there twice then."""
        index = torch.tensor(rows, dtype=torch.long, device=self.lengths.device)
        self.lengths = self.lengths[index]
        used = int(self.lengths.max()) if len(rows) else 0
        self.keys = [k[index, :, :used] for k in self.keys]
        self.values = [v[index, :, :used] for v in self.values]

    def fork(self, rows: Sequence[int], lengths: Sequence[int]) -> Rows:
        """Rows that begin with the first tokens of these; a row may be named several times."""
        out = Rows(self.prefix)
        index, used = torch.tensor(rows, dtype=torch.long, device=self.lengths.device), max(lengths, default=0)
        out.keys = [k[index, :, :used] for k in self.keys]
        out.values = [v[index, :, :used] for v in self.values]
        out.lengths = torch.tensor(lengths, dtype=torch.long, device=self.lengths.device)
        return out

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """Attention of every token over the prefix and the tokens of its own row up to itself.

        Two softmaxes, over the prefix and over the row, are joined by their log-sum-exp.

        Args:
            query: (heads, tokens, head size); key and value have the kv heads.

        Returns:
            (tokens, heads, head size).
        """
        self.keys[layer][self.rows, :, self.columns] = key.transpose(0, 1)
        self.values[layer][self.rows, :, self.columns] = value.transpose(0, 1)
        query = query * scaling
        shared, shared_weight = _over_prefix(query, self.prefix.keys[layer], self.prefix.values[layer])
        own, own_weight = self._over_rows(layer, query.transpose(0, 1))
        share = torch.sigmoid(own_weight - shared_weight.transpose(0, 1)).to(own.dtype)
        return torch.lerp(shared.transpose(0, 1), own, share[..., None])

    def _over_rows(self, layer: int, query: Tensor) -> tuple[Tensor, Tensor]:
        """Output (tokens, heads, head size) and log-sum-exp (tokens, heads) over the tokens of the own row."""
        num_rows, kv_heads, _, size = self.keys[layer].shape
        padded = query.new_zeros(num_rows, self.num_slots, query.shape[1], size)
        padded[self.rows, self.slots] = query
        padded = padded.unflatten(2, (kv_heads, -1)).permute(0, 2, 3, 1, 4)  # (rows, kv heads, group, slots, size)
        keys, values = self.keys[layer][:, :, : self.used], self.values[layer][:, :, : self.used]
        scores = padded.flatten(2, 3) @ keys.transpose(2, 3)
        scores = scores.unflatten(2, (-1, self.num_slots)).float()
        scores.masked_fill_(self.hidden[:, None, None], torch.finfo(scores.dtype).min)
        out, weight = _softmax_times(scores.flatten(2, 3), values)
        out = out.unflatten(2, (-1, self.num_slots)).permute(0, 3, 1, 2, 4).flatten(2, 3)
        weight = weight.unflatten(2, (-1, self.num_slots)).permute(0, 3, 1, 2).flatten(2, 3)
        return out[self.rows, self.slots], weight[self.rows, self.slots]


def _over_prefix(query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Output (heads, tokens, head size) and log-sum-exp (heads, tokens) over the whole prefix."""
    # query heads that share a key head stand in one long row of queries, so the prefix is not repeated
    grouped = query.reshape(keys.shape[0], -1, query.shape[2])
    if query.is_cuda:
        out, weight = _softmax_times((grouped @ keys.transpose(1, 2)).float(), values)
    else:
        out, weight = (part[0] for part in _fused(grouped[None], keys[None], values[None], 0.0, False, scale=1.0))
    return out.reshape(query.shape), weight.reshape(query.shape[:2])


def _softmax_times(scores: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """softmax(scores) @ values, and the log-sum-exp of the scores; ``scores`` is used up."""
    top = scores.amax(-1, keepdim=True)
    total = scores.sub_(top).exp_().sum(-1, keepdim=True)
    out = (scores.to(values.dtype) @ values).div_(total)
    return out, (top + total.log()).squeeze(-1)


def shared_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float,
    shared: Prefix | Rows,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in every layer; the batch is one, its tokens belong to the rows of ``shared``."""
    if kwargs.get("softcap") is not None or kwargs.get("s_aux") is not None:
        raise GrandError(f"{type(module).__name__} caps its scores or has sinks; take a base of the Llama, Mistral or Qwen kind")
    return shared.attend(module.layer_idx, query[0], key[0], value[0], scaling)[None], None


AttentionInterface.register(NAME, shared_attention)


def inner(model: Any) -> Any:
    """The base model inside a PEFT model; any other as it is."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


@contextmanager
def ready(model: Any) -> Iterator[Any]:
    """The base model inside ``model``, set to shared attention and evaluation; all is put back afterwards."""
    base = inner(model)
    before, training = base.config._attn_implementation, base.training
    base.config._attn_implementation = NAME
    base.eval()
    try:
        with torch.no_grad():
            yield base
    finally:
        base.config._attn_implementation = before
        base.train(training)


def read(base: Any, prefix: Prefix, ids: Sequence[int]) -> Prefix:
    """Append tokens to a prefix."""
    start = len(prefix)
    _forward(base, list(ids), list(range(start, start + len(ids))), prefix, keep=1)
    return prefix


def step(base: Any, rows: Rows, going: list[int], feed: list[list[int]]) -> Tensor:
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
