"""MMScan: questions and captions (``MMScan_QA.json`` from documentation)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grand3d.convert.graphs import assemble
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, opened, read_json, texts
from grand3d.items import read_items
from grand3d.sample import Data, Sample

INPUTS = {
    "questions": "MMScan_QA.json, rows of one split of it, or the evaluator's input: {id: {question, gt}} or a list with ID",
    "split": "train, val or test, where the file holds all of them (default: val)",
    "truth": "graph of the true objects, keyed by EmbodiedScan's object ids",
    "proposals": "graph of a detector's proposals; needed for prompts where there are no true objects",
}
_CAPTIONED = re.compile(r"(?P<scan>.+?)_(?P<kind>region_)?(?P<number>[0-9]+)")


def convert(
    *,
    questions: str | Path,
    split: str = "val",
    truth: str | Path | None = None,
    proposals: str | Path | None = None,
    rejects: Rejects | None = None,
) -> Data:
    """Read questions, and objects and regions to describe, as samples of the task ``question``.

    ``meta`` holds ``answers``, ``sub_class`` where it is a question, ``object_ids`` and ``object_names``, and ``input_boxes`` (9
    numbers each, as published) that the question points at. A caption's object or region is ``meta["object_id"]`` or
    ``meta["region_id"]``, from an id such as ``scene0231_01_84`` or ``scene0246_00_region_1``. ``target_ids`` are the objects
    only where the true objects are given.

    Raises:
        GrandError: See ``graphs.assemble``; also if a file of several splits does not hold ``split``.
    """
    rejects = rejects if rejects is not None else Rejects()

    def make(row: dict[str, Any]) -> Sample:
        name = field(row, "ID", str, "")
        about = {} if "scan_id" in row else _told_by(name)
        scan = field(row | about, "scan_id", str, "")
        answers = list(texts(field(row, "answers" if "answers" in row else "gt", list, ""), "answers"))
        question = field(row, "question", str, "").strip()
        if not question or not any(text.strip() for text in answers):
            raise GrandError("question or answers are empty, expected both", "broken row")
        sub_class = field(row, "sub_class", str, "", about.get("sub_class"))
        ids = [str(item) for item in field(row, "object_ids", list, "", [])]
        meta = {"answers": answers, "object_ids": ids, "object_names": field(row, "object_names", list, "", [])}
        meta |= {"sub_class": sub_class, "input_boxes": field(row, "input_bboxes", list, "", [])}
        meta |= {key: value for key, value in about.items() if key in ("object_id", "region_id")}
        named = ids or ([meta["object_id"]] if "object_id" in meta else [])
        targets = tuple(dict.fromkeys(named)) if truth is not None else ()
        kept = {key: value for key, value in meta.items() if value}
        return Sample(name, scan, "question", question, answers[0], targets, meta=kept)

    return assemble(questions, _rows(questions, split, rejects), make, truth, proposals, rejects, "embodiedscan")


def _told_by(name: str) -> dict[str, str]:
    """What an id says where the row says no more: the scan, and the sub-class of a question or the object of a caption."""
    parts = name.split("__")
    if len(parts) >= 3:
        return {"sub_class": parts[0], "scan_id": "__".join(parts[1:-1])}
    match = _CAPTIONED.fullmatch(name)
    if match is None:
        expected = "CLASS__SCAN__NUMBER, SCAN_OBJECT or SCAN_region_NUMBER, or a row with scan_id"
        raise GrandError(f"ID is {shown(name)}, expected {expected}", "bad id")
    return {"scan_id": match["scan"], "region_id" if match["kind"] else "object_id": match["number"]}


def _rows(path: str | Path, split: str, rejects: Rejects) -> Iterator[tuple[str, Any]]:
    with opened(Path(path)) as file:
        start = file.read(64).lstrip(b"\xef\xbb\xbf\r\n\t ")[:1]
    if start == b"[" or Path(path).suffix == ".jsonl":
        yield from read_items(path, lambda row: row, rejects)
        return
    document = read_json(path)
    if not isinstance(document, dict) or not document:
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected rows, or an object of them", "wrong type")
    if all(isinstance(value, list) for value in document.values()):
        if split not in document:
            raise GrandError(f"{place(path)}: holds the splits {', '.join(document)}, expected {shown(split)} among them")
        yield from ((f"{place(path)}: {split} row {index}", row) for index, row in enumerate(document[split]))
        return
    for name, row in document.items():
        yield f"{place(path)}: {shown(name)}", {"ID": name, **row} if isinstance(row, dict) else row
