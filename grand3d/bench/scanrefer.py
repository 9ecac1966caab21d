"""ScanRefer: which object does a description mean, scored by the overlap of boxes.

The official rule: IoU of axis-aligned boxes in float64 with 1e-8 added to the union, a hit at ``>=`` the threshold, mean over
descriptions. All figures of a report are in percent. Data without separate true boxes (synthetic rooms, or prompts that show
the true boxes) are scored by the same rule on their own boxes, and by the id that was picked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d import boxes, markup
from grand3d.bench.common import Answer, Prediction, answer_boxes, pair, percent, read_reply, reliability_of, target_rows
from grand3d.bench.nouns import first_mention
from grand3d.duplicates import merge_duplicates
from grand3d.errors import GrandError, place
from grand3d.files import Rejects, read_bytes, read_json, read_text, shown, write_json
from grand3d.metrics import accuracy_at, mean_interval
from grand3d.sample import Data, Reply, Sample, load_replies
from grand3d.scene import Object, Scene, confidence

TASK = "object_reference"
TASKS = (TASK,)
SOURCE = ("scanrefer", "descriptions")
THRESHOLDS = (0.25, 0.5)

PAPER: tuple[dict[str, Any], ...] = (
    {"name": "3D-GRAND 7B, grounded", "acc25": 38.0, "acc50": 27.4, "n": 9508, "source": "3D-GRAND, Table 5"},
    {"name": "3D-GRAND 7B, not grounded", "acc25": 34.2, "acc50": 24.3, "n": 9508, "source": "3D-GRAND"},
    {"name": "Mask3D top 40, best box", "acc25": 80.9, "acc50": 61.0, "n": 9508, "source": "3D-GRAND, Table 6"},
    {"name": "ScanRefer", "acc25": 37.3, "acc50": 24.3, "n": 9508, "source": "3D-GRAND, Table 5"},
    {"name": "3D-VisTA, zero-shot", "acc25": 33.2, "acc50": 29.6, "n": 9508, "source": "3D-GRAND, Table 5"},
    {"name": "3D-LLM", "acc25": 30.3, "acc50": None, "n": 9508, "source": "3D-GRAND, Table 5"},
    {"name": "LLM-Grounder", "acc25": 17.1, "acc50": 5.3, "n": 9508, "source": "3D-GRAND, Table 5"},
)

NYU40_NAMES = (
    *("cabinet", "bed", "chair", "sofa", "table", "door", "window", "bookshelf", "picture", "counter"),
    *("desk", "curtain", "refrigerator", "shower curtain", "toilet", "sink", "bathtub"),
)
"""The 17 named classes of the official unique/multiple rule; everything else is ``others``."""
M3DREF_NAMES = (*NYU40_NAMES, "wall", "floor")
"""Those of M3DRef-CLIP's and torchmetrics_ext's rule."""


def read_labels(path: str | Path) -> dict[str, str]:
    """ScanNet's label table (TSV): raw category -> one of M3DREF_NAMES, or ``others``.

    Raises:
        GrandError: If the table lacks one of the two columns, or has no row.
    """
    lines = [line.rstrip("\r").split("\t") for line in read_text(path).split("\n") if line.strip()]
    head = lines[0] if lines else []
    if "raw_category" not in head or "nyu40class" not in head:
        raise GrandError(f"{path}: expected the columns raw_category and nyu40class, seen {shown(head)}")
    if len(lines) == 1:
        raise GrandError(f"{path}: expected rows below the head, seen none; do its lines end with CR alone?")
    raw, nyu40 = head.index("raw_category"), head.index("nyu40class")
    named = {name: name for name in M3DREF_NAMES} | {"refridgerator": "refrigerator"}  # the spelling of the 2017 table
    return {line[raw]: named.get(line[nyu40], "others") for line in lines[1:] if len(line) > max(raw, nyu40)}


def unique_objects(
    scenes: Mapping[str, Scene], labels: Mapping[str, str] | None = None, names: Sequence[str] = NYU40_NAMES
) -> dict[tuple[str, str], bool]:
    """Whether an object is the only one of its class among the objects of its scene: {(scene_id, object_id): unique}.

    Args:
        scenes: True boxes. For the official rule these must be the referred objects of the whole split and no others.
        labels: From raw label to class, as :func:`read_labels` gives; a label it does not hold is ``others``. None takes
            the raw label itself as the class.
        names: The classes that count as such; all else is ``others``.
    """
    out = {}
    for scene in scenes.values():
        classes = [_class(item, labels, names) for item in scene.objects]
        count = Counter(classes)
        for item, name in zip(scene.objects, classes, strict=True):
            out[scene.scene_id, item.object_id] = count[name] == 1
    return out


def _class(item: Object, labels: Mapping[str, str] | None, names: Sequence[str] = NYU40_NAMES) -> str:
    name = " ".join(item.category.lower().replace("_", " ").split())
    if labels is None:
        return name
    found = labels.get(name, "others")
    return found if found in names else "others"


def score(
    data: Data,
    replies: Sequence[Answer],
    missing: str | None = None,
    labels: Mapping[str, str] | None = None,
    eps: float = boxes.SCANREFER_EPS,
) -> dict[str, Any]:
    """Score replies to descriptions.

    Of several ids in an answer the first counts, where one target is meant; else all of them. A reply without a readable
    answer, with an empty one, or with an id that counts and that no object bears, is wrong and counted.

    Args:
        data: With ``truth``: replies pick among ``scenes``, targets are in ``truth``, one each. Without: both in ``scenes``;
            a sample may then have several targets or none, and is right when exactly those are named.
        missing: See :func:`grand3d.bench.common.pair`.
        labels: From :func:`read_labels`; adds the rows of the official unique/multiple rule, each also of the objects within
            and without ``others`` as the official table has them, and those of M3DRef-CLIP's rule.
        eps: Added to the union, cubic metres.

    Returns:
        ``counts``, ``rules``, ``samples`` (each with its figures, 0 or 1), and ``rows``: per subset
        n, acc25, acc50 (and acc_id without ``truth``), each with ``_low`` and
        ``_high``, the 95 % interval clustered by scene. Percent. ``baselines`` are over the same samples.

    Raises:
        GrandError: If replies and data do not fit together.
    """
    pairs, counts = pair(data, replies, TASK, missing)
    counts |= dict.fromkeys(("unparsable", "lenient", "empty", "unknown_ids", "several_ids"), 0)
    answers = data.scenes if data.truth is None else data.truth
    overlap, by_id = np.zeros(len(pairs)), np.zeros(len(pairs))
    named: list[set[str] | None] = []
    picks: list[tuple[str, ...] | None] = []
    same = {scene_id: merge_duplicates(data.scenes[scene_id])[1] for scene_id in {s.scene_id for s, _ in pairs}}
    for row, (sample, reply) in enumerate(pairs):
        if data.truth is not None and len(sample.target_ids) != 1:
            found = f"{len(sample.target_ids)} targets"
            raise GrandError(f"sample {shown(sample.sample_id)} has {found}; against true boxes a description has exactly one")
        one = len(sample.target_ids) == 1
        target = boxes.objects_bounds([answers[sample.scene_id][item] for item in sample.target_ids])
        if isinstance(reply, Prediction):  # boxes of a published file, which name no object
            found = reply.boxes if reply.boxes is not None else np.zeros((0, 2, 3))
            counts["empty"] += not len(found)
            counts["several_ids"] += len(found) > 1
            overlap[row] = boxes.iou(found[:1], target, eps)[0, 0] if one and len(found) else 0.0
            named.append(None)
            picks.append(None)
            continue
        picked = _picked(reply, data.scenes[sample.scene_id], counts, one)
        picks.append(picked)
        if one and picked:
            overlap[row] = boxes.iou(boxes.objects_bounds([data.scenes[sample.scene_id][picked[0]]]), target, eps)[0, 0]
        keep = same[sample.scene_id]
        named.append(None if picked is None else {keep.get(i, i) for i in picked})
        if data.truth is None and picked is not None:
            by_id[row] = named[row] == {keep.get(i, i) for i in sample.target_ids}
            if not one:
                overlap[row] = by_id[row]
    figures = {f"acc{round(100 * t)}": overlap >= t for t in THRESHOLDS}
    if data.truth is None:
        figures["acc_id"] = by_id
    counted = {}
    if data.truth is None:
        wanted = [{same[s.scene_id].get(i, i) for i in s.target_ids} for s, _ in pairs]
        counted = target_rows([s.scene_id for s, _ in pairs], wanted, named)
    right = by_id > 0 if data.truth is None else overlap >= THRESHOLDS[0]
    sure = reliability_of([reply if isinstance(reply, Reply) else None for _, reply in pairs], right)
    return {
        "benchmark": "scanrefer",
        "counts": counts,
        "rules": {
            "iou": f"axis-aligned, float64, {eps:g} added to the union, hit at >= the threshold",
            "several_ids": "the first id counts; where several targets or none are meant, all ids must be exactly those",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": _rows([sample for sample, _ in pairs], figures, answers, labels),
        "baselines": baselines(replace(data, samples=tuple(sample for sample, _ in pairs)), eps),
        "paper": list(PAPER),
        "samples": [
            {"sample_id": sample.sample_id, "scene_id": sample.scene_id}
            | {key: float(hits[row]) for key, hits in figures.items()}
            | {"error": "" if right[row] else _error(data, sample, reply, picks[row], answers[sample.scene_id], eps)}
            for row, (sample, reply) in enumerate(pairs)
        ],
    } | (counted | sure)


def _error(data: Data, sample: Sample, answer: Answer | None, picked: tuple[str, ...] | None, truth: Scene, eps: float) -> str:
    """What is wrong with an answer that is not right."""
    if answer is None:
        return "missing"
    if isinstance(answer, Prediction):
        return "empty" if answer.boxes is None or not len(answer.boxes) else "another place"
    if picked is None:
        return "no usable answer"
    if not picked or len(sample.target_ids) != 1:
        return "says that nothing fits" if not picked else "other objects"
    scene = data.scenes[sample.scene_id]
    target = boxes.objects_bounds([truth[sample.target_ids[0]]])
    overlap = boxes.iou(boxes.objects_bounds(scene.objects), target, eps)[:, 0]
    if overlap.max() < THRESHOLDS[0]:
        return "no proposal reaches the target"
    meant = scene.objects[int(overlap.argmax())].category
    return "another of its kind" if scene[picked[0]].category == meant else "a thing of another kind"


def _picked(reply: Reply | None, scene: Scene, counts: dict[str, int], one: bool) -> tuple[str, ...] | None:
    """The objects that a reply answers with; None when it has no usable answer, which is counted.

    With ``one`` it is the first id alone that counts.
    """
    if reply is None:
        return None
    ids, lenient = read_reply(reply)
    counts["lenient"] += lenient
    if ids is None:
        counts["unparsable"] += 1
        return None
    counts["empty"] += not ids
    counts["several_ids"] += len(ids) > 1
    known = set(scene.object_ids)
    strangers = [i for i in reply.object_ids if i not in known]
    if strangers:
        text = f"object_ids names {shown(strangers)}, which scene {shown(scene.scene_id)} does not have"
        raise GrandError(f"reply {shown(reply.sample_id)}: {text}; was it made from other scenes?")
    ids = ids[:1] if one else ids
    if any(i not in known for i in ids):
        counts["unknown_ids"] += 1
        return None
    return ids


def _rows(
    samples: list[Sample],
    figures: Mapping[str, NDArray[Any]],
    answers: Mapping[str, Scene],
    labels: Mapping[str, str] | None,
) -> list[dict[str, Any]]:
    scenes = np.array([sample.scene_id for sample in samples])
    everything = np.ones(len(samples), bool)
    subsets = [("all", everything)]
    if all(len(sample.target_ids) == 1 for sample in samples):
        targets = [(sample.scene_id, sample.target_ids[0]) for sample in samples]

        def unique(table: Mapping[str, str] | None, names: Sequence[str]) -> list[tuple[str, NDArray[np.bool_]]]:
            alone = unique_objects(answers, table, names)
            flags = np.array([alone[target] for target in targets], bool)
            return [("unique", flags), ("multiple", ~flags)]

        subsets += [(f"{part} (raw label)", mask) for part, mask in unique(None, ())]
        if labels is not None:
            official = unique(labels, NYU40_NAMES)
            subsets += [(f"{part} (official classes)", mask) for part, mask in official]
            other = np.array([_class(answers[scene][item], labels) == "others" for scene, item in targets], bool)
            for what, inside in (("not in others", ~other), ("in others", other)):
                subsets += [(f"{part}, {what} (official classes)", mask & inside) for part, mask in [subsets[0], *official]]
            subsets += [(f"{part} (M3DRef-CLIP's classes)", mask) for part, mask in unique(labels, M3DREF_NAMES)]
    rows = []
    for name, mask in subsets:
        row: dict[str, Any] = {"name": name, "n": int(mask.sum())}
        for figure, hits in figures.items():
            low, high = mean_interval(hits[mask], scenes[mask])
            row |= {figure: percent(accuracy_at(hits[mask], 1)), f"{figure}_low": percent(low), f"{figure}_high": percent(high)}
        rows.append(row)
    return rows


def baselines(data: Data, eps: float = boxes.SCANREFER_EPS) -> list[dict[str, Any]]:
    """Rows that need no model, over the samples with one target: percent and n.

    ``first mention``: of the categories in the scene, the one the description names earliest (the longest name first), and of
    its objects the one of highest score; wrong when none is named. ``best box``: the box with the most overlap, which no
    choice can exceed.
    """
    answers = data.scenes if data.truth is None else data.truth
    samples = [s for s in data.samples if s.task == TASK and len(s.target_ids) == 1]
    chosen, best = [], []
    for sample in samples:
        scene = data.scenes[sample.scene_id]
        overlap = boxes.iou(
            boxes.objects_bounds(scene.objects), boxes.objects_bounds([answers[sample.scene_id][sample.target_ids[0]]]), eps
        )[:, 0]
        index = mentioned_object(markup.plain(sample.text), scene.objects)
        chosen.append(0.0 if index is None else overlap[index])
        best.append(overlap.max(initial=0.0))
    rows = [_baseline("first mention", chosen), _baseline("best box", best)]
    if data.truth is not None and samples:
        used = {sample.scene_id for sample in samples}
        rows.append(upper_bound(data.scenes, {name: scene for name, scene in data.truth.items() if name in used}, eps))
    return rows


def _baseline(name: str, overlap: Sequence[float]) -> dict[str, Any]:
    return {"name": name, "n": len(overlap)} | {f"acc{round(100 * t)}": percent(accuracy_at(overlap, t)) for t in THRESHOLDS}


def mentioned_object(expression: str, objects: Sequence[Object]) -> int | None:
    """Index of the first-mention answer among the objects; None when the expression names no category of theirs."""
    named = first_mention(expression, {item.category for item in objects})
    found = [index for index, item in enumerate(objects) if item.category in named]
    return max(found, key=lambda index: confidence(objects[index]), default=None)


def upper_bound(proposals: Mapping[str, Scene], truth: Mapping[str, Scene], eps: float = boxes.SCANREFER_EPS) -> dict[str, Any]:
    """Best overlap of any proposal with each true object, one row per object (``best box`` weighs by descriptions)."""
    best: list[float] = []
    for scene_id, scene in truth.items():
        if scene_id not in proposals:
            raise GrandError(f"scene {shown(scene_id)} has true boxes but no proposals")
        ours = boxes.objects_bounds(proposals[scene_id].objects)
        best += boxes.iou(ours, boxes.objects_bounds(scene.objects), eps).max(axis=0, initial=0.0).tolist()
    return _baseline("best box per object", best)


def read_replies(path: str | Path, data: Data, rejects: Rejects | None = None) -> list[Answer]:
    """Answers from our replies file, or from the benchmark's ``pred.json``.

    That is a list of ``{scene_id, object_id, ann_id, bbox}`` with eight corners in any order; its ``unique_multiple`` and
    ``others`` are not believed: the rules are applied here.

    Raises:
        GrandError: For another form, or a broken row, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    if not read_bytes(path).lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"["):
        return list(load_replies(path, rejects))
    document = read_json(path)
    out: list[Answer] = []
    seen: set[str] = set()
    for index, row in enumerate(document):
        where = f"{place(path)}: row {index}"
        try:
            if not isinstance(row, dict):
                raise GrandError(f"is {shown(row)}, expected an object with scene_id, object_id, ann_id and bbox", "broken row")
            scene_id, object_id, ann_id = (str(row.get(key, "")) for key in ("scene_id", "object_id", "ann_id"))
            name = f"{scene_id}_{object_id}_{ann_id}"
            corners = np.asarray(row.get("bbox"), np.float64)
            if corners.shape != (8, 3) or not np.isfinite(corners).all():
                raise ValueError
            if name in seen:
                raise GrandError(f"a second prediction for {shown(name)}, expected one; the first one counts", "second reply")
        except (TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, GrandError) else f"bbox is {shown(row.get('bbox'))}, expected 8 corners"
            rejects.add(where, reason, row, getattr(error, "cause", "") or "bad box")
            continue
        seen.add(name)
        out.append(Prediction(name, scene_id, np.stack([corners.min(axis=0), corners.max(axis=0)])[None]))
    return out


def write_upload(path: str | Path, data: Data, answers: Sequence[Answer], labels: Mapping[str, str]) -> int:
    """Write the benchmark's ``pred.json``, one box an answer; returns how many answers name none and are left out.

    Args:
        labels: From :func:`read_labels`, for the fields ``unique_multiple`` and ``others`` (over the true objects of the data).
    """
    truth = data.scenes if data.truth is None else data.truth
    alone, by_id = unique_objects(truth, labels), {answer.sample_id: answer for answer in answers}
    rows, left = [], 0
    for sample in data.samples:
        if sample.task != TASK or sample.sample_id not in by_id or len(sample.target_ids) != 1:
            continue
        found = answer_boxes(by_id[sample.sample_id], data)
        if found is None or not len(found):
            left += 1
            continue
        (x0, y0, z0), (x1, y1, z1) = found[0].tolist()
        target = truth[sample.scene_id][sample.target_ids[0]]
        rows.append(
            {
                "scene_id": sample.scene_id,
                "object_id": sample.target_ids[0],
                "ann_id": str(sample.meta.get("ann_id", sample.sample_id.rpartition("_")[2])),
                "bbox": [[x, y, z] for x in (x0, x1) for y in (y0, y1) for z in (z0, z1)],
                "unique_multiple": int(not alone[sample.scene_id, target.object_id]),
                "others": int(_class(target, labels) == "others"),
            }
        )
    write_json(path, rows)
    return left
