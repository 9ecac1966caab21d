"""LEO's annotations: questions, dialogues, plans and captions of 3RScan and ScanNet (from documentation)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from grand3d.convert.graphs import assemble, scannet_id
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, read_json, texts
from grand3d.sample import Data, Sample

INPUTS = {
    "questions": "one of 3rscan_qa, 3rscan_dialog, 3rscan_plan, 3rscan_scenecap, 3rscan_prompted, 3rscan_scanscribe, or "
    "scanrefer and nr3d in LEO's form (.json)",
    "truth": "graph of the true objects, keyed by the ids of the scans' own data set",
}
_NUMBERED = re.compile(r"[^'\",{}]+-([0-9]+)")
_KEY = re.compile(r"['\"][^'\"{}]+-([0-9]+)['\"]\s*:\s*\{")
"""A key such as ``'wall-2': {`` of the scene graph that a row quotes in Python's form, which is never evaluated."""


def convert(*, questions: str | Path, truth: str | Path, rejects: Rejects | None = None) -> Data:
    """Read one of LEO's files, told apart by what its rows hold.

    ``question`` with all ``meta["answers"]``; of a dialogue every answer, with what was said before in ``meta["history"]``;
    ``plan`` as plain text; ``scene_description``; ``object_description``. Objects that a row names, as in ``wall-2``, are
    ``target_ids`` of questions and descriptions of objects, ``meta["object_ids"]`` of scenes.

    Raises:
        GrandError: See ``graphs.assemble``.
    """
    rejects = rejects if rejects is not None else Rejects()
    count: Counter[str] = Counter()

    def make(row: dict[str, Any]) -> Sample:
        scan = field(row, "scan_id", str, "")
        sample = _FORMS[next((key for key in _FORMS if key in row), "")](scan, row)
        if not sample.answer.strip() or (sample.task in ("question", "plan") and not sample.text.strip()):
            raise GrandError("what is asked or answered is empty, expected both", "broken row")
        number = count[scan]
        count[scan] += 1
        return Sample(f"{scan}_{number}", *_rest(sample))

    space = "scannet" if Path(questions).name.lower().startswith(("scan", "nr3d", "sr3d")) else "3rscan"
    return assemble(questions, _rows(questions, rejects), make, truth, None, rejects, space)


def _rest(sample: Sample) -> tuple[Any, ...]:
    return sample.scene_id, sample.task, sample.text, sample.answer, sample.target_ids, sample.viewpoint, sample.meta


def _rows(path: str | Path, rejects: Rejects) -> Iterator[tuple[str, Any]]:
    """Every question, answer of a dialogue, plan or caption, as an object with its ``scan_id``."""
    document = read_json(path)
    if isinstance(document, list):
        yield from ((f"{place(path)}: row {index}", row) for index, row in enumerate(document))
        return
    if not isinstance(document, dict):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected a list of rows or an object of scans", "wrong type")
    for scan, entry in document.items():
        where = f"{place(path)}: {scan}"
        if isinstance(entry, dict) and "response" not in entry:  # captions by object
            listed = [
                {"object": key, "row": row} for key, rows in entry.items() for row in (rows if isinstance(rows, list) else [rows])
            ]
            listed = [{**x["row"], "object": x["object"]} if isinstance(x["row"], dict) else x["row"] for x in listed]
        else:
            listed = entry.get("response") if isinstance(entry, dict) else entry
        if not isinstance(listed, list):
            rejects.add(where, f"is {shown(entry)}, expected a list, or an object with a list of response", entry, "wrong type")
            continue
        for index, row in enumerate(listed):
            spot = f"{where}, {index}"
            if isinstance(row, list):
                yield from ((spot, {**turn, "scan_id": scan}) for turn in _turns(row))
            else:
                yield spot, {**row, "scan_id": scan} if isinstance(row, dict) else row


def _turns(dialogue: list[Any]) -> Iterator[dict[str, Any]]:
    """Every answer of a dialogue, with what was asked and what went before; one broken turn spoils the dialogue."""
    roles = [turn.get("role") if isinstance(turn, dict) else None for turn in dialogue]
    said = [str(turn.get("content", "")).strip() if isinstance(turn, dict) else "" for turn in dialogue]
    if roles != (["Human", "Robot"] * len(roles))[: len(roles)] or len(roles) < 2:
        yield {"turns": roles}
        return
    for index in range(1, len(dialogue), 2):
        yield {"turns": roles, "asked": said[index - 1], "answered": said[index], "history": said[: index - 1]}


def _question(scan: str, row: dict[str, Any]) -> Sample:
    answers = [text.strip() for text in texts(field(row, "A", list, ""), "A")]
    ids = dict.fromkeys(_NUMBERED.findall(field(row, "T", str, "", "")))
    first = answers[0] if answers else ""
    return Sample("", scan, "question", field(row, "Q", str, "").strip(), first, tuple(ids), meta={"answers": answers})


def _dialogue(scan: str, row: dict[str, Any]) -> Sample:
    if "asked" not in row:
        raise GrandError(f"roles of a dialogue are {shown(row['turns'])}, expected Human and Robot in turn", "wrong turns")
    meta = {"answers": [row["answered"]], "history": row["history"]}
    return Sample("", scan, "question", row["asked"], row["answered"], meta=meta)


def _plan(scan: str, row: dict[str, Any]) -> Sample:
    return Sample("", scan, "plan", field(row, "instruction", str, "").strip(), field(row, "plan", str, "").strip())


def _object(name: str) -> Callable[[str, dict[str, Any]], Sample]:
    def make(scan: str, row: dict[str, Any]) -> Sample:
        found = row.get("target_id", row.get("object_id"))
        target = scannet_id(found if found is not None else field(row, "object", str, "").split("-")[-1], "an object id")
        return Sample("", scan, "object_description", "", field(row, name, str, "").strip(), (target,))

    return make


def _caption(scan: str, row: dict[str, Any]) -> Sample:
    if "object" in row:
        return _object("response")(scan, row)
    ids = list(dict.fromkeys(_KEY.findall(field(row, "query", str, "", ""))))
    return Sample("", scan, "scene_description", "", field(row, "response", str, "").strip(), meta={"object_ids": ids})


def _unknown(scan: str, row: dict[str, Any]) -> Sample:
    raise GrandError(f"the keys are {shown(sorted(row))}, expected those of one of LEO's files", "unknown form")


_FORMS: dict[str, Callable[[str, dict[str, Any]], Sample]] = {
    **{"Q": _question, "turns": _dialogue, "plan": _plan, "utterance": _object("utterance"), "sentence": _object("sentence")},
    **{"response": _caption, "": _unknown},
}
