"""ViGiL3D: prompts of varied language for none, one or several objects, by both of its official evaluators.

``paper`` is the evaluator of ViGiL3D's own code, whose figures the paper prints: a prompt is right when nothing predicted and
no target is left over, and F1 is of the summed counts. As released it multiplies the overlap over *all* targets of a prompt,
so that a prompt with two or more targets cannot be won; ``paper, mended`` is the same with the overlap of each pair.
``torchmetrics_ext`` is the evaluator of the leaderboard: F1 of each prompt as in Multi3DRefer, then the mean. Both take IoU
without an epsilon. The paper's scenes are not axis-aligned, the leaderboard's are: give the true objects in the frame meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d import boxes
from grand3d.bench.common import Answer, Prediction, answer_boxes, pair, percents
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, read_json
from grand3d.metrics import bootstrap, match, matched_f1, mean_interval, proportions_differ
from grand3d.sample import Data, load_replies

Floats = NDArray[np.float64]

TASK = "object_reference"
TASKS = (TASK,)
SOURCE = ("vigil3d", "questions")
OPTIONS: dict[str, str] = {}
THRESHOLDS = (0.25, 0.5, 0.95)
"""0.95 is what the paper calls true boxes."""

SUBGROUPS: dict[str, tuple[str, Any]] = {
    "Num": ("num_attribute_type_number", 1),
    "Lab": ("num_attribute_type_text_label", 1),
    "State": ("num_attribute_type_state", 1),
    "Far": ("num_relationship_type_far", 1),
    "Arr": ("num_relationship_type_arrangement", 1),
    "Ord": ("num_relationship_type_ordinal", 1),
    "Comp": ("num_relationship_type_comparison", 1),
    "Gen": ("granularity", "generic"),
    "CG": ("granularity", "categorical"),
    "FG": ("granularity", "fine-grained"),
    "NFN": ("num_target_not_first_np", 1),
    "Sing": ("num_anchor_type_single", 1),
    "Mul": ("num_anchor_type_multiple", 1),
    "Non": ("num_anchor_type_non_object", 1),
    "Agt": ("num_anchor_type_viewpoint", 1),
    "Neg": ("num_negation", 1),
}
"""Columns of the paper's tables 7 and 14 beside "all": the pattern, and the value that a prompt of the group has."""

_NAMES = ("acc@0.95", "acc@0.25", "acc@0.5", "f1@0.95", "f1@0.25", "f1@0.5")
PAPER: tuple[dict[str, Any], ...] = tuple(
    {"name": name, "source": "ViGiL3D, Table 6"} | dict(zip(_NAMES, figures, strict=True))
    for name, *figures in (
        ("OpenScene", 2.1, 1.7, 1.3, 2.1, 1.7, 1.2),
        ("LERF", 2.5, 2.1, 2.1, 2.5, 2.1, 2.1),
        ("ZSVG3D", 18.9, 8.5, 5.6, 12.2, 6.7, 5.8),
        ("LLM-Grounder", 2.5, 7.1, 5.0, 2.5, 5.3, 3.1),
        ("3D-VisTA", 14.2, 15.8, 13.3, 14.1, 15.7, 13.2),
        ("3D-GRAND", 17.9, 15.8, 12.5, 17.9, 15.3, 11.8),
        ("PQ3D", 26.2, 10.8, 10.8, 26.8, 5.6, 5.1),
    )
)


def overlap_released(predicted: Floats, true: Floats) -> Floats:
    """IoU (predictions, targets) as ViGiL3D's released code computes it: the shared volume is multiplied over all targets."""
    out = np.zeros((len(predicted), len(true)))
    volume = (true[:, 1] - true[:, 0]).prod(axis=1)
    for row, box in enumerate(predicted):
        sides = np.maximum(np.minimum(box[1], true[:, 1]) - np.maximum(box[0], true[:, 0]), 0)
        shared = sides.prod()
        union = (box[1] - box[0]).prod() + volume - shared
        out[row] = np.divide(shared, union, out=np.zeros(len(true)), where=union > 0)
    return out


RULES: dict[str, Callable[[Floats, Floats], Floats]] = {"paper": overlap_released, "paper, mended": boxes.iou}


def score(data: Data, replies: Sequence[Answer], missing: str | None = None) -> dict[str, Any]:
    """Score answers to prompts, by every rule.

    An answer that cannot be read names nothing: its targets are missed, and a prompt without a target it is not right either.

    Args:
        data: ``meta["patterns"]`` holds the columns of a prompt's language.
        missing: See ``common.pair``; the paper's code leaves such prompts out.

    Returns:
        ``rows``: all and each subgroup for both rules of the paper, accuracy and micro F1 at each threshold, and ``p``, of the
        two-proportion z-test of the accuracy at 0.25 against the other prompts; ``leaderboard``: macro F1 by number of targets.

    Raises:
        GrandError: If answers and data do not fit together.
    """
    pairs, counts = pair(data, replies, TASK, missing)
    counts |= {"unparsable": 0, "empty": 0}
    answers, samples = data.scenes if data.truth is None else data.truth, []
    sums: dict[str, list[list[float]]] = {rule: [] for rule in RULES}
    for sample, answer in pairs:
        true = boxes.objects_bounds([answers[sample.scene_id][item] for item in sample.target_ids])
        found = None if answer is None else answer_boxes(answer, data.scenes.get(sample.scene_id, answers[sample.scene_id]))
        counts["unparsable"] += answer is not None and found is None
        counts["empty"] += found is not None and not len(found)
        row: dict[str, Any] = {"sample_id": sample.sample_id, "scene_id": sample.scene_id}
        for rule, overlap_of in RULES.items():
            tally: list[float] = []
            for threshold in THRESHOLDS:
                if found is None:
                    tally += [0, 0, len(true), 0]
                    continue
                overlap = overlap_of(found, true)
                hits = sum(overlap[item] >= threshold for item in match(np.where(overlap >= threshold, 1 + overlap, 0)))
                wrong, missed = len(found) - hits, len(true) - hits
                tally += [hits, wrong, missed, float(not wrong and not missed)]
            sums[rule].append([float(x) for x in tally])
            if rule != "paper":
                row |= {f"acc@{t}": tally[4 * k + 3] for k, t in enumerate(THRESHOLDS)}
        kind = ("zt", "st", "mt")[min(len(true), 2)]
        for threshold in THRESHOLDS[:2]:
            row[f"f1@{threshold}"] = 0.0 if found is None else matched_f1(boxes.iou(found, true), threshold)
        samples.append(row | {"kind": kind} | {"error": "" if row["acc@0.25"] else _error(answer, found)})
    scenes = [sample.scene_id for sample, _ in pairs]
    patterns = [sample.meta.get("patterns", {}) for sample, _ in pairs]
    return {
        "benchmark": "vigil3d",
        "counts": counts,
        "rules": {
            "paper": "ViGiL3D's code: the shared volume is multiplied over all targets of a prompt; micro F1",
            "paper, mended": "the same with the overlap of each pair",
            "leaderboard": "torchmetrics_ext: F1 of each prompt, then the mean; zero targets: 1 where nothing is predicted",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": [row for rule in RULES for row in _subgroups(rule, np.array(sums[rule]), patterns, scenes)],
        "leaderboard": _leaderboard(samples),
        "baselines": [],
        "paper": list(PAPER),
        "samples": samples,
    }


def _error(answer: Answer | None, found: Floats | None) -> str:
    if answer is None or found is None:
        return "missing" if answer is None else "unparsable"
    return "wrong" if len(found) else "names nothing"


def _subgroups(rule: str, sums: Floats, patterns: Sequence[Mapping[str, Any]], scenes: Sequence[str]) -> list[dict[str, Any]]:
    out, where = [], np.array(scenes)
    groups = {"all": np.ones(len(sums), bool)}
    for name, (key, value) in SUBGROUPS.items():
        groups[name] = np.array([row.get(key) == value for row in patterns], bool)
    for name, mask in groups.items():
        if not mask.any():
            continue
        row: dict[str, Any] = {"name": name, "rule": rule, "n": int(mask.sum())}
        for k, threshold in enumerate(THRESHOLDS):
            part = sums[:, 4 * k : 4 * k + 4]
            low, high = mean_interval(part[mask, 3], where[mask])
            name_of = f"acc@{threshold}"
            row |= percents({name_of: part[mask, 3].mean(), f"{name_of}_low": low, f"{name_of}_high": high})
            low, high = bootstrap(part[mask, :3], where[mask], micro_f1)
            name_of = f"f1@{threshold}"
            value = float(micro_f1(part[mask, :3].sum(axis=0)))
            row |= percents({name_of: value, f"{name_of}_low": low, f"{name_of}_high": high})
        if name != "all":
            right = sums[:, 3]
            p = proportions_differ(right[mask].sum(), mask.sum(), right[~mask].sum(), (~mask).sum())
            row["p"] = None if math.isnan(p) else p
        out.append(row)
    return out


def micro_f1(sums: Floats) -> Floats:
    """F1 of summed true positives, false positives and false negatives (..., 3); NaN where precision and recall are 0."""
    tp, fp, fn = np.moveaxis(np.asarray(sums, np.float64), -1, 0)
    return np.divide(2 * tp, 2 * tp + fp + fn, out=np.full(np.shape(tp), np.nan), where=tp > 0)


def _leaderboard(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    kinds, scenes = (np.array([row[key] for row in samples]) for key in ("kind", "scene_id"))
    out = []
    for name in ("all", *(kind for kind in ("zt", "st", "mt") if (kinds == kind).any())):
        mask = np.ones(len(kinds), bool) if name == "all" else kinds == name
        row: dict[str, Any] = {"name": name, "n": int(mask.sum())}
        for threshold in THRESHOLDS[:2]:
            values = np.array([line[f"f1@{threshold}"] for line in samples])[mask]
            low, high = mean_interval(values, scenes[mask])
            row |= percents({f"f1@{threshold}": values.mean(), f"f1@{threshold}_low": low, f"f1@{threshold}_high": high})
        out.append(row)
    return out


def reweighted(
    samples: Sequence[Mapping[str, Any]], groups: Sequence[str], shares: Mapping[str, float], figure: str
) -> dict[str, Any]:
    """A figure as it would be on data with other shares of the groups, with its 95 % interval clustered by scene. Percent.

    Args:
        samples: Those of a report.
        groups: The group of each.
        shares: Of each group in the other data; they are divided by their sum.

    Raises:
        GrandError: If a group with a share has no sample.
    """
    names = [name for name, share in shares.items() if share > 0]
    absent = [name for name in names if name not in groups]
    if absent or not names:
        raise GrandError(f"no sample of the groups {shown(absent)}, expected some of each that has a share")
    inside = np.array([[group == name for name in names] for group in groups], float)
    values = np.array([float(row[figure]) for row in samples])
    weights = np.array([shares[name] for name in names]) / sum(shares[name] for name in names)
    columns = np.concatenate([inside * values[:, None], inside], axis=1)

    def mean(sums: Floats) -> Floats:
        hits, numbers = sums[..., : len(names)], sums[..., len(names) :]
        return np.divide(hits, numbers, out=np.full(hits.shape, np.nan), where=numbers > 0) @ weights

    low, high = bootstrap(columns, [row["scene_id"] for row in samples], mean)
    value = float(mean(columns.sum(axis=0)))
    return {"n": len(values)} | percents({figure: value, f"{figure}_low": low, f"{figure}_high": high})


def read_replies(path: str | Path, data: Data, rejects: Rejects | None = None) -> list[Answer]:
    """Answers from our replies file, from the paper's form or the leaderboard's.

    The paper's is a list of ``{prompt_id, scene_id, predicted_boxes: [[centre, extent], ...]}``, the leaderboard's one object
    ``{prompt or scene_ann: [[min, max], ...]}``.

    Raises:
        GrandError: For another form, or a broken row, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    if Path(path).suffix == ".jsonl":
        return list(load_replies(path, rejects))
    document = read_json(path)
    scenes = {sample.sample_id: sample.scene_id for sample in data.samples}
    out: list[Answer] = []
    if not isinstance(document, list | dict):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected a list of prompts or an object of them", "wrong type")
    listed = isinstance(document, list)
    for number, item in enumerate(document if listed else document.items()):
        where = f"{place(path)}: row {number}"
        try:
            if listed:
                if not isinstance(item, dict) or not isinstance(item.get("prompt_id"), str):
                    raise GrandError(f"is {shown(item)}, expected an object with prompt_id and predicted_boxes", "broken row")
                name, found = item["prompt_id"], item.get("predicted_boxes")
            else:
                name, found = item
            out.append(Prediction(name, scenes.get(name, ""), _bounds(found, listed)))
        except GrandError as error:
            rejects.add(where, str(error), item, error.cause)
    return out


def _bounds(found: Any, centred: bool) -> Floats:
    try:
        rows = np.asarray(found, np.float64)
        if rows.size == 0 and found is not None:
            return np.zeros((0, 2, 3))
        if rows.ndim != 3 or rows.shape[1:] != (2, 3) or not np.isfinite(rows).all():
            raise ValueError
    except (TypeError, ValueError):
        raise GrandError(f"boxes are {shown(found)}, expected a list of two points a box", "bad box") from None
    return boxes.to_bounds(rows[:, 0], rows[:, 1]) if centred else rows
