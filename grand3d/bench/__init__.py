"""Benchmarks, one module each: their rules, rows without a model, and the papers' rows.

Each module named here has ``PAPER``, the papers' rows, and

- ``score(data, answers, missing=None) -> dict``, the report; ``TASKS``, the tasks of the samples that it scores;
- ``SEVERAL``, True where references may mean none or several objects;
- ``SOURCE``, the converter of its published questions and the keyword of their file;
- ``read_replies(path, data, rejects=None)``, answers from our replies file or the published form;

or, where files are too large to be held, ``score_files(questions, predictions, missing=None, rejects=None)`` in place of
``score``, ``SOURCE`` and ``read_replies``.

``write_upload(path, data, answers) -> int`` writes the published form, and returns how many answers it cannot.
"""

from __future__ import annotations

BENCHMARKS = {
    "scanrefer": "grand3d.bench.scanrefer",
    "pope": "grand3d.bench.pope",
    "referit3d": "grand3d.bench.referit3d",
    "multi3drefer": "grand3d.bench.multi3drefer",
    "vigil3d": "grand3d.bench.vigil3d",
    "sg3d": "grand3d.bench.sg3d",
    "reref3d": "grand3d.bench.reref3d",
    "mmscan": "grand3d.bench.mmscan",
    "scanqa": "grand3d.bench.scanqa",
    "sqa3d": "grand3d.bench.sqa3d",
    "scan2cap": "grand3d.bench.scan2cap",
    "beacon3d": "grand3d.bench.beacon3d",
    "mmscan_qa": "grand3d.bench.mmscan_qa",
    "mmscan_caption": "grand3d.bench.mmscan_caption",
}
