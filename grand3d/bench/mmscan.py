"""MMScan visual grounding: every box that an expression means, ranked by score, in 9 degrees of freedom.

Per sample: AP and AR at IoU 0.25 and 0.5 and gTop-k (``detection``), means over samples; samples that mean nothing are left out,
as in the devkit. ``pooled``: AP and AR of all predictions of a sub-class ranked together (the devkit's AP_C). Where the devkit
cannot say or says too much, both numbers stand side by side: it stops with KeyError at a sample without predictions, which is
a miss here; and its AP_C forgets the true boxes of such samples (``pooled, empty forgotten``).

``top10`` is what EmbodiedScan's code and MMScan's Table 5 call AP: a sample is right when any of the 10 best boxes overlaps by
*more* than the threshold. Never compare the two.

Files are read row by row, and overlaps that cannot reach 0.25 are skipped: memory grows with the questions, not with the
predictions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d.bench.common import MISSING, percents, read_reply
from grand3d.detection import average_precision, hits, pooled, ranked, recall, top_share, true_positives
from grand3d.errors import GrandError, shown
from grand3d.files import Rejects, write_jsonl
from grand3d.files import field as read_field
from grand3d.items import read_items
from grand3d.metrics import mean_interval
from grand3d.oriented import angles_zxy, as_boxes, iou_oriented
from grand3d.sample import Data, Reply
from grand3d.scene import Object

Floats = NDArray[np.float64]

TASKS = ("object_reference",)
SEVERAL = True
THRESHOLDS = (0.25, 0.5)
TOP = (1, 3, 5, 10)
CLASSES = ("ST-attr", "ST-space", "OO-attr", "OO-space", "OR")

_TABLE3 = (
    ("ScanRefer", 3.83, 42.40, 1.37, 20.96),
    ("BUTD-DETR", 2.29, 65.61, 0.84, 33.11),
    ("ViL3DRef", 5.17, 72.50, 2.07, 51.61),
    ("EmbodiedScan", 10.49, 47.21, 2.94, 21.76),
)
PAPER: tuple[dict[str, Any], ...] = tuple(
    {"name": name, "AP@0.25": ap25, "AR@0.25": ar25, "AP@0.5": ap50, "AR@0.5": ar50, "source": "MMScan, Table 3"}
    for name, ap25, ar25, ap50, ar50 in _TABLE3
)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What an expression means.

    Attributes:
        sub_class: As the paper's columns call it.
        boxes: True boxes (n, 9).
    """

    scene_id: str
    sub_class: str
    boxes: Floats


@dataclass(slots=True)
class Tally:
    """What has been counted so far; ``figures`` holds a list of equal length for each figure of the samples."""

    scenes: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    figures: dict[str, list[float]] = field(default_factory=dict)
    ranks: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    true: Counter[str] = field(default_factory=Counter)
    forgotten: Counter[str] = field(default_factory=Counter)


def paper_class(name: str) -> str:
    """The paper's column of a sub-class as the data files name it, such as ``VG_Inter_Space_OO``; others as they are."""
    words = set(name.lower().replace("-", "_").split("_"))
    single = words & {"single", "sngl", "st"}
    if single:
        return "ST-attr" if words & {"attribute", "attr", "eq"} else "ST-space" if "space" in words else name
    if "oo" in words:
        return "OO-attr" if words & {"attribute", "attr"} else "OO-space" if "space" in words else name
    return "OR" if "or" in words else name


def read_questions(path: str | Path, rejects: Rejects | None = None) -> dict[str, Question]:
    """Questions by id, from JSON lines or an array of ``{ID, scan_id, sub_class, gt_bboxes}``.

    Raises:
        GrandError: For a broken row or an id that comes twice, unless ``rejects`` collects it.
    """
    out: dict[str, Question] = {}
    rejects = rejects if rejects is not None else Rejects()

    def parse(row: Any) -> tuple[str, Question]:
        name = read_field(_object(row), "ID", str, "question")
        where = f"question {shown(name)}"
        boxes = as_boxes(read_field(row, "gt_bboxes", list, where), where)
        return name, Question(
            read_field(row, "scan_id", str, where), paper_class(read_field(row, "sub_class", str, where)), boxes
        )

    for where, (name, question) in read_items(path, parse, rejects):
        if name in out:
            rejects.add(where, f"question {shown(name)} occurs twice, expected once; the first one counts", name, "id twice")
        else:
            out[name] = question
    if not out:
        raise GrandError(f"{path}: no question in it, expected rows with ID, scan_id, sub_class and gt_bboxes")
    return out


def read_predictions(path: str | Path, rejects: Rejects | None = None) -> Iterator[tuple[str, tuple[str, Floats, Floats]]]:
    """``(place, (id, boxes (n, 9), scores (n,)))`` from rows ``{ID, pred_bboxes, pred_scores}``.

    Raises:
        GrandError: For a broken row, unless ``rejects`` collects it.
    """

    def parse(row: Any) -> tuple[str, Floats, Floats]:
        name = read_field(_object(row), "ID", str, "prediction")
        where = f"prediction {shown(name)}"
        boxes = as_boxes(read_field(row, "pred_bboxes", list, where), where)
        scores = read_field(row, "pred_scores", list, where)
        if len(scores) != len(boxes) or not all(isinstance(x, int | float) and np.isfinite(x) for x in scores):
            raise GrandError(
                f"{where}: {len(scores)} scores for {len(boxes)} boxes, expected a finite one for each", "bad scores"
            )
        return name, boxes, np.asarray(scores, np.float64)

    return read_items(path, parse, rejects)


def _object(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise GrandError(f"a row is {shown(row)}, expected a JSON object", "wrong type")
    return row


def score_files(
    questions: str | Path, predictions: str | Path, missing: str | None = None, rejects: Rejects | None = None
) -> dict[str, Any]:
    """The report on a predictions file; see the module for the rules.

    Args:
        missing: ``wrong`` or ``skip`` for questions without a row; None refuses them.

    Raises:
        GrandError: If a file is broken (unless ``rejects`` collects its bad rows) or predictions are missing.
    """
    asked = read_questions(questions, rejects)
    return score(asked, (row for _, row in read_predictions(predictions, rejects)), missing)


def score(
    questions: Mapping[str, Question], predictions: Iterable[tuple[str, Floats, Floats]], missing: str | None = None
) -> dict[str, Any]:
    """The report on predictions ``(id, boxes (n, 9), scores (n,))``, which are looked at one after the other.

    Raises:
        GrandError: If predictions are missing and ``missing`` is None, or none belongs to a question.
    """
    if missing is not None and missing not in MISSING:
        raise GrandError(f"missing is {shown(missing)}, expected one of {', '.join(MISSING)}")
    counts = dict.fromkeys(("n", "missing", "extra", "duplicates", "empty", "without_target"), 0)
    tally, seen = Tally(), set()
    for name, boxes, scores in predictions:
        question = questions.get(name)
        if question is None or name in seen:
            counts["extra" if question is None else "duplicates"] += 1
            continue
        seen.add(name)
        counts["empty"] += not len(boxes)
        _add(tally, question, boxes, scores, counts)
    absent = [name for name in questions if name not in seen]
    counts["missing"] = len(absent)
    if absent and missing is None:
        first = f"(first: {absent[0]}). Pass --missing=wrong to count them as wrong, --missing=skip to leave them out."
        raise GrandError(f"{len(absent)} of {len(questions)} questions have no prediction {first}", "missing reply")
    if not seen and (missing == "skip" or counts["extra"]):
        raise GrandError(f"none of {counts['extra']} predictions is to one of {len(questions)} questions, expected the same ids")
    for name in absent if missing == "wrong" else ():
        _add(tally, questions[name], np.zeros((0, 9)), np.zeros(0), counts)
    counts["n"] = len(tally.scenes)
    return {
        "benchmark": "mmscan",
        "counts": counts,
        "rules": {
            "iou": "9-DoF, exact, a hit at >= the threshold; top10: any of the 10 best at > the threshold (EmbodiedScan)",
            "empty": "a sample without predictions is a miss (the devkit stops with KeyError)",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": _rows(tally),
        "pooled": _pooled(tally),
        "baselines": [],
        "paper": list(PAPER),
    }


def _add(tally: Tally, question: Question, boxes: Floats, scores: Floats, counts: dict[str, int]) -> None:
    num = len(question.boxes)
    if not num:
        counts["without_target"] += 1
        return
    order = ranked(scores)
    overlap = iou_oriented(boxes[order], question.boxes, THRESHOLDS[0])
    tally.scenes.append(question.scene_id)
    tally.classes.append(question.sub_class)
    tally.true[question.sub_class] += num
    tally.forgotten[question.sub_class] += 0 if len(boxes) else num
    kept = tally.ranks.setdefault(question.sub_class, {})
    kept.setdefault("scores", []).append(scores[order].astype(np.float32))
    for threshold in THRESHOLDS:
        found = hits(overlap, threshold)
        positive = true_positives(found)
        kept.setdefault(f"{threshold}", []).append(positive)
        values = {"AP": average_precision(positive, num), "AR": recall(positive, num)}
        values |= {f"gTop-{k}": top_share(found, num, k) for k in TOP}
        values["top10"] = float((overlap[:10] > threshold).any())
        for name, value in values.items():
            tally.figures.setdefault(f"{name}@{threshold}", []).append(value)


def _rows(tally: Tally) -> list[dict[str, Any]]:
    scenes, classes = np.array(tally.scenes), np.array(tally.classes)
    names = [name for name in CLASSES if name in tally.true] + sorted(set(tally.true) - set(CLASSES))
    rows = []
    for name in ["all", *names]:
        mask = np.ones(len(scenes), bool) if name == "all" else classes == name
        row: dict[str, Any] = {"name": name, "n": int(mask.sum())}
        for figure, values in tally.figures.items():
            inside = np.asarray(values)[mask]
            low, high = mean_interval(inside, scenes[mask])
            row |= percents({figure: inside.mean() if len(inside) else np.nan, f"{figure}_low": low, f"{figure}_high": high})
        rows.append(row)
    return rows


def _pooled(tally: Tally) -> list[dict[str, Any]]:
    """AP and AR of each sub-class ranked together, and their mean weighted by samples; also as the devkit computes them."""
    counts = Counter(tally.classes)
    rows = []
    for rule in ("pooled", "pooled, empty forgotten"):
        for name, kept in tally.ranks.items():
            num = tally.true[name] - (tally.forgotten[name] if rule != "pooled" else 0)
            row: dict[str, Any] = {"name": name, "rule": rule, "n": counts[name]}
            for threshold in THRESHOLDS:
                ap, ar = pooled(kept["scores"], kept[f"{threshold}"], num)
                row |= percents({f"AP_C@{threshold}": ap, f"AR_C@{threshold}": ar})
            rows.append(row)
        own = [row for row in rows if row["rule"] == rule]
        total = sum(row["n"] for row in own)
        whole = {"name": "all", "rule": rule, "n": total}
        for key in own[0] if own else ():
            if "@" in key:
                whole[key] = sum((row[key] or 0.0) * row["n"] for row in own) / total
        rows.append(whole)
    return rows


def write_upload(path: str | Path, data: Data, answers: Sequence[Reply]) -> int:
    """Write rows ``{ID, pred_bboxes, pred_scores}``, as ``score mmscan`` and the devkit read them, ``ID`` being the sample's id.

    The boxes are those of the objects that a reply names, in its order; their scores are the probabilities of a reply that was
    weighed, else fall with the order. A reply that says that nothing fits has no boxes, at which the devkit stops.

    Returns:
        How many answers have no question, or name nothing that can be read.
    """
    asked = {sample.sample_id: sample for sample in data.samples if sample.task in TASKS}
    rows = []
    for answer in answers:
        ids = read_reply(answer)[0] if answer.sample_id in asked else None
        scene = data.scenes[asked[answer.sample_id].scene_id] if ids is not None else None
        if ids is None or scene is None or not set(ids) <= set(scene.object_ids):
            continue
        chances = dict(zip(answer.object_ids, answer.chances, strict=False))  # the last chance is that of none of them
        scores = [chances.get(item, 1 - place / len(ids)) for place, item in enumerate(ids)]
        rows.append({"ID": answer.sample_id, "pred_bboxes": [_nine(scene[item]) for item in ids], "pred_scores": scores})
    write_jsonl(path, rows)
    return len(answers) - len(rows)


def _nine(item: Object) -> list[float]:
    angles = np.zeros(3) if item.rotation is None else angles_zxy(item.rotation)
    return [*item.centroid, *item.extent, *angles.tolist()]
