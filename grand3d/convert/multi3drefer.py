"""Multi3DRefer: descriptions of none, one or several objects (from documentation)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grand3d.convert.graphs import assemble, rows_of, scannet_id
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field
from grand3d.sample import Data, Sample

INPUTS = {
    "questions": "multi3drefer_*.json: a list of {scene_id, ann_id, object_ids, description, eval_type}",
    "truth": "graph of the true objects, keyed by ScanNet's object ids; needed to score boxes",
    "proposals": "graph of a detector's proposals; without it prompts show the true objects",
}
KINDS = ("zt_w_d", "zt_wo_d", "st_w_d", "st_wo_d", "mt")


def convert(
    *,
    questions: str | Path,
    truth: str | Path | None = None,
    proposals: str | Path | None = None,
    rejects: Rejects | None = None,
) -> Data:
    """Read Multi3DRefer into samples of the task ``object_reference``; ``meta`` holds ``ann_id`` and ``eval_type``.

    Raises:
        GrandError: See ``graphs.assemble``.
    """
    rejects = rejects if rejects is not None else Rejects()
    rows = ((f"{place(questions)}: row {index}", row) for index, row in enumerate(rows_of(questions)))
    return assemble(questions, rows, _sample, truth, proposals, rejects)


def _sample(row: dict[str, Any]) -> Sample:
    scene_id = field(row, "scene_id", str, "")
    ann_id = scannet_id(row.get("ann_id"), "ann_id")
    kind = field(row, "eval_type", str, "")
    ids = tuple(dict.fromkeys(scannet_id(item, "an object id") for item in field(row, "object_ids", list, "")))
    expected = 0 if kind.startswith("zt") else 1 if kind.startswith("st") else 2
    if kind not in KINDS or (len(ids) != expected if expected < 2 else len(ids) < 2):
        reason = f"eval_type is {shown(kind)} with {len(ids)} objects, expected one of {', '.join(KINDS)} with as many"
        raise GrandError(reason, "wrong kind")
    meta = {"ann_id": ann_id, "eval_type": kind}
    return Sample(f"{scene_id}_{ann_id}", scene_id, "object_reference", field(row, "description", str, ""), "", ids, meta=meta)
