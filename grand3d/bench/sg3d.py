"""SG3D: every step of a plan tied to one object, among the true objects of the scan.

s-acc is the share of steps with the right object, over all tasks; t-acc the share of tasks of which every step is right. Where a
model writes the steps itself, the mean Levenshtein distance between the sequences of object ids says how far they are apart.
The overall t-acc of the paper is not the mean of its columns weighted by tasks: those of ``PAPER`` that were computed so are
``t_acc_columns``. The paper's models are given the steps and name one object each (``meta["given"]``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grand3d import markup
from grand3d.bench.common import Answer, Prediction, pair, percents
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, read_json, write_json
from grand3d.metrics import bootstrap, mean_interval
from grand3d.sample import Data, Reply, Sample, load_replies

TASK = "plan"
TASKS = (TASK,)
SOURCE = ("sg3d", "questions")
OPTIONS: dict[str, str] = {}
DATASETS = ("ScanNet", "3RScan", "MultiScan", "ARKitScenes", "HM3D")

EVALUATION = {
    "ScanNet": (443, 2108),
    "3RScan": (138, 696),
    "MultiScan": (43, 224),
    "ARKitScenes": (443, 2335),
    "HM3D": (890, 3873),
}
"""Tasks and steps of the evaluation split (Table A1)."""

PAPER: tuple[dict[str, Any], ...] = tuple(
    {"name": name, "s_acc": steps, "t_acc": tasks, "source": "SG3D, Table 3"} | ({"t_acc_columns": mean} if mean else {})
    for name, steps, tasks, mean in (
        ("3D-VisTA, zero-shot", 26.9, 8.3, None),
        ("PQ3D, zero-shot", 28.2, 7.8, None),
        ("GPT-4 and true labels", 73.4, 46.6, 46.6),
        ("3D-VisTA, fine-tuned", 60.9, 30.6, 29.3),
        ("PQ3D, fine-tuned", 57.3, 26.8, 25.7),
        ("LEO, fine-tuned", 62.8, 34.1, 32.7),
    )
)
"""``t_acc_columns``: the columns of the five data sets weighted by EVALUATION, where that was computed."""


def distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Levenshtein distance of two sequences: fewest insertions, deletions and replacements."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            before, row[j] = row[j], min(before + (left != right), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def step_ids(answer: Answer) -> tuple[str, ...] | None:
    """The object of each step of an answer, its first where it names several, ``""`` for none; None when it has no step."""
    if not isinstance(answer, Reply):
        return answer.object_ids
    steps = markup.parse(answer.text, lenient=True).steps
    if not steps:
        return None
    table = {f"obj_{k}": item for k, item in enumerate(answer.object_ids)}
    named = [next((name for span in step.spans for name in span.ids), "") for step in steps]
    return tuple(table.get(name, "") if answer.object_ids else name for name in named)


def score(data: Data, replies: Sequence[Answer], missing: str | None = None) -> dict[str, Any]:
    """Score plans.

    A step counts by its place: the k-th of the answer against the k-th of the task. Steps that an answer lacks are wrong, steps
    too many spoil the task.

    Args:
        data: ``meta["step_ids"]`` holds the object of each step in order, ``meta["dataset"]`` where the scan is from,
            ``meta["given"]`` whether the steps were given, and ``meta["context"]`` whether those before were shown with them.

    Raises:
        GrandError: If answers and data do not fit together, or a sample has no steps.
    """
    pairs, counts = pair(data, replies, TASK, missing)
    counts |= {"steps": 0, "unparsable": 0, "empty": 0, "wrong_length": 0}
    samples = []
    for sample, answer in pairs:
        wanted = _wanted(sample)
        if not wanted:
            raise GrandError(f"sample {shown(sample.sample_id)}: meta.step_ids is empty, expected the object of each step")
        found = None if answer is None else step_ids(answer)
        counts["steps"] += len(wanted)
        counts["unparsable"] += answer is not None and found is None
        counts["empty"] += found == ()
        counts["wrong_length"] += found is not None and len(found) != len(wanted)
        right = sum(a == b for a, b in zip(wanted, found or (), strict=False))
        row = {"sample_id": sample.sample_id, "scene_id": sample.scene_id, "t_acc": float(found == wanted)}
        row |= {"right": right, "steps": len(wanted), "distance": distance(wanted, found or ())}
        groups = {key: str(sample.meta.get(key, "-")) for key in ("dataset", "context")}
        groups["steps_are"] = "given" if sample.meta.get("given") else "written"
        samples.append(row | groups | {"error": _error(answer, found, wanted)})
    return {
        "benchmark": "sg3d",
        "counts": counts,
        "rules": {
            "s_acc": "steps with the right object, of all steps",
            "t_acc": "tasks of which every step is right, and none is too many",
            "distance": "mean Levenshtein distance of the sequences of objects, in steps",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": _rows(samples),
        "baselines": [],
        "paper": list(PAPER),
        "samples": samples,
    }


def _error(answer: Answer | None, found: tuple[str, ...] | None, wanted: tuple[str, ...]) -> str:
    if answer is None:
        return "missing"
    if found is None:
        return "unparsable"
    if len(found) != len(wanted):
        return "wrong number of steps"
    return "" if found == wanted else "wrong object"


def _rows(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    every = np.array([[row["right"], row["steps"], row["t_acc"], row["distance"]] for row in samples], float)
    scenes = np.array([row["scene_id"] for row in samples])
    groups = {"all": np.ones(len(samples), bool)}
    for key in ("dataset", "context", "steps_are"):
        names = list(dict.fromkeys(row[key] for row in samples))
        known = [name for name in DATASETS if name in names] + [name for name in names if name not in DATASETS]
        if len(names) > 1:
            groups |= {f"{key} {name}": np.array([row[key] == name for row in samples]) for name in known}
    out = []
    for name, mask in groups.items():
        part, where = every[mask], scenes[mask]
        low, high = bootstrap(part[:, :2], where, lambda sums: sums[:, 0] / sums[:, 1])
        row = {"name": name, "n": int(mask.sum()), "steps": int(part[:, 1].sum())}
        row |= percents({"s_acc": part[:, 0].sum() / part[:, 1].sum(), "s_acc_low": low, "s_acc_high": high})
        low, high = mean_interval(part[:, 2], where)
        row |= percents({"t_acc": part[:, 2].mean(), "t_acc_low": low, "t_acc_high": high})
        low, high = mean_interval(part[:, 3], where)
        bounds = {} if np.isnan(low) else {"distance_low": low, "distance_high": high}
        out.append(row | {"distance": float(part[:, 3].mean())} | bounds)
    return out


def read_replies(path: str | Path, data: Data, rejects: Rejects | None = None) -> list[Answer]:
    """Answers from our replies file, or from a ``results.json`` of SG3D's code.

    That is a list of ``{scan_id, predict_object_id: [...], gt_task_description, gt_object_id: [...]}``; a row belongs to the task
    of its scan with that description and, where it has them, those objects.

    Raises:
        GrandError: For another form; and for a broken row, a second one to a task, or one whose task has other objects in the
            data, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    if Path(path).suffix == ".jsonl":
        return list(load_replies(path, rejects))
    document = read_json(path)
    if not isinstance(document, list):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected a list of results", "wrong type")
    waiting: dict[tuple[str, str], list[Sample]] = {}
    for sample in data.samples:
        if sample.task == TASK:
            waiting.setdefault((sample.scene_id, sample.text), []).append(sample)
    asked = {key: len(samples) for key, samples in waiting.items()}
    out: list[Answer] = []
    for index, row in enumerate(document):
        try:
            ids = _ids(row, "predict_object_id")
            true = None if row.get("gt_object_id") is None else _ids(row, "gt_object_id")
            scene_id = _scene_id(field(row, "scan_id", str, ""))
            key = scene_id, field(row, "gt_task_description", str, "").strip()
            fits = [sample for sample in waiting.get(key, ()) if true is None or _wanted(sample) == true]
            if key in asked and not waiting[key]:
                times = "once" if asked[key] == 1 else f"{asked[key]} times"
                raise GrandError(
                    f"a further result of {shown(key)}, which the data ask {times}, expected no more; the first counts",
                    "second reply",
                )
            if key in asked and not fits:
                reason = f"expected those of the data, {shown(_wanted(waiting[key][0]))}; is it of another release?"
                raise GrandError(f"gt_object_id is {shown(true)}, {reason}", "other truth")
        except GrandError as error:
            rejects.add(f"{place(path)}: row {index}", str(error), row, error.cause)
            continue
        if fits:
            waiting[key].remove(fits[0])
        out.append(Prediction(fits[0].sample_id if fits else f"row {index}", scene_id, object_ids=ids))
    return out


def write_upload(path: str | Path, data: Data, answers: Sequence[Answer]) -> int:
    """Write the ``results.json`` of SG3D's code; returns how many answers have no task or cannot be read."""
    samples, rows, left = {sample.sample_id: sample for sample in data.samples if sample.task == TASK}, [], 0
    for answer in answers:
        found, sample = step_ids(answer), samples.get(answer.sample_id)
        if found is None or sample is None:
            left += 1
            continue
        row = {"scan_id": sample.scene_id, "gt_task_description": sample.text, "predict_object_id": list(found)}
        rows.append(row | {"gt_object_id": list(_wanted(sample))})
    write_json(path, rows)
    return left


def _wanted(sample: Sample) -> tuple[str, ...]:
    return tuple(str(item) for item in sample.meta.get("step_ids", ()))


def _scene_id(scan_id: str) -> str:
    head, _, rest = scan_id.partition("_")
    return rest if head in DATASETS else scan_id


def _ids(row: Any, name: str) -> tuple[str, ...]:
    ids = row.get(name) if isinstance(row, dict) else None
    if not isinstance(ids, list) or not all(isinstance(item, int | str) and not isinstance(item, bool) for item in ids):
        reason = "expected an object with scan_id, gt_task_description and predict_object_id"
        raise GrandError(f"is {shown(row)}, {reason}", "broken row")
    return tuple(str(item) for item in ids)
