"""Chat-Scene's annotations: instructions in which ``<OBJ012>`` is a detector's proposal (from documentation)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from grand3d.convert.graphs import assemble, rows_of
from grand3d.errors import GrandError, place
from grand3d.files import Rejects, field, texts
from grand3d.sample import Data, Sample

INPUTS = {
    "questions": "a list of {scene_id, obj_id, prompt, caption or ref_captions}",
    "proposals": "graph of the proposals in Chat-Scene's numbering: <OBJ012> is obj_12",
}
_MARK = re.compile(r"<OBJ([0-9]{3})>")
_ONLY_MARKS = re.compile(r"(?:yes|no|and|[\s.,]|<OBJ[0-9]{3}>)*", re.I)


def convert(*, questions: str | Path, proposals: str | Path, rejects: Rejects | None = None) -> Data:
    """Read one of Chat-Scene's annotation files.

    An answer of proposals alone, such as ``Yes. <OBJ003> and <OBJ012>.``, is an ``object_reference`` to them, a bare ``No.`` to
    nothing where the question asks for proposals; a prompt that names a proposal and gets a text an ``object_description``; the
    rest are ``question``. Prompts of references stay whole. In other texts a proposal becomes ``<p>object</p>[<12>]``. ``meta``
    holds ``answers``, the row's ``obj_id`` (ScanNet's id of the object that was annotated) and what else it says.

    Raises:
        GrandError: See ``graphs.assemble``; also for proposals that the graph does not have.
    """
    rejects = rejects if rejects is not None else Rejects()
    rows = ((f"{place(questions)}: row {index}", row) for index, row in enumerate(rows_of(questions)))
    count: Counter[str] = Counter()

    def make(row: dict[str, Any]) -> Sample:
        scene, prompt = field(row, "scene_id", str, ""), field(row, "prompt", str, "").strip()
        listed = field(row, "ref_captions", list, "", []) or [row.get("caption")]
        multiple = "eval_type" in row  # of Multi3DRefer; its validation file lists ScanNet's ids, which are no proposals
        if multiple and "caption" not in row:
            raise GrandError(
                "ref_captions are ScanNet's object ids, expected proposals; convert multi3drefer reads them", "other ids"
            )
        answers = [text.strip() for text in texts(listed, "caption or ref_captions")]
        if not prompt or not any(answers):
            raise GrandError("prompt or caption is empty, expected both", "broken row")
        named = list(dict.fromkeys(str(int(item)) for item in _MARK.findall(answers[0])))
        shown_ids = list(dict.fromkeys(str(int(item)) for item in _MARK.findall(prompt)))
        kept = {key: row[key] for key in ("obj_id", "pred_id", "iou", "eval_type", "sqa_type") if row.get(key) is not None}
        name = f"{scene}_{count[scene]}"
        count[scene] += 1
        if (named or multiple) and _ONLY_MARKS.fullmatch(answers[0]):
            return Sample(name, scene, "object_reference", _grounded(prompt), "", tuple(named), meta=kept)
        meta = kept | {"answers": [_grounded(text) for text in answers]}
        task = "object_description" if len(shown_ids) == 1 and not named else "question"
        text = prompt if task == "question" else ""
        return Sample(name, scene, task, _grounded(text), meta["answers"][0], tuple(dict.fromkeys(shown_ids + named)), meta=meta)

    return assemble(questions, rows, make, proposals, None, rejects, "chatscene", scored=True)


def _grounded(text: str) -> str:
    return _MARK.sub(lambda match: f"<p>object</p>[<{int(match[1])}>]", text)
