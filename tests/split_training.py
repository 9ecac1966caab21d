"""One training of a few steps in double or single precision, for tests that cut its batch in several ways.

python tests/split_training.py OUT DTYPE STEPS QUESTIONS [ROW_TOKENS]       (under torchrun: the same over its processes)

At its end each process says how many stand-ins it took, for rows that another process had more of.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from grand3d import train as training
from grand3d.config import from_dict
from grand3d.model import load_base


def plain_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    """Llama's normalisation without its detour through single precision."""
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def main(out: str, dtype: str, steps: int, questions: int, row_tokens: int) -> None:
    if dtype == "fp64":
        transformers.models.llama.modeling_llama.LlamaRMSNorm.forward = plain_norm

        def load_double(*args: Any) -> tuple[Any, Any]:
            model, tokenizer = load_base(*args)
            return model.double(), tokenizer

        training.load_base = load_double
    config = {
        "model": {"base": "tiny"},
        "lora": {"rank": 4, "dropout": 0.0},
        "data": {"synth": {"num_scenes": 50, "seed": 3}, "questions_per_scene": questions, "row_tokens": row_tokens},
        "train": {
            "global_batch": 8,
            "num_steps": steps,
            "warmup_steps": 1,
            "learning_rate": 1e-3,
            "save_every": steps,
            "seed": 1,
        },
    }
    stand_ins = 0
    make_rows = training._rows

    def rows(*args: Any) -> list[tuple[Any, int]]:
        nonlocal stand_ins
        made = make_rows(*args)
        stand_ins += sum(weight == 0 for _, weight in made)
        return made

    training._rows = rows
    training.train(from_dict(config), out)
    print(f"stand-ins: {stand_ins}", flush=True)


if __name__ == "__main__":
    folder, number, *rest = sys.argv[1:]
    main(folder, number, *(int(value) for value in rest[:2]), int(rest[2]) if len(rest) > 2 else 0)
