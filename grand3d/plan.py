"""What a run would do, found without its weights: ``grand3d train CONFIG --dry-run``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from grand3d import launched
from grand3d.adapter import check_start
from grand3d.checkpoint import find_checkpoint, read_state, refuse_damaged, refuse_foreign
from grand3d.checks import load_heldout
from grand3d.errors import GrandError
from grand3d.files import Rejects, read_json
from grand3d.markup import parse
from grand3d.model import load_tokenizer
from grand3d.preflight import check_layers, machine_faults, refuse_unknown_tracker
from grand3d.processes import groups_per_process
from grand3d.prompts import dialogue, system_text
from grand3d.schema import Config, SynthConfig
from grand3d.serial import added_tokens, fit_scene
from grand3d.stream import Stream, Tally, encode_group, open_stream, refuse_useless
from grand3d.train import run_state
from grand3d.weights import BUILT_IN, check_base, find_base, folder_at

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
NF4_BYTES = 0.516
"""Of a weight in 4 bits, with its share of the doubly quantized scales: 4.127 bits (Dettmers et al. 2023)."""
CHARACTERS_PER_TOKEN = {"table": 1.36, "scored": 1.36, "coord": 6.2, "grand": 1.70, "question": 4.1, "answer": 2.4}
"""Measured on generated rooms with a 32,000-piece tokenizer of Llama's kind; numbers cost more tokens than prose."""
NUM_PROBED = 20
"""Scenes looked at for the token counts."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a decoder of Llama's kind."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    tied: bool = False
    head_dim: int = 0
    """0: the hidden size shared evenly among the heads."""

    @property
    def q(self) -> int:
        """Width of queries."""
        return self.heads * (self.head_dim or self.hidden // self.heads)

    @property
    def kv(self) -> int:
        """Width of keys, and of values."""
        return self.kv_heads * (self.head_dim or self.hidden // self.heads)

    @property
    def linear(self) -> dict[str, tuple[int, int]]:
        """(in, out) of the linear layers of one block."""
        h, i = self.hidden, self.intermediate
        attention = {"q_proj": (h, self.q), "k_proj": (h, self.kv), "v_proj": (h, self.kv), "o_proj": (self.q, h)}
        return attention | {"gate_proj": (h, i), "up_proj": (h, i), "down_proj": (i, h)}

    @property
    def num_linear(self) -> int:
        """Weights of the linear layers of all blocks, which are what ``model.quantize`` keeps in 4 bits."""
        return self.layers * sum(a * b for a, b in self.linear.values())

    @property
    def num_tokens(self) -> int:
        """Weights of embedding and head."""
        return (1 if self.tied else 2) * self.vocabulary * self.hidden

    @property
    def num_parameters(self) -> int:
        return self.num_linear + self.num_tokens + (2 * self.layers + 1) * self.hidden


_LLAMA_7B, _LLAMA_13B = Shape(32, 4096, 32, 32, 11008, 32000), Shape(40, 5120, 40, 40, 13824, 32000)
SHAPES = {
    "meta-llama/llama-2-7b-hf": _LLAMA_7B,
    "meta-llama/llama-2-7b-chat-hf": _LLAMA_7B,
    "meta-llama/llama-2-13b-hf": _LLAMA_13B,
    "meta-llama/llama-2-13b-chat-hf": _LLAMA_13B,
    "smollm2": Shape(30, 576, 9, 3, 1536, 49152, tied=True),
    "tiny": Shape(4, 64, 4, 2, 128, 49152, tied=True),
}
"""By the whole name in lower case: a part of one would take TinyLlama for ``tiny``."""


def dry_run(
    config: Config,
    num_processes: int | None = None,
    out: str | Path | None = None,
    skip_bad: bool = False,
    resume: str | None = None,
) -> dict[str, Any]:
    """Check everything about a run that needs no weights.

    Args:
        num_processes: Processes it would have; by default what the launcher set, else 1.
        out: Folder of the run.
        skip_bad: Leave out broken rows, and samples that cannot be learnt from, of those looked at; notes count them by cause.
            False raises the first.
        resume: As for ``train``.

    Returns:
        ``num_processes``, ``scenes_per_process`` and ``rows_per_process`` (of a step; the rows are the accumulation, estimated),
        ``samples_per_step``, ``num_steps``, ``data`` (one line a source), ``epochs`` (None while
        data is missing), ``tokens`` (means, and how they were found), ``parameters``, ``memory_gb`` (estimate a GPU, by part;
        None for a base of unknown shape) and ``notes``.

    Raises:
        GrandError: Where training would, as far as that can be told. What only this machine lacks is a note where it has no GPU,
            since the run may be meant for another one.
    """
    num_processes = num_processes or launched.count()
    if out is not None:
        refuse_foreign(Path(out))
    refuse_unknown_tracker(config)
    scenes = groups_per_process(config, num_processes)
    system_text(config.prompt)
    checkpoint = None if out is None else find_checkpoint(Path(out), resume)
    notes = _models(config, fresh=checkpoint is None)
    lines, ready = _data(config)
    notes += _heldout(config.data.heldout, Rejects(skip_bad)) if config.data.heldout else []
    for fault in machine_faults(config):
        if torch.cuda.is_available():
            raise GrandError(fault)
        notes.append(fault)
    rejects = Rejects(skip_bad)
    stream = open_stream(config, rejects) if ready else None
    notes += [f"rejected: {number} x {cause}" for cause, number in rejects.counts().items()]
    if out is not None and checkpoint is not None and stream is not None:
        start = read_state(checkpoint, run_state(config, stream, num_processes))
        if start == config.train.num_steps and (Path(out) / "adapter" / "grand3d.json").exists():
            notes.append(f"{out}: the run is finished, all {start} steps; nothing would be done")
        else:
            refuse_damaged(checkpoint)
    tally = Tally(Rejects(skip_bad))
    tokens = _tokens(config, stream, rejects, tally)
    notes += [f"cannot be learnt from: {number} x {cause}" for cause, number in tally.rejects.counts().items()]
    per_row = max(1, min(scenes, config.data.row_tokens // max(1, tokens["pack"])))
    tokens["row"] = per_row * tokens["pack"]
    shape = _shape(config.model.base)
    if shape is None:
        notes.append(f"model.base: the shape of {config.model.base!r} is not known here, so memory is not estimated")
    return {
        "num_processes": num_processes,
        "scenes_per_process": scenes,
        "rows_per_process": -(-scenes // per_row),
        "samples_per_step": config.train.global_batch,
        "num_steps": config.train.num_steps,
        "data": lines,
        "epochs": None if stream is None else round(config.train.num_steps * scenes * num_processes / stream.num_groups, 2),
        "tokens": tokens,
        "parameters": None if shape is None else {"base": shape.num_parameters, "adapter": _adapter(shape, config)},
        "memory_gb": None if shape is None else _memory(shape, config, tokens, num_processes),
        "notes": notes,
    }


def plan(
    config: Config,
    num_processes: int | None = None,
    out: str | Path | None = None,
    skip_bad: bool = False,
    resume: str | None = None,
) -> str:
    """``dry_run`` as text."""
    found = dry_run(config, num_processes, out, skip_bad, resume)
    tokens, memory, epochs = found["tokens"], found["memory_gb"], found["epochs"]
    questions = config.data.questions_per_scene
    lines = [
        f"batch          {found['samples_per_step']} samples a step = {found['num_processes']} processes x "
        f"{found['scenes_per_process']} scenes x up to {questions} questions",
        f"accumulation   {found['rows_per_process']} rows a process and step, of about {tokens['row']} tokens",
        f"steps          {found['num_steps']}" + ("" if epochs is None else f" = {epochs} epochs"),
        *(f"data           {line}" for line in found["data"]),
        f"tokens         {tokens['sample']} a sample: {tokens['scene']} of scene, {tokens['question']} of question and answer, "
        f"{tokens['label']} trained; {tokens['pack']} a scene with its questions ({tokens['how']})",
    ]
    if memory is not None:
        counts = found["parameters"]
        parts = ", ".join(f"{name} {value}" for name, value in memory.items() if name != "total")
        lines.append(f"parameters     {counts['base'] / 1e6:,.1f} M frozen, {counts['adapter'] / 1e6:,.2f} M trained")
        lines.append(f"memory         about {memory['total']} GB a GPU ({parts})")
    return "\n".join(lines + [f"note           {note}" for note in found["notes"]])


def _models(config: Config, fresh: bool) -> list[str]:
    """Check base and ``lora.start`` (of a ``fresh`` run: a checkpoint goes on without it) as far as goes without weights and
    without the hub; says what was not checked."""
    base, notes = config.model.base, []
    folder = find_base(base)
    if folder is not None:
        check_base(folder)
    elif base not in BUILT_IN:
        notes.append(f"model.base: no folder here is named {base!r}, so it is taken for an id on the hub, and was not checked")
    if not check_layers(config):
        notes.append(f"lora.modules was not compared with the layers of {base!r}, whose config.json is not on this machine")
    if config.lora.start is not None and fresh:
        check_start(config.lora.start, config)
    return notes


def _data(config: Config) -> tuple[list[str], bool]:
    if config.data.synth is not None:
        return [f"{config.data.synth.num_scenes} generated rooms, seed {config.data.synth.seed}"], True
    if not config.data.train:
        raise GrandError("data.train is empty and data.synth is not set: there is nothing to learn from")
    lines, ready = [], True
    for source in config.data.train:
        missing = [name for name in ("scenes.jsonl", "samples.jsonl") if not os.path.isfile(Path(source.path) / name)]
        lines.append(
            f"{source.path} (weight {source.weight}): " + (f"{' and '.join(missing)} not there yet" if missing else "found")
        )
        ready = ready and not missing
    return lines, ready


def _heldout(path: str, rejects: Rejects) -> list[str]:
    if folder_at(path) is None and not os.path.exists(path):
        return [f"data.heldout: {path} is not there yet"]
    load_heldout(path, rejects)
    return [f"left out of the held-out data: {number} x {cause}" for cause, number in rejects.counts().items()]


def _tokens(config: Config, stream: Stream | None, rejects: Rejects, tally: Tally) -> dict[str, Any]:
    """Mean tokens of scene, question with answer, trained part and pack; over the first scenes, or over generated ones.

    Args:
        rejects: Rows of the data that are left out already.
        tally: Takes what cannot be learnt from.
    """
    how, tokenizer = "measured", _tokenizer(config)
    if stream is not None and tokenizer is not None:
        refuse_useless(stream, tokenizer, config.prompt, rejects)
    if stream is None:
        tally = Tally(Rejects(skip_bad=True))  # these are nobody's data
        stream = open_stream(replace(config, data=replace(config.data, train=(), synth=SynthConfig(NUM_PROBED, 0))))
        how = "on generated rooms, the data is not there"
    groups = [stream.group(number) for number in range(min(NUM_PROBED, stream.num_groups))]
    if tokenizer is None:
        how = (
            f"estimated from characters, {how}"
            if how != "measured"
            else "estimated from characters, no tokenizer of the base is here"
        )
        counts = list(_characters(config, groups))
    else:
        counts = []
        for scene, samples in groups:
            encoded = encode_group(tokenizer, scene, samples, config.prompt, tally)
            if encoded:
                counts.append((len(encoded[0].prefix), [len(e.suffix) for e in encoded], sum(sum(e.mask) for e in encoded)))
    num = max(1, sum(len(suffixes) for _, suffixes, _ in counts))
    scene, question = sum(c[0] for c in counts) / max(1, len(counts)), sum(sum(c[1]) for c in counts) / num
    return {
        "scene": round(scene),
        "question": round(question),
        "sample": round(scene + question),
        "label": round(sum(c[2] for c in counts) / num),
        "pack": round(scene + question * num / max(1, len(counts))),
        "how": how,
    }


def _characters(config: Config, groups: list[tuple[Any, Any]]) -> Iterator[tuple[float, list[float], float]]:
    ratio, prompt = CHARACTERS_PER_TOKEN[config.prompt.serializer], config.prompt
    for scene, samples in groups:
        known = set(scene.object_ids)
        keep = {t for s in samples for t in s.target_ids} | {
            t for s in samples for span in parse(s.answer).spans for t in span.ids
        }
        text = fit_scene(scene, prompt.serializer, prompt.top_k, keep=keep & known, overlap=prompt.merge_overlap)
        suffixes, labels = [], 0.0
        for sample in samples:
            try:
                turn = dialogue(sample, text, prompt, with_answer=True).turns[0]
            except GrandError:  # cannot be learnt from; training says so
                continue
            answer = len(turn.answer or "") / CHARACTERS_PER_TOKEN["answer"] + 1
            suffixes.append(len(turn.question) / CHARACTERS_PER_TOKEN["question"] + 5 + answer)
            labels += answer
        if suffixes:  # proposals are dropped until the longest question fits
            most = max(0.0, prompt.max_tokens - max(suffixes))
            yield min(len(text.text) / ratio + len(system_text(prompt)) / 3 + 10, most), suffixes, labels


def _tokenizer(config: Config) -> Any:
    base = config.model.base
    here = base in BUILT_IN or folder_at(base) is not None
    try:
        return load_tokenizer(base, local_only=not here, serializer=config.prompt.serializer)
    except GrandError:
        if here:
            raise
        return None


def _shape(base: str) -> Shape | None:
    file = Path(base) / "config.json"
    if base in BUILT_IN or not os.path.isfile(file):
        return SHAPES.get(base.lower())
    row = read_json(file)
    heads = row.get("num_attention_heads")
    kv_heads = row.get("num_key_value_heads") or heads
    sizes = [
        row.get("num_hidden_layers"),
        row.get("hidden_size"),
        heads,
        kv_heads,
        row.get("intermediate_size"),
        row.get("vocab_size"),
    ]
    experts = [key for key, value in row.items() if "experts" in key and isinstance(value, int) and value > 0]
    if experts or not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    width = row.get("head_dim")
    return Shape(*sizes, tied=bool(row.get("tie_word_embeddings")), head_dim=width if isinstance(width, int) else 0)


def _adapter(shape: Shape, config: Config) -> int:
    wanted, size = config.lora.modules, 0
    for name, (rows, columns) in shape.linear.items():
        part = "self_attn" if name in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp"
        layers = [f"model.layers.{number}.{part}.{name}" for number in range(shape.layers)]
        if wanted == "all-linear" or (not isinstance(wanted, str) and name in wanted):
            size += len(layers) * (rows + columns)
        elif isinstance(wanted, str):
            size += sum(re.fullmatch(wanted, layer) is not None for layer in layers) * (rows + columns)
    new_tokens = len(added_tokens(config.prompt.serializer)) * shape.hidden * (1 if shape.tied else 2)
    return config.lora.rank * size + new_tokens


def _memory(shape: Shape, config: Config, tokens: dict[str, Any], num_processes: int) -> dict[str, float]:
    """Gigabytes (1e9 bytes) on one GPU with ZeRO-2; tensors kept for the backward pass are counted, workspace is not."""
    size, adapter = BYTES[config.model.dtype], _adapter(shape, config)
    width = 6 * shape.hidden + 2 * shape.q + 2 * shape.kv + 4 * shape.intermediate  # what one block keeps for a token
    block = tokens["row"] * width * size
    questions = config.data.questions_per_scene * tokens["row"] / max(1, tokens["pack"])
    if config.model.attention == "flash":
        block += 2 * questions * tokens["sample"] * shape.kv * size  # the prefix's keys, once a question
    kept = shape.layers * block
    if config.model.gradient_checkpointing:
        kept = block + shape.layers * tokens["row"] * shape.hidden * size
    if config.model.attention == "dense":
        kept += tokens["row"] ** 2  # one mask for all blocks
    weights = shape.num_parameters * size
    if config.model.quantize == "nf4":
        weights -= shape.num_linear * (size - NF4_BYTES)
    labels = tokens["label"] * questions
    parts = {
        "weights": weights,
        "adapter and optimizer": adapter * (size + 4) + adapter * 12 / num_processes,
        "activations": kept,
        "logits": labels * shape.vocabulary * (4 + 4 + size),
    }
    if added_tokens(config.prompt.serializer):
        # PEFT puts the trained rows into copies of the whole embedding and of the head, tied or not, and each copy has a gradient
        parts["new tokens"] = 4 * shape.vocabulary * shape.hidden * size
    rounded = {name: round(value / 1e9, 2) for name, value in parts.items()}
    return rounded | {"total": round(sum(parts.values()) / 1e9, 1)}
