"""ScanQA: questions about a scan with several right answers (from documentation)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grand3d.convert.graphs import assemble, rows_of, scannet_id
from grand3d.errors import GrandError, place
from grand3d.files import Rejects, field, texts
from grand3d.sample import Data, Sample

INPUTS = {
    "questions": "ScanQA_v1.0_*.json: a list of {scene_id, object_ids, object_names, question_id, question, answers}",
    "truth": "graph of the true objects, keyed by ScanNet's object ids",
    "proposals": "graph of a detector's proposals; needed for prompts where there are no true objects",
}


def convert(
    *,
    questions: str | Path,
    truth: str | Path | None = None,
    proposals: str | Path | None = None,
    rejects: Rejects | None = None,
) -> Data:
    """Read ScanQA into samples of the task ``question``; ``meta`` holds ``answers``, ``object_ids`` and ``object_names``.

    The objects are in ScanNet's numbering: they become ``target_ids`` only where the true objects are given.

    Raises:
        GrandError: See ``graphs.assemble``.
    """
    rejects = rejects if rejects is not None else Rejects()
    rows = ((f"{place(questions)}: row {index}", row) for index, row in enumerate(rows_of(questions)))

    def make(row: dict[str, Any]) -> Sample:
        answers = list(texts(field(row, "answers", list, ""), "answers"))
        question = field(row, "question", str, "").strip()
        if not answers or not question:
            raise GrandError("question or answers are empty, expected both", "broken row")
        ids = [scannet_id(item, "an object id") for item in field(row, "object_ids", list, "", [])]
        meta = {"answers": answers, "object_ids": ids, "object_names": field(row, "object_names", list, "", [])}
        targets = tuple(dict.fromkeys(ids)) if truth is not None else ()
        scene_id = field(row, "scene_id", str, "")
        return Sample(field(row, "question_id", str, ""), scene_id, "question", question, answers[0], targets, meta=meta)

    return assemble(questions, rows, make, truth, proposals, rejects)
