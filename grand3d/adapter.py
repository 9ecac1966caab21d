"""The folder of an adapter: what it says of itself, read and written without any weights."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grand3d.config import from_dict, to_dict, unfit
from grand3d.errors import GrandError, place, shown
from grand3d.files import field, read_text, texts, write_json, write_text
from grand3d.prompts import dialogue
from grand3d.sample import Sample
from grand3d.scene import Object, Scene
from grand3d.schema import Config, PromptConfig
from grand3d.serial import write_scene
from grand3d.weights import COPIED, find_base, folder_at, hinted, read_object, weight_shapes

ADAPTERS = Path(__file__).parent / "adapters"
ABOUT, SETTINGS, WEIGHTS = "grand3d.json", "adapter_config.json", "adapter_model.safetensors"


@dataclass(frozen=True, slots=True)
class Adapter:
    """What an adapter folder says of itself.

    Attributes:
        base: Name of its base; ``.`` for a merged model, which is its own.
        lora: PEFT's settings; empty for a merged model.
    """

    folder: Path
    base: str
    prompt: PromptConfig
    wording: str
    lora: dict[str, Any]


def read_adapter(folder: str | Path) -> Adapter:
    """Check an adapter folder without loading weights.

    Args:
        folder: As for ``load_adapter``.

    Raises:
        GrandError: If it is none, a file is missing or damaged, which is named, or its base is nowhere to be found.
    """
    at = ADAPTERS / "smollm2" if str(folder) == "default" else folder_at(folder)
    if at is not None and (at / "adapter" / ABOUT).exists():
        at = at / "adapter"
    if at is None or not (at / ABOUT).exists():
        reason = f"no {ABOUT} in it" if at is not None else "it is a file" if os.path.exists(folder) else "no such folder"
        raise GrandError(f"{place(folder)}: not an adapter folder ({reason}); expected 'default', a run folder or its adapter/")
    file = at / ABOUT
    with hinted(COPIED):
        about = read_object(file)
        base, prompt = field(about, "base", str, str(file)), dict(field(about, "prompt", dict, str(file)))
        lora = {} if base == "." else _read_lora(at)
        system = prompt.get("system")
        if system is not None:
            if not isinstance(system, str) or Path(system).name != system:
                raise GrandError(f"{file}: prompt.system is {shown(system)}, expected the name of a file beside it")
            prompt["system"] = str(at / system)
            read_text(prompt["system"])
    try:
        find_base(str(at) if base == "." else base)
    except GrandError as error:
        raise GrandError(f"{file}: {error}") from None
    settings = from_dict({"prompt": prompt}, str(file)).prompt
    return Adapter(at, base, settings, field(about, "wording", str, str(file), ""), lora)


def _read_lora(folder: Path) -> dict[str, Any]:
    """PEFT's settings, after a look at the file of weights. PEFT itself would look for a missing file on the hub."""
    file = folder / SETTINGS
    lora = read_object(file)
    if lora.get("peft_type") != "LORA":
        raise GrandError(f"{file}: peft_type is {shown(lora.get('peft_type'))}, expected 'LORA'")
    settings = (("r", int, "lora.rank"), ("lora_alpha", float, "lora.alpha"), ("lora_dropout", float, "lora.dropout"))
    for key, kind, setting in settings:
        value = field({"lora_dropout": 0.0} | lora, key, kind, str(file))
        if problem := unfit(value, setting):
            raise GrandError(f"{file}: {key} is {shown(value)}, {problem}")
    for key in ("use_rslora", "use_dora"):
        field(lora, key, bool, str(file), False)
    modules = lora.get("target_modules")
    if not isinstance(modules, str):
        texts(modules, f"{file}: target_modules")
    weight_shapes(folder / WEIGHTS)
    return lora


def check_start(folder: str | Path, config: Config) -> Adapter:
    """The adapter that ``lora.start`` names, after comparing its settings with the run's. No weights are loaded.

    Raises:
        GrandError: As ``start_from``, except for ``all-linear``, whose layers only the model knows.

    Warns:
        UserWarning: If the adapter learnt from prompts of other texts than the run's.
    """
    try:
        found = read_adapter(folder)
    except GrandError as error:
        raise GrandError(f"lora.start: {error}{_maker(folder)}") from None
    if found.base == ".":
        raise GrandError(f"lora.start is {shown(str(folder))}, a merged model without an adapter; name it in model.base instead")
    lora = config.lora
    names = lora.modules if isinstance(lora.modules, str) else sorted(lora.modules)
    theirs = found.lora.get("target_modules")
    theirs = sorted(map(str, theirs)) if isinstance(theirs, list) else theirs
    rows = [
        ("model.base", _own_name(found.base), _own_name(config.model.base)),
        ("lora.rank", found.lora.get("r"), lora.rank),
        ("lora.alpha", found.lora.get("lora_alpha"), lora.alpha),
        ("lora.kind", "+".join(kind for kind in ("rslora", "dora") if found.lora.get(f"use_{kind}")) or "lora", lora.kind),
        ("lora.modules", theirs, theirs if names == "all-linear" else names),
    ]
    if faults := _differences(rows):
        raise GrandError(f"lora.start is {shown(str(folder))}, which this run cannot go on from: it has {faults}")
    theirs, ours = found.prompt, config.prompt
    rows = [(f"prompt.{key}", getattr(theirs, key), getattr(ours, key)) for key in ("serializer", "grounding", "refer_close")]
    rows.append(("prompt.system", *(None if one.system is None else read_text(one.system) for one in (theirs, ours))))
    rows.append(("wording of prompts", found.wording, wording(theirs) if found.wording else ""))
    if changes := _differences(rows):
        warnings.warn(f"lora.start is {shown(str(folder))}, which learnt from other texts: it has {changes}", stacklevel=2)
    return found


def _maker(start: str | Path) -> str:
    """A hint at the training that makes an adapter which is not there; a run is named by its configuration."""
    if folder_at(start) is not None or str(start) == "default":
        return ""
    config = Path("configs", f"{Path(start).name}.yaml")
    command = f"grand3d train {config if os.path.exists(config) else 'CONFIG'} --out {place(start)}"
    return f"; train the adapter to start from first: {command}"


def _own_name(base: str) -> str:
    """One name of a base, as there are many paths to a folder."""
    folder = find_base(base)
    return base if folder is None else str(folder.resolve())


def _differences(rows: list[tuple[str, Any, Any]]) -> str:
    return "; ".join(f"{key} {shown(saved)}, not {shown(wanted)}" for key, saved, wanted in rows if saved != wanted)


def write_about(folder: Path, base: str, prompt: PromptConfig, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Write ``grand3d.json``, with the system prompt's file where there is one; gives its content."""
    settings = to_dict(prompt)
    if prompt.system is not None:
        write_text(folder / "system.txt", read_text(prompt.system))
        settings["system"] = "system.txt"
    about = {"base": base, "prompt": settings, "wording": wording(prompt), "metrics": dict(metrics)}
    write_json(folder / ABOUT, about)
    return about


def wording(prompt: PromptConfig) -> str:
    """A short hash of what this version writes for a fixed small scene under ``prompt``: it tells whether an adapter
    would still see the texts it was trained on."""
    items = (
        Object("1", "office chair", (0.5, 1.0, 0.45), (0.6, 0.61, 0.9), score=0.9),
        Object("2", "desk", (2.0, 1.0, 0.4), (1.6, 0.8, 0.75)),
    )
    scene = write_scene(Scene("wording", items), prompt.serializer)
    samples = (
        Sample("a", "wording", "object_reference", "the <p>chair</p>[<1>] by the <p>desk</p>[<2>]", target_ids=("1",)),
        Sample("b", "wording", "object_description", "", "<p>the chair</p>[<1>] by <p>the desk</p>[<2>]", ("1",)),
        Sample("c", "wording", "existence", "Are there any chairs in the room?", "Yes"),
    )
    texts = [repr(dialogue(sample, scene, prompt, with_answer=True)) for sample in samples]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def card(config: Config, about: Mapping[str, Any]) -> str:
    """The README of an adapter."""
    metrics = "\n".join(f"| {name} | {value} |" for name, value in about["metrics"].items())
    source = "generated rooms (grand3d.synth)" if config.data.synth else ", ".join(source.path for source in config.data.train)
    title, train = "Grounded answers about 3D rooms", config.train
    lines = [
        f"---\nlibrary_name: peft\nbase_model: {config.model.base}\ntags: [grand3d, lora]\n---\n# {title}\n",
        f"A LoRA adapter (rank {config.lora.rank}) for `{config.model.base}`, trained with grand3d: a room is given as a list of",
        "objects, and replies name objects by id. Use: `grand3d chat SCENE --adapter FOLDER`; grand3d.json holds the prompt",
        "settings that go with it.\n",
        f"- learnt from: {source}",
        f"- {train.num_steps} steps of {train.global_batch} samples, peak learning rate {train.learning_rate}, seed {train.seed}",
        *([f"- went on from the adapter `{config.lora.start}`"] if config.lora.start else []),
        f"- scene text `{config.prompt.serializer}`, grounding `{config.prompt.grounding}`",
    ]
    return "\n".join(lines) + "\n" + (f"\n| held-out figure | value |\n|---|---|\n{metrics}\n" if metrics else "")
