"""Checkpoints of a run: written beside and renamed, so that an interrupted save leaves the previous one whole.

A checkpoint holds what a run needs to go on bit for bit: adapter, optimizer (with ZeRO: one shard a process), random states
of every process, the step, and the configuration and data it belongs to. The frozen base is not in it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from peft import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file, save_file

from grand3d.config import flat
from grand3d.errors import GrandError
from grand3d.files import read_json, write_json

FREE = ("train.log_every", "train.eval_every", "train.save_every", "train.keep_checkpoints", "train.tracker", "data.heldout")
"""Settings that may differ on resume: they do not change what is learnt."""


def keep_adapter_only(accelerator: Any) -> None:
    """Let ``save_state`` and ``load_state`` handle the adapter's weights and leave the frozen base out."""

    def save(models: list[Any], weights: list[Any], folder: str) -> None:
        if not weights:  # DeepSpeed writes its own files
            return
        weights.clear()
        if accelerator.is_main_process:
            state = get_peft_model_state_dict(accelerator.unwrap_model(models[0]), save_embedding_layers=False)
            save_file(
                {name: value.detach().cpu().contiguous() for name, value in state.items()}, Path(folder) / "adapter.safetensors"
            )

    def load(models: list[Any], folder: str) -> None:
        if not models:
            return
        model = accelerator.unwrap_model(models.pop())
        set_peft_model_state_dict(model, load_file(Path(folder) / "adapter.safetensors"))

    accelerator.register_save_state_pre_hook(save)
    accelerator.register_load_state_pre_hook(load)


def save_checkpoint(accelerator: Any, run: Path, step: int, state: dict[str, Any], keep: int) -> Path:
    """Write ``checkpoints/step_N``; all processes call it, the main one renames it and removes the oldest."""
    folder = run / "checkpoints" / f"step_{step}"
    beside = folder.with_name(f".step_{step}.part")
    if accelerator.is_main_process:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
    accelerator.wait_for_everyone()
    accelerator.save_state(str(beside), **({"exclude_frozen_parameters": True} if _deepspeed(accelerator) else {}))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        write_json(beside / "state.json", {"step": step, **state})
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
        for old in list_checkpoints(run)[:-keep]:
            shutil.rmtree(old)
    accelerator.wait_for_everyone()
    return folder


def list_checkpoints(run: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    found = [
        (int(match[1]), path)
        for path in (run / "checkpoints").glob("step_*")
        if (match := re.fullmatch(r"step_(\d+)", path.name))
    ]
    return [path for _, path in sorted(found)]


def find_checkpoint(run: Path, resume: str | None) -> Path | None:
    """The checkpoint that a run into ``run`` goes on from.

    Args:
        resume: None for a new run, ``latest``, or the path of a checkpoint folder.

    Returns:
        None where the run starts from step 0: a new one, or ``latest`` before there is a checkpoint.

    Raises:
        GrandError: If the path is not a checkpoint, or ``run`` holds another run or a finished adapter.
    """
    found = list_checkpoints(run)
    if not found and resume in (None, "latest") and (run / "adapter").exists():
        raise GrandError(f"{run}: holds a finished adapter and no checkpoint to go on from; give another folder")
    if resume == "latest":
        return found[-1] if found else None
    if resume is None:
        if found:
            raise GrandError(f"{run}: already holds a run; pass --resume latest to go on with it, or give another folder")
        return None
    folder = Path(resume)
    if not (folder / "state.json").exists():
        raise GrandError(
            f"{folder}: not a checkpoint (no state.json); expected a folder such as {run / 'checkpoints' / 'step_100'}"
        )
    if found and folder.resolve().parent != (run / "checkpoints").resolve():
        raise GrandError(f"{run}: already holds a run, and {folder} is a checkpoint of another; give another folder")
    return folder


def remove_later(run: Path, step: int) -> list[str]:
    """Remove the checkpoints of later steps than ``step``, which a run going on from there does again; gives their names.

    Left in place they would count as the newest, and the run's own would be the ones removed.
    """
    later = [path for path in list_checkpoints(run) if int(path.name.removeprefix("step_")) > step]
    for path in later:
        shutil.rmtree(path)
    return [path.name for path in later]


def read_state(folder: Path, state: dict[str, Any]) -> int:
    """The step of a checkpoint, after checking that it belongs to this very run.

    Raises:
        GrandError: Naming every setting that differs.
    """
    saved = read_json(folder / "state.json")
    faults = []
    old, new = flat(saved["config"]), flat(state["config"])
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key) and not key.startswith(FREE):
            faults.append(f"{key} is {new.get(key)!r}, was {old.get(key)!r}")
    if saved["data"] != state["data"]:
        faults.append(f"the training data changed (fingerprint {state['data']}, was {saved['data']})")
    if saved.get("wording", state.get("wording")) != state.get("wording"):
        faults.append(f"the wording of prompts changed (hash {state['wording']}, was {saved['wording']})")
    if saved["num_processes"] != state["num_processes"]:
        faults.append(f"there are {state['num_processes']} processes, there were {saved['num_processes']}")
    if faults:
        raise GrandError(
            f"{folder}: cannot resume, it would be another run:\n  "
            + "\n  ".join(faults)
            + "\nStart a new run in another folder."
        )
    return saved["step"]


def load_checkpoint(accelerator: Any, folder: Path) -> None:
    """Restore adapter, optimizer and random states on every process."""
    accelerator.load_state(str(folder), **({"load_module_strict": False} if _deepspeed(accelerator) else {}))


def _deepspeed(accelerator: Any) -> bool:
    return accelerator.distributed_type.value == "DEEPSPEED"
