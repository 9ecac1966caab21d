"""CLEVR: coloured things on a plane, and questions about them with their programs (questions from documentation)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grand3d.convert.graphs import absent_scene, object_of, refuse_none_left, used_scenes
from grand3d.convert.tabletop import SCENES_HELP, Viewpoint, name_of, read_tables
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, read_json
from grand3d.sample import Data, Sample

INPUTS = {
    "scenes": SCENES_HELP,
    "questions": "CLEVR_*_questions.json; without it scenes come alone",
}


def convert(*, scenes: str | Path, questions: str | Path | None = None, rejects: Rejects | None = None) -> Data:
    """Read CLEVR's scenes (``tabletop.read_tables``) and its questions.

    Those answered by yes or no become samples of ``existence``, those by a number of ``counting``, the rest of ``question``.
    ``viewpoint`` of a sample is the camera's; ``meta`` holds the ``program``.

    Raises:
        GrandError: If a file is broken. Broken rows and unknown scenes raise too, unless ``rejects`` collects them.
    """
    rejects = rejects if rejects is not None else Rejects()
    tables, lost = read_tables(scenes, rejects)
    found = {name: scene for name, (scene, _) in tables.items()}
    if questions is None:
        return Data(found, ())
    document = read_json(questions)
    rows = document.get("questions") if isinstance(document, dict) else document
    if not isinstance(rows, list) or not rows:
        raise GrandError(f"{place(questions)}: holds {shown(document)}, expected {{questions: [...]}}", "wrong type")
    samples: dict[str, Sample] = {}
    for index, row in enumerate(rows):
        try:
            name = name_of(object_of(row))
            if name not in tables:
                raise absent_scene(name, lost, "is not among the scenes")
            sample = _sample(row, name, index, tables[name][1])
            if sample.sample_id in samples:
                raise GrandError(f"question {shown(sample.sample_id)} occurs twice, expected once", "id twice")
        except GrandError as error:
            rejects.add(f"{place(questions)}: question {index}", str(error), row, error.cause)
            continue
        samples[sample.sample_id] = sample
    refuse_none_left(questions, samples, rejects)
    return Data(used_scenes(found, {sample.scene_id for sample in samples.values()}), tuple(samples.values()))


def _sample(row: dict[str, Any], name: str, index: int, viewpoint: Viewpoint) -> Sample:
    text, answer = field(row, "question", str, "").strip(), row.get("answer")
    program = field(row, "program", list, "", [])
    if not text or not isinstance(answer, str | int | bool):
        raise GrandError(f"question is {shown(text)} with the answer {shown(answer)}, expected both", "broken row")
    word = {True: "yes", False: "no"}[answer] if isinstance(answer, bool) else str(answer)
    task = "existence" if word in ("yes", "no") else "counting" if word.isdigit() else "question"
    number = field(row, "question_index", int, "", index)
    spoken = word.capitalize() if task == "existence" else word
    meta = {"program": program} if program else {}
    return Sample(f"{name}_{number}", name, task, text, spoken, viewpoint=viewpoint, meta=meta)
