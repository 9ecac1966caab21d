"""Benchmarks, one module each: their rules, rows without a model, and the papers' rows.

Each module named here has ``score(data, replies, missing=None) -> dict``, ``baselines(data) -> list of rows``, ``PAPER``, and
``TASKS``, the tasks of the samples that it scores.
"""

from __future__ import annotations

BENCHMARKS = {
    "scanrefer": "grand3d.bench.scanrefer",
    "pope": "grand3d.bench.pope",
}
