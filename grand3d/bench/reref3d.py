"""ReRef-3D: put a thing where an instruction says, judged by what the table then looks like.

Its code and data are not public: the protocol is the paper's, and what that leaves open is named in ``placement.PlacementRules``.
A place counts (``accuracy``) when the relation holds (``rs``) and the thing can stand there (``pv``). Relations are taken 1.5
times as wide as written, the paper's main figure, and in the columns ``_strict`` as written; places free of their own z.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from grand3d import markup, placement
from grand3d import relations as rel
from grand3d.bench.common import Answer, Prediction, pair, percent
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, is_number, numbers, read_json, write_json
from grand3d.metrics import mean_interval
from grand3d.placement import FAMILIES, RELAXED, PlacementRules, Placing
from grand3d.programs import table_of
from grand3d.sample import Data, Sample, load_replies

TASK = "placement"
TASKS = (TASK,)
SOURCE = ("reref3d", "questions")
OPTIONS: dict[str, str] = {}
FIGURES = ("accuracy", "accuracy_strict", "rs", "rs_strict", "pv", "acc@1.0")
GOAL_REACH = 1.0
"""Units from the annotated goal within which, inclusive, Acc@1.0 counts."""
FAR = 2.0
"""Units from the goal beyond which a right place is told apart: the paper finds 8 to 19 % of right ones there."""
STYLES = ("templated", "naturalised")

_PAPER = "ReRef-3D, as summarised"
PAPER: tuple[dict[str, Any], ...] = (
    {"name": "LLaVA-3D", "accuracy": 68.3, "acc@1.0": 61.0, "distance": 1.1, "source": _PAPER},
    {"name": "LLaVA-3D, templated text", "accuracy": 66.7, "source": f"{_PAPER}; derived"},
    {"name": "3D-LLM", "accuracy": 31.6, "distance": 3.2, "source": _PAPER},
    {"name": "PlaceIt3D", "accuracy": 22.4, "distance": 3.2, "source": _PAPER},
    {"name": "LLaVA-3D, nearest, templated text", "accuracy": 31.9, "source": _PAPER},
    {"name": "LLaVA-3D, nearest, naturalised text", "accuracy": 35.1, "source": _PAPER},
    {"name": "LLaVA-3D, between, templated text", "accuracy": 57.6, "source": _PAPER},
    {"name": "LLaVA-3D, between, naturalised text", "accuracy": 62.2, "source": _PAPER},
    {"name": "PlaceIt3D, farthest, templated text", "accuracy": 34.0, "source": _PAPER},
    {"name": "PlaceIt3D, farthest, naturalised text", "accuracy": 41.9, "source": _PAPER},
    {"name": "PlaceIt3D, directional, templated text", "accuracy": 22.1, "source": _PAPER},
    {"name": "PlaceIt3D, directional, naturalised text", "accuracy": 30.5, "source": _PAPER},
)

_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?"
_FREE = re.compile(rf"(?<![\w.]){_NUMBER}(?:(?=m\b)|(?!\w|\.[0-9]))")
_TRIPLE, _PAIR = (
    re.compile(r"[(\[{<]\s*" + r"\s*[,;\s]\s*".join([f"({_NUMBER})"] * length) + r"\s*[)\]}>]") for length in (3, 2)
)


def read_place(text: str, radius: float) -> tuple[float, float, float] | None:
    """The place that a reply gives: its first ``<place>``, else three numbers in brackets, else two, else its first three.

    Two numbers are x and y of a thing on the table. Numbers that are a part of a word, such as ``obj_3``, are none.

    Args:
        radius: Of the thing, the height of its centre.

    Returns:
        x, y, z; None where there are fewer than two numbers, or one is not finite.
    """
    places = markup.parse(text, lenient=True).places
    if places:
        return places[0]
    text = text.replace("\N{MINUS SIGN}", "-")
    found = _TRIPLE.search(text) or _PAIR.search(text)
    words = found.groups() if found else _FREE.findall(text)[:3]
    values = [float(word) for word in words]
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    return (values[0], values[1], values[2] if len(values) == 3 else radius)


def score(
    data: Data, replies: Sequence[Answer], missing: str | None = None, rules: PlacementRules | None = None
) -> dict[str, Any]:
    """Score places.

    Args:
        data: ``viewpoint`` says where left is, ``meta["program"]`` what is asked (``placement.Program``) and ``meta["goal"]`` the
            annotated place. ``meta["style"]``, ``meta["pair_id"]`` and ``meta["train_style"]``, where given, part the report.
        rules: Of the main figures, 1.5 times as wide as written by default; those of ``_strict`` are the same with ``relax`` 1.

    Raises:
        GrandError: If answers and data do not fit together, or a sample's program is none or does not fit its scene.
    """
    rules = rules if rules is not None else RELAXED
    pairs, counts = pair(data, replies, TASK, missing)
    items = [(sample, *_read(data, sample)) for sample, _ in pairs]
    samples, read = [], []
    for (sample, placing, goal), (_, answer) in zip(items, pairs, strict=True):
        point = None if answer is None else read_place(answer.text, rel.radius(placing.thing))
        row = _judge(placing, goal, point, rules)
        row["error"] = "missing" if answer is None else row["error"]
        read.append(point)
        samples.append({"sample_id": sample.sample_id, "scene_id": sample.scene_id} | row | _groups(sample))
    counts["unparsable"] = sum(row["error"] == "unparsable" for row in samples)
    counts["empty"] = sum(answer is not None and not answer.text.strip() for _, answer in pairs)
    counts["goals_off"] = sum(
        not placement.satisfied(placing, goal, rules) or bool(placement.fault(placing, goal, rules)) for _, placing, goal in items
    )
    return {
        "benchmark": "reref3d",
        "counts": counts,
        "rules": {
            "accuracy": f"the relation holds, {rules.relax:g} times as wide as written (strict: 1), and the thing can be there",
            "place": "the first <place>, else three numbers in brackets, else two, else the first three; z is the thing's radius",
            "pv": f"centre within {rules.half_side:g} of the middle along x and y, no overlap; the thing's old place is free",
            "acc@1.0": f"within {GOAL_REACH:g} of the annotated goal, inclusive",
            "distance": "mean over the places that could be read",
            "wrong referent": "the relation would hold with another thing of the anchor's shape",
            "near miss": "right only as wide as that, not as written; far: right, and more than 2 from the goal",
            "goals_off": "annotated goals that these rules do not take",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": _rows(samples),
        "errors": _errors(samples),
        "pairs": _twins(samples, [str(sample.meta.get("pair_id", "")) for sample, _ in pairs]),
        "places": _spread(read, [goal for _, _, goal in items]),
        "baselines": _baselines(items, samples, rules),
        "paper": list(PAPER),
        "samples": samples,
    }


def _read(data: Data, sample: Sample) -> tuple[Placing, tuple[float, ...]]:
    try:
        program = placement.program_from_dict(sample.meta.get("program"))
        goal = numbers(sample.meta.get("goal"), 3, "meta.goal")
        if sample.scene_id not in data.scenes:
            raise GrandError(f"scene {shown(sample.scene_id)} is not among the scenes, expected it with its objects")
        return placement.resolve(program, table_of(data.scenes[sample.scene_id], sample.viewpoint)), goal
    except GrandError as error:
        raise GrandError(f"sample {shown(sample.sample_id)}: {error}", error.cause) from None


def _groups(sample: Sample) -> dict[str, str]:
    program = placement.program_from_dict(sample.meta["program"])
    style, trained = (str(sample.meta.get(key, "-")) for key in ("style", "train_style"))
    ordinal = "ordinal" if placement.is_ordinal(program) else "plain"
    return {"family": program.family, "depth": placement.depth(program), "naming": ordinal, "style": style, "trained": trained}


def _judge(placing: Placing, goal: Sequence[float], point: Sequence[float] | None, rules: PlacementRules) -> dict[str, Any]:
    if point is None:
        return dict.fromkeys(FIGURES, 0.0) | {"distance": None, "error": "unparsable"}
    strict = replace(rules, relax=1.0)
    wide, narrow = (placement.satisfied(placing, point, some) for some in (rules, strict))
    fault = placement.fault(placing, point, rules)
    distance = math.dist((point[0], point[1], rel.radius(placing.thing)), goal)
    if fault == "out of bounds":
        error = fault
    elif not wide:
        error = "wrong referent" if placement.mistaken(placing, point, rules) else "relation"
    else:
        error = fault
    figures = (wide and not fault, narrow and not fault, wide, narrow, not fault, distance <= GOAL_REACH)
    return dict(zip(FIGURES, map(float, figures), strict=True)) | {"distance": distance, "error": error}


def _rows(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    known = {"family": FAMILIES, "depth": ("none", *placement.DEPTHS), "naming": ("plain", "ordinal"), "style": STYLES}
    groups: dict[str, Callable[[Mapping[str, Any]], bool]] = {"all": lambda row: True}
    for key in ("family", "depth", "naming", "style", "trained"):
        names = sorted({row[key] for row in samples}, key=lambda name: (*known.get(key, STYLES), name).index(name))
        if len(names) > 1:
            groups |= {f"{key} {name}": lambda row, key=key, name=name: row[key] == name for name in names}
    cells = sorted({(row["trained"], row["style"]) for row in samples})
    if len({trained for trained, _ in cells}) > 1:
        groups |= {
            f"trained on {a}, asked in {b}": lambda row, a=a, b=b: (row["trained"], row["style"]) == (a, b) for a, b in cells
        }
    return [_row(name, [row for row in samples if holds(row)]) for name, holds in groups.items()]


def _row(name: str, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "n": len(samples)}
    scenes = [sample["scene_id"] for sample in samples]
    for key in FIGURES:
        values = [sample[key] for sample in samples]
        low, high = mean_interval(values, scenes)
        row |= {key: percent(float(np.mean(values))), f"{key}_low": percent(low), f"{key}_high": percent(high)}
    there = [sample for sample in samples if sample["distance"] is not None]
    away = [sample["distance"] for sample in there]
    low, high = mean_interval(away, [sample["scene_id"] for sample in there]) if there else (math.nan, math.nan)
    found = {"distance": float(np.mean(away)) if there else math.nan, "distance_low": low, "distance_high": high}
    return row | {key: None if math.isnan(value) else value for key, value in found.items()}


def _errors(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each wrong place by the first thing that is wrong with it, and right ones that are barely so."""
    counts = Counter(row["error"] for row in samples if row["error"])
    names = ("missing", "unparsable", "out of bounds", "wrong referent", "relation", "overlap")
    out = [{"name": name, "n": counts[name], "share": 100 * counts[name] / len(samples)} for name in names if counts[name]]
    right = [row for row in samples if row["accuracy"]]
    near = sum(not row["accuracy_strict"] for row in right)
    far = sum(row["distance"] > FAR for row in right)
    for name, count in (("right: near miss", near), ("right: far", far)):
        out.append({"name": name, "n": count, "share": 100 * count / len(samples)})
    return out


def _twins(samples: Sequence[Mapping[str, Any]], pair_ids: Sequence[str]) -> list[dict[str, Any]]:
    """How an instruction's two texts fare together, where both were asked of one model."""
    cells: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row, pair_id in zip(samples, pair_ids, strict=True):
        if pair_id and row["style"] in STYLES:
            cells.setdefault((pair_id, row["trained"]), {})[row["style"]] = row
    whole = [tuple(bool(texts[style]["accuracy"]) for style in STYLES) for texts in cells.values() if len(texts) == len(STYLES)]
    if not whole:
        return []
    names = {
        (True, True): "both right",
        (True, False): "templated only",
        (False, True): "naturalised only",
        (False, False): "neither",
    }
    return [{"name": name, "n": whole.count(kind), "share": 100 * whole.count(kind) / len(whole)} for kind, name in names.items()]


def _spread(read: Sequence[Sequence[float] | None], goals: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    """Middle and spread (root mean square distance from it): a model that always says the same place is found out here."""
    out = []
    for name, points in (("read", [p[:2] for p in read if p is not None]), ("annotated goals", [p[:2] for p in goals])):
        if points:
            middle = np.mean(points, axis=0)
            spread = math.sqrt(np.mean(np.sum((np.asarray(points) - middle) ** 2, axis=1)))
            out.append({"name": name, "n": len(points), "x": float(middle[0]), "y": float(middle[1]), "spread": spread})
    return out


def _baselines(
    items: Sequence[tuple[Sample, Placing, tuple[float, ...]]], samples: Sequence[Mapping[str, Any]], rules: PlacementRules
) -> list[dict[str, Any]]:
    """Rows without a model: the annotated goal, the thing's old place, the middle of the table, a random place that is free."""
    rng = Random(0)

    def free(placing: Placing) -> tuple[float, float]:
        side = rules.half_side
        points = ((rng.uniform(-side, side), rng.uniform(-side, side)) for _ in range(100))
        return next((point for point in points if not placement.fault(placing, point, rules)), (0.0, 0.0))

    ways: dict[str, Callable[[Placing, Sequence[float]], Sequence[float]]] = {
        "annotated goal": lambda placing, goal: goal,
        "left where it is": lambda placing, goal: placing.thing.centroid,
        "middle of the table": lambda placing, goal: (0.0, 0.0),
        "random free place": lambda placing, goal: free(placing),
    }
    rows = []
    for name, way in ways.items():
        judged = [_judge(placing, goal, way(placing, goal), rules) for _, placing, goal in items]
        rows.append(_row(name, [row | {"scene_id": sample["scene_id"]} for row, sample in zip(judged, samples, strict=True)]))
    return rows


def read_replies(path: str | Path, data: Data, rejects: Rejects | None = None) -> list[Answer]:
    """Answers from our replies file, or from ``{sample_id: [x, y, z]}``, where a text may stand for the numbers.

    Raises:
        GrandError: For another form, or a broken row, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    if Path(path).suffix == ".jsonl":
        return list(load_replies(path, rejects))
    document = read_json(path)
    if not isinstance(document, dict):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected an object {{sample_id: [x, y, z]}}", "wrong type")
    scenes = {sample.sample_id: sample.scene_id for sample in data.samples}
    out: list[Answer] = []
    for name, value in document.items():
        text = f"({', '.join(map(repr, map(float, value)))})" if _point(value) else value
        if isinstance(text, str):
            out.append(Prediction(name, scenes.get(name, ""), text=text))
        else:
            reason = f"is {shown(value)}, expected x, y and z as finite numbers, or a text"
            rejects.add(f"{place(path)}: {shown(name)}", reason, value, "broken row")
    return out


def _point(value: Any) -> bool:
    return isinstance(value, list) and len(value) in (2, 3) and all(map(is_number, value))


def write_upload(path: str | Path, data: Data, answers: Sequence[Answer]) -> int:
    """Write ``{sample_id: [x, y, z]}`` of the answers that can be read, z as the thing stands; returns how many cannot."""
    samples = {sample.sample_id: sample for sample in data.samples if sample.task == TASK}
    out: dict[str, list[float]] = {}
    for answer in answers:
        if answer.sample_id in samples:
            placing, _ = _read(data, samples[answer.sample_id])
            point = read_place(answer.text, rel.radius(placing.thing))
            if point is not None:
                out[answer.sample_id] = [point[0], point[1], rel.radius(placing.thing)]
    write_json(path, out)
    return len(answers) - len(out)
