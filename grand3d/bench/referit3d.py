"""Nr3D and Sr3D: which of a scan's true objects does a description mean? Right is the one id.

Descriptions are told apart by their own id. The stimulus, by which torchmetrics_ext keys them, is shared by several: of 8 golden
rows 5 would be left. Which rows count differs between papers, so that is a setting (FILTERS) and stands in the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grand3d import boxes
from grand3d.bench.common import (
    Answer,
    Prediction,
    answer_boxes,
    file_bounds,
    pair,
    percents,
    read_reply,
    refuse_second,
    target_boxes,
)
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, is_number, read_json, write_json
from grand3d.metrics import mean_interval
from grand3d.sample import Data, Reply, Sample, load_replies

TASK = "object_reference"
TASKS = (TASK,)
SOURCE = ("referit3d", "questions")
OPTIONS = {
    "rows": "which rows count: all, referit3d (class named, at most 24 tokens), butd (class named word for word, the listener was"
    " right) or univlg (class named, the listener was right)",
    "rule": "id, or m3dref: a box that overlaps the target's by 0.9",
}
MAX_TOKENS = 24
FILTERS: dict[str, tuple[str, ...]] = {
    "all": (),
    "referit3d": ("mentions_target_class", "num_tokens"),
    "butd": ("mentions_target_class", "correct_guess", "instance_type"),
    "univlg": ("mentions_target_class", "correct_guess"),
}
"""What each reads of ``meta``, as the loaders of ReferIt3D, BUTD-DETR and UniVLG do. Sr3D was played by nobody: it has no
``correct_guess``, and only the first condition of each."""
RULES = ("id", "m3dref")
M3DREF_IOU = 0.9

GROUPS = (
    *(("easy", "difficulty"), ("hard", "difficulty")),
    *(("view-dependent", "view"), ("view-independent", "view")),
)
_NR3D = {
    "ReferIt3DNet": (35.6, 43.6, 27.9, 32.5, 37.1, "later papers' tables"),
    "BUTD-DETR (rows: butd)": (54.6, 60.7, 48.4, 46.0, 58.0, "later papers' tables"),
    "MVT": (55.1, 61.3, 49.1, 54.3, 55.4, "later papers' tables"),
    "3D-VisTA": (64.2, 72.1, 56.7, 61.5, 65.1, "later papers' tables"),
    "M3DRef-CLIP (rule: m3dref)": (49.4, 55.6, 43.4, 42.3, 52.9, "Multi3DRefer"),
}
PAPER: tuple[dict[str, Any], ...] = tuple(
    {"name": f"Nr3D, {name}"} | dict(zip(("all", *(name for name, _ in GROUPS), "source"), figures, strict=True))
    for name, figures in _NR3D.items()
)
"""Users of M3DRef-CLIP's code report less: about 46.5 trained anew, about 36 from the checkpoint (issue 18 of
3dlg-hcvc/multi3drefer)."""


def score(
    data: Data, replies: Sequence[Answer], missing: str | None = None, rows: str = "all", rule: str = "id"
) -> dict[str, Any]:
    """Score answers to descriptions of one object: accuracy of all, easy and hard, view-dependent and independent.

    The first id or box of an answer counts; one that cannot be read is wrong. Where answers weigh every object (a reply's
    chances, a file's scores), ``among_true`` is the accuracy of the choice among the objects of the target's class.

    Args:
        missing: See ``common.pair``.
        rows: One of FILTERS.
        rule: ``id``; or ``m3dref`` as M3DRef-CLIP's script counts, a box whose overlap with the target's is 0.9 or more in
            float32 (two objects with nearly the same box would both be right).

    Raises:
        GrandError: If answers and data do not fit together, a setting is unknown, the data lack what ``rows`` reads, or
            answers name proposals while targets are true objects: ids of different numberings are never compared.
    """
    for name, value, known in (("rows", rows, FILTERS), ("rule", rule, RULES)):
        if value not in known:
            raise GrandError(f"{name} is {shown(value)}, expected one of {', '.join(known)}")
    pairs, counts = pair(data, replies, TASK, missing)
    kept = [(sample, answer) for sample, answer in pairs if counted(sample, rows)]
    counts |= {"n": len(kept), "filtered": len(pairs) - len(kept), "unparsable": 0, "empty": 0, "several": 0}
    if not kept:
        raise GrandError(f"no sample is left by the rows {rows!r}, expected some of {len(pairs)}")
    samples = []
    for sample, answer in kept:
        if len(sample.target_ids) != 1:
            found = f"sample {shown(sample.sample_id)} has {len(sample.target_ids)} targets"
            raise GrandError(f"{found}, expected one; multi3drefer scores descriptions of none or several", "not one target")
        named: Any = None
        if answer is not None:
            named = answer_boxes(answer, data) if rule == "m3dref" else _ids(answer, data)
        counts["unparsable"] += answer is not None and named is None
        counts["empty"] += named is not None and not len(named)
        counts["several"] += named is not None and len(named) > 1
        right = named is not None and len(named) > 0
        if right and rule == "m3dref":
            right = bool(boxes.iou(named[:1], target_boxes(data, sample), boxes.FLOAT32_EPS, np.float32)[0, 0] >= M3DREF_IOU)
        elif right:
            right = named[0] == sample.target_ids[0]
        row: dict[str, Any] = {"sample_id": sample.sample_id, "scene_id": sample.scene_id, "accuracy": float(right)}
        row |= _groups(sample) | {"error": "" if right else _error(answer, named)}
        among = _among_true(sample, answer, data)
        samples.append(row if among is None else row | {"among_true": float(among)})
    return {
        "benchmark": "referit3d",
        "counts": counts,
        "rules": {
            "accuracy": "the first id is the target's" if rule == "id" else f"M3DRef-CLIP: IoU of the first box >= {M3DREF_IOU}",
            "rows": f"{rows}: those that pass {', '.join(FILTERS[rows])}" if FILTERS[rows] else "all",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": _rows(samples),
        "baselines": _chance([sample for sample, _ in kept]),
        "paper": list(PAPER),
        "samples": samples,
    }


def counted(sample: Sample, rows: str) -> bool:
    """Whether a row passes one of FILTERS.

    Raises:
        GrandError: If its ``meta`` lacks what the filter reads.
    """
    meta = sample.meta
    if "reference_type" in meta and "correct_guess" not in meta and "correct_guess" in FILTERS[rows]:
        return bool(meta.get("mentions_target_class", True))
    for name in FILTERS[rows]:
        if name not in meta:
            reason = f"rows {rows!r} read {', '.join(FILTERS[rows])}, expected {name} in its meta"
            raise GrandError(f"sample {shown(sample.sample_id)}: {reason}; the CSV as published has it", "no such column")
    passed = {
        "num_tokens": lambda value: value <= MAX_TOKENS,
        "instance_type": lambda value: value in sample.text,  # a part of the text, in its case of letters
    }
    return all(passed.get(name, bool)(meta[name]) for name in FILTERS[rows])


def _ids(answer: Answer, data: Data) -> tuple[str, ...] | None:
    """The ids that an answer names, in the numbering of the targets; None when none can be read.

    Raises:
        GrandError: If it names objects of another numbering, or gives boxes alone.
    """
    if isinstance(answer, Prediction):
        if answer.object_ids is None:
            reason = f"prediction {shown(answer.sample_id)} holds boxes, expected an object id"
            raise GrandError(f"{reason}; boxes are scored by --rule=m3dref", "boxes, no id")
        return answer.object_ids[:1] if answer.scores else answer.object_ids  # with scores they are a ranking
    scene = data.scenes[answer.scene_id]
    if data.truth is not None and data.truth[answer.scene_id].id_space != scene.id_space:
        spaces = f"{scene.id_space}, targets in {data.truth[answer.scene_id].id_space}"
        hint = "score their boxes: --rule=m3dref, or score scanrefer for Acc@0.25 and 0.5"
        raise GrandError(
            f"reply {shown(answer.sample_id)} names objects in {spaces}, expected one numbering; {hint}", "two numberings"
        )
    return read_reply(answer)[0]


def _groups(sample: Sample) -> dict[str, str]:
    """The groups that are known of a row."""
    out = {}
    for key, name, (yes, no) in (
        ("easy", "difficulty", ("easy", "hard")),
        ("view_dependent", "view", ("view-dependent", "view-independent")),
    ):
        if key in sample.meta:
            out[name] = yes if sample.meta[key] else no
    if sample.meta.get("reference_type"):
        out["reference"] = str(sample.meta["reference_type"])
    return out


def _error(answer: Answer | None, named: Any) -> str:
    if answer is None or named is None:
        return "missing" if answer is None else "unparsable"
    return "wrong object" if len(named) else "empty"


def _among_true(sample: Sample, answer: Answer | None, data: Data) -> bool | None:
    """Whether the surest of the target's class is the target; None where the answer weighs no objects or the class is unknown."""
    if isinstance(answer, Prediction):
        weighed = dict(zip(answer.object_ids or (), answer.scores, strict=False))
    elif answer is not None and answer.object_ids and len(answer.chances) == len(answer.object_ids) + 1 and data.truth is None:
        weighed = dict(zip(answer.object_ids, answer.chances, strict=False))
    else:
        return None
    same = sample.meta.get("same_class_ids")
    if same is None:
        objects = (data.scenes if data.truth is None else data.truth)[sample.scene_id].objects
        category = {item.object_id: item.category for item in objects}
        same = [item for item, name in category.items() if name == category.get(sample.target_ids[0])]
    rivals = [item for item in same if item in weighed]
    if not weighed or not same:
        return None
    return bool(rivals) and max(rivals, key=weighed.__getitem__) == sample.target_ids[0]


def _chance(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """The row that needs no model: a guess among the objects of the target's class, where their number is known."""
    sizes = [len(sample.meta["same_class_ids"]) for sample in samples if sample.meta.get("same_class_ids")]
    if not sizes:
        return []
    return [
        {"name": "guess among the target's class", "n": len(sizes)}
        | percents({"accuracy": float(np.mean([1 / x for x in sizes]))})
    ]


def _rows(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    references = dict.fromkeys(row["reference"] for row in samples if "reference" in row)
    out = []
    for name, key in (("all", ""), *GROUPS, *((name, "reference") for name in sorted(references))):
        inside = [row for row in samples if not key or row.get(key) == name]
        if not inside:
            continue
        line: dict[str, Any] = {"name": name, "n": len(inside)}
        for figure in ("accuracy", "among_true"):
            there = [row for row in inside if figure in row]
            if there:
                low, high = mean_interval([row[figure] for row in there], [row["scene_id"] for row in there])
                mean = float(np.mean([row[figure] for row in there]))
                line |= percents({figure: mean, f"{figure}_low": low, f"{figure}_high": high})
                line |= {} if figure == "accuracy" else {"n_among_true": len(there)}
        out.append(line)
    return out


def read_replies(path: str | Path, data: Data, rejects: Rejects | None = None) -> list[Answer]:
    """Answers from our replies file, from one JSON object ``{sample id: object id}``, or M3DRef-CLIP's folder of boxes.

    In place of an id may stand ``{object id: score}`` over the objects of the scan, more is surer. The folder has one file a
    scan, ``<scan>.json``: a list of ``{object_id, ann_id, aabb}``, where ``ann_id`` counts the rows of a scan and target. Of two
    answers to a row the first counts.

    Raises:
        GrandError: For another form, or a broken row, unless ``rejects`` collects it.
    """
    path, rejects = Path(path), rejects if rejects is not None else Rejects()
    if path.suffix == ".jsonl":
        return list(load_replies(path, rejects))
    if path.is_dir():
        return _boxes_of(path, data, rejects)
    document = read_json(path)
    if not isinstance(document, dict):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected an object {{sample id: object id}}", "wrong type")
    scenes = {sample.sample_id: sample.scene_id for sample in data.samples}
    out: list[Answer] = []
    for key, value in document.items():
        try:
            ids, scores = _answer(value)
        except GrandError as error:
            rejects.add(f"{place(path)}: {shown(key)}", str(error), {key: value}, error.cause)
            continue
        out.append(Prediction(key, scenes.get(key, ""), object_ids=ids, scores=scores))
    return out


def _answer(value: Any) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Ids, and their scores where there are some, the surest first."""
    if isinstance(value, dict):
        if not value or not all(is_number(number) for number in value.values()):
            raise GrandError(f"the scores are {shown(value)}, expected {{object id: number}}", "bad scores")
        ids = sorted(value, key=value.__getitem__, reverse=True)
        return tuple(ids), tuple(float(value[item]) for item in ids)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | str)):
        raise GrandError(f"the object id is {shown(value)}, expected a number, text or {{object id: score}}", "bad id")
    return () if value in (None, "") else (str(value),), ()


def _boxes_of(folder: Path, data: Data, rejects: Rejects) -> list[Answer]:
    names = {(s.scene_id, *s.target_ids, str(s.meta.get("ann_id"))): s.sample_id for s in data.samples if s.task == TASK}
    out: list[Answer] = []
    seen: set[str] = set()
    for file in sorted(folder.glob("*.json")):
        document = read_json(file)
        if not isinstance(document, list):
            raise GrandError(
                f"{place(file)}: holds {shown(document)}, expected a list of object_id, ann_id and aabb", "wrong type"
            )
        for index, row in enumerate(document):
            try:
                if not isinstance(row, dict) or row.get("object_id") is None or row.get("ann_id") is None:
                    raise GrandError(f"is {shown(row)}, expected an object with object_id, ann_id and aabb", "broken row")
                key = (file.stem, str(row["object_id"]), str(row["ann_id"]))
                prediction = Prediction(names.get(key, "_".join(key)), file.stem, file_bounds(row.get("aabb"), (2, 8)))
                refuse_second(prediction.sample_id, seen)
            except GrandError as error:
                rejects.add(f"{place(file)}: row {index}", str(error), row, error.cause)
                continue
            out.append(prediction)
    return out


def write_upload(path: str | Path, data: Data, answers: Sequence[Answer]) -> int:
    """Write ``{sample id: object id}``; returns how many answers have no question or name none."""
    asked, out = {sample.sample_id for sample in data.samples if sample.task == TASK}, {}
    for answer in answers:
        ids = read_reply(answer)[0] if isinstance(answer, Reply) else answer.object_ids
        if ids and answer.sample_id in asked:
            out[answer.sample_id] = ids[0]
    write_json(path, out)
    return len(answers) - len(out)
