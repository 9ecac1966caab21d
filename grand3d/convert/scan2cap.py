"""Scan2Cap: captions of objects, made of ScanRefer's descriptions (from documentation)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grand3d.convert.graphs import assemble, object_of, rows_of, scannet_id
from grand3d.errors import GrandError, place
from grand3d.files import Rejects, field, texts
from grand3d.sample import Data, Sample

INPUTS = {
    "questions": "ScanRefer_filtered_*.json: a list of {scene_id, object_id, object_name, ann_id, description, token}",
    "truth": "graph of the true objects, keyed by ScanNet's object ids; needed for the overlap of boxes",
    "proposals": "graph of a detector's proposals, which prompts then show",
}
MOST_TOKENS = 30


def convert(
    *,
    questions: str | Path,
    truth: str | Path | None = None,
    proposals: str | Path | None = None,
    rejects: Rejects | None = None,
) -> Data:
    """Read one sample of the task ``object_description`` an object: ``meta["captions"]`` are its references.

    A caption is the row's tokens, 30 at most, between ``sos`` and ``eos``, as Scan2Cap's code makes it; a row without tokens is
    split at blanks. ``sample_id`` is ``scene|object|name``, the key of the published files.

    Raises:
        GrandError: See ``graphs.assemble``.
    """
    rejects = rejects if rejects is not None else Rejects()
    grouped: dict[str, dict[str, Any]] = {}
    for index, row in enumerate(rows_of(questions)):
        try:
            kept = object_of(row)
            scene_id, target = field(kept, "scene_id", str, ""), scannet_id(kept.get("object_id"), "object_id")
            name = field(kept, "object_name", str, "")
            words = field(kept, "token", list, "", None)
            words = field(kept, "description", str, "").lower().split() if words is None else list(texts(words, "token"))
            if not words:
                raise GrandError("token is empty, expected the words of the description", "broken row")
        except GrandError as error:
            rejects.add(f"{place(questions)}: row {index}", str(error), row, error.cause)
            continue
        key = f"{scene_id}|{target}|{name}"
        group = grouped.setdefault(key, {"key": key, "scene_id": scene_id, "target": target, "name": name, "captions": []})
        group["captions"].append(f"sos {' '.join(words[:MOST_TOKENS])} eos")

    def make(row: dict[str, Any]) -> Sample:
        meta = {"captions": row["captions"], "object_name": row["name"]}
        answer = row["captions"][0].removeprefix("sos ").removesuffix(" eos")
        return Sample(row["key"], row["scene_id"], "object_description", "", answer, (row["target"],), meta=meta)

    return assemble(
        questions, ((f"{place(questions)}: {key}", row) for key, row in grouped.items()), make, truth, proposals, rejects
    )
