"""ViGiL3D: prompts of varied language for none, one or several objects, by both of its official evaluators.

``paper`` is the evaluator of ViGiL3D's own code, whose figures the paper prints: a prompt is right when nothing predicted and
no target is left over, and F1 is of the summed counts. As released it multiplies the overlap over *all* targets of a prompt,
so that a prompt with two or more separate targets cannot be won; ``paper, mended`` is the same with the overlap of each pair.
``torchmetrics_ext`` is the evaluator of the leaderboard: F1 of each prompt as in Multi3DRefer, then the mean. An overlap of
exactly a threshold is a hit for the first two, a miss for the third, which adds an epsilon to the union. The paper's scenes are
not axis-aligned, the leaderboard's (of ScanNet) are: give the true objects and the predictions in the frame meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d import boxes
from grand3d.bench.common import Answer, Prediction, answer_boxes, file_bounds, pair, percents, refuse_second, target_boxes
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, is_number, read_json, write_json
from grand3d.metrics import bootstrap, match, matched_f1, mean_interval, proportions_differ, raking_weights
from grand3d.sample import Data, load_replies

Floats = NDArray[np.float64]

TASK = "object_reference"
TASKS = (TASK,)
SEVERAL = True
SOURCE = ("vigil3d", "questions")
OPTIONS = {"shares": "JSON {subgroup: its share in other data}, to weigh prompts as those data would"}
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
"""Columns of the paper's tables 7 and 14 beside "all": the pattern, and the value that a prompt of the group has. NFN is of
prompts whose target is *not* the first thing named, as the column's name says; the README beside the file says the opposite."""

_TABLE_6 = {
    "OpenScene": (2.1, 1.7, 1.3, 2.1, 1.7, 1.2),
    "LERF": (2.5, 2.1, 2.1, 2.5, 2.1, 2.1),
    "ZSVG3D": (18.9, 8.5, 5.6, 12.2, 6.7, 5.8),
    "LLM-Grounder": (2.5, 7.1, 5.0, 2.5, 5.3, 3.1),
    "3D-VisTA": (14.2, 15.8, 13.3, 14.1, 15.7, 13.2),
    "3D-GRAND": (17.9, 15.8, 12.5, 17.9, 15.3, 11.8),
    "PQ3D": (26.2, 10.8, 10.8, 26.8, 5.6, 5.1),
}
_TABLE_8 = {"ZSVG3D": (18.3, 24.5), "3D-VisTA": (11.8, 11.1), "3D-GRAND": (9.2, 9.2)}
_NAMES = ("acc@0.95", "acc@0.25", "acc@0.5", "f1@0.95", "f1@0.25", "f1@0.5")
PAPER: tuple[dict[str, Any], ...] = (
    *({"name": name, "source": "Table 6: ScanNet"} | dict(zip(_NAMES, row, strict=True)) for name, row in _TABLE_6.items()),
    *({"name": name, "source": "Table 8: ScanNet++", "acc": acc, "f1": f1} for name, (acc, f1) in _TABLE_8.items()),
    {"name": "people", "source": "text", "acc": 84.0},
)
"""ViGiL3D's own rows, by the rule ``paper``; @0.95 is with true boxes. The published files hold 349 prompts, the paper speaks
of 350: its 3D-GRAND row is over 240 prompts of ScanNet, of which 239 are there."""


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
LEADERBOARD = "torchmetrics_ext"


def score(
    data: Data, replies: Sequence[Answer], missing: str | None = None, shares: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Score answers to prompts, by every rule.

    An answer that cannot be read names nothing: its targets are missed, and a prompt without a target it is not right either.

    Args:
        data: ``meta["patterns"]`` holds the columns of a prompt's language.
        missing: See ``common.pair``; both evaluators leave such prompts out (``skip``).
        shares: From :func:`read_shares`. Adds rows in which prompts are weighed so that the subgroups have these shares.

    Returns:
        ``rows``: all and each subgroup for both rules of the paper, accuracy and micro F1 at each threshold, and ``p@`` of the
        two-proportion z-test of the accuracy against the other prompts; then macro F1 by number of targets for the leaderboard's.

    Raises:
        GrandError: If answers and data do not fit together, or no weights give the shares.
    """
    pairs, counts = pair(data, replies, TASK, missing)
    counts |= {"unparsable": 0, "empty": 0}
    samples: list[dict[str, Any]] = []
    sums: dict[str, list[list[float]]] = {rule: [] for rule in RULES}
    for sample, answer in pairs:
        true = target_boxes(data, sample)
        found = None if answer is None else answer_boxes(answer, data)
        counts["unparsable"] += answer is not None and found is None
        counts["empty"] += found is not None and not len(found)
        for rule, overlap_of in RULES.items():
            sums[rule].append(_tally(found, true, overlap_of))
        row: dict[str, Any] = {"sample_id": sample.sample_id, "scene_id": sample.scene_id}
        row |= {f"acc@{t}": sums["paper, mended"][-1][4 * k + 3] for k, t in enumerate(THRESHOLDS)}
        for threshold in THRESHOLDS[:2]:
            overlap = None if found is None else boxes.iou(found, true, boxes.FLOAT32_EPS, np.float32)
            row[f"f1@{threshold}"] = 0.0 if overlap is None else matched_f1(overlap, threshold)
        named = [name for name, (key, value) in SUBGROUPS.items() if sample.meta.get("patterns", {}).get(key) == value]
        row |= {"kind": ("zt", "st", "mt")[min(len(true), 2)], "patterns": " ".join(named)}
        samples.append(row | {"error": "" if row["acc@0.25"] else _error(answer, found)})
    inside = {name: np.array([name in row["patterns"].split() for row in samples], bool) for name in SUBGROUPS}
    scenes = np.array([row["scene_id"] for row in samples])
    weights = None if shares is None else _weights(inside, shares)
    rows = []
    for rule in RULES:
        rows += _subgroups(rule, np.array(sums[rule]), inside, scenes)
        if weights is not None:
            effective = float(weights.sum() ** 2 / (weights**2).sum())
            rows.append({"name": "all, reweighted", "rule": rule, "n": len(samples), "n_effective": effective})
            rows[-1] |= _figures(np.array(sums[rule]), scenes, weights)
    return {
        "benchmark": "vigil3d",
        "counts": counts,
        "rules": {
            "paper": "ViGiL3D's code: the shared volume is multiplied over all targets of a prompt; micro F1",
            "paper, mended": "the same with the overlap of each pair",
            LEADERBOARD: "F1 of each prompt, then the mean; zero targets: 1 where nothing is predicted; float32 epsilon",
            "p@": "two-proportion z-test, the subgroup against all other prompts",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        }
        | ({} if shares is None else {"reweighted": ", ".join(f"{name} {share:g}" for name, share in shares.items())}),
        "rows": rows + _leaderboard(samples),
        "baselines": [],
        "paper": list(PAPER),
        "samples": samples,
    }


def _tally(found: Floats | None, true: Floats, overlap_of: Callable[[Floats, Floats], Floats]) -> list[float]:
    """True positives, false positives, false negatives and whether all is right, at each threshold."""
    out: list[float] = []
    for threshold in THRESHOLDS:
        if found is None:
            out += [0, 0, len(true), 0]
            continue
        overlap = overlap_of(found, true)
        hits = sum(overlap[item] >= threshold for item in match(np.where(overlap >= threshold, 1 + overlap, 0)))
        wrong, missed = len(found) - hits, len(true) - hits
        out += [hits, wrong, missed, not wrong and not missed]
    return [float(x) for x in out]


def _error(answer: Answer | None, found: Floats | None) -> str:
    if answer is None or found is None:
        return "missing" if answer is None else "unparsable"
    return "wrong" if len(found) else "names nothing"


def _figures(sums: Floats, scenes: NDArray[Any], weights: Floats) -> dict[str, Any]:
    """Accuracy and micro F1 at each threshold, percent with intervals; ``weights`` (n,) of the prompts."""
    row: dict[str, Any] = {}
    for k, threshold in enumerate(THRESHOLDS):
        part = sums[:, 4 * k : 4 * k + 4] * weights[:, None]
        for name, columns, statistic in (
            (f"acc@{threshold}", np.stack([part[:, 3], weights], axis=1), lambda totals: totals[..., 0] / totals[..., 1]),
            (f"f1@{threshold}", part[:, :3], micro_f1),
        ):
            low, high = bootstrap(columns, scenes, statistic)
            row |= percents({name: float(statistic(columns.sum(axis=0))), f"{name}_low": low, f"{name}_high": high})
    return row


def _subgroups(rule: str, sums: Floats, inside: Mapping[str, NDArray[np.bool_]], scenes: NDArray[Any]) -> list[dict[str, Any]]:
    everything = np.ones(len(sums), bool)
    out = []
    for name, mask in ({"all": everything} | dict(inside)).items():
        if not mask.any():
            continue
        row: dict[str, Any] = {"name": name, "rule": rule, "n": int(mask.sum())}
        row |= _figures(sums[mask], scenes[mask], np.ones(int(mask.sum())))
        for k, threshold in enumerate(THRESHOLDS if name != "all" else ()):
            right = sums[:, 4 * k + 3]
            p = proportions_differ(right[mask].sum(), mask.sum(), right[~mask].sum(), (~mask).sum())
            row[f"p@{threshold}"] = None if math.isnan(p) else p
        out.append(row)
    return out


def _weights(inside: Mapping[str, NDArray[np.bool_]], shares: Mapping[str, float]) -> Floats:
    unknown = [name for name in shares if name not in SUBGROUPS]
    if unknown:
        raise GrandError(f"subgroup {shown(unknown[0])} is unknown, expected some of {', '.join(SUBGROUPS)}", "unknown subgroup")
    return raking_weights(np.stack([inside[name] for name in shares], axis=1), list(shares.values()))


def read_shares(path: str | Path) -> dict[str, float]:
    """The shares that subgroups have in other data: JSON ``{subgroup: share}``, names of SUBGROUPS, shares from 0 to 1 of all
    prompts. A prompt may be in several subgroups, so they need not add up to 1.

    Raises:
        GrandError: For another form.
    """
    found = read_json(path)
    if not isinstance(found, dict) or not found or not all(is_number(x) and 0 <= x <= 1 for x in found.values()):
        raise GrandError(f"{place(path)}: holds {shown(found)}, expected {{subgroup: share from 0 to 1}}", "bad shares")
    unknown = [name for name in found if name not in SUBGROUPS]
    if unknown:
        expected = f"expected some of {', '.join(SUBGROUPS)}"
        raise GrandError(f"{place(path)}: subgroup {shown(unknown[0])} is unknown, {expected}", "unknown subgroup")
    return {name: float(share) for name, share in found.items()}


def micro_f1(sums: Floats) -> Floats:
    """F1 of summed true positives, false positives and false negatives (..., 3); NaN where precision and recall are 0."""
    tp, fp, fn = np.moveaxis(np.asarray(sums, np.float64), -1, 0)
    return np.divide(2 * tp, 2 * tp + fp + fn, out=np.full(np.shape(tp), np.nan), where=tp > 0)


def _leaderboard(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    kinds, scenes = (np.array([row[key] for row in samples]) for key in ("kind", "scene_id"))
    out = []
    for name in ("all", *(kind for kind in ("zt", "st", "mt") if (kinds == kind).any())):
        mask = np.ones(len(kinds), bool) if name == "all" else kinds == name
        row: dict[str, Any] = {"name": name, "rule": LEADERBOARD, "n": int(mask.sum())}
        for threshold in THRESHOLDS[:2]:
            values = np.array([line[f"f1@{threshold}"] for line in samples])[mask]
            low, high = mean_interval(values, scenes[mask])
            row |= percents({f"f1@{threshold}": values.mean(), f"f1@{threshold}_low": low, f"f1@{threshold}_high": high})
        out.append(row)
    return out


def read_replies(path: str | Path, data: Data, rejects: Rejects | None = None) -> list[Answer]:
    """Answers from our replies file, from the paper's form or the leaderboard's.

    The paper's is a list of ``{prompt_id, scene_id, predicted_boxes: [[centre, extent], ...]}``, the leaderboard's one object
    ``{"<scene>_<prompt>": [[min, max], ...]}``; the prompt alone is taken too. Of two answers to a prompt the first counts.

    Raises:
        GrandError: For another form, or a broken row, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    if Path(path).suffix == ".jsonl":
        return list(load_replies(path, rejects))
    document = read_json(path)
    scenes = {sample.sample_id: sample.scene_id for sample in data.samples}
    names = {f"{scene_id}_{name}": name for name, scene_id in scenes.items()}
    out: list[Answer] = []
    seen: set[str] = set()
    if not isinstance(document, list | dict):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected a list of prompts or an object of them", "wrong type")
    listed = isinstance(document, list)
    for number, item in enumerate(document if listed else document.items()):
        try:
            if listed:
                if not isinstance(item, dict) or not isinstance(item.get("prompt_id"), str):
                    raise GrandError(f"is {shown(item)}, expected an object with prompt_id and predicted_boxes", "broken row")
                name = item["prompt_id"]
                there = scenes.get(name, "")
                if there and item.get("scene_id", there) != there:
                    reason = f"prompt {shown(name)} is said to be about {shown(item['scene_id'])}, expected {there}"
                    raise GrandError(reason, "another scene")
                found = _from_centres(item.get("predicted_boxes"))
            else:
                name, found = names.get(item[0], item[0]), file_bounds(item[1])
            refuse_second(name, seen)
        except GrandError as error:
            where = f"row {number}" if listed else shown(item[0])
            rejects.add(f"{place(path)}: {where}", str(error), item if listed else dict([item]), error.cause)
            continue
        out.append(Prediction(name, scenes.get(name, ""), found))
    return out


def _from_centres(found: Any) -> Floats:
    """Bounds of boxes given by centre and extent."""
    file_bounds(found)
    rows = np.asarray(found, np.float64).reshape(-1, 2, 3)
    if (rows[:, 1] < 0).any():
        raise GrandError(
            f"boxes are {shown(found)}, expected centre and extent, every side >= 0; are they min and max?", "bad box"
        )
    return boxes.to_bounds(rows[:, 0], rows[:, 1])


def write_upload(path: str | Path, data: Data, answers: Sequence[Answer], form: str = "leaderboard") -> int:
    """Write answers for an official evaluator; returns how many cannot be read and are left out.

    Args:
        form: ``leaderboard`` (boxes in axis-aligned ScanNet) or ``paper`` (the scans as they were recorded). Boxes are written
            in the frame of the data.
    """
    if form not in ("leaderboard", "paper"):
        raise GrandError(f"form is {shown(form)}, expected leaderboard or paper")
    by_id, rows, left = {answer.sample_id: answer for answer in answers}, [], 0
    for sample in data.samples:
        if sample.task == TASK and sample.sample_id in by_id:
            found = answer_boxes(by_id[sample.sample_id], data)
            left += found is None
            if found is not None:
                rows.append((sample, found))
    if form == "leaderboard":
        write_json(path, {f"{sample.scene_id}_{sample.sample_id}": found.tolist() for sample, found in rows})
        return left
    upload = []
    for sample, found in rows:
        centred = np.stack([found.mean(axis=1), found[:, 1] - found[:, 0]], axis=1).tolist()
        about = {"prompt_id": sample.sample_id, "scene_id": sample.scene_id, "prompt": sample.text}
        upload.append(about | {"predicted_boxes": centred})
    write_json(path, upload)
    return left
