"""ViGiL3D: prompts of varied language, each with what its language is like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grand3d.convert.graphs import assemble, scannet_id
from grand3d.convert.tables import read_table
from grand3d.errors import GrandError, shown
from grand3d.files import Rejects
from grand3d.sample import Data, Sample

INPUTS = {
    "questions": "vigil3d_scannet.csv or vigil3d_scannetpp.csv",
    "truth": "graph of the true objects, keyed by ScanNet's object ids; needed to score boxes",
    "proposals": "graph of a detector's proposals; without it prompts show the true objects",
}
NEEDED = ("prompt_id", "scene_id", "object_id", "description", "granularity")
FLAGS = ("num_attribute_type_", "num_relationship_type_", "num_anchor_type_")
COUNTS = (
    *("num_attributes_target", "num_attributes_anchors", "num_relationships_target", "num_relationships_anchors"),
    *("num_coreferences", "num_target_not_first_np", "num_negation"),
)


def convert(
    *,
    questions: str | Path,
    truth: str | Path | None = None,
    proposals: str | Path | None = None,
    rejects: Rejects | None = None,
) -> Data:
    """Read ViGiL3D into samples of the task ``object_reference``; ``meta["patterns"]`` holds the columns of its language.

    An empty flag is 0, as the authors read it. ``sample_id`` is the prompt's id.

    Raises:
        GrandError: See ``graphs.assemble``; also if columns are missing.
    """
    rejects = rejects if rejects is not None else Rejects()
    rows = read_table(questions, (*NEEDED, *COUNTS), "ViGiL3D")
    return assemble(questions, rows, _sample, truth, proposals, rejects)


def _sample(row: dict[str, Any]) -> Sample:
    if any(name not in row for name in (*NEEDED, *COUNTS)):
        raise GrandError("the row has fewer columns than the head, expected as many", "broken row")
    ids = tuple(dict.fromkeys(scannet_id(item, "object_id") for item in row["object_id"].split(",") if item.strip()))
    if row.get("is_valid", "1").strip() in ("0", "0.0"):
        raise GrandError("is_valid is 0, expected 1: the authors say to leave it out", "not valid")
    if not row["prompt_id"].strip() or not row["description"].strip():
        raise GrandError("prompt_id or description is empty, expected both", "broken row")
    patterns: dict[str, Any] = {"granularity": row["granularity"]}
    for key, value in row.items():
        if key in COUNTS or key.startswith(FLAGS):
            text = value.strip()
            if text and not text.isdigit():
                raise GrandError(f"{key} is {shown(value)}, expected a whole number or nothing", "bad number")
            patterns[key] = int(text or 0)
    meta = {"object_name": row.get("object_name", ""), "patterns": patterns}
    if row.get("pair_id"):
        meta["pair_id"] = row["pair_id"]
    return Sample(row["prompt_id"], row["scene_id"], "object_reference", row["description"], "", ids, meta=meta)
