"""What a step costs over a shared prefix, against the size of the scene, the questions behind it, and the scenes of a row.

    python tools/bench_scaling.py [--json] [--model small] [--device cpu] [--dtype fp32]

One table a quantity, the others held: milliseconds a question, counted operations, and their ratio. If operations a second stay
level, time follows the counted work and nothing else grows with the size.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import bench_train as bench
import torch

from grand3d.attention import choose
from grand3d.pack import make_pack, pack_loss

SWEEPS: dict[str, list[tuple[int, int, int]]] = {  # (tokens of a scene, questions, scenes of the row)
    "scene size": [(320, 8, 1), (640, 8, 1), (1280, 8, 1), (2560, 8, 1)],
    "questions": [(640, 1, 1), (640, 2, 1), (640, 4, 1), (640, 8, 1), (640, 16, 1), (640, 32, 1)],
    "scenes in a row": [(640, 8, 1), (640, 8, 2), (640, 8, 4)],
}
SUFFIX = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object in place of tables")
    parser.add_argument(
        "--model", choices=sorted(bench.SHAPES), default="small", help="shape of the random model (default: small)"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--dtype", choices=sorted(bench.DTYPES), default="fp32")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--smallest", action="store_true", help="only the two smallest sizes of each quantity")
    options = parser.parse_args()
    device, shape = torch.device(options.device), bench.SHAPES[options.model]
    model = bench.build(shape, options.dtype, device, options.rank, False)
    how = choose("auto", device, bench.DTYPES[options.dtype])
    report: dict[str, list[dict[str, Any]]] = {}
    for name, points in SWEEPS.items():
        report[name] = []
        for prefix, questions, scenes in points[:2] if options.smallest else points:
            groups = [bench.samples(prefix, questions, SUFFIX, shape["vocab_size"], seed) for seed in range(scenes)]
            pack = make_pack(groups).to(device)
            losses = lambda pack=pack: [pack_loss(model, pack, how)[0]]  # noqa: E731
            seconds = [bench.timed(model, options.dtype, losses) for _ in range(options.repeats + 1)]
            middle = statistics.median(seconds[1:])  # the first warms up
            work = 0.0
            for group in groups:
                counted = bench.pairs_of(prefix, [len(row.suffix) for row in group], "shared")
                work += bench.flops(shape, *counted, sum(sum(row.mask) for row in group), options.rank)
            report[name].append(
                {
                    "scene_tokens": prefix,
                    "questions": questions,
                    "scenes": scenes,
                    "ms_per_question": round(1000 * middle / (questions * scenes), 2),
                    "gflop": round(work / 1e9, 1),
                    "gflop_per_second": round(work / middle / 1e9, 1),
                }
            )
    if options.json:
        print(json.dumps(report))
        return
    for name, rows in report.items():
        print(f"\n{name}\n  {'scene':>6} {'questions':>9} {'scenes':>6} {'ms/question':>12} {'GFLOP':>8} {'GFLOP/s':>8}")
        for row in rows:
            print("  {:6} {:9} {:6} {:12.2f} {:8.1f} {:8.1f}".format(*row.values()))


if __name__ == "__main__":
    main()
