"""Training: one visible loop over accelerate.

A step takes ``global_batch / questions_per_scene`` groups of the stream (see ``stream``), spread evenly over the processes and,
on each, over rows of up to ``row_tokens``, one a micro-step. The loss of a step is the sum over all label tokens of the whole
global batch divided by their number, whatever the number of processes or rows; docs/shared_prefix.md derives the factor.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

from grand3d import checkpoint as checkpoints
from grand3d.attention import BackEnd, choose
from grand3d.config import to_dict
from grand3d.embeddings import token_ids
from grand3d.errors import GrandError
from grand3d.exactness import refuse_inexact, silence_dropout
from grand3d.files import Rejects
from grand3d.journal import Journal, RejectLog, rejected_counts
from grand3d.model import attach_lora, load_base, save_adapter, start_from, use_liger, wording
from grand3d.pack import Pack, fill_rows, make_pack, pack_loss
from grand3d.preflight import machine_faults, refuse_long_prompts, refuse_unknown_tracker
from grand3d.processes import largest, open_accelerator, take_master_weights, total
from grand3d.sample import Sample
from grand3d.scene import Scene
from grand3d.schema import Config, TrainConfig
from grand3d.stream import Stream, Tally, encode_group, open_stream, refuse_useless
from grand3d.tokens import Encoded

Evaluate = Callable[[Any, Any], dict[str, Any]]
"""Called with (model, tokenizer); gives figures for the log."""


def train(
    config: Config, out: str | Path, resume: str | None = None, evaluate: Evaluate | None = None, skip_bad: bool = False
) -> Path:
    """Train an adapter.

    Args:
        out: Run folder: config.yaml, log.jsonl, checkpoints/, adapter/.
        resume: None for a new run, ``latest`` (from step 0 where there is no checkpoint yet), or the path of a checkpoint; of
            the same run, checkpoints of later steps are removed. A finished run is left as it is.
        evaluate: Gives held-out figures; called at the start, every ``eval_every`` steps and at the end, on the main process,
            with the model in evaluation mode. It cannot change the course of the run.
        skip_bad: Leave out samples that cannot be learnt from; they are counted, and written to ``data.rejected.jsonl`` as they
            come (with several processes also to ``data.1.rejected.jsonl`` and so on).

    Returns:
        The folder of the finished adapter.

    Raises:
        GrandError: For bad data or settings, a folder that holds another run or that another training writes to, a damaged
            checkpoint or log, a full disk, a loss that is not finite, or if every lora_B of the adapter is zero.
    """
    out = Path(out)
    checkpoints.refuse_foreign(out)
    refuse_unknown_tracker(config)
    for fault in machine_faults(config):
        raise GrandError(fault)
    _keep_freed_memory()
    accelerator, num_groups = open_accelerator(config, out)
    with checkpoints.only_trainer(out, accelerator.is_main_process):
        run = _open_run(config, out, resume, skip_bad, accelerator, num_groups * accelerator.num_processes)
        return out / "adapter" if run is None else _learn(run, evaluate)


@dataclass(frozen=True, slots=True)
class _Run:
    """What the steps of a run work with.

    Attributes:
        start: Step of the checkpoint that the run goes on from, or 0.
        groups_per_step: Over all processes.
        weights: Those that are trained.
        state: What a checkpoint belongs to (see ``run_state``).
    """

    config: Config
    out: Path
    accelerator: Accelerator
    start: int
    groups_per_step: int
    stream: Stream
    tally: Tally
    tokenizer: Any
    model: Any
    weights: list[torch.nn.Parameter]
    optimizer: Any
    back_end: BackEnd
    journal: Journal
    state: dict[str, Any]


def run_state(config: Config, stream: Stream, num_processes: int) -> dict[str, Any]:
    """What must be the same where a run goes on from a checkpoint."""
    state = {"config": to_dict(config), "data": stream.fingerprint, "num_processes": num_processes}
    return state | {"wording": wording(config.prompt)}


def _open_run(
    config: Config, out: Path, resume: str | None, skip_bad: bool, accelerator: Accelerator, groups_per_step: int
) -> _Run | None:
    """All that stands before the first step; None for a finished run, which is left as it is."""
    tally = Tally(RejectLog(skip_bad))
    stream = open_stream(config, tally.rejects if accelerator.is_main_process else Rejects(skip_bad))
    state = run_state(config, stream, accelerator.num_processes)
    checkpoint = checkpoints.find_checkpoint(out, resume)
    start = 0 if checkpoint is None else checkpoints.read_state(checkpoint, state)
    if resume and checkpoint is None:
        _say(accelerator, f"{out}: no checkpoint yet; the run starts from step 0")
    if start == config.train.num_steps and (out / "adapter" / "grand3d.json").exists():
        _say(accelerator, f"{out}: the run is finished, all {start} steps; nothing was done")
        return None
    if checkpoint is not None and accelerator.is_main_process:
        checkpoints.refuse_damaged(checkpoint)
    accelerator.wait_for_everyone()

    tokenizer, model, back_end = _open_model(config, accelerator, stream, tally, fresh=checkpoint is None)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(_parts(model, config.train.weight_decay), lr=config.train.learning_rate)
    model, optimizer = accelerator.prepare(model, optimizer)
    model.eval()
    refuse_inexact(accelerator.unwrap_model(model), back_end, config.model.dtype)
    model.train()  # a base is loaded for evaluation, where dropout and gradient checkpointing are off
    # what is in the folder is left as it was until here, where a start does not fail any more
    leftovers = checkpoints.remove_leftovers(out) if accelerator.is_main_process else []
    journal = Journal(out, config, accelerator, start)
    if leftovers:
        journal.say(f"removed what a killed run left half written: {', '.join(leftovers)}")
    accelerator.wait_for_everyone()
    tally.rejects.keep(out / ("data.rejected.jsonl" if journal.main else f"data.{accelerator.process_index}.rejected.jsonl"))
    checkpoints.keep_adapter_only(accelerator)
    set_seed(config.train.seed, device_specific=True)  # dropout is not
    if checkpoint is not None:
        checkpoints.load_checkpoint(accelerator, checkpoint)
        if accelerator.is_main_process and (later := checkpoints.remove_later(out, start)):
            journal.say(f"removed the checkpoints after step {start}, which are done again: {', '.join(later)}")
        accelerator.wait_for_everyone()
    parts = (stream, tally, tokenizer, model, weights, optimizer, back_end, journal, state)
    return _Run(config, out, accelerator, start, groups_per_step, *parts)


def _open_model(config: Config, accelerator: Accelerator, stream: Stream, tally: Tally, fresh: bool) -> tuple[Any, Any, BackEnd]:
    """Tokenizer, base with its adapter, and how it attends; ``fresh`` unless a checkpoint's weights are still to come."""
    set_seed(config.train.seed)  # the adapter's start is the same on every process
    with accelerator.main_process_first():
        base, tokenizer = load_base(config.model.base, config.model.dtype, config.prompt.serializer, config.model.quantize)
    refuse_long_prompts(config, base.config)
    back_end = choose(config.model.attention, accelerator.device, base.dtype)
    refuse_useless(stream, tokenizer, config.prompt, tally.rejects)
    silence_dropout(base)
    use_liger(base, config.model.liger)
    new_tokens = token_ids(tokenizer, config.prompt.serializer)
    model = attach_lora(base, config.lora, config.model.gradient_checkpointing, new_tokens)
    if config.lora.start is not None and fresh:  # a checkpoint's weights would take the place of the start's
        start_from(model, config.lora.start, config)
    return tokenizer, model, back_end


def _parts(model: Any, weight_decay: float) -> list[dict[str, Any]]:
    """The trained weights as AdamW takes them. Rows of new tokens do not decay: they hold whole embeddings, not updates."""
    rows, updates = [], []
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            (rows if "trainable_tokens" in name else updates).append(weight)
    parts = [{"params": updates, "weight_decay": weight_decay}]
    return parts + [{"params": rows, "weight_decay": 0.0}] * bool(rows)


def _learn(run: _Run, evaluate: Evaluate | None) -> Path:
    """All steps, with figures and checkpoints between them; writes the adapter and gives its folder."""
    train, accelerator, journal = run.config.train, run.accelerator, run.journal
    figures: dict[str, Any] = {}
    if run.start in (0, train.num_steps):
        known = journal.logged(run.start)  # of a run that stopped before its adapter was written
        taken = _figures(accelerator, run.model, run.tokenizer, None if known else evaluate)
        journal.figures(run.start, taken)
        figures = known or taken
    for step in range(run.start + 1, train.num_steps + 1):
        if (
            run.config.data.synth is not None
            and (step - 1) * run.groups_per_step <= run.stream.num_groups < step * run.groups_per_step
        ):
            journal.say(f"step {step}: from here on the {run.stream.num_groups} generated scenes come again, in the same order")
        journal.step(_step(run, step))
        last = step == train.num_steps
        if last or _due(step, train.eval_every):
            figures = _figures(accelerator, run.model, run.tokenizer, evaluate)
            journal.figures(step, figures)
        if last or _due(step, train.save_every):
            checkpoints.save_checkpoint(accelerator, run.out, step, run.state, train.keep_checkpoints)
    take_master_weights(accelerator, run.weights)
    if accelerator.is_main_process:
        save_adapter(accelerator.unwrap_model(run.model), run.out / "adapter", run.config, figures)
    accelerator.wait_for_everyone()
    journal.close(run.tally.num_dropped, run.tally.num_empty, rejected_counts(run.out) if journal.main else {})
    return run.out / "adapter"


def _step(run: _Run, step: int) -> dict[str, Any]:
    """One optimizer step over the whole global batch; gives its line of the log."""
    began = time.perf_counter()
    accelerator, optimizer = run.accelerator, run.optimizer
    rate = learning_rate(run.config.train, step)
    for group in optimizer.param_groups:
        group["lr"] = rate
    first, end = (step - 1) * run.groups_per_step, step * run.groups_per_step
    own = (run.stream.group(number) for number in range(first + accelerator.process_index, end, accelerator.num_processes))
    rows = _rows(run.config, own, run.tokenizer, accelerator, run.tally)
    # the label tokens of the whole global batch are known before the first backward pass
    counts = [
        [weight * number for number in (pack.num_labels, pack.num_tokens, pack.num_samples, len(pack.layout.scenes), 1)]
        for pack, weight in rows
    ]
    totals = total(accelerator, [sum(column) for column in zip(*counts, strict=True)])
    num_labels, num_tokens, num_samples, num_scenes, num_rows = totals
    summed, loss, norm = 0.0, 0.0, 0.0
    for number, (pack, weight) in enumerate(rows):
        accelerator.sync_gradients = number == len(rows) - 1
        with contextlib.nullcontext() if accelerator.sync_gradients else accelerator.no_sync(run.model):
            of_row, _ = pack_loss(run.model, pack.to(accelerator.device), run.back_end)
            summed += weight * of_row.item()
            if accelerator.sync_gradients:  # before the last backward, with which DeepSpeed takes its step
                loss = total(accelerator, [summed])[0] / max(num_labels, 1)
                _refuse_diverged(run.out, step, loss)
            # backward divides by a constant, and processes are averaged: both are undone here (docs/shared_prefix.md)
            factor = accelerator.gradient_accumulation_steps * accelerator.num_processes / max(num_labels, 1)
            accelerator.backward(of_row * (weight * factor))
        if accelerator.sync_gradients:
            norm = accelerator.clip_grad_norm_(run.weights, run.config.train.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
    seconds = time.perf_counter() - began
    return {
        "step": step,
        "loss": loss,
        "lr": rate,
        "grad_norm": float(norm),
        "label_tokens": int(num_labels),
        "tokens": int(num_tokens),
        "scenes": int(num_scenes),
        "rows": int(num_rows),
        "samples": int(num_samples),
        "seconds": round(seconds, 3),
        "tokens_per_second": round(num_tokens / seconds, 1),
    }


def _refuse_diverged(out: Path, step: int, loss: float) -> None:
    if not math.isfinite(loss):
        last = (checkpoints.list_checkpoints(out) or ["none"])[-1]
        raise GrandError(
            f"step {step}: the loss is {loss}; try a lower train.learning_rate, or bf16 for fp16. Last checkpoint: {last}"
        )


def learning_rate(train: TrainConfig, step: int) -> float:
    """The rate of step 1 .. num_steps: linear warm-up to the peak, then the schedule, which reaches 0 after the last step."""
    if step <= train.warmup_steps:
        return train.learning_rate * step / train.warmup_steps
    done = (step - 1 - train.warmup_steps) / max(1, train.num_steps - train.warmup_steps)
    shape = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}
    return train.learning_rate * shape[train.schedule]


def _rows(
    config: Config, groups: Iterable[tuple[Scene, Sequence[Sample]]], tokenizer: Any, accelerator: Accelerator, tally: Tally
) -> list[tuple[Pack, int]]:
    """This process's rows of a step with their weight: 1, or 0 for a stand-in, where another process has more rows."""
    encoded = [rows for scene, samples in groups if (rows := encode_group(tokenizer, scene, samples, config.prompt, tally))]
    sizes = [len(rows[0].prefix) + sum(len(row.suffix) for row in rows) for rows in encoded]
    filled = fill_rows(sizes, config.data.row_tokens)
    packs = [(make_pack([encoded[i] for i in row]), 1) for row in filled]
    # more than one query a sequence, with which kernels take their usual path
    stand_in = make_pack([[Encoded([0, 0], [0, 0], [True, True])]]), 0
    return packs + [stand_in] * (max(1, largest(accelerator, len(packs))) - len(packs))


def _figures(accelerator: Accelerator, model: Any, tokenizer: Any, evaluate: Evaluate | None) -> dict[str, Any]:
    """Held-out figures; random states and training mode are put back afterwards."""
    figures: dict[str, Any] = {}
    if evaluate is not None and accelerator.is_main_process:
        plain = accelerator.unwrap_model(model)
        plain.eval()
        with torch.random.fork_rng(), torch.no_grad():
            figures = evaluate(plain, tokenizer)
    model.train()
    accelerator.wait_for_everyone()
    return figures


def _say(accelerator: Accelerator, text: str) -> None:
    if accelerator.is_main_process:
        print(text, file=sys.stderr, flush=True)


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _keep_freed_memory() -> None:
    """On a CPU, let the allocator keep what a step frees for the next one.

    glibc gives large blocks back to the system at once and gets them zeroed again, page by page: up to half of a step's time.
    """
    if sys.platform == "linux" and not torch.cuda.is_available():
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(-4, 0)  # M_MMAP_MAX: no block of its own for large sizes
            mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: free memory kept at the end of the heap, bytes
