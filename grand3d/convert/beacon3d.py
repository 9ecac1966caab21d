"""Beacon3D: chains of expressions, and questions, three each about an object (from documentation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grand3d.convert.graphs import assemble, scannet_id
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, read_json
from grand3d.sample import Data, Sample

INPUTS = {
    "questions": "metadata_*_grounding.json or metadata_*_qa.json: {scan: {class: {object id: ...}}}",
    "more": "the other one of the two, for the analysis of both together",
    "truth": "graph of the true objects, keyed by the ids of the scans' own data set",
    "proposals": "graph of a detector's proposals; needed for prompts where there are no true objects",
}


def convert(
    *,
    questions: str | Path,
    more: str | Path | None = None,
    truth: str | Path | None = None,
    proposals: str | Path | None = None,
    rejects: Rejects | None = None,
) -> Data:
    """Read Beacon3D: expressions as ``object_reference``, questions as ``question``.

    One that a scan holds several times is one sample, as in the files derived for ScanRefer's and ScanQA's form, whose
    ``item_id`` or ``question_id`` is ``sample_id``. ``meta`` holds its ``tags`` and ``places``: ``[object, chain, step]`` of an
    expression, where step 0 is the finest, or ``[object, number]`` of a question; a question also ``answers`` and ``extra``,
    whether it asks for more than its object. The objects of questions are ``target_ids`` only where the true objects are given.

    Raises:
        GrandError: See ``graphs.assemble``; also for the derived files, which leave out what repeats.
    """
    rejects = rejects if rejects is not None else Rejects()
    rows: dict[tuple[str, str, str], tuple[str, dict[str, Any]]] = {}
    space = ""
    for path in (questions, *([more] if more is not None else [])):
        document = read_json(path)
        if not isinstance(document, dict) or not document:
            hint = "metadata_*.json, which stands beside it" if isinstance(document, list) else "an object {scan: {class: ...}}"
            raise GrandError(f"{place(path)}: holds {shown(document)}, expected {hint}", "wrong type")
        space = space or _space(next(iter(document)))
        for where, row in _items(path, document, rejects):
            kept = rows.setdefault((row["scene_id"], row["task"], row["text"]), (where, {**row, "places": []}))[1]
            kept["places"].append(row["place"])

    def make(row: dict[str, Any]) -> Sample:
        meta = {"tags": row["tags"], "places": row["places"]}
        if row["task"] == "object_reference":
            return Sample(row["id"], row["scene_id"], row["task"], row["text"], target_ids=tuple(row["targets"]), meta=meta)
        targets = (row["place"][0],) if truth is not None else ()
        meta |= {"answers": [row["answer"]], "extra": row["extra"]}
        return Sample(row["id"], row["scene_id"], row["task"], row["text"], row["answer"], targets, meta=meta)

    return assemble(questions, rows.values(), make, truth, proposals, rejects, space)


def _space(scan: str) -> str:
    """Whose object ids a file speaks of, by how its scans are called."""
    return "multiscan" if scan.startswith("scene_") else "scannet" if scan.startswith("scene") else "3rscan"


def _items(path: str | Path, document: Mapping[str, Any], rejects: Rejects) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every expression or question with its place in the file."""
    for scan, classes in document.items():
        for name, objects in classes.items() if isinstance(classes, dict) else (("", None),):
            for item, entry in objects.items() if isinstance(objects, dict) else (("", None),):
                where = f"{place(path)}: {scan}, {name} {item}"
                try:
                    if not isinstance(entry, dict):
                        raise GrandError(f"is {shown(entry)}, expected an object of chains or with a list of qa", "wrong type")
                    found = list(_questions(scan, item, entry) if "qa" in entry else _chains(scan, item, entry))
                except GrandError as error:
                    rejects.add(where, str(error), {scan: {name: {item: entry}}}, error.cause)
                    continue
                yield from ((where, row) for row in found)


def _chains(scan: str, item: str, entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    item = scannet_id(item, "an object id")
    for chain in entry:
        for step, row in enumerate(_objects(field(entry, chain, list, ""), chain)):
            tag, text = field(row, "tag", str, chain), field(row, "text", str, chain)
            targets = [scannet_id(target, "obj_id") for target in field(row, "obj_id", list, chain)]
            if not targets or not text.strip():
                raise GrandError(f"{chain}: text or obj_id is empty, expected both", "broken row")
            yield {
                **{"id": f"{scan}_{item}_{chain}_{step}_{tag}", "scene_id": scan, "task": "object_reference", "text": text},
                **{"targets": list(dict.fromkeys(targets)), "tags": tag.lower().split("-"), "place": [item, chain, step]},
            }


def _questions(scan: str, item: str, entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    item = scannet_id(item, "an object id")
    for number, row in enumerate(_objects(field(entry, "qa", list, ""), "qa")):
        tag, text, answer = (field(row, key, str, "qa") for key in ("tag", "question", "answer"))
        extra = int(field(row, "extra_knowledge", float, "qa"))
        if not text.strip() or not answer.strip():
            raise GrandError("qa: question or answer is empty, expected both", "broken row")
        yield {
            **{"id": f"{scan}_{item}_{number}_{tag}_{extra}", "scene_id": scan, "task": "question", "text": text},
            **{"answer": answer, "extra": bool(extra), "tags": [tag.lower()], "place": [item, number]},
        }


def _objects(rows: list[Any], what: str) -> list[dict[str, Any]]:
    for row in rows:
        if not isinstance(row, dict):
            raise GrandError(f"{what} holds {shown(row)}, expected JSON objects", "wrong type")
    return rows
