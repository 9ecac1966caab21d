"""Multi3DRefer: all objects that a description means, none included, scored by the F1 of boxes.

A query's F1 matches predicted and true boxes one to one for the most overlap in sum, and counts pairs from the threshold on; a
description that means nothing has F1 1 where nothing is predicted, else 0. Figures are means over queries, by the kind that the
data give: zt (zero targets), st (one) and mt (several), with (w_d) and without (wo_d) distractors of the target's class.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grand3d import boxes
from grand3d.bench.common import Answer, Prediction, answer_boxes, pair, percents
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, read_json
from grand3d.metrics import matched_f1, mean_interval
from grand3d.sample import Data, load_replies

TASK = "object_reference"
TASKS = (TASK,)
THRESHOLDS = (0.25, 0.5)
KINDS = ("zt_w_d", "zt_wo_d", "st_w_d", "st_wo_d", "mt")
SOURCE = ("multi3drefer", "questions")
OPTIONS: dict[str, str] = {}
RULES = {
    "m3dref": (np.float32, 1.1920929e-07),
    "exact": (np.float64, 0.0),
}
"""Number format of the overlap, and what is added to the union: the official script's (M3DRef-CLIP), and none."""

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
        missing: See ``common.pair``: the official script counts a missing query as 0, torchmetrics_ext leaves it out.
        rule: One of RULES.

    Raises:
        GrandError: If answers and data do not fit together, or the rule is unknown.
    """
    if rule not in RULES:
        raise GrandError(f"rule is {shown(rule)}, expected one of {', '.join(RULES)}")
    dtype, eps = RULES[rule]
    pairs, counts = pair(data, replies, TASK, missing)
    counts |= {"unparsable": 0, "empty": 0}
    answers, samples = data.scenes if data.truth is None else data.truth, []
    for sample, answer in pairs:
        true = boxes.objects_bounds([answers[sample.scene_id][item] for item in sample.target_ids])
        found = None if answer is None else answer_boxes(answer, data.scenes.get(sample.scene_id, answers[sample.scene_id]))
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
            "f1": "boxes matched for the most overlap in sum; zero targets: 1 where nothing is predicted",
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
    object ``{"<scene>_<ann_id>": [[min, max], ...]}``.

    Raises:
        GrandError: For another form, or a broken row, unless ``rejects`` collects it.
    """
    path, rejects = Path(path), rejects if rejects is not None else Rejects()
    by_name = {(s.scene_id, str(s.meta.get("ann_id"))): s for s in data.samples if s.task == TASK}
    if path.suffix == ".jsonl":
        return list(load_replies(path, rejects))
    out: list[Answer] = []

    def add(where: str, scene_id: str, ann_id: str, found: Any) -> None:
        sample = by_name.get((scene_id, ann_id))
        name = f"{scene_id}_{ann_id}" if sample is None else sample.sample_id
        try:
            out.append(Prediction(name, scene_id, bounds(found)))
        except GrandError as error:
            rejects.add(where, str(error), found, error.cause)

    if path.is_dir():
        for file in sorted(path.glob("*.json")):
            document = read_json(file)
            if not isinstance(document, list):
                raise GrandError(f"{place(file)}: holds {shown(document)}, expected a list of ann_id and aabb", "wrong type")
            for index, row in enumerate(document):
                where = f"{place(file)}: row {index}"
                try:
                    ann_id, found = row.get("ann_id") if isinstance(row, dict) else None, field(row or {}, "aabb", list, "")
                except (GrandError, AttributeError) as error:
                    rejects.add(where, f"{error}, expected ann_id and aabb", row, "broken row")
                    continue
                add(where, file.stem, str(ann_id), found)
        return out
    document = read_json(path)
    if not isinstance(document, dict):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected an object {{scene_ann: boxes}}", "wrong type")
    for key, found in document.items():
        scene_id, _, ann_id = key.rpartition("_")
        add(f"{place(path)}: {shown(key)}", scene_id, ann_id, found)
    return out


def bounds(found: Any) -> Any:
    """Bounds (n, 2, 3) of boxes given by corners (n, 2, 3) or (n, 8, 3), in any order.

    Raises:
        GrandError: For another form.
    """
    try:
        corners = np.asarray(found, np.float64)
        if corners.size == 0:
            return np.zeros((0, 2, 3))
        if corners.ndim != 3 or corners.shape[1] not in (2, 8) or corners.shape[2] != 3 or not np.isfinite(corners).all():
            raise ValueError
    except (TypeError, ValueError):
        raise GrandError(f"boxes are {shown(found)}, expected a list of 2 or 8 corners a box, numbers all", "bad box") from None
    return np.stack([corners.min(axis=1), corners.max(axis=1)], axis=1)
