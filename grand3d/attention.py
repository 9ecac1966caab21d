"""Attention over a packed row: scenes one after the other, each a prefix with K suffixes that do not see each other.

Registered with transformers under one name, ``ATTENTION``. Without a layout (generation, scoring) it is SDPA as usual.
With one, prefix tokens attend causally to their prefix; suffix tokens to their scene's whole prefix and causally to their
own suffix. Four back ends do that, with the same outputs and gradients:

- ``split``: suffixes against the prefix and suffixes against themselves, merged by their log-sum-exp; no token pair is
  computed that the mask would hide, nothing is repeated or padded. Fused kernels on a CPU, and on CUDA in bf16 or fp16.
- ``flex``: FlexAttention with a block mask; CUDA, any number format, also GPUs without FlashAttention's kernel.
- ``flash``: the package flash-attn, its variable-length kernel, each suffix with a copy of its prefix's keys; CUDA.
- ``dense``: one additive mask over all pairs. The plain way, for any device, against which the others are tested.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any, Literal, NamedTuple

import torch
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from grand3d import kernels
from grand3d.errors import GrandError, import_extra
from grand3d.layout import Layout

ATTENTION = "grand3d"
BackEnd = Literal["split", "flex", "flash", "dense"]


def choose(wanted: str, device: torch.device, dtype: torch.dtype) -> BackEnd:
    """The back end for packed rows on a device.

    Args:
        wanted: ``auto`` or a back end's name.

    Raises:
        GrandError: If the one asked for cannot run there.
    """
    half, cuda = dtype in (torch.bfloat16, torch.float16), device.type == "cuda"
    if wanted == "auto":
        if device.type == "cpu":
            return "split"
        if not cuda:
            return "dense"
        return "split" if half and torch.cuda.get_device_capability(device) >= (8, 0) else "flex"
    if wanted == "split" and device.type != "cpu" and not (cuda and half and torch.cuda.get_device_capability(device) >= (8, 0)):
        raise GrandError(
            f"model.attention is 'split', which runs on a CPU, and on NVIDIA GPUs from Ampere on in bf16 or fp16; seen "
            f"{device.type} and {dtype}; take 'auto'"
        )
    if wanted == "flex" and not cuda:
        raise GrandError(
            "model.attention is 'flex': FlexAttention trains on CUDA only (PyTorch has no backward pass on a CPU); take 'auto'"
        )
    if wanted == "flash" and not (cuda and half and importlib.util.find_spec("flash_attn")):
        raise GrandError(
            f"model.attention is 'flash', which needs an NVIDIA GPU, bf16 or fp16 (seen {device.type} and {dtype}) and: "
            "pip install 'grand3d[flash]'; or take 'auto'"
        )
    return wanted  # type: ignore[return-value]


class Packed(NamedTuple):
    """What the attention of a packed row is told: its layout, the back end, and for ``flex`` the ready block mask."""

    layout: Layout
    back_end: BackEnd
    block_mask: Any = None


def packed(layout: Layout, back_end: BackEnd) -> Packed:
    """The layout, already on its device, made ready for all layers of a forward pass."""
    return Packed(layout, back_end, _block_mask(layout) if back_end == "flex" else None)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    packed: Packed | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The function transformers calls in every layer. query (1, H, T, D), key and value (1, KV, T, D) -> (1, T, H, D).

    Raises:
        GrandError: If the base caps its scores (Gemma 2), has attention sinks, or sees less far back than a sample is long.
    """
    if kwargs.get("softcap") is not None or kwargs.get("s_aux") is not None:
        raise GrandError(
            f"{type(module).__name__} caps its attention scores or has sinks, which fused kernels leave out; take a base of the "
            "Llama, Mistral, Qwen, SmolLM, Gemma or Gemma 3 kind"
        )
    if packed is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs)
    window = kwargs.get("sliding_window")
    if window is not None and packed.layout.longest > window:
        raise GrandError(
            f"{type(module).__name__} sees {window} tokens back, a sample has {packed.layout.longest}; "
            f"set prompt.max_tokens to at most {window}"
        )
    layout, scale = packed.layout, query.shape[-1] ** -0.5 if scaling is None else scaling
    if packed.back_end == "split":
        kernel = kernels.OnCpu if query.device.type == "cpu" else kernels.Varlen
        return kernel.apply(query, key, value, layout, scale), None
    if packed.back_end == "flex":
        out = _flex()(query, key, value, block_mask=packed.block_mask, scale=scale, enable_gqa=query.shape[1] != key.shape[1])
        return out.transpose(1, 2), None
    return _flash(query, key, value, layout, scale), None


def visible(layout: Layout) -> torch.Tensor:
    """(T, T) bool: whether the token of the row sees the token of the column."""
    index = torch.arange(layout.num_tokens, device=layout.scene_of.device)
    return _sees(layout)(0, 0, index[:, None], index[None, :])


def dense_mask(layout: Layout, dtype: torch.dtype) -> torch.Tensor:
    """The pattern as one additive (1, 1, T, T) mask."""
    seen = visible(layout)
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)[None, None]


def _sees(layout: Layout) -> Any:
    scene_of, part_of = layout.scene_of, layout.part_of

    def sees(batch: Any, head: Any, query: Any, key: Any) -> Any:
        own = (part_of[key] == 0) | (part_of[key] == part_of[query])
        return (key <= query) & (scene_of[key] == scene_of[query]) & own

    return sees


def _block_mask(layout: Layout) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    make = torch.compile(create_block_mask, dynamic=True) if layout.scene_of.is_cuda else create_block_mask
    size = layout.num_tokens
    return make(_sees(layout), None, None, size, size, device=layout.scene_of.device.type)


@cache
def _flex() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True) if torch.cuda.is_available() else flex_attention


def _flash(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layout: Layout, scale: float) -> torch.Tensor:
    flash = import_extra("flash_attn", "flash")
    source, query_sizes, key_sizes = [], [], []  # each prefix alone, then each of its suffixes behind a copy of the prefix
    for (start, cut, _), lengths in zip(layout.scenes, layout.lengths, strict=True):
        source.append(torch.arange(start, cut))
        query_sizes.append(cut - start)
        key_sizes.append(cut - start)
        position = cut
        for length in lengths:
            source += [torch.arange(start, cut), torch.arange(position, position + length)]
            query_sizes.append(length)
            key_sizes.append(cut - start + length)
            position += length
    index = torch.cat(source).to(query.device)

    def ends(sizes: list[int]) -> torch.Tensor:
        return F.pad(torch.tensor(sizes).cumsum(0), (1, 0)).to(query.device, torch.int32)

    out = flash.flash_attn_varlen_func(
        query[0].transpose(0, 1),
        key[0].transpose(0, 1)[index],
        value[0].transpose(0, 1)[index],
        cu_seqlens_q=ends(query_sizes),
        cu_seqlens_k=ends(key_sizes),
        max_seqlen_q=max(query_sizes),
        max_seqlen_k=max(key_sizes),
        softmax_scale=scale,
        causal=True,  # aligned to the end of the keys: a suffix sees the whole prefix
    )
    return out[None]


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
