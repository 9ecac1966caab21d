"""Kill -9 a training again and again, at random moments; each time it goes on, and ends bit for bit like one left alone.

    python tools/kill_training.py [--kills 50] [--seed 0] [--keep FOLDER]

Trains the tiny base on generated rooms with a checkpoint after every step, so that many kills hit a save. Compared are the loss
of every step in the log and the bytes of the finished adapter. Exit code 1 and the first difference, if there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFIG = """
model: {base: tiny}
lora: {rank: 4, dropout: 0.1}
data: {synth: {num_scenes: 1000, seed: 5}, questions_per_scene: 4}
train: {global_batch: 4, num_steps: %d, learning_rate: 1.0e-3, save_every: 1, keep_checkpoints: 3, log_every: 1}
"""


def start(config: Path, out: Path) -> subprocess.Popen[bytes]:
    """A training in a process group of its own; what it says goes to a file beside its folder."""
    command = [sys.executable, "-m", "grand3d", "train", str(config), "--out", str(out), "--resume", "latest"]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with out.with_suffix(".txt").open("wb") as said:
        return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True)


def said(out: Path) -> str:
    return out.with_suffix(".txt").read_text(errors="replace")[-2000:]


def losses(out: Path) -> dict[int, float]:
    """Loss by step; the last line of a step that was done twice counts."""
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return {row["step"]: row["loss"] for row in rows if "loss" in row}


def size(out: Path) -> int:
    log = out / "log.jsonl"
    return log.stat().st_size if log.exists() else 0


def fail(message: str) -> None:
    print(message, file=sys.stderr)
    raise SystemExit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="kills before the run may finish (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: 0)")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it; by default a temporary one")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "config.yaml"
        config.write_text(CONFIG % (20 * options.kills + 20))
        began = time.perf_counter()
        alone = start(config, folder / "alone")
        if alone.wait() != 0:
            fail(f"the run that is left alone ended with {alone.returncode}: {said(folder / 'alone')}")
        out, kills, in_save, steps = folder / "killed", 0, 0, []
        while kills < options.kills:
            before, run = size(out), start(config, out)
            while run.poll() is None and size(out) == before:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.5))
            if run.poll() is not None:
                fail(f"after {kills} kills the run ended by itself with {run.returncode}: {said(out)}")
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            kills += 1
            in_save += any((out / "checkpoints").glob(".*")) if (out / "checkpoints").exists() else 0
            steps.append(max(losses_so_far(out), default=0))
        run = start(config, out)
        if run.wait() != 0:
            fail(f"after {kills} kills the run cannot go on: {said(out)}")
        expected, seen = losses(folder / "alone"), losses(out)
        for step, loss in expected.items():
            if seen.get(step) != loss:
                fail(f"step {step}: loss {seen.get(step)!r} after {kills} kills, {loss!r} alone")
        name = "adapter/adapter_model.safetensors"
        if (folder / "alone" / name).read_bytes() != (out / name).read_bytes():
            fail(f"the adapters differ after {kills} kills")
        seconds = round(time.perf_counter() - began)
        print(
            json.dumps(
                {
                    "kills": kills,
                    "in_a_save": in_save,
                    "steps": len(expected),
                    "last_kill_at_step": steps[-1],
                    "identical": True,
                    "seconds": seconds,
                }
            )
        )


def losses_so_far(out: Path) -> list[int]:
    """Steps in a log whose last line may be cut."""
    found = []
    for line in (out / "log.jsonl").read_text(errors="replace").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if "loss" in row:
            found.append(row["step"])
    return found


if __name__ == "__main__":
    main()
