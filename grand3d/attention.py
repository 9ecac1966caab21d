"""Attention over a packed sequence: one scene prefix, then K suffixes that do not see each other.

Registered with transformers under one name, ``ATTENTION``. Without a layout (generation, scoring) it is SDPA as usual.
With one it computes, for the prefix, causal attention and, for each suffix, attention to the whole prefix and causally to
itself. No (P + S) x (P + S) matrix is made. How, by device:

- CPU: two calls of the fused kernel, suffixes against the prefix and suffixes against themselves, merged by their
  log-sum-exp. Merged outputs and log-sum-exps are also what the kernel's backward pass needs for exact gradients.
- elsewhere: suffixes padded to a rectangle, keys of the prefix repeated for each, fused causal attention aligned to the end.
- ``flash``: the same without padding, through flash-attn's variable-length kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from grand3d.errors import import_extra

ATTENTION = "grand3d"
BOX = 8
"""Suffixes padded together; more waste padding, fewer make many small calls."""


class Box(NamedTuple):
    """N suffix tokens of k suffixes as a rectangle of r columns, r = the longest of them.

    Attributes:
        rectangle: (k, r) index into the S suffix tokens; padding repeats a suffix's last token.
        tokens: (N,) the tokens of these suffixes, among the S.
        places: (N,) where they stand in the flattened rectangle.
    """

    rectangle: torch.Tensor
    tokens: torch.Tensor
    places: torch.Tensor


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the tokens of a pack belong.

    Attributes:
        num_prefix: P, tokens of the shared prefix.
        lengths: Tokens of each suffix, K numbers, all > 0, in the order they stand.
        boxes: All suffixes, a few of similar length together, each few padded to a rectangle.
        flash: Use flash-attn.
    """

    num_prefix: int
    lengths: tuple[int, ...]
    boxes: tuple[Box, ...]
    flash: bool = False

    def to(self, device: Any) -> Layout:
        return replace(self, boxes=tuple(Box(*(index.to(device) for index in box)) for box in self.boxes))


def make_layout(num_prefix: int, lengths: list[int], flash: bool = False) -> Layout:
    """The layout of a prefix of ``num_prefix`` tokens and suffixes of ``lengths`` tokens."""
    sizes = torch.tensor(lengths)
    starts = torch.cumsum(sizes, 0) - sizes
    boxes = []
    for few in torch.argsort(sizes, stable=True).split(BOX):
        steps = torch.arange(int(sizes[few].max()))
        inside = steps < sizes[few, None]
        rectangle = starts[few, None] + torch.minimum(steps, sizes[few, None] - 1)
        boxes.append(Box(rectangle, rectangle[inside], inside.flatten().nonzero().flatten()))
    return Layout(num_prefix, tuple(lengths), tuple(boxes), flash)


def dense_mask(num_prefix: int, lengths: list[int], dtype: torch.dtype) -> torch.Tensor:
    """The same pattern as one additive (1, 1, P + S, P + S) mask: the plain way, against which the fast one is tested."""
    owner = torch.cat([torch.full((n,), i) for i, n in enumerate([num_prefix, *lengths])])
    causal = torch.ones(len(owner), len(owner), dtype=torch.bool).tril()
    seen = causal & ((owner[None, :] == 0) | (owner[None, :] == owner[:, None]))
    return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)[None, None]


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    layout: Layout | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The function transformers calls in every layer. query (1, H, T, D), key and value (1, KV, T, D) -> (1, T, H, D)."""
    if layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if query.device.type == "cpu" and not layout.flash:
        return _Packed.apply(query, key, value, layout, scale), None
    sizes = (layout.num_prefix, sum(layout.lengths))
    (query_prefix, query), (key_prefix, key), (value_prefix, value) = (x.split(sizes, dim=2) for x in (query, key, value))
    heads = query.shape[1]
    first = F.scaled_dot_product_attention(
        query_prefix, _repeat(key_prefix, heads), _repeat(value_prefix, heads), is_causal=True, scale=scale
    )
    suffixes = _flash_suffixes if layout.flash else rectangle_suffixes
    rest = suffixes(query, key_prefix, value_prefix, key, value, layout, scale)
    return torch.cat((first, rest), dim=2).transpose(1, 2), None


def rectangle_suffixes(
    query: torch.Tensor,
    key_prefix: torch.Tensor,
    value_prefix: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layout: Layout,
    scale: float,
) -> torch.Tensor:
    """Suffix attention by fused calls over a few suffixes as a batch; (1, H, S, D)."""
    from torch.nn.attention.bias import causal_lower_right

    heads, result = query.shape[1], torch.empty_like(query)
    for box in layout.boxes:
        rows, columns = box.rectangle.shape
        keys, values = (
            _repeat(torch.cat((prefix.expand(rows, -1, -1, -1), _rectangle(own, box)), dim=2), heads)
            for prefix, own in ((key_prefix, key), (value_prefix, value))
        )
        mask = causal_lower_right(columns, layout.num_prefix + columns)
        out = F.scaled_dot_product_attention(_rectangle(query, box), keys, values, attn_mask=mask, scale=scale)
        result = result.index_copy(2, box.tokens, _flat(out, box))
    return result


def _flash_suffixes(
    query: torch.Tensor,
    key_prefix: torch.Tensor,
    value_prefix: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layout: Layout,
    scale: float,
) -> torch.Tensor:
    flash = import_extra("flash_attn", "flash")
    lengths = torch.tensor(layout.lengths)

    def with_prefix(prefix: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        pieces = own[0].transpose(0, 1).split(layout.lengths)
        return torch.cat([part for piece in pieces for part in (prefix[0].transpose(0, 1), piece)])

    def bounds(sizes: torch.Tensor) -> torch.Tensor:
        return F.pad(torch.cumsum(sizes, 0), (1, 0)).to(query.device, torch.int32)

    longest = max(layout.lengths)
    out = flash.flash_attn_varlen_func(
        query[0].transpose(0, 1),
        with_prefix(key_prefix, key),
        with_prefix(value_prefix, value),
        cu_seqlens_q=bounds(lengths),
        cu_seqlens_k=bounds(lengths + layout.num_prefix),
        max_seqlen_q=longest,
        max_seqlen_k=layout.num_prefix + longest,
        softmax_scale=scale,
        causal=True,  # aligned to the end of the keys: a suffix sees the whole prefix
    )
    return out.transpose(0, 1)[None]


_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class _Packed(torch.autograd.Function):
    """Attention of a whole pack on a CPU: query (1, H, T, D), key and value (1, KV, T, D) -> (1, T, H, D).

    Forward and backward pass are written out so that no part is copied or padded with zeros on its way back.
    """

    @staticmethod
    def forward(ctx: Any, query, key, value, layout: Layout, scale: float):
        heads, cut = query.shape[1], layout.num_prefix
        prefix, suffix = _halves(query, key, value, cut)
        first, first_lse = _forward(prefix[0], _repeat(prefix[1], heads), _repeat(prefix[2], heads), 0.0, True, scale=scale)
        # query heads that share a key head stand in one long row of queries, so the prefix is not repeated
        out, lse = _forward(_fold(suffix[0], key.shape[1]), prefix[1], prefix[2], 0.0, False, scale=scale)
        out, lse = out.reshape(suffix[0].shape), lse.reshape(suffix[0].shape[:3])
        own, own_lse = torch.empty_like(out), torch.empty_like(lse)
        for box in layout.boxes:
            box_out, box_lse = _forward(*(_repeat(_rectangle(x, box), heads) for x in suffix), 0.0, True, scale=scale)
            own[:, :, box.tokens] = _flat(box_out, box)
            own_lse[:, :, box.tokens] = _flat(box_lse.unsqueeze(-1), box).squeeze(-1)
        total = torch.logaddexp(lse, own_lse)
        result = query.new_empty(1, query.shape[2], heads, query.shape[3])
        result[:, :cut] = first.transpose(1, 2)
        merged = out * (lse - total).exp().unsqueeze(-1) + own * (own_lse - total).exp().unsqueeze(-1)
        result[:, cut:] = merged.transpose(1, 2)
        ctx.save_for_backward(query, key, value, result, first_lse, total)
        ctx.layout, ctx.scale = layout, scale
        return result

    @staticmethod
    def backward(ctx: Any, grad):
        query, key, value, result, first_lse, lse = ctx.saved_tensors
        layout, scale, heads, groups, cut = ctx.layout, ctx.scale, query.shape[1], key.shape[1], ctx.layout.num_prefix
        prefix, suffix = _halves(query, key, value, cut)
        (grad_prefix, out_prefix), (grad_suffix, out_suffix) = _halves(grad.transpose(1, 2), result.transpose(1, 2), None, cut)
        d_query, d_key, d_value = (torch.empty_like(x) for x in (query, key, value))

        spread = [prefix[0], _repeat(prefix[1], heads), _repeat(prefix[2], heads)]
        d_first = _backward(grad_prefix, *spread, out_prefix, first_lse, 0.0, True, scale=scale)

        folded = [_fold(x, groups) for x in (grad_suffix, suffix[0], out_suffix)]
        d_scene = _backward(
            folded[0], folded[1], prefix[1], prefix[2], folded[2], lse.reshape(1, groups, -1), 0.0, False, scale=scale
        )

        d_query[:, :, cut:] = d_scene[0].reshape(suffix[0].shape)
        for box in layout.boxes:
            spread = [_repeat(_rectangle(x, box), heads) for x in suffix]
            # padding carries no gradient: its rows of the incoming one are zero
            box_grad = grad.new_zeros(heads, box.rectangle.numel(), grad.shape[-1])
            box_grad[:, box.places] = grad_suffix[0][:, box.tokens]
            box_grad = box_grad.view(heads, *box.rectangle.shape, -1).transpose(0, 1)
            box_lse = _rectangle(lse.unsqueeze(-1), box).squeeze(-1)
            d_own = _backward(box_grad, *spread, _rectangle(out_suffix, box), box_lse, 0.0, True, scale=scale)
            d_query[0].index_add_(1, cut + box.tokens, _flat(d_own[0], box)[0])
            for whole, number in ((d_key, 1), (d_value, 2)):
                whole[:, :, cut + box.tokens] = _gather(_flat(d_own[number], box), groups)
        d_query[:, :, :cut] = d_first[0]
        for whole, number in ((d_key, 1), (d_value, 2)):
            torch.add(_gather(d_first[number], groups), d_scene[number], out=whole[:, :, :cut])
        return d_query, d_key, d_value, None, None


def _halves(query: Any, key: Any, value: Any, cut: int) -> tuple[list[Any], list[Any]]:
    """The prefix parts and the suffix parts of tensors (1, heads, T, D)."""
    tensors = [x for x in (query, key, value) if x is not None]
    return [x[:, :, :cut] for x in tensors], [x[:, :, cut:] for x in tensors]


def _gather(x: torch.Tensor, groups: int) -> torch.Tensor:
    """(1, H, T, D) -> (1, KV, T, D): the sum over the query heads that share a key head; undoes ``_repeat`` for gradients."""
    return x if x.shape[1] == groups else x.reshape(1, groups, -1, *x.shape[2:]).sum(2)


def _repeat(x: torch.Tensor, heads: int) -> torch.Tensor:
    """(B, KV, T, D) -> (B, heads, T, D): each key head once for every query head that uses it."""
    batch, groups, *rest = x.shape
    if groups == heads:
        return x
    return x[:, :, None].expand(batch, groups, heads // groups, *rest).reshape(batch, heads, *rest)


def _fold(x: torch.Tensor, groups: int) -> torch.Tensor:
    """(1, H, S, D) -> (1, KV, H / KV * S, D)."""
    return x.reshape(1, groups, -1, x.shape[-1])


def _rectangle(x: torch.Tensor, box: Box) -> torch.Tensor:
    """(1, H, S, D) -> (k, H, r, D)."""
    return x[0][:, box.rectangle].transpose(0, 1)


def _flat(x: torch.Tensor, box: Box) -> torch.Tensor:
    """(k, H, r, D) -> (1, H, N, D), padding left out."""
    return x.transpose(0, 1).flatten(1, 2)[None, :, box.places]


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
