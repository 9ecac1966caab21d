"""What a run says about itself: log.jsonl always, a tracker on request, and lines or a bar for a person."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grand3d.config import Config, dump_yaml, flat, to_dict
from grand3d.files import write_text


class Journal:
    """The log of one run; silent on every process but the main one.

    Args:
        out: Run folder.
        start: Step the run goes on from; what log.jsonl says about later steps is done again and cut off. A run from step 0
            moves a log that is there, left by a start that failed, to log.old.jsonl.
    """

    def __init__(self, out: Path, config: Config, accelerator: Any, start: int) -> None:
        self.train, self.accelerator, self.main = config.train, accelerator, accelerator.is_main_process
        self.path, self.bar = out / "log.jsonl", None
        if self.train.tracker:
            accelerator.init_trackers("grand3d", config=flat(to_dict(config)))
        if not self.main:
            return
        if not start and self.path.exists():
            self.path.replace(out / "log.old.jsonl")
            self.say(f"{self.path}: of a run that left no checkpoint; moved to log.old.jsonl")
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        write_text(self.path, "".join(line + "\n" for line in lines if _step(line) <= start))
        write_text(out / "config.yaml", dump_yaml(config))
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=self.train.num_steps, initial=start, unit="step", dynamic_ncols=True)

    def step(self, row: dict[str, Any]) -> None:
        """One optimizer step: step, loss, lr, grad_norm and whatever else is counted."""
        if not self.main:
            return
        step, loss = row["step"], row["loss"]
        if self.bar is not None:
            self.bar.update()
            self.bar.set_postfix_str(f"loss {loss:.4f}")
        if step % self.train.log_every and step != self.train.num_steps:
            return
        self._write(row, "")
        if self.bar is None:
            text = f"step {step}/{self.train.num_steps}  loss {loss:.4f}  lr {row['lr']:.2e}  grad {row['grad_norm']:.2f}"
            self.say(f"{text}  {row['tokens_per_second']:.0f} tokens/s")

    def figures(self, step: int, figures: dict[str, Any]) -> None:
        """Held-out figures taken after a step."""
        if not self.main or not figures:
            return
        self._write({"step": step, "eval": figures}, "eval/")
        self.say(
            f"step {step}  held-out: "
            + "  ".join(f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items())
        )

    def close(self, num_dropped: int, num_empty: int, left_out: Mapping[str, int]) -> None:
        """End of the run; says what this process left out and why."""
        if self.train.tracker:
            self.accelerator.end_training()
        if not self.main:
            return
        if self.bar is not None:
            self.bar.close()
            self.bar = None
        if num_dropped:
            self.say(f"{num_dropped} objects stood past top_k or the token budget and were not shown")
        if num_empty:
            self.say(f"{num_empty} phrases of expressions name objects that were not shown, and were learnt as []")
        if left_out:
            self.say("left out: " + ", ".join(f"{count} x {cause}" for cause, count in left_out.items()))

    def say(self, text: str) -> None:
        """A line for a person, on standard error."""
        if self.bar is not None:
            self.bar.write(text, file=sys.stderr)
        elif self.main:
            print(text, file=sys.stderr, flush=True)

    def _write(self, row: dict[str, Any], prefix: str) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self.train.tracker:
            values = {prefix + k: v for k, v in row.get("eval", row).items() if isinstance(v, int | float) and k != "step"}
            self.accelerator.log(values, step=row["step"])


def _step(line: str) -> int:
    try:
        return json.loads(line)["step"]
    except (json.JSONDecodeError, KeyError):
        return sys.maxsize  # a line that was cut off while it was written
