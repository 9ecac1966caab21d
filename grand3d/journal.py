"""What a run says about itself: log.jsonl always, a tracker on request, lines or a bar for a person, and the rows it left out."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from grand3d.config import dump_yaml, flat, to_dict
from grand3d.errors import GrandError, unusable, writing
from grand3d.files import Rejects, field, shown, write_jsonl, write_text
from grand3d.schema import Config

REJECTED = re.compile(r"(data(\.\d+)?|heldout)\.rejected\.jsonl")
"""Names of the files of rejected rows in a run folder; with a number, those of another process than the main one."""


def read_rows(path: Path, check: Callable[[dict[str, Any]], Any]) -> tuple[list[dict[str, Any]], bool]:
    """The rows of a file that a run wrote line by line, and whether its last line was cut off, as a kill leaves it.

    Args:
        check: Raises GrandError for a row that is not of this kind of file.

    Raises:
        GrandError: Naming the first line that is damaged in another way.
    """
    if not path.exists():
        return [], False
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise unusable(path, error, "read") from None
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8-sig"))
            if not isinstance(row, dict):
                raise GrandError("a line is a JSON object")
            check(row)
        except (ValueError, RecursionError) as error:  # GrandError is a ValueError too
            if number == len(lines):
                return rows, True
            seen = shown(line[:60].decode(errors="backslashreplace"))
            raise GrandError(
                f"{path}:{number}: not a line that a run writes: {seen} ({error}); was the file edited, or the disk damaged? "
                "Correct or remove the line, or move the file away: the run needs it only to continue it"
            ) from None
        rows.append(row)
    return rows, False


class RejectLog(Rejects):
    """Rejected rows that reach a file as they come: a run that is killed keeps them, and one that goes on adds to them.

    A row that is refused again, in a later epoch or after a resume, counts once.
    """

    def __init__(self, skip_bad: bool = False) -> None:
        super().__init__(skip_bad)
        self._path: Path | None = None
        self._known: set[str] = set()

    def add(self, where: str, reason: str, row: Any = None, cause: str = "") -> None:
        """See ``Rejects.add``."""
        row = _plain(row)
        key = _key({"where": where, "row": row})
        if key in self._known:
            return
        super().add(where, reason, row, cause)
        self._known.add(key)
        if self._path is not None:
            with writing(self._path), self._path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(self.rows[-1], ensure_ascii=False) + "\n")

    def keep(self, path: Path) -> None:
        """Write to ``path`` from now on: the rows so far, behind those that an earlier part of the run left there.

        Raises:
            GrandError: If it cannot be written, or holds something else.
        """
        before, cut = read_rows(path, _check_reject)
        known = {_key(row) for row in before}
        self.rows = before + [row for row in self.rows if _key(row) not in known]
        self._known |= known
        self._path = path
        if cut or len(self.rows) > len(before):
            write_jsonl(path, self.rows)


def rejected_counts(out: Path) -> dict[str, int]:
    """Rejected training rows of a run by cause, most frequent first; one that several processes refused counts once."""
    files = [path for path in sorted(out.glob("data*.rejected.jsonl")) if REJECTED.fullmatch(path.name)]
    rows = {_key(row): row["cause"] for path in files for row in read_rows(path, _check_reject)[0]}
    return dict(Counter(rows.values()).most_common())


class Journal:
    """The log of one run; silent on every process but the main one.

    Args:
        out: Run folder.
        start: Step the run goes on from; what log.jsonl says about later steps is done again and cut off. A run from step 0
            moves a log that is there, left by a start that failed, to log.old.jsonl (log.old.2.jsonl, ... where there is one),
            and removes its files of rejected rows.

    Raises:
        GrandError: If the log is damaged: more than its last line, which a kill may cut off and which is dropped.
    """

    def __init__(self, out: Path, config: Config, accelerator: Any, start: int) -> None:
        self.train, self.accelerator, self.main = config.train, accelerator, accelerator.is_main_process
        self.path, self.bar = out / "log.jsonl", None
        if self.main:
            self._open(out, start)
            write_text(out / "config.yaml", dump_yaml(config))
        if self.train.tracker:
            accelerator.init_trackers("grand3d", config=flat(to_dict(config)))
        if not self.main:
            return
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=self.train.num_steps, initial=start, unit="step", dynamic_ncols=True)

    def _open(self, out: Path, start: int) -> None:
        if not start:
            if self.path.exists():
                names = ("log.old.jsonl", *(f"log.old.{number}.jsonl" for number in range(2, 10**6)))
                old = next(out / name for name in names if not (out / name).exists())
                self.path.replace(old)
                self.say(f"{self.path}: of a run that left no checkpoint; moved to {old.name}")
            for path in out.glob("*.rejected.jsonl"):
                if REJECTED.fullmatch(path.name):
                    path.unlink()
        rows, cut = read_rows(self.path, _check_step)
        if cut:
            self.say(f"{self.path}: the last line was cut off while it was written, and is dropped")
        write_jsonl(self.path, [row for row in rows if row["step"] <= start])

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

    def logged(self, step: int) -> dict[str, Any]:
        """The held-out figures that the log has of a step; empty where it has none, and on every process but the main one."""
        rows = read_rows(self.path, _check_step)[0] if self.main else []
        found = [row["eval"] for row in rows if row["step"] == step and isinstance(row.get("eval"), dict)]
        return found[-1] if found else {}

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
        with writing(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self.train.tracker:
            values = {prefix + k: v for k, v in row.get("eval", row).items() if isinstance(v, int | float) and k != "step"}
            self.accelerator.log(values, step=row["step"])


def _check_step(row: dict[str, Any]) -> None:
    field(row, "step", int, "")


def _check_reject(row: dict[str, Any]) -> None:
    for name in ("where", "cause", "reason"):
        field(row, name, str, "")


def _plain(row: Any) -> Any:
    """A row as JSON holds it, the same before and after it was in a file; with NaN or infinity in it, its text."""
    try:
        return json.loads(json.dumps(row, allow_nan=False))
    except ValueError:
        return json.dumps(row, ensure_ascii=False)


def _key(row: Mapping[str, Any]) -> str:
    return json.dumps([row["where"], row.get("row")], sort_keys=True)
