"""What a run asks of its base and of the machine, found without any weights: the dry run and training check the same."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import torch

from grand3d.errors import GrandError
from grand3d.model import attach_lora, skeleton
from grand3d.schema import Config

NEED_GPU = (
    ("dtype", "fp16", "fp32 or bf16"),
    ("attention", "flex", "auto"),
    ("attention", "flash", "auto"),
    ("quantize", "nf4", "none"),
    ("liger", "on", "auto"),
)
"""Settings of the model, with the value to take in their place."""


def machine_faults(config: Config) -> list[str]:
    """What the settings ask for and this machine cannot do; another one may."""
    model = config.model
    if torch.cuda.is_available():
        bf16 = model.dtype != "bf16" or torch.cuda.is_bf16_supported()
        return [] if bf16 else ["model.dtype is 'bf16', which this GPU does not support; expected fp16 or fp32"]
    return [
        f"model.{name} is {value!r}, which trains on an NVIDIA GPU only; none is seen here, so {other} is expected"
        for name, value, other in NEED_GPU
        if getattr(model, name) == value
    ]


def refuse_unknown_tracker(config: Config) -> None:
    """Raise GrandError if the package of ``train.tracker`` is not installed."""
    tracker = config.train.tracker
    if tracker and importlib.util.find_spec(tracker) is None:
        raise GrandError(f"train.tracker is {tracker!r}, expected a package that is installed: pip install {tracker}")


def refuse_long_prompts(config: Config, base: Any) -> None:
    """Raise GrandError if a sample may be longer than the context of the base, or than packed rows of it are exact for.

    Args:
        base: Its own configuration.
    """
    context = getattr(base, "max_position_embeddings", None)
    if context is not None and config.prompt.max_tokens > context:
        raise GrandError(
            f"prompt.max_tokens is {config.prompt.max_tokens}, expected at most the {context} tokens that are the context of "
            f"{config.model.base!r}"
        )
    for size, cause in _reach(base.get_text_config()):
        if config.prompt.max_tokens > size:
            raise GrandError(
                f"prompt.max_tokens is {config.prompt.max_tokens}, expected at most {size}: {config.model.base!r} has {cause}"
            )


def _reach(config: Any) -> Iterator[tuple[int, str]]:
    """Most tokens of a sample for which packed rows are exact with a base of this configuration, by cause.

    Windows and chunks hide tokens that ``attention.attend`` shows. RoPE of the kind longrope turns all tokens of a row in another
    way once one of them stands past the original context, also those of shorter samples; so does the kind dynamic, past what is
    the whole context for us.
    """
    layers = set(getattr(config, "layer_types", None) or ("sliding_attention", "chunked_attention"))
    for name, kind in (("sliding_window", "sliding_attention"), ("attention_chunk_size", "chunked_attention")):
        size = getattr(config, name, None)
        if isinstance(size, int) and kind in layers:
            yield size, f"{name} = {size}"
    rope = getattr(config, "rope_parameters", None) or {}
    for one in (rope, *rope.values()):
        if isinstance(one, dict) and one.get("rope_type") == "longrope":
            size = one.get("original_max_position_embeddings", config.max_position_embeddings)
            yield size, f"rope_type = longrope, which changes after {size} tokens"


def check_layers(config: Config) -> bool:
    """Attach the adapter to the base's layers, without weights; False where the base's configuration is not on this machine.

    Raises:
        GrandError: If ``lora.modules`` names no layers of it, its context is shorter than the prompts, or its configuration
            makes no model.
    """
    with torch.device("meta"):
        base = skeleton(config.model.base)
        if base is None:
            return False
        refuse_long_prompts(config, base.config)
        attach_lora(base, config.lora)
    return True
