"""Scan2Cap: captions of objects that a detector found, m@kIoU.

Every true object counts. The caption of its prediction counts when the boxes overlap enough; otherwise the placeholder
``sos eos`` stands for it, which still earns a little from its two marks. Metrics are those of the corpus over texts split at
blanks, marks and all. Scan2Cap's training script and Vote2Cap-DETR ask for *more* than the threshold, its benchmark script and
LEO for the threshold or more: both figures stand in a report.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grand3d import boxes, markup
from grand3d.bench.common import Answer, Prediction, pair
from grand3d.bench.texts import corpus_row, meteor_rule
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, read_json, write_json
from grand3d.sample import Data, Reply, load_replies

TASK = "object_description"
TASKS = (TASK,)
SOURCE = ("scan2cap", "questions")
OPTIONS: dict[str, str] = {}
THRESHOLDS = (0.0, 0.25, 0.5)
"""0.0 takes every caption there is, whatever its box."""
NOTHING = "sos eos"
PAPER: tuple[dict[str, Any], ...] = (
    {"name": "Chat-Scene, m@0.5", "cider": 77.1, "source": "3DGraphLLM, Table 2"},
    {"name": "3DGraphLLM, Llama 3 8B, m@0.5", "cider": 81.0, "source": "3DGraphLLM, Table 2"},
)


def caption(answer: Answer) -> str:
    """A caption between its marks, with a blank before full stops, as LEO writes it for Scan2Cap."""
    text = markup.plain(answer.text).strip()
    return text if text.startswith("sos ") else f"sos {text} eos".replace(". ", " . ")


def score(data: Data, replies: Sequence[Answer], missing: str | None = None) -> dict[str, Any]:
    """Score captions of objects.

    Args:
        data: ``meta["captions"]`` holds the references, marks included; boxes of the targets are in ``truth`` or ``scenes``.
            An object that is in neither overlaps nothing.
        replies: A ``Reply`` describes the object that it was asked about, so its box fits.
        missing: See ``common.pair``; ``wrong`` gives the placeholder, as Scan2Cap does, ``skip`` leaves objects out, as LEO does.

    Raises:
        GrandError: If answers and data do not fit together.
    """
    pairs, counts = pair(data, replies, TASK, missing)
    answers = data.scenes if data.truth is None else data.truth
    counts["empty"] = sum(answer is not None and not answer.text.strip() for _, answer in pairs)
    overlap = np.zeros(len(pairs))
    for row, (sample, answer) in enumerate(pairs):
        if answer is None:
            overlap[row] = -1
        elif isinstance(answer, Reply):
            overlap[row] = 1
        elif answer.boxes is not None and len(answer.boxes) and sample.target_ids[0] in answers[sample.scene_id].object_ids:
            true = boxes.objects_bounds([answers[sample.scene_id][sample.target_ids[0]]])
            overlap[row] = boxes.iou(answer.boxes[:1], true)[0, 0]
    known = [[text.split() for text in sample.meta["captions"]] for sample, _ in pairs]
    scenes = [sample.scene_id for sample, _ in pairs]
    made: dict[bytes, Any] = {}  # METEOR's program takes seconds, and thresholds often keep the same captions
    rows, samples = [], [{"sample_id": sample.sample_id, "scene_id": sample.scene_id} for sample, _ in pairs]
    for threshold in THRESHOLDS:
        for sign in (">=", ">") if threshold else (">=",):
            keeps = overlap >= threshold if sign == ">=" else overlap > threshold
            said = [caption(answer).split() if keep else NOTHING.split() for keep, (_, answer) in zip(keeps, pairs, strict=True)]
            if keeps.tobytes() not in made:
                made[keeps.tobytes()] = corpus_row(said, known, scenes)
            figures, each = made[keeps.tobytes()]
            rows.append({"name": f"m@{threshold}", "rule": sign, "n": len(pairs), "kept": int(keeps.sum())} | figures)
            for line, values in zip(samples, each, strict=True):
                line |= {f"{name}@{threshold}{sign}": value for name, value in values.items()}
    return {
        "benchmark": "scan2cap",
        "counts": counts,
        "rules": {
            "m@k": "over all true objects; a caption whose box overlaps too little is replaced by the placeholder 'sos eos'",
            "rule": "'>' as Scan2Cap's training script and Vote2Cap-DETR, '>=' as its benchmark script and LEO",
            "meteor": meteor_rule(rows[0]),
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": rows,
        "baselines": [],
        "paper": list(PAPER),
        "samples": samples,
    }


def read_replies(path: str | Path, data: Data, rejects: Rejects | None = None) -> list[Answer]:
    """Answers from our replies file, or one object ``{scene|object|name: caption, or {caption, box: [min, max]}}``.

    A caption may be a list of one, as the published files have it. Without a box it counts at overlap 0 only.

    Raises:
        GrandError: For another form, or a broken row, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    if Path(path).suffix == ".jsonl":
        return list(load_replies(path, rejects))
    document = read_json(path)
    if not isinstance(document, dict):
        raise GrandError(
            f"{place(path)}: holds {shown(document)}, expected an object {{scene|object|name: caption}}", "wrong type"
        )
    out: list[Answer] = []
    for key, value in document.items():
        text, box = (value.get("caption"), value.get("box")) if isinstance(value, dict) else (value, None)
        text = text[0] if isinstance(text, list) and len(text) == 1 else text
        try:
            found = None if box is None else np.asarray(box, np.float64).reshape(1, 2, 3)
        except (TypeError, ValueError):
            text = None
        if not isinstance(text, str):
            reason = f"is {shown(value)}, expected a caption, or one with a box of two corners"
            rejects.add(f"{place(path)}: {shown(key)}", reason, value, "broken row")
            continue
        out.append(Prediction(key, key.partition("|")[0], found, text=text))
    return out


def write_upload(path: str | Path, data: Data, answers: Sequence[Answer]) -> int:
    """Write ``{scene|object|name: [caption]}``, marks included; returns how many answers have no question."""
    asked = {sample.sample_id for sample in data.samples if sample.task == TASK}
    out = {answer.sample_id: [caption(answer)] for answer in answers if answer.sample_id in asked}
    write_json(path, out)
    return len(answers) - len(out)
