"""Base models and LoRA adapters: loading, saving, merging."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from grand3d import config as configs
from grand3d import launched
from grand3d.adapter import WEIGHTS, card, check_start, read_adapter, wording, write_about
from grand3d.attention import ATTENTION, replaceable
from grand3d.embeddings import add_tokens, trained_rows, widen
from grand3d.errors import GrandError, import_extra, place, shown
from grand3d.files import write_text
from grand3d.folders import made_beside
from grand3d.lora import fuse
from grand3d.weights import (
    BUILT_IN,
    COPIED,
    EXPECTED,
    check_base,
    converted_smollm2,
    find_base,
    hinted,
    loading,
    read_object,
    smollm2_folder,
    smollm2_tokenizer,
    weight_shapes,
)

TOKENIZERS = ("tokenizer.json", "tokenizer.model")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def load_base(name: str, dtype: str = "fp32", serializer: str = "table", quantize: str = "none") -> tuple[Any, Any]:
    """Load a base model and its tokenizer.

    Args:
        name: ``smollm2``, ``tiny``, a local folder, or a hub id.
        dtype: ``fp32``, ``bf16`` or ``fp16``.
        serializer: Scene text that the model is to read; it and its tokenizer get the tokens that this needs.
        quantize: ``none``, or ``nf4`` for weights in 4 bits, on the GPU of this process.

    Returns:
        The model on the CPU in evaluation mode, no parameter trainable, and its tokenizer.

    Raises:
        GrandError: If the base cannot be found, is damaged or is no causal language model.
    """
    transformers = _transformers()
    transformers.utils.logging.disable_progress_bar()
    how = {} if quantize == "none" else _quantized(dtype)
    if name == "tiny":
        tokenizer = load_tokenizer(name)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = transformers.LlamaForCausalLM(_tiny_shape(len(tokenizer)))
        return _ready(model.to(DTYPES[dtype]), tokenizer, serializer)
    folder = smollm2_folder() if name == "smollm2" else find_base(name)
    hint = _hint(name, folder)
    if folder is not None:
        check_base(folder, hint)
    tokenizer = load_tokenizer(name)
    with loading(what := f"base {shown(name)}", folder, hint), replaceable(what):
        model, found = transformers.AutoModelForCausalLM.from_pretrained(
            name if folder is None else folder,
            dtype=DTYPES[dtype],
            attn_implementation=ATTENTION,
            use_safetensors=True,
            local_files_only=folder is not None,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **how,
        )
    # transformers fills such tensors with random numbers, and says so in its log only
    lost = sorted(found["missing_keys"]) + sorted(item[0] for item in found["mismatched_keys"])
    if lost:
        reason = f"{len(lost)} of the model's tensors are missing in its files, or of another size there (first: {lost[0]})"
        raise GrandError(f"base {shown(name)} cannot be loaded: {reason}{hint}")
    layers = sorted(key for key in found["unexpected_keys"] if ".layers." in key)
    if layers:
        reason = f"its files hold {len(layers)} tensors of layers that config.json does not name (first: {layers[0]})"
        raise GrandError(f"base {shown(name)} cannot be loaded: {reason}; is num_hidden_layers right?")
    return _ready(model, tokenizer, serializer)


def _quantized(dtype: str) -> dict[str, Any]:
    """What transformers is told to load weights in 4 bits, as QLoRA does (Dettmers et al. 2023)."""
    if not torch.cuda.is_available():
        raise GrandError("model.quantize is 'nf4', which needs an NVIDIA GPU; none is seen here. Take 'none'")
    import_extra("bitsandbytes", "qlora")
    settings = _transformers().BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=DTYPES[dtype],
    )
    return {"quantization_config": settings, "device_map": {"": launched.device()}}


def skeleton(name: str) -> Any:
    """The layers of a base; called with ``torch.device("meta")`` they take no memory and hold no weights.

    Returns:
        The model, or None where the base's configuration is not on this machine.

    Raises:
        GrandError: If the base cannot be found, or its configuration makes no causal language model.
    """
    transformers = _transformers()
    if name == "tiny":
        return transformers.LlamaForCausalLM(_tiny_shape(1000))  # its layers are the same with any vocabulary
    folder = converted_smollm2() if name == "smollm2" else find_base(name)
    if folder is None and name in BUILT_IN:
        return None
    shape, what = None, f"base {shown(name)}"
    if folder is not None:
        shape = _shape(folder, _hint(name, folder))
    else:
        with loading(what), contextlib.suppress(OSError):  # where it is not in the hub's cache
            shape = transformers.AutoConfig.from_pretrained(name, local_files_only=True)
    if shape is None:
        return None
    with loading(what, folder, _hint(name, folder)), replaceable(what):
        return transformers.AutoModelForCausalLM.from_config(shape, attn_implementation=ATTENTION)


def _shape(folder: Path, hint: str) -> Any:
    """The configuration of a base as transformers reads it. Its tokenizer would stumble over a fault of it too."""
    with hinted(hint):
        read_object(folder / "config.json")
    with loading(str(folder / "config.json"), folder, hint):
        return _transformers().AutoConfig.from_pretrained(folder, local_files_only=True)


def use_liger(model: Any, wanted: str = "auto") -> bool:
    """Give a base model Liger's fused kernels; its head stays, since only labelled tokens pass through it.

    Args:
        wanted: As ``ModelConfig.liger``.

    Raises:
        GrandError: If they are asked for and missing.
    """
    if wanted == "off" or (wanted == "auto" and not (torch.cuda.is_available() and importlib.util.find_spec("liger_kernel"))):
        return False
    if not torch.cuda.is_available():
        raise GrandError("model.liger is 'on', which needs an NVIDIA GPU; none is seen here. Take 'auto'")
    liger = import_extra("liger_kernel.transformers", "liger")
    liger._apply_liger_kernel_to_instance(model, fused_linear_cross_entropy=False, cross_entropy=False)
    return True


def _ready(model: Any, tokenizer: Any, serializer: str) -> tuple[Any, Any]:
    num_known = len(tokenizer)
    widen(model, add_tokens(tokenizer, serializer), serializer, num_known)
    return model.requires_grad_(False).eval(), tokenizer


def _transformers() -> Any:
    """The package, its progress bars off where nobody sees them move."""
    transformers = import_extra("transformers", "train")
    if not sys.stderr.isatty():
        transformers.utils.logging.disable_progress_bar()
    return transformers


def load_tokenizer(name: str, local_only: bool = False, serializer: str = "table") -> Any:
    """The tokenizer of a base (see ``load_base``).

    Args:
        local_only: Do not ask the hub for what is not on this machine.
        serializer: Scene text whose tokens it is to know.
    """
    transformers = _transformers()
    folder = smollm2_tokenizer() if name in BUILT_IN else find_base(name)
    hint = _hint(name, folder)
    if folder is not None and not any((folder / file).exists() for file in TOKENIZERS):
        hint = f"; expected {' or '.join(TOKENIZERS)} in it{hint}"
    if folder is not None and (folder / "config.json").exists():
        _shape(folder, hint)
    with loading(f"the tokenizer of base {shown(name)}", folder, hint):
        local_only = local_only or folder is not None
        tokenizer = transformers.AutoTokenizer.from_pretrained(name if folder is None else folder, local_files_only=local_only)
    return add_tokens(tokenizer, serializer)


def _hint(name: str, folder: Path | None) -> str:
    if folder is None:
        return f"; expected {EXPECTED} that is open to you"
    return f"; delete {folder}, it is made again" if name in BUILT_IN else COPIED


def attach_lora(
    model: Any, lora: configs.LoraConfig, gradient_checkpointing: bool = False, new_tokens: Sequence[int] = ()
) -> Any:
    """Put fresh LoRA matrices beside the layers of ``model``; only they are trainable, and they are float32.

    Args:
        new_tokens: Tokens whose rows of embedding and head are trained too.

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
        trainable_token_indices=trained_rows(model, list(new_tokens)) if new_tokens else None,
        task_type="CAUSAL_LM",
    )
    if gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    try:
        _refuse_idle(model, lora.modules)
        with _no_future_warnings():
            adapted = peft.get_peft_model(model, settings)
    except (ValueError, re.error) as error:
        reason = re.sub(r"\(.*\) is not", " is not", " ".join(str(error).split()))[:200]  # PEFT shows the whole module
        linear = sorted({n.rpartition(".")[2] for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)})
        raise GrandError(
            f"lora.modules is {shown(lora.modules)}: {reason}; expected all-linear, a list of names such as [q_proj, v_proj], or "
            rf"a regular expression for whole names such as .*\.[qv]_proj. Linear layers of this base: {', '.join(linear)}"
        ) from None
    fuse(adapted)
    return adapted


def _refuse_idle(model: Any, wanted: str | Sequence[str]) -> None:
    """Raise ValueError for a name or pattern that no layer has; PEFT passes over a name as long as another one fits."""
    if wanted == "all-linear":
        return
    layers = [name for name, _ in model.named_modules() if name]
    if isinstance(wanted, str):
        if not any(map(re.compile(wanted).fullmatch, layers)):
            raise ValueError("as a regular expression it matches the whole name of no layer")
        return
    idle = [name for name in wanted if not any(layer == name or layer.endswith(f".{name}") for layer in layers)]
    if idle:
        raise ValueError(f"no layer is named {shown(idle[0])}")


@contextlib.contextmanager
def _no_future_warnings() -> Iterator[None]:
    """PEFT asks transformers by a name that is being replaced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def _tiny_shape(num_tokens: int) -> Any:
    """A 4-layer Llama."""
    return _transformers().LlamaConfig(
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


def save_adapter(model: Any, folder: str | Path, config: configs.Config, metrics: Mapping[str, Any] | None = None) -> None:
    """Write an adapter folder: weights as float16 safetensors, adapter_config.json, grand3d.json and a card.

    Raises:
        GrandError: If every lora_B is zero, so that the adapter changes nothing (some of them zero is a warning), or if
            ``folder`` holds something else than an adapter.
    """
    peft, safetensors = import_extra("peft", "train"), import_extra("safetensors.torch", "train")
    folder = Path(folder)
    state = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
    ups = {name: value for name, value in state.items() if "lora_B" in name}
    idle = [name for name, value in ups.items() if value.numel() == 0 or not value.any()]
    if idle:
        found = f"{len(idle)} of {len(ups)} lora_B matrices are zero (first: {idle[0]})"
        if len(idle) == len(ups):
            raise GrandError(f"the adapter changes nothing: {found}. Was there no step, or a learning rate of 0?")
        warnings.warn(f"a part of the adapter changes nothing: {found}. Does the model not use these layers?", stacklevel=2)
    with made_beside(folder) as beside:
        if folder.is_dir() and any(folder.iterdir()) and not (folder / "grand3d.json").exists():
            raise GrandError(f"{place(folder)}: holds something else than an adapter (no grand3d.json in it); move it away")
        half = {name: value.detach().to("cpu", torch.float16).contiguous() for name, value in state.items()}
        safetensors.save_file(half, beside / WEIGHTS, metadata={"format": "pt"})
        settings = copy.copy(model.peft_config["default"])
        settings.base_model_name_or_path, settings.inference_mode = config.model.base, True
        settings.save_pretrained(beside)
        about = write_about(beside, config.model.base, config.prompt, metrics or {})
        write_text(beside / "README.md", card(config, about))
        shutil.rmtree(folder, ignore_errors=True)


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
    found = read_adapter(folder)
    model, tokenizer = load_base(str(found.folder) if found.base == "." else found.base, dtype, found.prompt.serializer)
    if found.wording != wording(found.prompt):
        warnings.warn(
            f"{found.folder}: trained with another wording of prompts than this version writes; replies may suffer", stacklevel=2
        )
    if found.lora:
        peft = import_extra("peft", "train")
        with loading(f"adapter {found.folder}", found.folder), _no_future_warnings():
            settings = peft.LoraConfig.from_pretrained(str(found.folder))
            settings.inference_mode = True
            model = peft.PeftModelForCausalLM(model, settings)
        _fill(model, found.folder / WEIGHTS)
        if merged:
            model = model.merge_and_unload()
    return model.eval(), tokenizer, found.prompt


def start_from(model: Any, folder: str | Path, config: configs.Config) -> None:
    """Give freshly attached LoRA matrices the values of a finished adapter.

    Raises:
        GrandError: If the folder is no adapter, or it was made for another base or with other LoRA settings.
    """
    _fill(model, check_start(folder, config).folder / WEIGHTS, "lora.start: ")


def _fill(model: Any, file: Path, where: str = "") -> None:
    """Put the tensors of a file into a model's LoRA matrices: all of them, each of the right size."""
    peft = import_extra("peft", "train")
    state = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
    wanted, found = {name: tuple(value.shape) for name, value in state.items()}, weight_shapes(file)
    wrong = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
    if wrong:
        first, number = wrong[0], f"{len(wrong)} of {len(wanted | found)}"
        sizes = f"{list(found.get(first, ())) or 'missing'}, expected {list(wanted.get(first, ())) or 'none'}"
        raise GrandError(
            f"{where}{file}: does not fit the layers of this base: {number} tensors differ (first: {first} {sizes}); "
            "was it made for another base, or with other lora.modules?"
        )
    values = import_extra("safetensors.torch", "train").load_file(file)
    broken = sorted(name for name, value in values.items() if not value.isfinite().all())
    if broken:
        raise GrandError(
            f"{where}{file}: {len(broken)} of {len(values)} tensors hold numbers that are not finite (first: {broken[0]})"
        )
    peft.set_peft_model_state_dict(model, values)


def merge(adapter: str | Path, out: str | Path) -> Path:
    """Write base and adapter as one model folder that needs neither; it loads as a base and as an adapter, wherever it is moved.

    Raises:
        GrandError: If ``out`` exists or cannot be written; nothing is left of it then.
    """
    out = Path(out)
    if os.path.lexists(out):
        raise GrandError(f"{place(out)}: exists already")
    with made_beside(out) as beside:  # first: a place that cannot be written is found before the weights are loaded
        model, tokenizer, prompt = load_adapter(adapter)
        model.save_pretrained(beside)
        tokenizer.save_pretrained(beside)
        write_about(beside, ".", prompt, {})
    return out
