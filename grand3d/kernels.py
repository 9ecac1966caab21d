"""Split attention with a written-out backward pass: suffixes against prefixes and against themselves, merged.

The softmax over two sets of keys is the sum of the two softmaxes, each weighted by its share ``exp(lse - total)`` of the
whole normaliser, ``total = log(exp(lse_1) + exp(lse_2))``. The backward pass of a fused kernel needs its output only for
``sum(grad * output)`` and its log-sum-exp only to rebuild the probabilities. Given the merged output and ``total`` it thus
returns, for its own keys, exactly the gradients of the merged softmax.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from grand3d.layout import Box, Layout

_cpu_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_cpu_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class OnCpu(torch.autograd.Function):
    """A row's attention on a CPU: query (1, H, T, D), key and value (1, KV, T, D) -> (1, T, H, D).

    No part is copied, or padded with zeros, on its way back.
    """

    @staticmethod
    def forward(ctx: Any, query, key, value, layout: Layout, scale: float):
        heads, groups = query.shape[1], key.shape[1]
        result = query.new_empty(1, query.shape[2], heads, query.shape[3])
        lse = query.new_empty(1, heads, query.shape[2], dtype=torch.promote_types(query.dtype, torch.float32))
        own, own_lse = torch.empty_like(query), torch.empty_like(lse)
        for box in layout.boxes:
            box_out, box_lse = _cpu_forward(
                *(repeat(_rectangle(x, box), heads) for x in (query, key, value)), 0.0, True, scale=scale
            )
            own[:, :, box.tokens] = _flat(box_out, box)
            own_lse[:, :, box.tokens] = _flat(box_lse.unsqueeze(-1), box).squeeze(-1)
        for start, cut, end in layout.scenes:
            prefix, suffix = slice(start, cut), slice(cut, end)
            keys, values = key[:, :, prefix], value[:, :, prefix]
            first = _cpu_forward(query[:, :, prefix], repeat(keys, heads), repeat(values, heads), 0.0, True, scale=scale)
            result[:, prefix], lse[:, :, prefix] = first[0].transpose(1, 2), first[1]
            # query heads that share a key head stand in one long row of queries, so the prefix is not repeated
            out, part = _cpu_forward(_fold(query[:, :, suffix], groups), keys, values, 0.0, False, scale=scale)
            shape = (1, heads, end - cut)
            out, part = out.reshape(*shape, -1), part.reshape(shape)
            total = torch.logaddexp(part, own_lse[:, :, suffix])
            merged = out * (part - total).exp().unsqueeze(-1)
            merged += own[:, :, suffix] * (own_lse[:, :, suffix] - total).exp().unsqueeze(-1)
            result[:, suffix], lse[:, :, suffix] = merged.transpose(1, 2), total
        ctx.save_for_backward(query, key, value, result, lse)
        ctx.layout, ctx.scale = layout, scale
        return result

    @staticmethod
    def backward(ctx: Any, grad):
        query, key, value, result, lse = ctx.saved_tensors
        layout, scale, heads, groups = ctx.layout, ctx.scale, query.shape[1], key.shape[1]
        grad, result = grad.transpose(1, 2), result.transpose(1, 2)
        d_query, d_key, d_value = (torch.empty_like(x) for x in (query, key, value))
        for start, cut, end in layout.scenes:
            prefix, suffix = slice(start, cut), slice(cut, end)
            keys, values = key[:, :, prefix], value[:, :, prefix]
            first = _cpu_backward(
                *(grad[:, :, prefix], query[:, :, prefix], repeat(keys, heads), repeat(values, heads)),
                *(result[:, :, prefix], lse[:, :, prefix], 0.0, True),
                scale=scale,
            )
            folded = [_fold(x[:, :, suffix], groups) for x in (grad, query, result)]
            rest = lse[:, :, suffix].reshape(1, groups, -1)
            scene = _cpu_backward(folded[0], folded[1], keys, values, folded[2], rest, 0.0, False, scale=scale)
            d_query[:, :, prefix] = first[0]
            d_query[:, :, suffix] = scene[0].reshape(1, heads, end - cut, -1)
            for whole, number in ((d_key, 1), (d_value, 2)):
                torch.add(_gather(first[number], groups), scene[number], out=whole[:, :, prefix])
        for box in layout.boxes:
            spread = [repeat(_rectangle(x, box), heads) for x in (query, key, value)]
            # padding carries no gradient: its rows of the incoming one are zero
            box_grad = grad.new_zeros(heads, box.rectangle.numel(), grad.shape[-1])
            box_grad[:, box.places] = grad[0][:, box.tokens]
            box_grad = box_grad.view(heads, *box.rectangle.shape, -1).transpose(0, 1)
            box_lse = _rectangle(lse.unsqueeze(-1), box).squeeze(-1)
            d_own = _cpu_backward(box_grad, *spread, _rectangle(result, box), box_lse, 0.0, True, scale=scale)
            d_query[0].index_add_(1, box.tokens, _flat(d_own[0], box)[0])
            for whole, number in ((d_key, 1), (d_value, 2)):
                whole[:, :, box.tokens] = _gather(_flat(d_own[number], box), groups)
        return d_query, d_key, d_value, None, None


class Ends(NamedTuple):
    """Sequence bounds of a variable-length call, (n + 1,) int32 on the device, and the longest sequence, known on the host."""

    bounds: torch.Tensor
    longest: int


def ends(sizes: list[int], device: Any) -> Ends:
    return Ends(F.pad(torch.tensor(sizes).cumsum(0), (1, 0)).to(device, torch.int32), max(sizes))


class Segments(NamedTuple):
    """What ``Varlen`` needs to know of a row, on the device.

    Attributes:
        prefix: (P,) the tokens of all prefixes.
        suffix: (S,) the tokens of all suffixes.
        scenes: Bounds of the single prefixes.
        questions: Bounds of the suffixes of each scene together.
        own: Bounds of the single suffixes.
    """

    prefix: torch.Tensor
    suffix: torch.Tensor
    scenes: Ends
    questions: Ends
    own: Ends


def segments(layout: Layout, device: Any) -> Segments:
    return Segments(
        torch.cat([torch.arange(start, cut) for start, cut, _ in layout.scenes]).to(device),
        torch.cat([torch.arange(cut, end) for _, cut, end in layout.scenes]).to(device),
        ends([cut - start for start, cut, _ in layout.scenes], device),
        ends([sum(lengths) for lengths in layout.lengths], device),
        ends([length for lengths in layout.lengths for length in lengths], device),
    )


class Varlen(torch.autograd.Function):
    """A row's attention by three calls of PyTorch's own FlashAttention: all prefixes, all suffixes against their prefixes, all
    suffixes against themselves. CUDA, bf16 or fp16; shapes as for ``OnCpu``.
    """

    @staticmethod
    def forward(ctx: Any, query, key, value, row: Segments, scale: float):
        query, key, value = (x[0].transpose(0, 1) for x in (query, key, value))
        prefix, suffix, scene, rest, own = row
        q_prefix, k_prefix, v_prefix = (x[prefix] for x in (query, key, value))
        q_suffix, k_suffix, v_suffix = (x[suffix] for x in (query, key, value))
        first, first_lse, *first_state = _varlen_forward(q_prefix, k_prefix, v_prefix, scene, scene, True, scale)
        out, lse, *out_state = _varlen_forward(q_suffix, k_prefix, v_prefix, rest, scene, False, scale)
        own_out, own_lse, *own_state = _varlen_forward(q_suffix, k_suffix, v_suffix, own, own, True, scale)
        total = torch.logaddexp(lse, own_lse)  # (H, S)
        shares = [(part - total).exp().T.unsqueeze(-1) for part in (lse, own_lse)]
        merged = (out * shares[0] + own_out * shares[1]).to(query.dtype)
        result = torch.empty_like(query)
        result[prefix], result[suffix] = first, merged
        ctx.save_for_backward(
            *(q_prefix, k_prefix, v_prefix, q_suffix, k_suffix, v_suffix, prefix, suffix, first, merged, first_lse, total),
            *(*first_state, *out_state, *own_state),
        )
        ctx.bounds, ctx.scale = (scene, rest, own), scale
        return result[None]

    @staticmethod
    def backward(ctx: Any, grad):
        q_prefix, k_prefix, v_prefix, q_suffix, k_suffix, v_suffix, prefix, suffix, *rest = ctx.saved_tensors
        first, merged, first_lse, total, *states = rest
        (scene, behind, own), scale = ctx.bounds, ctx.scale
        grad_prefix, grad_suffix = grad[0][prefix], grad[0][suffix]
        from_first = _varlen_backward(
            grad_prefix, q_prefix, k_prefix, v_prefix, first, first_lse, scene, scene, True, states[:2], scale
        )
        from_scene = _varlen_backward(
            grad_suffix, q_suffix, k_prefix, v_prefix, merged, total, behind, scene, False, states[2:4], scale
        )
        from_own = _varlen_backward(grad_suffix, q_suffix, k_suffix, v_suffix, merged, total, own, own, True, states[4:], scale)
        grads = []
        for number, of_prefix in enumerate((from_first[0], from_first[1] + from_scene[1], from_first[2] + from_scene[2])):
            of_suffix = from_scene[0] + from_own[0] if number == 0 else from_own[number]
            whole = of_prefix.new_empty(len(prefix) + len(suffix), *of_prefix.shape[1:])
            whole[prefix], whole[suffix] = of_prefix, of_suffix
            grads.append(whole.transpose(0, 1)[None])
        return *grads, None, None


def _varlen_forward(query, key, value, of_query: Ends, of_key: Ends, causal: bool, scale: float):
    """(tokens, H, D) -> output, log-sum-exp (H, tokens), and two tensors of random state that the backward pass wants."""
    return torch.ops.aten._flash_attention_forward(
        *(query, key, value, of_query.bounds, of_key.bounds, of_query.longest, of_key.longest, 0.0, causal, False), scale=scale
    )[:4]


def _varlen_backward(grad, query, key, value, out, lse, of_query: Ends, of_key: Ends, causal: bool, state, scale: float):
    return torch.ops.aten._flash_attention_backward(
        *(grad.contiguous(), query, key, value, out, lse, of_query.bounds, of_key.bounds, of_query.longest, of_key.longest),
        *(0.0, causal, *state),
        scale=scale,
    )


def _gather(x: torch.Tensor, groups: int) -> torch.Tensor:
    """(1, H, T, D) -> (1, KV, T, D): the sum over the query heads that share a key head; undoes ``repeat`` for gradients."""
    return x if x.shape[1] == groups else x.reshape(1, groups, -1, *x.shape[2:]).sum(2)


def repeat(x: torch.Tensor, heads: int) -> torch.Tensor:
    """(B, KV, T, D) -> (B, heads, T, D): each key head once for every query head that uses it."""
    batch, groups, *rest = x.shape
    if groups == heads:
        return x
    return x[:, :, None].expand(batch, groups, heads // groups, *rest).reshape(batch, heads, *rest)


def _fold(x: torch.Tensor, groups: int) -> torch.Tensor:
    """(1, H, S, D) -> (1, KV, H / KV * S, D)."""
    return x.reshape(1, groups, -1, x.shape[-1])


def _rectangle(x: torch.Tensor, box: Box) -> torch.Tensor:
    """(1, H, T, D) -> (k, H, r, D)."""
    return x[0][:, box.rectangle].transpose(0, 1)


def _flat(x: torch.Tensor, box: Box) -> torch.Tensor:
    """(k, H, r, D) -> (1, H, N, D), padding left out."""
    return x.transpose(0, 1).flatten(1, 2)[None, :, box.places]
