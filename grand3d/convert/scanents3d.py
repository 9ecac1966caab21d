"""ScanEnts3D: descriptions of ScanRefer and Nr3D of which every phrase names its objects (from documentation).

Locate 3D's files (ScanNet part) have the same form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from grand3d import markup
from grand3d.convert.graphs import assemble, rows_of, scannet_id
from grand3d.convert.tables import list_cell, read_table
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, read_bytes
from grand3d.sample import Data, Sample

INPUTS = {
    "questions": "ScanRefer_filtered_*_ScanEnts3D.json or ScanEnts3D_Nr3D.csv: rows with token(s) and entities",
    "truth": "graph of the true objects, keyed by ScanNet's object ids; targets and phrases are checked against it",
    "proposals": "graph of a detector's proposals; without it prompts show the true objects",
}
COLUMNS = ("scan_id", "target_id", "utterance", "tokens", "entities")
Phrase = tuple[tuple[int, ...], tuple[str, ...]]
"""Tokens and the objects they name."""


def convert(
    *,
    questions: str | Path,
    truth: str | Path | None = None,
    proposals: str | Path | None = None,
    rejects: Rejects | None = None,
) -> Data:
    """Read ScanEnts3D into samples of the task ``object_reference`` whose text is grounded: ``<p>the chair</p>[<12>]``.

    An entity is a list of tokens and a list of ``<ScanNet id>_<label>``. Tokens that stand apart become phrases of their own,
    each with the entity's objects; the same tokens given twice name the objects of both. Markup does not nest: of phrases that
    share tokens the longest stays, ``meta.num_overlapping`` counts the others. ``meta`` also holds ``ann_id`` and, where rows
    have them, ``object_name`` and ``stimulus_id``. ``sample_id`` is the assignment's id (Nr3D), else ``scan_target_ann``.

    Raises:
        GrandError: See ``graphs.assemble``; also for tokens or objects that are not there.
    """
    rejects = rejects if rejects is not None else Rejects()
    if read_bytes(questions).lstrip(b"\xef\xbb\xbf \r\n\t")[:1] == b"[":
        listed = enumerate(rows_of(questions))
        rows: Iterator[tuple[str, Any]] = ((f"{place(questions)}: row {index}", row) for index, row in listed)
    else:
        rows = read_table(questions, COLUMNS, "ScanEnts3D's Nr3D")
    count: Counter[tuple[str, str]] = Counter()

    def make(row: dict[str, Any]) -> Sample:
        scene_id = field(row, "scan_id" if "scan_id" in row else "scene_id", str, "")
        target = scannet_id(row.get("target_id", row.get("object_id")), "the target's id")
        number = count[scene_id, target]
        count[scene_id, target] += 1
        text = field(row, "utterance" if "utterance" in row else "description", str, "")
        tokens, entities = _cells(row)
        kept, num_overlapping = apart(merged(entities, len(tokens)))
        ann_id = str(number) if row.get("ann_id") is None else scannet_id(row["ann_id"], "ann_id")
        meta: dict[str, Any] = {"ann_id": ann_id}
        meta |= {name: row[name] for name in ("object_name", "stimulus_id") if isinstance(row.get(name), str)}
        if num_overlapping:
            meta["num_overlapping"] = num_overlapping
        name = str(row.get("assignmentid") or "") or f"{scene_id}_{target}_{ann_id}"
        return Sample(name, scene_id, "object_reference", grounded(text, tokens, kept), "", (target,), meta=meta)

    return assemble(questions, rows, make, truth, proposals, rejects)


def _cells(row: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """Tokens and entities, which a CSV holds as Python lists."""
    tokens, entities = row.get("token", row.get("tokens")), row.get("entities")
    tokens = list_cell(tokens, "tokens", str) if isinstance(tokens, str) else tokens
    entities = list_cell(entities, "entities", list | tuple) if isinstance(entities, str) else entities
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise GrandError(f"token is {shown(tokens)}, expected a list of texts", "broken row")
    if not isinstance(entities, list):
        raise GrandError(f"entities is {shown(entities)}, expected a list of [tokens, objects]", "broken row")
    return tokens, entities


def merged(entities: list[Any], num_tokens: int) -> list[Phrase]:
    """Runs of neighbouring tokens with the objects they name, in the order of the text; the same run once.

    Raises:
        GrandError: For an entity of another form, a token that is not there, or an object without ScanNet's id.
    """
    runs: dict[tuple[int, ...], tuple[str, ...]] = {}
    for entity in entities:
        fits = isinstance(entity, list | tuple) and len(entity) == 2 and all(isinstance(part, list | tuple) for part in entity)
        if not fits or not all(isinstance(i, int) and not isinstance(i, bool) for i in entity[0]):
            raise GrandError(f"an entity is {shown(entity)}, expected [[token numbers], ['<id>_<label>', ...]]", "broken entity")
        numbers = sorted(set(entity[0]))
        if numbers and not 0 <= numbers[0] <= numbers[-1] < num_tokens:
            raise GrandError(f"an entity names tokens {shown(numbers)}, expected some of 0 to {num_tokens - 1}", "broken entity")
        ids = tuple(dict.fromkeys(scannet_id(str(item).partition("_")[0], f"the object {shown(item)}") for item in entity[1]))
        starts = [k for k, number in enumerate(numbers) if k == 0 or number != numbers[k - 1] + 1]
        for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
            run = tuple(numbers[start:end])
            runs[run] = tuple(dict.fromkeys(runs.get(run, ()) + ids))
    return sorted(runs.items())


def apart(phrases: list[Phrase]) -> tuple[list[Phrase], int]:
    """The phrases that share no token, of those that do the longest (the first of equals); and how many are left out."""
    taken: set[int] = set()
    kept = []
    for run, ids in sorted(phrases, key=lambda phrase: (-len(phrase[0]), phrase[0])):
        if taken.isdisjoint(run):
            taken.update(run)
            kept.append((run, ids))
    return sorted(kept), len(phrases) - len(kept)


def grounded(text: str, tokens: list[str], phrases: list[Phrase]) -> str:
    """The text with its phrases marked; where its tokens are not its words, the tokens with blanks between.

    Raises:
        GrandError: If a phrase holds markup.
    """
    places = _places(text, tokens)
    if places is None:
        ends = [*accumulate(len(token) + 1 for token in tokens)]
        places = [(end - 1 - len(token), end - 1) for token, end in zip(tokens, ends, strict=True)]
        text = " ".join(tokens)
    pieces, position = [], 0
    for run, ids in phrases:
        start, end = places[run[0]][0], places[run[-1]][1]
        if text[start:end].strip():
            pieces += [text[position:start], markup.span(text[start:end], ids)]
            position = end
    return "".join(pieces) + text[position:]


def _places(text: str, tokens: list[str]) -> list[tuple[int, int]] | None:
    """Where each token stands in a text, one behind the other without a letter or digit between; None if they do not."""
    lower, position = text.lower(), 0
    places = []
    for token in tokens:
        start = lower.find(token.lower(), position)
        if start < 0 or len(lower) != len(text) or any(c.isalnum() for c in text[position:start]):
            return None
        position = start + len(token)
        places.append((start, position))
    return places
