"""ReferIt3D: Nr3D and Sr3D, descriptions of one true object among the others of its scan."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grand3d.convert.graphs import assemble, rows_of, scannet_id
from grand3d.convert.tables import read_table
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

    ``meta`` holds ``easy`` (at most one distractor of the target's class) and ``view_dependent``, and from a CSV also
    ``stimulus_id``, ``num_tokens``, ``mentions_target_class`` and ``correct_guess``, by which papers leave rows out.
    ``sample_id`` is the assignment's id where rows have one, else scan, target and a number: never the stimulus, which several
    descriptions share.

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
        text = row.get("utterance", row.get("caption"))
        if not isinstance(text, str) or not text.strip():
            raise GrandError(f"utterance is {shown(text)}, expected the description", "broken row")
        name = str(row.get("assignmentid") or "")
        if not name:
            name = f"{scene_id}_{target}_{count[scene_id, target]}"
            count[scene_id, target] += 1
        return Sample(name, scene_id, "object_reference", text.strip(), "", (target,), meta=_meta(row))

    return assemble(questions, rows, make, truth, proposals, rejects)


def _meta(row: dict[str, Any]) -> dict[str, Any]:
    if "stimulus_id" not in row:
        return {"easy": field(row, "easy", bool, ""), "view_dependent": field(row, "view_dep", bool, "")}
    absent = [name for name in COLUMNS if name not in row]
    if absent:
        raise GrandError(f"the row has no {absent[0]}, expected as many columns as the head", "broken row")
    tokens = read_tokens(row["tokens"])
    meta: dict[str, Any] = {
        "stimulus_id": row["stimulus_id"],
        "easy": num_of_class(row["stimulus_id"]) <= 2,
        "view_dependent": not VIEW_WORDS.isdisjoint(tokens),
        "num_tokens": len(tokens),
    }
    for name in ("mentions_target_class", "correct_guess"):
        if row.get(name) not in (None, ""):
            if row[name] not in ("True", "False"):
                raise GrandError(f"{name} is {shown(row[name])}, expected True or False", "broken row")
            meta[name] = row[name] == "True"
    return meta


def read_tokens(text: str) -> list[str]:
    """The tokens of a row, which the CSV holds as a Python list: left as text, its letters would be taken for tokens.

    Raises:
        GrandError: If it is no such list.
    """
    try:
        tokens = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        tokens = None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise GrandError(f"tokens is {shown(text)}, expected a list of texts such as ['the', 'chair']", "broken row")
    return tokens


def num_of_class(stimulus_id: str) -> int:
    """Objects of the target's class in the scan, itself included, from ``scan-class-number-target-distractors...``.

    Raises:
        GrandError: If the id does not have this form, or names another number of distractors.
    """
    parts = stimulus_id.split("-", 4)
    others = parts[4].split("-") if len(parts) == 5 else []
    if len(parts) < 4 or not parts[2].isdigit() or len(others) != int(parts[2]) - 1:
        form = "scan-class-number-target and number - 1 distractors"
        raise GrandError(f"stimulus_id is {shown(stimulus_id)}, expected {form}", "broken row")
    return int(parts[2])
