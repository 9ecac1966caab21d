"""The processes of a run: how they are started by a launcher, what each has a share of, and what they add up together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs

from grand3d.errors import GrandError
from grand3d.launched import count
from grand3d.schema import Config

TIMEOUT = timedelta(hours=2)
"""How long a process waits for the others; the main one takes the held-out figures alone."""


def groups_per_process(config: Config, num_processes: int) -> int:
    """Scenes that each process learns from in a step.

    Raises:
        GrandError: If a step's groups do not spread evenly.
    """
    groups = config.train.global_batch // config.data.questions_per_scene
    if groups % num_processes:
        raise GrandError(
            f"train.global_batch = {config.train.global_batch} with data.questions_per_scene = {config.data.questions_per_scene} "
            f"makes {groups} scenes a step, which {num_processes} processes cannot share evenly; change one of the three"
        )
    return groups // num_processes


def open_accelerator(config: Config, out: Path) -> tuple[Accelerator, int]:
    """accelerate as the launcher and the settings want it, and the scenes of each process in a step.

    Raises:
        GrandError: If a step's scenes do not spread evenly, each process would train alone, or ZeRO splits the weights.
    """
    num_groups = groups_per_process(config, count())
    launched, gpu = "LOCAL_RANK" in os.environ, torch.cuda.is_available()
    handlers = []
    if launched:
        handlers = [InitProcessGroupKwargs(timeout=TIMEOUT)]
    if launched and not gpu:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        # accelerate sets no backend for DeepSpeed on a CPU, and each process would believe it is alone
        handlers = [InitProcessGroupKwargs(backend="gloo", timeout=TIMEOUT)]
    accelerator = Accelerator(
        mixed_precision={"fp32": "no", "bf16": "bf16", "fp16": "fp16"}[config.model.dtype],
        gradient_accumulation_steps=num_groups,
        cpu=not gpu and os.environ.get("ACCELERATE_USE_DEEPSPEED") != "true",  # with DeepSpeed it would start one process
        log_with=config.train.tracker,
        project_dir=str(out),
        kwargs_handlers=handlers,
    )
    if not accelerator.use_distributed and count() > 1:
        raise GrandError(
            f"{count()} processes were launched and each would train alone; launch them by "
            "accelerate launch --config_file launch/zero2.yaml (zero2_cpu.yaml without a GPU)"
        )
    plugin = accelerator.state.deepspeed_plugin
    if plugin is not None:
        if plugin.zero_stage == 3:
            raise GrandError(
                "ZeRO stage 3 is not supported, it splits the adapter's matrices over the processes; use launch/zero2.yaml"
            )
        plugin.deepspeed_config |= {
            "train_micro_batch_size_per_gpu": 1,  # one pack
            "gradient_accumulation_steps": num_groups,
            "gradient_clipping": config.train.max_grad_norm,
            # else both are those of the weights: many small gradients of many rows and processes would be added up in bf16
            "data_types": {"grad_accum_dtype": "fp32"},
            "communication_data_type": "fp32",
        }
    return accelerator, num_groups


def largest(accelerator: Accelerator, number: int) -> int:
    """The largest of the processes' numbers."""
    if accelerator.num_processes == 1:
        return number
    return int(accelerator.gather(torch.tensor([number], device=accelerator.device)).max())


def total(accelerator: Accelerator, values: list[float]) -> list[float]:
    """Sums over all processes."""
    if accelerator.num_processes == 1:
        return values
    return accelerator.reduce(torch.tensor(values, dtype=torch.float64, device=accelerator.device), "sum").tolist()


def take_master_weights(accelerator: Accelerator, weights: Sequence[torch.nn.Parameter]) -> None:
    """Give trained weights, at the end of a run, the float32 values that DeepSpeed steps; the model holds them rounded.

    All processes call it: each has a part of them.
    """
    if accelerator.state.deepspeed_plugin is not None:
        from deepspeed.utils import safe_get_full_fp32_param

        for weight in weights:
            whole = safe_get_full_fp32_param(weight)
            if whole is not None:  # below ZeRO stage 1 the weights themselves are stepped
                weight.data = whole
