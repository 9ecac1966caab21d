"""How fast MMScan grounding is scored: overlaps of oriented boxes, and whole files.

    python tools/bench_metrics.py [--quick] [--json]

``obb_speedup``: exact overlaps of 256 proposals with 3 true boxes in a room of 6 x 5 x 2.5 m, half of them leaning, from 0.25 on,
against one manifold3d test a pair; both timed in this run, in turn. ``ap_diff``: AP and AR of these samples against those from
manifold3d's overlaps of every pair. ``samples_per_s`` of a whole predictions file, read from disk; ``limit`` says what its time
goes to. Without ``--quick`` the file is made in three sizes: time a sample and memory against their number, and what all of
MMScan's validation would take.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from grand3d.bench import mmscan
from grand3d.detection import average_precision, hits, recall, true_positives
from grand3d.oriented import as_boxes, iou_oriented, rotation_zxy

ROOM = np.array([6.0, 5.0, 2.5])
PROPOSALS, TARGETS = 256, 3
VALIDATION = 217_002  # samples of MMScan's VG validation split


def room(rng: np.random.Generator, share_upright: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Proposals (256, 9) and true boxes (3, 9): a few proposals lie about each true box, as a detector's do."""

    def boxes(num: int) -> np.ndarray:
        turn = rng.uniform(-np.pi, np.pi, (num, 3)) * np.array([1, 0.1, 0.1])
        turn[rng.random(num) < share_upright, 1:] = 0
        return np.concatenate([rng.uniform(0, 1, (num, 3)) * ROOM, rng.gamma(2.0, 0.3, (num, 3)) + 0.1, turn], axis=1)

    true = boxes(TARGETS)
    near = np.repeat(true, 6, axis=0) + rng.normal(0, 0.08, (6 * TARGETS, 9)) * ([1] * 3 + [1] * 3 + [0.5] * 3)
    near[:, 3:6] = np.abs(near[:, 3:6]) + 0.05
    return np.concatenate([near, boxes(PROPOSALS - len(near))]), true


def one_by_one(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One exact test a pair, as a plain loop does it."""
    from manifold3d import Manifold

    def solid(box: np.ndarray) -> Any:
        turn = np.concatenate([rotation_zxy(box[6:]), box[:3, None]], axis=1)
        return Manifold.cube(tuple(box[3:6]), True).transform(turn)

    out = np.zeros((len(a), len(b)))
    for i, left in enumerate(a):
        for j, right in enumerate(b):
            shared = (solid(left) ^ solid(right)).volume()
            out[i, j] = shared / (left[3:6].prod() + right[3:6].prod() - shared)
    return out


def scores_of(overlap: np.ndarray) -> list[float]:
    out = []
    for threshold in mmscan.THRESHOLDS:
        positive = true_positives(hits(overlap, threshold))
        out += [average_precision(positive, overlap.shape[1]), recall(positive, overlap.shape[1])]
    return out


def write_files(folder: Path, num: int, seed: int = 0) -> tuple[Path, Path]:
    rng = np.random.default_rng(seed)
    files = folder / f"questions_{num}.jsonl", folder / f"predictions_{num}.jsonl"
    with files[0].open("w") as questions, files[1].open("w") as predictions:
        for k in range(num):
            proposals, true = room(rng)
            sub_class = ("VG_Single_Attribute", "VG_Single_Space", "VG_Inter_Attribute_OO", "VG_Inter_OR")[k % 4]
            row = {"ID": f"q{k}", "scan_id": f"scene{k // 60}", "sub_class": sub_class, "gt_bboxes": true.round(4).tolist()}
            questions.write(json.dumps(row) + "\n")
            row = {
                "ID": f"q{k}",
                "pred_bboxes": proposals.round(4).tolist(),
                "pred_scores": rng.random(PROPOSALS).round(5).tolist(),
            }
            predictions.write(json.dumps(row) + "\n")
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute: one file of 300 samples")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of lines")
    options = parser.parse_args()
    rng = np.random.default_rng(7)
    rooms = [room(rng) for _ in range(6 if options.quick else 20)]
    slow, fast, differences, left = [], [], [], []
    iou_oriented(*rooms[0], 0.25)  # loads what it needs
    for proposals, true in rooms:
        began = time.perf_counter()
        every = one_by_one(proposals, true)
        slow.append(time.perf_counter() - began)
        each = []
        for _ in range(5):
            began = time.perf_counter()
            some = iou_oriented(proposals, true, 0.25)
            each.append(time.perf_counter() - began)
        fast.append(statistics.median(each))
        differences += [abs(a - b) for a, b in zip(scores_of(every), scores_of(some), strict=True)]
        left.append(float((some > 0).mean()))
    report: dict[str, Any] = {
        "pairs": PROPOSALS * TARGETS,
        "obb_speedup": round(statistics.median(slow) / statistics.median(fast), 1),
        "one_by_one_ms": round(1000 * statistics.median(slow), 1),
        "here_ms": round(1000 * statistics.median(fast), 2),
        "pairs_computed": round(statistics.mean(left), 4),
        "ap_diff": max(differences),
        "files": [],
    }
    with tempfile.TemporaryDirectory() as scratch:
        for num in (300,) if options.quick else (500, 2000, 8000):
            files = write_files(Path(scratch), num)
            began = time.perf_counter()
            mmscan.score_files(*files)
            seconds = time.perf_counter() - began
            began = time.perf_counter()
            for _, _ in mmscan.read_items(files[1], lambda row: as_boxes(row["pred_bboxes"])):
                pass
            reading = time.perf_counter() - began
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            report["files"].append(
                {
                    "samples": num,
                    "samples_per_s": round(num / seconds, 1),
                    "reading_share": round(reading / seconds, 2),
                    "peak_rss_mb": round(peak),
                }
            )
            for file in files:
                file.unlink()
    last = report["files"][-1]
    report["samples_per_s"] = last["samples_per_s"]
    report["limit"] = f"reading and checking boxes takes {100 * last['reading_share']:.0f} % of the time"
    report["validation_hours"] = round(VALIDATION / last["samples_per_s"] / 3600, 2)
    if options.json:
        print(json.dumps(report))
        return
    print(f"overlap of {report['pairs']} pairs: {report['one_by_one_ms']} ms one by one, {report['here_ms']} ms here")
    print(f"{report['obb_speedup']} times; {100 * report['pairs_computed']:.1f} % of the pairs overlap enough to be computed")
    for row in report["files"]:
        print(
            "{samples} samples: {samples_per_s} a second, {reading_share:.0%} of it reading, {peak_rss_mb} MB at most".format(
                **row
            )
        )
    print(f"MMScan's VG validation, {VALIDATION:,} samples: {report['validation_hours']} hours")


if __name__ == "__main__":
    main()
