"""Attention over a packed row: scenes one after the other, each a prefix with K suffixes that do not see each other.

Registered with transformers under one name, ``ATTENTION``. Without a row (generation, scoring) it is SDPA as usual.
With one, prefix tokens attend causally to their prefix; suffix tokens to their scene's whole prefix and causally to their
own suffix. Four back ends do that, with the same outputs and gradients:

- ``split``: suffixes against the prefix and suffixes against themselves, merged by their log-sum-exp; no token pair is
  computed that the mask would hide, nothing is repeated or padded. Fused kernels on a CPU, and on CUDA in bf16 or fp16.
- ``flex``: FlexAttention with a block mask; CUDA, any number format, also GPUs without FlashAttention's kernel.
- ``flash``: the package flash-attn, its variable-length kernel, each suffix with a copy of its prefix's keys; CUDA.
- ``dense``: one mask over all pairs. The plain way, for any device, against which the others are tested.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import torch
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from grand3d import kernels
from grand3d.errors import GrandError, import_extra
from grand3d.kernels import Ends, ends
from grand3d.layout import Layout

ATTENTION = "grand3d"
BackEnd = Literal["split", "flex", "flash", "dense"]


@contextlib.contextmanager
def replaceable(what: str) -> Iterator[None]:
    """One message where a base takes its attention from a table of its own, in which ``ATTENTION`` is not.

    Args:
        what: The base.

    Raises:
        GrandError: In place of the KeyError.
    """
    try:
        yield
    except KeyError as error:
        if error.args != (ATTENTION,):
            raise
        raise GrandError(
            f"{what} has attention of its own, which cannot be replaced; expected a base by transformers' attention interface, "
            "such as Llama, Mistral, Qwen 2 or 3, SmolLM or Gemma (not Falcon or GPT-Neo)"
        ) from None


def choose(wanted: str, device: torch.device, dtype: torch.dtype) -> BackEnd:
    """The back end for packed rows on a device.

    Args:
        wanted: ``auto`` or a back end's name.

    Raises:
        GrandError: If the one asked for cannot run there.
    """
    cuda = device.type == "cuda"
    ampere = cuda and torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)
    fused = ampere and dtype in (torch.bfloat16, torch.float16)
    built_in = fused and torch.backends.cuda.is_flash_attention_available()
    if wanted == "auto":
        if device.type == "cpu" or built_in:
            return "split"
        return "flex" if cuda else "dense"
    if wanted == "split" and device.type != "cpu" and not built_in:
        raise GrandError(
            "model.attention is 'split', which runs on a CPU, and on NVIDIA GPUs from Ampere on in bf16 or fp16 (by a PyTorch "
            f"built with FlashAttention); seen {device.type} and {dtype}; take 'auto'"
        )
    if wanted == "flex" and not cuda:
        raise GrandError(
            "model.attention is 'flex': FlexAttention trains on CUDA only (PyTorch has no backward pass on a CPU); take 'auto'"
        )
    if wanted == "flash" and not (fused and importlib.util.find_spec("flash_attn")):
        raise GrandError(
            "model.attention is 'flash', which needs an NVIDIA GPU from Ampere on, bf16 or fp16 (seen "
            f"{device.type} and {dtype}) and: pip install 'grand3d[flash]'; or take 'auto'"
        )
    return wanted  # type: ignore[return-value]


@dataclass(slots=True)
class RowAttention:
    """What the layers are told of a packed row, the same for all of them in one forward pass.

    Attributes:
        plan: What the back end needs on the device; made once a row, so that no layer waits for the host.
        calls: Times that a layer has attended by it.
    """

    layout: Layout
    back_end: BackEnd
    plan: Any
    calls: int = 0


def prepare(layout: Layout, back_end: BackEnd, device: torch.device) -> RowAttention:
    """A row made ready for its forward pass."""
    plan: Any = None
    if back_end == "dense":
        plan = visible(layout, device)
    elif back_end == "flex":
        plan = _block_mask(layout, device)
    elif back_end == "flash":
        plan = _copies(layout, device)
    elif device.type != "cpu":
        plan = kernels.segments(layout, device)
    return RowAttention(layout, back_end, plan)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    row: RowAttention | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The function transformers calls in every layer. query (1, H, T, D), key (1, KV, T, D), value (1, KV, T, E) -> (1, T, H, E).

    Raises:
        GrandError: If the base caps its scores (Gemma 2), has attention sinks, drops some of them at random, or sees less far
            back than a sample is long.
    """
    name = type(module).__name__
    if kwargs.get("softcap") is not None or kwargs.get("s_aux") is not None:
        raise GrandError(
            f"{name} caps its attention scores or has sinks, which fused kernels leave out; expected a base without, such as "
            "Llama, Mistral, Qwen 2 or 3, SmolLM or the first Gemma"
        )
    if row is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs)
    if dropout > 0:
        raise GrandError(
            f"{name} drops attention at random ({dropout}), with which packed rows are not exact; expected 0 as the "
            "attention_dropout in the config.json of the base"
        )
    chunk = getattr(getattr(module, "config", None), "attention_chunk_size", None)
    for back in (kwargs.get("sliding_window"), chunk):
        if back is not None and row.layout.longest > back:
            raise GrandError(
                f"{name} sees {back} tokens back, a sample has {row.layout.longest}; set prompt.max_tokens to at most {back}"
            )
    row.calls += 1
    scale, width = query.shape[-1] ** -0.5 if scaling is None else scaling, value.shape[-1]
    # kernels want one number format, where autocast leaves rotated queries and keys in float32, and one width, some of them a
    # multiple of 8: zeros change neither scores nor outputs
    wide = -(-max(query.shape[-1], width) // 8) * 8
    query, key, value = (_padded(x.to(value.dtype), wide) for x in (query, key, value))
    out = _BACK_ENDS[row.back_end](query, key, value, row, scale)
    return (out if width == wide else out[..., :width]), None


def _padded(x: torch.Tensor, width: int) -> torch.Tensor:
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def _split(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, row: RowAttention, scale: float) -> torch.Tensor:
    if query.device.type == "cpu":
        return kernels.OnCpu.apply(query, key, value, row.layout, scale)
    return kernels.Varlen.apply(query, key, value, row.plan, scale)


def _dense(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, row: RowAttention, scale: float) -> torch.Tensor:
    key, value = (kernels.repeat(x, query.shape[1]) for x in (key, value))
    return F.scaled_dot_product_attention(query, key, value, attn_mask=row.plan, scale=scale).transpose(1, 2)


def _flex(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, row: RowAttention, scale: float) -> torch.Tensor:
    run = _compiled("flex_attention") if query.is_cuda else _flex_function("flex_attention")
    return run(query, key, value, block_mask=row.plan, scale=scale, enable_gqa=query.shape[1] != key.shape[1]).transpose(1, 2)


def _flash(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, row: RowAttention, scale: float) -> torch.Tensor:
    index, of_query, of_key = row.plan
    out = import_extra("flash_attn", "flash").flash_attn_varlen_func(
        query[0].transpose(0, 1),
        key[0].transpose(0, 1)[index],
        value[0].transpose(0, 1)[index],
        cu_seqlens_q=of_query.bounds,
        cu_seqlens_k=of_key.bounds,
        max_seqlen_q=of_query.longest,
        max_seqlen_k=of_key.longest,
        softmax_scale=scale,
        causal=True,  # aligned to the end of the keys: a suffix sees the whole prefix
    )
    return out[None]


_BACK_ENDS = {"split": _split, "flex": _flex, "flash": _flash, "dense": _dense}


def visible(layout: Layout, device: Any = None) -> torch.Tensor:
    """(T, T) bool: whether the token of the row sees the token of the column."""
    index = torch.arange(layout.num_tokens, device=device)
    return _sees(layout, device)(0, 0, index[:, None], index[None, :])


def _sees(layout: Layout, device: Any) -> Any:
    scene_of, part_of = layout.scene_of.to(device), layout.part_of.to(device)

    def sees(batch: Any, head: Any, query: Any, key: Any) -> Any:
        own = (part_of[key] == 0) | (part_of[key] == part_of[query])
        return (key <= query) & (scene_of[key] == scene_of[query]) & own

    return sees


def _block_mask(layout: Layout, device: torch.device) -> Any:
    make = _compiled("create_block_mask") if device.type == "cuda" else _flex_function("create_block_mask")
    size = layout.num_tokens
    return make(_sees(layout, device), None, None, size, size, device=device)


@cache
def _compiled(name: str) -> Any:
    return torch.compile(_flex_function(name), dynamic=True)


def _flex_function(name: str) -> Any:
    from torch.nn.attention import flex_attention

    return getattr(flex_attention, name)


class _Copies(NamedTuple):
    """Keys for flash-attn: the (N,) tokens of each prefix alone, then of each of its suffixes behind a copy of it."""

    index: torch.Tensor
    of_query: Ends
    of_key: Ends


def _copies(layout: Layout, device: torch.device) -> _Copies:
    source, query_sizes, key_sizes = [], [], []
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
    return _Copies(torch.cat(source).to(device), ends(query_sizes, device), ends(key_sizes, device))


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
