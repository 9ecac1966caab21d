"""Training: one visible loop over accelerate.

A step takes ``global_batch / questions_per_scene`` groups of the stream (see ``stream``), spread evenly over the processes and,
on each, over its micro-steps of one pack. The loss of a step is the sum over all label tokens of the whole global batch divided
by their number, whatever the number of processes or micro-steps; docs/training.md derives the factor in the loop.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from grand3d import checkpoint as checkpoints
from grand3d.config import Config, TrainConfig, dump_yaml, to_dict
from grand3d.errors import GrandError, import_extra
from grand3d.files import Rejects, write_text
from grand3d.model import attach_lora, load_base, save_adapter
from grand3d.pack import Pack, make_pack, pack_loss
from grand3d.stream import Stream, Tally, encode_group, open_stream
from grand3d.tokens import Encoded

Evaluate = Callable[[Any, Any], dict[str, Any]]
"""Called with (model, tokenizer); gives figures for the log."""


def train(
    config: Config, out: str | Path, resume: str | None = None, evaluate: Evaluate | None = None, skip_bad: bool = False
) -> Path:
    """Train an adapter.

    Args:
        out: Run folder: config.yaml, log.jsonl, checkpoints/, adapter/.
        resume: None for a new run, ``latest``, or the path of a checkpoint.
        evaluate: Gives held-out figures; called at the start, every ``eval_every`` steps and at the end, on the main process,
            with the model in evaluation mode. It cannot change the course of the run.
        skip_bad: Leave out and count samples that cannot be learnt from.

    Returns:
        The folder of the finished adapter.

    Raises:
        GrandError: For bad data or settings, for a loss that is not finite, or if the adapter was not trained at all.
    """
    out = Path(out)
    accelerator, num_micro = _accelerator(config)
    rejects = Rejects(skip_bad)
    stream = open_stream(config, rejects)
    state = {"config": to_dict(config), "data": stream.fingerprint, "num_processes": accelerator.num_processes}
    start, folder = 0, None
    if resume:
        folder = checkpoints.find_checkpoint(out, resume)
        start = checkpoints.read_state(folder, state)
    elif (out / "log.jsonl").exists():
        raise GrandError(f"{out}: already holds a run; pass --resume latest to go on, or another --out")
    accelerator.wait_for_everyone()
    log = _Log(out, config, accelerator, start)
    import_extra("accelerate", "train").utils.set_seed(config.train.seed, device_specific=False)
    with accelerator.main_process_first():
        base, tokenizer = load_base(config.model.base, config.model.dtype, config.model.attention)
    model = attach_lora(base, config.lora, config.model.gradient_checkpointing)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=config.train.learning_rate, weight_decay=config.train.weight_decay)
    model, optimizer = accelerator.prepare(model, optimizer)
    checkpoints.keep_adapter_only(accelerator)
    if folder is not None:
        checkpoints.load_checkpoint(accelerator, folder)
    else:
        import_extra("accelerate", "train").utils.set_seed(config.train.seed, device_specific=True)  # dropout differs by process

    tally = Tally()
    packs = _packs(config, stream, tokenizer, accelerator, num_micro, start, tally, skip_bad)
    figures = _evaluate(accelerator, model, tokenizer, evaluate)
    log.eval(start, figures)
    for step in range(start + 1, config.train.num_steps + 1):
        began = time.perf_counter()
        rate = learning_rate(config.train, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = [next(packs) for _ in range(num_micro)]
        counts = [
            sum(p.num_labels * w for p, w in batch),
            sum(p.num_tokens for p, _ in batch),
            sum(p.num_samples * w for p, w in batch),
        ]
        labels, tokens, samples = _sum(accelerator, counts)
        summed = 0.0
        for pack, weight in batch:
            with accelerator.accumulate(model):
                loss, _ = pack_loss(model, pack.to(accelerator.device), config.model.attention)
                summed += weight * loss.item()
                # backward divides by the micro-steps, and processes are averaged: both are undone here
                accelerator.backward(loss * (weight * num_micro * accelerator.num_processes / max(labels, 1)))
                if accelerator.sync_gradients:
                    norm = accelerator.clip_grad_norm_(weights, config.train.max_grad_norm)
                optimizer.step()
                optimizer.zero_grad()
        loss = _sum(accelerator, [summed])[0] / max(labels, 1)
        if not math.isfinite(loss):
            raise GrandError(
                f"step {step}: the loss is {loss}; a lower train.learning_rate, or bf16 in place of fp16, is the usual cure. Last checkpoint: "
                f"{(checkpoints.list_checkpoints(out) or ['none'])[-1]}"
            )
        log.step(step, loss, rate, float(norm), labels, tokens, samples, time.perf_counter() - began, tally)
        last = step == config.train.num_steps
        if last or (config.train.eval_every and step % config.train.eval_every == 0):
            figures = _evaluate(accelerator, model, tokenizer, evaluate)
            log.eval(step, figures)
        if last or (config.train.save_every and step % config.train.save_every == 0):
            checkpoints.save_checkpoint(accelerator, out, step, state, config.train.keep_checkpoints)
    if accelerator.is_main_process:
        save_adapter(accelerator.unwrap_model(model), out / "adapter", config, figures)
    log.close(tally, rejects)
    accelerator.wait_for_everyone()
    return out / "adapter"


def learning_rate(train: TrainConfig, step: int) -> float:
    """The rate of step 1 .. num_steps: linear warm-up to the peak, then the schedule, which reaches 0 after the last step."""
    if step <= train.warmup_steps:
        return train.learning_rate * step / train.warmup_steps
    done = (step - 1 - train.warmup_steps) / max(1, train.num_steps - train.warmup_steps)
    shape = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}
    return train.learning_rate * shape[train.schedule]


def micro_steps(config: Config, num_processes: int) -> int:
    """Packs per process and step.

    Raises:
        GrandError: If a step's groups do not spread evenly.
    """
    groups = config.train.global_batch // config.data.questions_per_scene
    if groups % num_processes:
        raise GrandError(
            f"train.global_batch = {config.train.global_batch} with data.questions_per_scene = {config.data.questions_per_scene} makes "
            f"{groups} packs a step, which {num_processes} processes cannot share evenly; change one of the three"
        )
    return groups // num_processes


def _accelerator(config: Config) -> tuple[Any, int]:
    num_micro = micro_steps(config, int(os.environ.get("WORLD_SIZE", "1")))
    handlers = []
    if not torch.cuda.is_available() and "LOCAL_RANK" in os.environ:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        # accelerate sets no backend for DeepSpeed on a CPU, and each process would believe it is alone
        handlers = [import_extra("accelerate", "train").utils.InitProcessGroupKwargs(backend="gloo")]
    precision = {"fp32": "no", "bf16": "bf16", "fp16": "fp16"}[config.model.dtype]
    accelerator = import_extra("accelerate", "train").Accelerator(
        mixed_precision=precision,
        gradient_accumulation_steps=num_micro,
        cpu=not torch.cuda.is_available() and "LOCAL_RANK" not in os.environ,
        log_with=config.train.tracker,
        project_dir=None,
        kwargs_handlers=handlers,
    )
    plugin = accelerator.state.deepspeed_plugin
    if plugin is not None:
        if plugin.zero_stage == 3:
            raise GrandError(
                "ZeRO stage 3 is not supported: it splits the adapter itself over the processes; use launch/zero2.yaml"
            )
        plugin.deepspeed_config["train_micro_batch_size_per_gpu"] = 1  # one pack
        plugin.deepspeed_config["gradient_clipping"] = config.train.max_grad_norm
    return accelerator, num_micro


def _packs(
    config: Config, stream: Stream, tokenizer: Any, accelerator: Any, num_micro: int, start: int, tally: Tally, skip_bad: bool
) -> Iterator[tuple[Pack, int]]:
    """This process's packs with their weight: 1, or 0 for a stand-in where nothing of a group could be used.

    Step s takes the groups from s * N on, N in all; process r takes every num_processes-th of them.
    """
    flash = config.model.attention == "flash"
    number = start * num_micro * accelerator.num_processes + accelerator.process_index
    while True:
        scene, samples = stream.group(number)
        encoded = encode_group(tokenizer, scene, samples, config.prompt, tally, skip_bad)
        if encoded:
            yield make_pack(encoded[0].prefix, encoded, flash), 1
        else:  # every process must take part in every micro-step
            token = tokenizer.eos_token_id
            yield make_pack([token], [Encoded([token], [token], [True])], flash), 0
        number += accelerator.num_processes


def _sum(accelerator: Any, values: list[float]) -> list[float]:
    """Sums over all processes."""
    if accelerator.num_processes == 1:
        return values
    return accelerator.reduce(torch.tensor(values, dtype=torch.float64, device=accelerator.device), "sum").tolist()


def _evaluate(accelerator: Any, model: Any, tokenizer: Any, evaluate: Evaluate | None) -> dict[str, Any]:
    """Held-out figures, with random states and training mode put back afterwards."""
    figures: dict[str, Any] = {}
    if evaluate is not None and accelerator.is_main_process:
        plain = accelerator.unwrap_model(model)
        plain.eval()
        with torch.random.fork_rng(), torch.no_grad():
            figures = evaluate(plain, tokenizer)
    model.train()
    accelerator.wait_for_everyone()
    return figures


class _Log:
    """log.jsonl, the trackers, and what a person sees; silent on all processes but the main one."""

    def __init__(self, out: Path, config: Config, accelerator: Any, start: int) -> None:
        self.accelerator, self.config, self.start = accelerator, config, start
        self.main = accelerator.is_main_process
        if not self.main:
            return
        self.path = out / "log.jsonl"
        out.mkdir(parents=True, exist_ok=True)
        if start:  # lines after the checkpoint belong to the part that is done again
            lines = [line for line in self.path.read_text().splitlines() if json.loads(line).get("step", 0) <= start]
            write_text(
                self.path, "".join(line + "\n" for line in lines if "eval" not in line or json.loads(line)["step"] < start)
            )
        write_text(out / "config.yaml", dump_yaml(config))
        if config.train.tracker:
            accelerator.init_trackers("grand3d", config=checkpoints._flat(to_dict(config)), init_kwargs={})
        self.bar = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=config.train.num_steps, initial=start, unit="step", dynamic_ncols=True)

    def _write(self, row: dict[str, Any]) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def step(
        self,
        step: int,
        loss: float,
        rate: float,
        norm: float,
        labels: float,
        tokens: float,
        samples: float,
        seconds: float,
        tally: Tally,
    ) -> None:
        if not self.main:
            return
        if self.bar is not None:
            self.bar.update()
            self.bar.set_postfix_str(f"loss {loss:.4f}")
        if step % self.config.train.log_every and step != self.config.train.num_steps:
            return
        row = {"step": step, "loss": loss, "lr": rate, "grad_norm": norm, "label_tokens": int(labels), "samples": int(samples)}
        row |= {"tokens": int(tokens), "seconds": round(seconds, 3), "tokens_per_second": round(tokens / seconds, 1)}
        if tally.rejected:
            row["rejected"] = sum(tally.rejected.values())
        self._write(row)
        if self.config.train.tracker:
            self.accelerator.log({k: v for k, v in row.items() if k != "step"}, step=step)
        if self.bar is None:
            print(
                f"step {step}/{self.config.train.num_steps}  loss {loss:.4f}  lr {rate:.2e}  grad {norm:.2f}  {tokens / seconds:.0f} tokens/s",
                file=sys.stderr,
                flush=True,
            )

    def eval(self, step: int, figures: dict[str, Any]) -> None:
        if not self.main or not figures:
            return
        self._write({"step": step, "eval": figures})
        if self.config.train.tracker:
            self.accelerator.log({f"eval/{k}": v for k, v in figures.items() if isinstance(v, int | float)}, step=step)
        text = "  ".join(f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items())
        (self.bar.write if self.bar is not None else lambda t: print(t, file=sys.stderr, flush=True))(
            f"step {step}  held-out: {text}"
        )

    def close(self, tally: Tally, rejects: Rejects) -> None:
        if not self.main:
            return
        if self.bar is not None:
            self.bar.close()
        if tally.rejected or rejects.rows:
            causes = ", ".join(f"{n} x {cause}" for cause, n in (tally.rejected + _counter(rejects.counts())).most_common())
            print(f"left out: {causes}", file=sys.stderr)
        if self.config.train.tracker:
            self.accelerator.end_training()


def _counter(counts: dict[str, int]) -> Any:
    from collections import Counter

    return Counter(counts)
