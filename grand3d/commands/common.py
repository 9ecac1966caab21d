"""What commands share: words on stderr, rejected rows, packages that may be absent."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from grand3d.errors import GrandError, import_extra, place
from grand3d.files import Rejects
from grand3d.sample import Data


def need_models() -> None:
    """Name the pip line before an import fails."""
    torch = import_extra("torch", "train")
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # else DeepSpeed, where installed, warns on stdout that it found no GPU
    for module in ("transformers", "peft"):
        import_extra(module, "train")


@contextlib.contextmanager
def keeping(rejects: Rejects, beside: str) -> Iterator[None]:
    """Save and count the rejected rows at the end, also of work that fails or is interrupted."""
    try:
        yield
    except BaseException:
        try:
            _save_rejects(rejects, beside)
        except GrandError as error:  # the first failure is the one to report
            say(f"the {len(rejects.rows)} rejected rows are lost: {error}")
        raise
    _save_rejects(rejects, beside)
    if not rejects.rows:
        stale = Path(f"{beside.rstrip('/')}.rejected.jsonl")
        if _are_rejects(stale):  # what an earlier run left no longer holds
            stale.unlink()


def _save_rejects(rejects: Rejects, beside: str) -> None:
    faults = {row["cause"] for row in rejects.rows if not row.get("noted")}
    for cause, number in rejects.counts().items():
        say(f"{'rejected' if cause in faults else 'noted'}: {number} x {cause}")
    path = rejects.save(beside)
    if path is not None:
        what = "rejected rows" if faults else "notes"
        say(f"the {len(rejects.rows)} {what} are in {path}")


def _are_rejects(path: Path) -> bool:
    """Whether a file is one of ours: a user's own may bear the name."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as lines:
        first = lines.readline()
    return first.startswith("{") and '"where"' in first and '"reason"' in first


def say(text: str) -> None:
    """A word about the work; stdout is for what was asked for."""
    print(text, file=sys.stderr, flush=True)


def refuse_no_samples(folder: str, data: Data) -> None:
    if not data.samples:
        raise GrandError(f"{place(Path(folder) / 'samples.jsonl')}: holds no sample that can be used, expected at least one")
