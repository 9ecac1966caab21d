"""Multi3DRefer: all objects that a description means, none included, scored by the F1 of boxes.

A query's F1 matches predicted and true boxes one to one for the most overlap in sum, and counts pairs from the threshold on; a
description that means nothing has F1 1 where nothing is predicted, else 0. Figures are means over queries, by the kind that the
data give: zt (zero targets), st (one) and mt (several), with (w_d) and without (wo_d) distractors of the target's class.

Two public evaluators differ in what a query without a prediction is. M3DRef-CLIP's divides by all queries, which makes it 0 (in
its rows of kinds such queries land at random: their kind is memory never written to; here each keeps its own). torchmetrics_ext
leaves it out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grand3d import boxes
from grand3d.bench.common import Answer, Prediction, answer_boxes, file_bounds, pair, percents, refuse_second, target_boxes
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, read_json, write_json
from grand3d.metrics import matched_f1, mean_interval
from grand3d.sample import Data, load_replies

TASK = "object_reference"
TASKS = (TASK,)
SEVERAL = True
THRESHOLDS = (0.25, 0.5)
KINDS = ("zt_w_d", "zt_wo_d", "st_w_d", "st_wo_d", "mt")
SOURCE = ("multi3drefer", "questions")
OPTIONS = {"rule": "m3dref (the official script), torchmetrics_ext (queries without a prediction are left out) or exact"}
RULES = {
    "m3dref": (np.float32, boxes.FLOAT32_EPS),
    "torchmetrics_ext": (np.float32, boxes.FLOAT32_EPS),
    "exact": (np.float64, 0.0),
}
"""Number format of the overlap, and what is added to the union. With the epsilon, an overlap of exactly a threshold misses it."""

PAPER: tuple[dict[str, Any], ...] = (
    {
        **{"name": "M3DRef-CLIP", "source": "Multi3DRefer"},
        **{"zt_w_d": 39.4, "zt_wo_d": 81.8, "st_w_d@0.25": 34.6, "st_w_d@0.5": 30.6, "st_wo_d@0.25": 53.5, "st_wo_d@0.5": 47.8},
        **{"mt@0.25": 43.6, "mt@0.5": 37.9, "all@0.25": 42.8, "all@0.5": 38.4},
    },
)


def score(data: Data, replies: Sequence[Answer], missing: str | None = None, rule: str = "m3dref") -> dict[str, Any]:
    """Score answers to descriptions of none, one or several objects.

    An answer that cannot be read, or names an id that its scene does not have, has F1 0.

    Args:
        data: ``meta["eval_type"]`` is one of KINDS; targets are in ``truth``, or in ``scenes`` where there is none.
        missing: See ``common.pair``; ``torchmetrics_ext`` is ``skip``.
        rule: One of RULES.

    Raises:
        GrandError: If answers and data do not fit together, the rule is unknown, or is asked to count what it leaves out.
    """
    if rule not in RULES:
        raise GrandError(f"rule is {shown(rule)}, expected one of {', '.join(RULES)}")
    if rule == "torchmetrics_ext":
        if missing == "wrong":
            raise GrandError("the rule torchmetrics_ext leaves out queries without a prediction, expected --missing=skip or none")
        missing = "skip"
    dtype, eps = RULES[rule]
    pairs, counts = pair(data, replies, TASK, missing)
    counts |= {"unparsable": 0, "empty": 0}
    samples = []
    for sample, answer in pairs:
        true = target_boxes(data, sample)
        found = None if answer is None else answer_boxes(answer, data)
        counts["unparsable"] += answer is not None and found is None
        counts["empty"] += found is not None and not len(found)
        kind = sample.meta.get("eval_type")
        if kind not in KINDS:
            reason = f"eval_type is {shown(kind)}, expected one of {', '.join(KINDS)}"
            raise GrandError(f"sample {shown(sample.sample_id)}: {reason}", "unknown kind")
        row: dict[str, Any] = {"sample_id": sample.sample_id, "scene_id": sample.scene_id, "kind": kind}
        overlap = np.zeros((0, len(true))) if found is None else boxes.iou(found, true, eps, dtype)
        for threshold in THRESHOLDS:
            row[f"f1@{threshold}"] = 0.0 if found is None else matched_f1(overlap, threshold)
        samples.append(row | {"error": _error(answer, found, row, len(true))})
    return {
        "benchmark": "multi3drefer",
        "counts": counts,
        "rules": {
            "f1": f"{rule}: boxes matched for the most overlap in sum; zero targets: 1 where nothing is predicted",
            "iou": f"axis-aligned, {np.dtype(dtype).name}, {eps:g} added to the union, a hit at >= the threshold",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": rows(samples),
        "baselines": [],
        "paper": list(PAPER),
        "samples": samples,
    }


def _error(answer: Answer | None, found: Any, row: dict[str, Any], num_true: int) -> str:
    if row["f1@0.5"] == 1:
        return ""
    if answer is None or found is None:
        return "missing" if answer is None else "unparsable"
    if not num_true or not len(found):
        return "names what is not there" if not num_true else "names nothing"
    return "too many" if len(found) > num_true else "too few" if len(found) < num_true else "wrong or loose box"


def rows(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean F1 of all samples and of each kind, percent, with 95 % intervals clustered by scene."""
    kinds, scenes = (np.array([row[key] for row in samples]) for key in ("kind", "scene_id"))
    out = []
    for name in ("all", *(kind for kind in KINDS if (kinds == kind).any())):
        mask = np.ones(len(kinds), bool) if name == "all" else kinds == name
        line: dict[str, Any] = {"name": name, "n": int(mask.sum())}
        for threshold in THRESHOLDS:
            values = np.array([row[f"f1@{threshold}"] for row in samples])[mask]
            low, high = mean_interval(values, scenes[mask])
            line |= percents({f"f1@{threshold}": values.mean(), f"f1@{threshold}_low": low, f"f1@{threshold}_high": high})
        out.append(line)
    return out


def read_replies(path: str | Path, data: Data, rejects: Rejects | None = None) -> list[Answer]:
    """Answers from our replies file, or a published one.

    Published are a folder with one file a scene (``<scene>.json``: a list of ``{ann_id, aabb}``, eight corners a box), or one
    object ``{"<scene>_<ann_id>": [[min, max], ...]}``. Of two answers to a query the first counts.

    Raises:
        GrandError: For another form, or a broken row, unless ``rejects`` collects it.
    """
    path, rejects = Path(path), rejects if rejects is not None else Rejects()
    if path.suffix == ".jsonl":
        return list(load_replies(path, rejects))
    by_name = {f"{s.scene_id}_{s.meta.get('ann_id')}": s.sample_id for s in data.samples if s.task == TASK}
    out: list[Answer] = []
    seen: set[str] = set()
    for where, scene_id, ann_id, found, row in _rows(path):
        name = f"{scene_id}_{ann_id}"
        try:
            if isinstance(ann_id, bool) or not isinstance(ann_id, int | str):
                raise GrandError(f"is {shown(row)}, expected an object with ann_id and aabb", "broken row")
            prediction = Prediction(by_name.get(name, name), scene_id, file_bounds(found, (2, 8)))
            refuse_second(prediction.sample_id, seen)
        except GrandError as error:
            rejects.add(where, str(error), row, error.cause)
            continue
        out.append(prediction)
    return out


def _rows(path: Path) -> list[tuple[str, str, Any, Any, Any]]:
    """(place, scene, ann_id, boxes, row) of either published form."""
    if path.is_dir():
        out = []
        for file in sorted(path.glob("*.json")):
            document = read_json(file)
            if not isinstance(document, list):
                raise GrandError(f"{place(file)}: holds {shown(document)}, expected a list of ann_id and aabb", "wrong type")
            for index, row in enumerate(document):
                ann_id, found = (row.get("ann_id"), row.get("aabb")) if isinstance(row, dict) else (None, None)
                out.append((f"{place(file)}: row {index}", file.stem, ann_id, found, row))
        if not out and not list(path.glob("*.json")):
            raise GrandError(f"{place(path)}: holds no <scene>.json, expected one for each scene", "no predictions")
        return out
    document = read_json(path)
    if not isinstance(document, dict):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected an object {{scene_ann: boxes}}", "wrong type")
    split = ((key, *key.rpartition("_")[::2], found) for key, found in document.items())
    return [(f"{place(path)}: {shown(key)}", scene, ann_id, found, {key: found}) for key, scene, ann_id, found in split]


def write_upload(path: str | Path, data: Data, answers: Sequence[Answer]) -> int:
    """Write answers for an official evaluator; returns how many cannot be read and are left out.

    Args:
        path: ``<name>.json`` for torchmetrics_ext's form; else a folder, which gets a file for every scene, as M3DRef-CLIP's
            script wants.
    """
    path, by_id, left = Path(path), {answer.sample_id: answer for answer in answers}, 0
    listed: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for sample in data.samples:
        if sample.task != TASK:
            continue
        lines = listed[sample.scene_id]
        found = answer_boxes(by_id[sample.sample_id], data) if sample.sample_id in by_id else None
        if found is None:
            left += sample.sample_id in by_id
            continue
        ann_id = sample.meta.get("ann_id")
        if ann_id is None:
            raise GrandError(f"sample {shown(sample.sample_id)}: meta has no ann_id, expected that of the file of questions")
        lines.append({"ann_id": ann_id, "bounds": found.tolist()})
    if path.suffix == ".json":
        write_json(path, {f"{scene}_{row['ann_id']}": row["bounds"] for scene, lines in listed.items() for row in lines})
        return left
    for scene_id, lines in listed.items():
        upload = [{"ann_id": int(row["ann_id"]), "aabb": [_corners(box) for box in row["bounds"]]} for row in lines]
        write_json(path / f"{scene_id}.json", upload)
    return left


def _corners(box: Sequence[Sequence[float]]) -> list[list[float]]:
    (x0, y0, z0), (x1, y1, z1) = box
    return [[x, y, z] for x in (x0, x1) for y in (y0, y1) for z in (z0, z1)]
