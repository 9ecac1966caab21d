"""SQA3D: questions asked from where somebody stands in a scan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from grand3d.convert.graphs import assemble
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, numbers, read_json
from grand3d.sample import Data, Sample

INPUTS = {
    "questions": "v1_balanced_questions_*_scannetv2.json",
    "annotations": "v1_balanced_sqa_annotations_*_scannetv2.json: the answers, and where the asker stands",
    "alignment": "{scan: 16 numbers of its axis-alignment matrix}; without it samples have no viewpoint",
    "proposals": "graph of a detector's proposals; needed for prompts",
}
EYES = 1.6
"""Metres above the floor at which a viewpoint is put: the data give none."""


def convert(
    *,
    questions: str | Path,
    annotations: str | Path,
    alignment: str | Path | None = None,
    proposals: str | Path | None = None,
    rejects: Rejects | None = None,
) -> Data:
    """Read SQA3D into samples of the task ``question``: the situation, then the question.

    ``meta`` holds ``situation``, ``question``, ``answers``, ``position`` and ``rotation`` as published. The position counts from
    the middle of the scan along the axes of the raw mesh, and the asker looks along the negative x of the rotation: turned
    into the aligned axes by the scan's matrix, without its shift, that gives ``viewpoint``. So read, an object of the label lies
    within 45 degrees of the line of sight in 81 % of the 177 situations of the test split that say "facing the ...", in 49 %
    under the best of the other readings tried.

    Raises:
        GrandError: See ``graphs.assemble``; also for a question without an annotation.
    """
    rejects = rejects if rejects is not None else Rejects()
    answers = {}
    for index, row in enumerate(_rows(annotations, "annotations")):
        if isinstance(row, dict) and isinstance(row.get("question_id"), int):
            answers[row["question_id"]] = row
        else:
            where = f"{place(annotations)}: annotation {index}"
            rejects.add(where, f"is {shown(row)}, expected an object with question_id", row, "broken row")
    turns = _turns(alignment) if alignment is not None else {}
    rows = ((f"{place(questions)}: question {index}", row) for index, row in enumerate(_rows(questions, "questions")))

    def make(row: dict[str, Any]) -> Sample:
        number = field(row, "question_id", int, "")
        if number not in answers:
            raise GrandError(f"question {number} has no annotation, expected one in the file of answers", "no annotation")
        return _sample(row, answers[number], turns)

    return assemble(questions, rows, make, None, proposals, rejects)


def _rows(path: str | Path, key: str) -> list[Any]:
    document = read_json(path)
    rows = document.get(key) if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows:
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected an object with a list of {key}", "wrong type")
    return rows


def _turns(path: str | Path) -> dict[str, float]:
    """The turn about z, radians, by which each scan's matrix aligns it."""
    document = read_json(path)
    if not isinstance(document, dict):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected {{scan: 16 numbers}}", "wrong type")
    out = {}
    for scan, row in document.items():
        matrix = numbers(row, 16, f"{place(path)}: {scan}")
        out[scan] = math.atan2(matrix[4], matrix[0])
    return out


def _sample(row: dict[str, Any], annotation: dict[str, Any], turns: Mapping[str, float]) -> Sample:
    scene_id, question = field(row, "scene_id", str, ""), field(row, "question", str, "").strip()
    if annotation.get("scene_id") != scene_id:
        raise GrandError(f"its annotation is of scan {shown(annotation.get('scene_id'))}, expected {scene_id}", "wrong scan")
    situation = field(row, "situation", str, "").strip()
    texts = [field(item, "answer", str, "") for item in field(annotation, "answers", list, "") if isinstance(item, dict)]
    if not texts or not question:
        raise GrandError("question or answers are empty, expected both", "broken row")
    position = [float(field(field(annotation, "position", dict, ""), axis, float, "position")) for axis in "xyz"]
    rotation = [float(field(field(annotation, "rotation", dict, ""), f"_{axis}", float, "rotation")) for axis in "xyzw"]
    viewpoint = _viewpoint(position, rotation, turns[scene_id]) if scene_id in turns else None
    meta = {"situation": situation, "question": question, "answers": texts, "position": position, "rotation": rotation}
    text = f"{situation} {question}".strip()
    return Sample(str(row["question_id"]), scene_id, "question", text, texts[0], viewpoint=viewpoint, meta=meta)


def _viewpoint(position: list[float], rotation: list[float], turn: float) -> tuple[Any, Any]:
    x, y = position[:2]
    stand = np.array([x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn)])
    heading = 2 * math.atan2(rotation[2], rotation[3]) + turn + math.pi
    ahead = stand + np.array([math.cos(heading), math.sin(heading)])
    return (*map(float, stand), EYES), (*map(float, ahead), EYES)
