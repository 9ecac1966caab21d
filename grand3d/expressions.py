"""Expressions from any file of texts: data folders, tables, JSON, plain lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from grand3d import markup
from grand3d.convert import vigil3d
from grand3d.convert.tables import read_table
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, read_json, read_numbered, read_text
from grand3d.store import is_store, open_data

TEXT_KEYS = ("description", "utterance", "caption", "text", "question", "sentence", "query", "expression")
SCENE_KEYS = ("scene_id", "scan_id", "scene", "scan")
ID_KEYS = ("sample_id", "prompt_id", "question_id", "assignmentid", "id")


@dataclass(frozen=True, slots=True)
class Expression:
    """A text that refers to something.

    Attributes:
        expression_id: Its sample, or the place it stands at.
        scene_id: Empty where the source does not say it.
        labels: Columns of ViGiL3D's file that people filled in; None where there are none.
    """

    expression_id: str
    scene_id: str
    text: str
    labels: dict[str, Any] | None = None


def load_expressions(path: str | Path, task: str | None = None, rejects: Rejects | None = None) -> list[Expression]:
    """Read the expressions of a source.

    Args:
        path: A data folder or store; ViGiL3D's CSV, whose labels are kept; another CSV, a JSON list (or an object of lists) or
            JSON lines whose rows have their text under one of TEXT_KEYS; a text file with an expression a line.
        task: Of a data folder, only the samples of this task.

    Raises:
        GrandError: If nothing can be read from it, or a row has no text, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    path = Path(path)
    if os.path.isdir(path) or is_store(path):
        out = [
            Expression(sample.sample_id, sample.scene_id, markup.plain(sample.text), sample.meta.get("patterns"))
            for sample in open_data(path, rejects).samples
            if task is None or sample.task == task
        ]
    elif task is not None:
        raise GrandError(f"{place(path)}: is no data folder, expected one with --task")
    elif path.suffix == ".csv" and _is_vigil3d(path):
        data = vigil3d.convert(questions=path, rejects=rejects)
        out = [Expression(row.sample_id, row.scene_id, row.text, row.meta["patterns"]) for row in data.samples]
    else:
        out = []
        for where, row in _rows(path, rejects):
            try:
                out.append(_expression(where, row))
            except GrandError as error:
                rejects.add(where, str(error), row, error.cause)
    if not out:
        of_task = f" of task {shown(task)}" if task is not None else ""
        raise GrandError(f"{place(path)}: holds no expression{of_task}, expected at least one", "no expression")
    return out


def _is_vigil3d(path: Path) -> bool:
    head = read_text(path).split("\n", 1)[0].strip().split(",")
    return all(name in head for name in ("prompt_id", "object_id", "granularity", "num_negation"))


def _rows(path: Path, rejects: Rejects) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".csv":
        return iter(read_table(path, (), "expressions"))
    if path.suffix == ".jsonl":
        return read_numbered(path, lambda row: row, rejects)
    if path.suffix == ".json":
        document = read_json(path)
        if isinstance(document, dict) and document and all(isinstance(value, list) for value in document.values()):
            document = list(chain.from_iterable(document.values()))
        if not isinstance(document, list):
            raise GrandError(
                f"{place(path)}: holds {shown(document)}, expected a list of rows or an object of lists", "wrong type"
            )
        return ((f"{place(path)}: row {k}", row) for k, row in enumerate(document))
    lines = enumerate(read_text(path).splitlines(), 1)
    return ((f"{place(path)}:{k}", line.strip()) for k, line in lines if line.strip())


def _expression(where: str, row: Any) -> Expression:
    if isinstance(row, str):
        return Expression(where, "", row)
    if not isinstance(row, dict):
        raise GrandError(f"is {shown(row)}, expected a text or an object with one", "wrong type")
    text = next((row[key] for key in TEXT_KEYS if isinstance(row.get(key), str) and row[key].strip()), None)
    if text is None:
        raise GrandError(f"keys are {shown(list(row))}, expected a text under one of {', '.join(TEXT_KEYS)}", "no text")
    scene = next((row[key] for key in SCENE_KEYS if isinstance(row.get(key), str)), "")
    name = next((str(row[key]) for key in ID_KEYS if isinstance(row.get(key), str | int)), where)
    return Expression(name, scene, text)
