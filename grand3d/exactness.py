"""Whether packed rows are exact on a base: its dropout is switched off, and the model itself is tried out.

docs/shared_prefix.md asks of a base that attention alone mixes tokens, and that it goes through ``attention.attend``. Recurrent
and convolutional layers run straight through the questions of a row, and nothing else in a run would show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from grand3d.attention import BackEnd
from grand3d.errors import GrandError
from grand3d.pack import make_pack, pack_logits
from grand3d.tokens import Encoded

SIZES = ((61, (3,) * 8), (29, (4, 1, 5, 2, 3, 4, 2, 3)))
"""Tokens of two prefixes and of their suffixes. Many short ones: what leaks from one into the next shows in its first tokens."""
TOLERANCE = {"fp32": 5e-5, "fp16": 1e-2, "bf16": 8e-2}
"""Most that the logits of the middle one of all tokens may differ, as a share of their norm. Measured on eleven kinds of bases
that are exact, of 2 to 30 layers: up to 1.1e-6 in fp32, 2.8e-3 in fp16 and 2.9e-2 in bf16. On twelve that are not, with weights
as large as trained ones: 0.17 and more in any. A mean would not do: rounding sends some tokens of a mixture to other experts."""
EXPECTED = (
    "expected one in which attention alone mixes tokens, by transformers' attention interface (Llama, Mistral, Qwen 2 or 3, "
    "SmolLM, Gemma); recurrent, convolutional and hybrid layers, and attention of a model's own, do not fit"
)


def silence_dropout(base: Any) -> None:
    """Switch off the dropout of a base, also what it calls without a layer for it: the copies of a scene would differ by it."""
    for module in base.modules():
        for name, value in vars(module).items():
            dropout = name == "p" if isinstance(module, torch.nn.modules.dropout._DropoutNd) else "drop" in name
            if dropout and isinstance(value, float):
                setattr(module, name, 0.0)


@torch.no_grad()
def refuse_inexact(model: Any, back_end: BackEnd, dtype: str) -> None:
    """Compare a small packed row with the same samples one by one, on the model as it is going to be trained.

    Args:
        model: In evaluation mode, on its device.
        dtype: Number format of the run, as ``ModelConfig.dtype``; autocast gives logits in another one.

    Raises:
        GrandError: If they differ, if a layer does not attend by the row's layout, or if the model cannot run one.
    """
    config, device = model.config.get_text_config(), next(model.parameters()).device
    groups = _probe(config.vocab_size)
    base = f"a base of type {config.model_type!r}"
    try:
        packed, calls = pack_logits(model, make_pack(groups).to(device), back_end)
        alone = torch.cat([_plain_logits(model, sample, device) for group in groups for sample in group])
    except (GrandError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # layers that cannot take the row raise anything
        reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason given'}"
        raise GrandError(f"{base} cannot run a packed row with model.attention {back_end!r} ({reason}); {EXPECTED}") from error
    layers = config.num_hidden_layers
    if calls < layers:
        raise GrandError(f"{base} attends to a packed row in {calls} of its {layers} layers; {EXPECTED}")
    packed, alone = packed.double(), alone.double()
    off = float(((packed - alone).norm(dim=-1) / alone.norm(dim=-1)).median())
    if not off <= TOLERANCE[dtype]:  # nor NaN, which a layer that reads the placeholder of the mask gives
        raise GrandError(
            f"{base} computes something else for questions in one row than for each alone: the logits differ by {off:.1e}, "
            f"expected at most {TOLERANCE[dtype]:.0e} in {dtype}; {EXPECTED}"
        )


def _probe(num_tokens: int) -> list[list[Encoded]]:
    """Groups of random tokens; every token of a suffix is trained. They are the same whatever the state of the generators."""
    generator = torch.Generator().manual_seed(0)

    def draw(size: int) -> list[int]:
        return torch.randint(num_tokens, (size,), generator=generator).tolist()

    def group(num_prefix: int, sizes: Sequence[int]) -> list[Encoded]:
        prefix = draw(num_prefix)
        return [Encoded(prefix, draw(size), [True] * size) for size in sizes]

    return [group(*sizes) for sizes in SIZES]


def _plain_logits(model: Any, sample: Encoded, device: torch.device) -> torch.Tensor:
    """(L, V) logits before the tokens of the suffix, as any user of transformers would take them."""
    ids = torch.tensor([sample.prefix + sample.suffix], device=device)
    return model(input_ids=ids, use_cache=False, return_dict=True).logits[0, len(sample.prefix) - 1 : -1]
