"""ReferIt3D: Nr3D and Sr3D, descriptions of one true object among the others of its scan (CSV files from documentation)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grand3d.convert.graphs import assemble, rows_of, scannet_id
from grand3d.convert.tables import flag_cell, list_cell, read_table
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, read_bytes
from grand3d.sample import Data, Sample

INPUTS = {
    "questions": "nr3d.csv or sr3d.csv, or a list of {scan_id, target_id, caption, easy, view_dep}",
    "truth": "graph of the true objects, keyed by ScanNet's object ids; needed to score boxes",
    "proposals": "graph of a detector's proposals; without it prompts show the true objects",
}
COLUMNS = ("scan_id", "target_id", "utterance", "stimulus_id", "tokens")
VIEW_WORDS = frozenset(("front", "behind", "back", "right", "left", "facing", "leftmost", "rightmost", "looking", "across"))
"""Tokens that make a description depend on the view: whole tokens, in lower case, as ReferIt3D's own code looks for them."""


def convert(
    *,
    questions: str | Path,
    truth: str | Path | None = None,
    proposals: str | Path | None = None,
    rejects: Rejects | None = None,
) -> Data:
    """Read Nr3D or Sr3D into samples of the task ``object_reference``.

    ``meta`` holds ``easy`` (at most one distractor of the target's class), ``view_dependent``, and ``ann_id``, the number of the
    row among those of its scan and target. From a CSV also ``stimulus_id``, ``same_class_ids`` (the target and its distractors),
    ``num_tokens``, ``mentions_target_class``, ``correct_guess`` and ``instance_type``, by which papers leave rows out, and Sr3D's
    ``reference_type`` and ``anchor_ids``. ``sample_id`` is the assignment's id where rows have one, else scan, target and
    ``ann_id``: never the stimulus, which several descriptions share.

    Raises:
        GrandError: See ``graphs.assemble``.
    """
    rejects = rejects if rejects is not None else Rejects()
    if read_bytes(questions).lstrip(b"\xef\xbb\xbf \r\n\t")[:1] == b"[":
        listed = enumerate(rows_of(questions))
        rows: Iterator[tuple[str, Any]] = ((f"{place(questions)}: row {index}", row) for index, row in listed)
    else:
        rows = read_table(questions, COLUMNS, "Nr3D or Sr3D")
    count: Counter[tuple[str, str]] = Counter()

    def make(row: dict[str, Any]) -> Sample:
        scene_id, target = field(row, "scan_id", str, ""), scannet_id(row.get("target_id"), "target_id")
        ann_id = count[scene_id, target]
        count[scene_id, target] += 1  # of broken rows too, so that those behind keep their number
        text = row.get("utterance", row.get("caption"))
        if not isinstance(text, str) or not text.strip():
            raise GrandError(f"utterance is {shown(text)}, expected the description", "broken row")
        name = str(row.get("assignmentid") or "") or f"{scene_id}_{target}_{ann_id}"
        meta = {"ann_id": str(ann_id)} | _meta(row, target)
        return Sample(name, scene_id, "object_reference", text.strip(), "", (target,), meta=meta)

    return assemble(questions, rows, make, truth, proposals, rejects)


def _meta(row: dict[str, Any], target: str) -> dict[str, Any]:
    if "stimulus_id" not in row:
        return {"easy": field(row, "easy", bool, ""), "view_dependent": field(row, "view_dep", bool, "")}
    absent = [name for name in COLUMNS if name not in row]
    if absent:
        raise GrandError(f"the row has no {absent[0]}, expected as many columns as the head", "broken row")
    tokens, same = list_cell(row["tokens"], "tokens", str), same_class_ids(row["stimulus_id"])
    if same[0] != target:
        raise GrandError(
            f"target_id is {target}, the stimulus {shown(row['stimulus_id'])}, expected the same target", "broken row"
        )
    meta: dict[str, Any] = {
        "stimulus_id": row["stimulus_id"],
        "same_class_ids": same,
        "easy": len(same) <= 2,
        "view_dependent": not VIEW_WORDS.isdisjoint(tokens),
        "num_tokens": len(tokens),
    }
    meta |= {name: flag_cell(row[name], name) for name in ("mentions_target_class", "correct_guess") if row.get(name)}
    if row.get("instance_type"):
        meta["instance_type"] = row["instance_type"]
    if row.get("coarse_reference_type"):
        meta["reference_type"] = row["coarse_reference_type"]
    if row.get("anchor_ids"):
        meta["anchor_ids"] = [scannet_id(item, "anchor_ids") for item in list_cell(row["anchor_ids"], "anchor_ids", int)]
    return meta


def same_class_ids(stimulus_id: str) -> list[str]:
    """The objects of the target's class in the scan, the target first, from ``scan-class-number-target-distractors...``.

    Raises:
        GrandError: If the id does not have this form, or names another number of distractors.
    """
    parts = stimulus_id.split("-", 4)
    ids = [*parts[3:4], *(parts[4].split("-") if len(parts) == 5 else [])]
    if len(parts) < 4 or not parts[2].isdigit() or len(ids) != int(parts[2]):
        form = "scan-class-number-target and number - 1 distractors"
        raise GrandError(f"stimulus_id is {shown(stimulus_id)}, expected {form}", "broken row")
    return [scannet_id(item, "an id of stimulus_id") for item in ids]
