"""The folder of a run: one training at a time writes to it, and it goes on from whole checkpoints only.

A checkpoint holds what a run needs to go on bit for bit: adapter, optimizer (with ZeRO: one shard a process), random states
of every process, and ``state.json``: the step, the configuration and data it belongs to, and size and hash of every other
file. The frozen base is not in it. It is written beside and renamed, so an interrupted save leaves the previous one whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import load as load_pickle
from peft import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file, save_file

from grand3d.config import flat, load_config, to_dict
from grand3d.errors import GrandError, place, unusable, writing
from grand3d.files import PART, field, half_written, read_json, write_json
from grand3d.journal import REJECTED
from grand3d.schema import Config

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FREE = ("train.log_every", "train.eval_every", "train.save_every", "train.keep_checkpoints", "train.tracker", "data.heldout")
"""Settings that may differ on resume: they do not change what is learnt."""
WRITTEN = re.compile(rf"log\.jsonl|config\.yaml|adapter|{REJECTED.pattern}")
"""What a training writes beside and renames; killed while it does, it leaves them half written."""


def refuse_foreign(run: Path) -> None:
    """Refuse a folder whose ``config.yaml`` is no run's, as a run would write its own over it; and one inside another thing.

    Raises:
        GrandError: If there is such a file, and neither a checkpoint or an adapter, nor a log beside a readable configuration;
            or if the folder is, or lies in, an adapter, the checkpoints of a run, or a data folder.
    """
    for folder in (run, *Path(os.path.abspath(run)).parents):
        if what := _kind_of(folder):
            inside = "" if folder == run else f"lies in {folder}, which "
            raise GrandError(
                f"{place(run)}: {inside}is {what}, expected a folder of its own for a run; give another one with --out"
            )
    file = run / "config.yaml"
    if not file.exists() or list_checkpoints(run) or (run / "adapter" / "grand3d.json").exists():
        return
    if any(
        (run / name).exists() for name in ("log.jsonl", "log.old.jsonl")
    ):  # of a run that left no checkpoint; or another program's, which has other settings
        with contextlib.suppress(GrandError):
            load_config(file)
            return
    raise GrandError(
        f"{file}: not of a run of this program (no log.jsonl, checkpoint or adapter of one beside it), and a run would write its "
        "own settings over it; give another folder with --out, or move the file away"
    )


def _kind_of(folder: Path) -> str:
    """What a folder is that no run may write into; empty for any other."""
    if (folder / "grand3d.json").exists():
        return "an adapter"
    if (folder / "scenes.jsonl").exists() and (folder / "samples.jsonl").exists():
        return "a data folder"
    if (folder / "state.json").exists() or (folder.name == "checkpoints" and list_checkpoints(folder.parent)):
        return "part of the checkpoints of a run"
    return ""


@contextlib.contextmanager
def only_trainer(run: Path, main: bool) -> Iterator[None]:
    """Keep a second training out of a run folder. The system lets go of the lock when the process ends, however it ends.

    Args:
        main: False for the other processes of the same run.

    Raises:
        GrandError: If another training has the folder, or it cannot be written.
    """
    if not main:
        yield
        return
    if fcntl is None:
        _say_unlocked(run, "this system has none")
        yield
        return
    try:
        run.mkdir(parents=True, exist_ok=True)
        handle = os.open(run / ".grand3d.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise unusable(run, error, "written") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 200, 0).decode(errors="replace").strip()
        os.close(handle)
        who = f" ({holder})" if holder else ""
        raise GrandError(
            f"{run}: another training{who} is writing to this folder; wait for its end, or give another folder with --out"
        ) from None
    except OSError as error:  # a network file system without locks; a single training is still fine
        _say_unlocked(run, error.strerror or str(error))
    with contextlib.suppress(OSError):  # on a full disk the lock only does not say whose it is
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
    try:
        yield
    finally:
        os.close(handle)


def _say_unlocked(run: Path, reason: str) -> None:
    text = f"{run}: the folder cannot be locked ({reason}); see to it that no second training writes to it"
    print(text, file=sys.stderr, flush=True)


def remove_leftovers(run: Path) -> list[str]:
    """Remove what a training that was killed while it wrote left half done; gives the names."""
    found = [path for path in run.glob(".*") if WRITTEN.fullmatch(half_written(path.name))]
    found += [path for path in (run / "checkpoints").glob(".*") if re.fullmatch(rf"\.step_\d+{re.escape(PART)}", path.name)]
    for path in found:
        _remove(path)
    return sorted(path.name for path in found)


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
    """Write ``checkpoints/step_N``; all processes call it, the main one renames it and removes the oldest.

    Raises:
        GrandError: If it cannot be written, as on a full disk; what was written of it is removed, and older ones stay.
    """
    folder = run / "checkpoints" / f"step_{step}"
    beside = folder.with_name(f".step_{step}{PART}")
    main = accelerator.is_main_process
    try:
        with writing(folder):
            if main:
                shutil.rmtree(beside, ignore_errors=True)
                beside.mkdir(parents=True)
            accelerator.wait_for_everyone()
            accelerator.save_state(str(beside), **({"exclude_frozen_parameters": True} if _deepspeed(accelerator) else {}))
            accelerator.wait_for_everyone()
            if main:
                write_json(beside / "state.json", {"step": step, **state, "files": _manifest(beside)})
                shutil.rmtree(folder, ignore_errors=True)
                beside.rename(folder)
    except GrandError as error:
        older = list_checkpoints(run)
        hint = f"--resume latest goes on from {older[-1].name}" if older else "there is no older checkpoint to go on from"
        raise GrandError(f"{error}; {hint}") from error
    finally:
        if main:
            shutil.rmtree(beside, ignore_errors=True)
    if main:
        for old in list_checkpoints(run)[:-keep]:
            _remove(old)
    accelerator.wait_for_everyone()
    return folder


def _manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and hash of every file of a checkpoint, once it has reached the disk."""
    marks = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        marks[path.relative_to(folder).as_posix()] = {"size": path.stat().st_size, "sha256": digest}
    return marks


def _remove(path: Path) -> None:
    """Remove a checkpoint or a leftover; cut short, it leaves what ``remove_leftovers`` finds, and no half checkpoint."""
    try:
        if path.is_file():
            path.unlink()
            return
        if not path.name.startswith("."):
            beside = path.with_name(f".{path.name}{PART}")
            shutil.rmtree(beside, ignore_errors=True)
            path = path.rename(beside)
        shutil.rmtree(path)
    except OSError as error:
        raise unusable(path, error, "removed") from None


def list_checkpoints(run: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    found = [
        (int(match[1]), path)
        for path in (run / "checkpoints").glob("step_*")
        if (match := re.fullmatch(r"step_(\d+)", path.name)) and path.is_dir()
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
    if not (folder / "state.json").exists() and folder.resolve() not in [path.resolve() for path in found]:
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
        _remove(path)
    return [path.name for path in later]


def read_state(folder: Path, state: dict[str, Any]) -> int:
    """The step of a checkpoint, after checking that it belongs to this very run.

    Raises:
        GrandError: Naming every setting that differs, or the fault of a damaged ``state.json``.
    """
    try:
        saved = _state(folder)
    except GrandError as error:
        raise _damaged(folder, str(error)) from None
    faults = []
    old, new, default = flat(saved["config"]), flat(state["config"]), flat(to_dict(Config()))
    for key in sorted(old.keys() | new.keys()):
        was = old.get(key, default.get(key))  # a setting that came after the checkpoint was what it is by default
        if was != new.get(key) and not key.startswith(FREE):
            faults.append(f"{key} is {new.get(key)!r}, was {was!r}")
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


def refuse_damaged(folder: Path) -> None:
    """Refuse a checkpoint of which a file is missing or is not what was written.

    Raises:
        GrandError: Naming the file, and the next older whole checkpoint.
    """
    if fault := find_damage(folder):
        raise _damaged(folder, fault)


def find_damage(folder: Path) -> str:
    """The first fault of a checkpoint's files; empty for a whole one."""
    try:
        saved = _state(folder)
        for name, mark in saved["files"].items():
            path = folder / name
            if not path.is_file():
                return f"{path}: no such file"
            if (size := path.stat().st_size) != mark["size"]:
                return f"{path}: {size} bytes, {mark['size']} were written"
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != mark["sha256"]:
                    return f"{path}: the bytes are not those that were written"
    except OSError as error:
        return f"{error.filename or folder}: cannot be read ({error.strerror or error})"
    except GrandError as error:
        return str(error)
    return ""


def _state(folder: Path) -> dict[str, Any]:
    """``state.json``, checked."""
    file = folder / "state.json"
    saved = read_json(file)
    if not isinstance(saved, dict):
        raise GrandError(f"{file}: expected a JSON object, found {type(saved).__name__}")
    for name, kind in (("step", int), ("config", dict), ("data", str), ("num_processes", int)):
        field(saved, name, kind, str(file))
    for name, mark in field(saved, "files", dict, str(file)).items():
        for key, kind in (("size", int), ("sha256", str)):
            field(mark if isinstance(mark, dict) else {}, key, kind, f"{file}: {name}")
    return saved


def _damaged(folder: Path, fault: str) -> GrandError:
    number = int(match[1]) if (match := re.fullmatch(r"step_(\d+)", folder.name)) else 0
    others = list_checkpoints(folder.parent.parent) if folder.parent.name == "checkpoints" else []
    older = [path for path in others if int(path.name.removeprefix("step_")) < number]
    whole = next((path for path in reversed(older) if not find_damage(path)), None)
    hint = "there is no older whole checkpoint, so start a new run in another folder"
    if whole is not None:
        hint = f"go on from the next older whole one: --resume {whole}"
    return GrandError(f"{fault}. The checkpoint {folder.name} is damaged (a full disk, a copy that was cut off?); {hint}")


def load_checkpoint(accelerator: Any, folder: Path) -> None:
    """Restore adapter, optimizer and random states on every process.

    Raises:
        GrandError: If a part of it cannot be restored. Its files are those that were written (see ``refuse_damaged``).
    """
    try:
        accelerator.load_state(str(folder), **({"load_module_strict": False} if _deepspeed(accelerator) else {}))
        same = _restored(load_pickle(folder / f"random_states_{accelerator.process_index}.pkl"))
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # pickle, zip, safetensors, torch and DeepSpeed each have their own
        reason = f"{type(error).__name__}: {str(error).split(chr(10))[0]}"
        raise GrandError(
            f"{folder}: cannot be loaded ({reason}); is another version of torch, DeepSpeed or accelerate installed than when it "
            "was saved?"
        ) from error
    if not same:  # accelerate passes over random states that it cannot restore
        raise GrandError(
            f"{folder}: its random states could not be restored, so the run would not go on as it was; "
            "are other devices visible, or is another version of torch installed, than when it was saved?"
        )


def _restored(saved: dict[str, Any]) -> bool:
    """Whether the random states of torch are now those of a checkpoint."""
    same = torch.equal(saved["torch_manual_seed"], torch.get_rng_state())
    if same and torch.cuda.is_available():
        states, device = saved.get("torch_cuda_manual_seed", []), torch.cuda.current_device()
        return device < len(states) and torch.equal(states[device].cpu(), torch.cuda.get_rng_state().cpu())
    return same


def _deepspeed(accelerator: Any) -> bool:
    return accelerator.distributed_type.value == "DEEPSPEED"
