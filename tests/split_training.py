"""One training of a few steps in double or single precision, for tests that cut its batch in several ways.

python tests/split_training.py OUT DTYPE STEPS QUESTIONS [ROW_TOKENS]       (under torchrun: the same over its processes)

At its end each process says how many stand-ins it took, for rows that another process had more of, and in what number format
DeepSpeed adds gradients up. One without a launcher also says the norm of the first step's gradient, by a plain loop over samples.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from accelerate.utils import set_seed

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from grand3d import train as training
from grand3d.config import from_dict
from grand3d.model import attach_lora, load_base
from grand3d.schema import Config
from grand3d.stream import Tally, encode_group, open_stream


def plain_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    """Llama's normalisation without its detour through single precision."""
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def plain_gradient(config: Config) -> float:
    """Norm of the first step's gradient, sample by sample: the mean over all label tokens of the cross entropy, full logits."""
    set_seed(config.train.seed)
    base, tokenizer = training.load_base(config.model.base)
    model, stream = attach_lora(base, config.lora), open_stream(config)
    groups = [encode_group(tokenizer, *stream.group(number), config.prompt, Tally()) for number in range(8)]
    samples = [sample for group in groups for sample in group]
    num_labels = sum(sum(sample.mask) for sample in samples)
    for sample in samples:
        labels = torch.tensor([token if trained else -100 for token, trained in zip(sample.suffix, sample.mask, strict=True)])
        logits = model(input_ids=torch.tensor([sample.prefix + sample.suffix])).logits[0, len(sample.prefix) - 1 : -1]
        (torch.nn.functional.cross_entropy(logits, labels, reduction="sum") / num_labels).backward()
    return float(torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad]).norm())


def main(out: str, dtype: str, steps: int, questions: int, row_tokens: int) -> None:
    if dtype == "fp64":
        transformers.models.llama.modeling_llama.LlamaRMSNorm.forward = plain_norm

        def load_double(*args: Any) -> tuple[Any, Any]:
            model, tokenizer = load_base(*args)
            return model.double(), tokenizer

        training.load_base = load_double
    config = {
        "model": {"base": "tiny", "dtype": "fp32" if dtype == "fp64" else dtype},
        "lora": {"rank": 4, "dropout": 0.0},
        "data": {"synth": {"num_scenes": 50, "seed": 3}, "questions_per_scene": questions, "row_tokens": row_tokens},
        "train": {
            "global_batch": 8,
            "num_steps": steps,
            "warmup_steps": 1,
            "learning_rate": 1e-3,
            "max_grad_norm": 1e9,  # what is clipped has the same norm whatever it was before
            "save_every": steps,
            "seed": 1,
        },
    }
    stand_ins, sums_in = 0, set()
    make_rows, take_step = training._rows, training._step

    def rows(*args: Any) -> list[tuple[Any, int]]:
        nonlocal stand_ins
        made = make_rows(*args)
        stand_ins += sum(weight == 0 for _, weight in made)
        return made

    def step(run: Any, number: int) -> dict[str, Any]:
        optimizer = getattr(run.model, "optimizer", None)  # DeepSpeed's
        sums_in.update(str(getattr(optimizer, name, None)) for name in ("gradient_accumulation_dtype", "communication_data_type"))
        return take_step(run, number)

    training._rows, training._step = rows, step
    training.train(from_dict(config), out)
    print(f"stand-ins: {stand_ins}; sums in: {sums_in}", flush=True)
    if "LOCAL_RANK" not in os.environ:
        print(f"plain norm: {plain_gradient(from_dict(config))!r}", flush=True)


if __name__ == "__main__":
    folder, number, *rest = sys.argv[1:]
    main(folder, number, *(int(value) for value in rest[:2]), int(rest[2]) if len(rest) > 2 else 0)
