"""How fast a store is made and read, and how much memory that takes.

    python tools/bench_store.py --rows 200000 --json

Writes that many samples over generated rooms as JSON lines, in mixed order (not timed), then in a process of its own builds the
store from them, reads samples and scenes at random, and reports its own greatest memory. ``scale`` builds a tenth of the rows
too: the time of a row must not depend on how many there are.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

ROWS_A_SCENE = 155  # 6.2 million annotations over 40,000 scenes, as 3D-GRAND has


def write_folder(folder: Path, num_rows: int) -> None:
    """Rooms under ever new names, with the questions of a few hundred generated ones; scenes come in mixed order."""
    from grand3d.sample import sample_to_dict
    from grand3d.scene import scene_to_dict
    from grand3d.synth import make_scene

    folder.mkdir(parents=True)
    num_scenes = max(1, -(-num_rows // ROWS_A_SCENE))
    kinds = [make_scene(0, k, ROWS_A_SCENE) for k in range(min(100, num_scenes))]
    shown = [
        (json.dumps(scene_to_dict(scene)), [json.dumps(sample_to_dict(s)) for s in rows], scene.scene_id) for scene, rows in kinds
    ]
    order = list(range(num_scenes))
    Random(0).shuffle(order)
    left = num_rows
    with open(folder / "scenes.jsonl", "w") as scenes, open(folder / "samples.jsonl", "w") as samples:
        for number in order:
            scene, rows, name = shown[number % len(shown)]
            new = f"room{number:06d}"
            scenes.write(scene.replace(name, new) + "\n")
            for k in range(min(left, ROWS_A_SCENE)):
                row = rows[k % len(rows)].replace(name, new)
                samples.write((row if k < len(rows) else row.replace('"sample_id": "', f'"sample_id": "{k}-', 1)) + "\n")
            left -= min(left, ROWS_A_SCENE)


def peak_rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(folder: Path, out: Path, reads: int) -> dict[str, Any]:
    """Build and read, in this process."""
    from grand3d.store import build, folder_source, open_store

    start = time.perf_counter()
    manifest = build(out, [folder_source(folder)])
    seconds = time.perf_counter() - start
    built_mb = peak_rss_mb()
    start = time.perf_counter()
    data = open_store(out)
    opened = time.perf_counter() - start
    rng = Random(1)
    start = time.perf_counter()
    for _ in range(reads):
        data.samples[rng.randrange(len(data.samples))]
    sample = (time.perf_counter() - start) / reads
    names = list(data.scenes)
    start = time.perf_counter()
    for _ in range(reads):
        data.scenes[names[rng.randrange(len(names))]]
    scene = (time.perf_counter() - start) / reads
    rows = manifest["counts"]["samples"]
    return {
        "rows": rows,
        "scenes": manifest["counts"]["scenes"],
        "seconds": seconds,
        "rows_per_s": rows / seconds,
        "microseconds_per_row": 1e6 * seconds / rows,
        "peak_rss_mb": built_mb,
        "peak_rss_reading_mb": peak_rss_mb(),
        "open_ms": 1000 * opened,
        "random_access_ms": 1000 * sample,
        "random_scene_ms": 1000 * scene,
        "store_mb": sum(file.stat().st_size for file in out.iterdir()) / 1e6,
    }


def case(num_rows: int, where: Path, reads: int) -> dict[str, Any]:
    """One size, in a process of its own so that its memory is its own."""
    write_folder(where / "folder", num_rows)
    args = [sys.executable, __file__, "--measure", str(where), "--reads", str(reads)]
    out = subprocess.run(args, check=True, capture_output=True, text=True).stdout
    shutil.rmtree(where)
    return json.loads(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000, help="samples (default: 200000)")
    parser.add_argument("--reads", type=int, default=2000, help="random reads (default: 2000)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--tmp", help="folder for the files (default: the system's)")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        where = Path(options.measure)
        print(json.dumps(measure(where / "folder", where / "store", options.reads)))
        return
    with tempfile.TemporaryDirectory(dir=options.tmp) as folder:
        small = case(max(1, options.rows // 10), Path(folder) / "small", options.reads)
        whole = case(options.rows, Path(folder) / "whole", options.reads)
    found = whole | {"scale": whole["microseconds_per_row"] / small["microseconds_per_row"], "tenth": small}
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(
        f"{found['rows']} rows, {found['scenes']} scenes: {found['rows_per_s']:.0f} rows a second, "
        f"{found['peak_rss_mb']:.0f} MB at most; "
        f"a sample in {found['random_access_ms']:.3f} ms, a scene in {found['random_scene_ms']:.3f} ms; "
        f"a row takes {found['scale']:.2f} times as long as with a tenth of them"
    )


if __name__ == "__main__":
    main()
