"""How far people agree with each other, and a language model with them: Fleiss' and Cohen's kappa, with intervals by scene."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d.annotate.review.desk import Desk, Vote
from grand3d.annotate.review.study import FALSE, KEEP, STEPS, TRUE, UNSURE, Task, valid_answer
from grand3d.errors import GrandError, shown
from grand3d.files import Rejects, field, read_jsonl
from grand3d.metrics import bootstrap, mean_interval
from grand3d.report import HIGH, LOW

Floats = NDArray[np.float64]
Row = dict[str, Any]
NO_VERDICT = "no agreement"


def put_share(row: Row, name: str, values: Sequence[float], scenes: Sequence[str]) -> None:
    """Put a mean in percent and its interval into a row."""
    low, high = mean_interval(values, scenes)
    row[name] = 100 * float(np.mean(values))
    row[name + LOW], row[name + HIGH] = (None, None) if math.isnan(low) else (100 * low, 100 * high)


def fleiss(counts: Floats) -> float:
    """Fleiss' kappa of counts (n, k): how many of a task's raters chose each category; NaN where chance alone would agree.

    All tasks have the same number of raters, at least 2.
    """
    counts = np.asarray(counts, np.float64)
    if not counts.size or counts.sum(axis=1).min() < 2:
        return math.nan
    return float(_fleiss(_fleiss_columns(counts).sum(axis=0)[None])[0])


def _fleiss_columns(counts: Floats) -> Floats:
    """Per task: agreeing share of its pairs of raters, 1, and the share of each category."""
    raters = counts.sum(axis=1)
    agree = ((counts**2).sum(axis=1) - raters) / (raters * (raters - 1))
    return np.column_stack([agree, np.ones(len(counts)), counts / raters[:, None]])


def _fleiss(sums: Floats) -> Floats:
    seen = sums[:, 0] / sums[:, 1]
    chance = ((sums[:, 2:] / sums[:, 1:2]) ** 2).sum(axis=1)
    return _beyond(seen, chance)


def cohen(table: Floats) -> float:
    """Cohen's kappa of a confusion table (k, k) of two raters; NaN where chance alone would agree."""
    table = np.asarray(table, np.float64)
    return float(_cohen(table.reshape(1, -1))[0]) if table.sum() else math.nan


def _cohen(sums: Floats) -> Floats:
    size = math.isqrt(sums.shape[1])
    table = sums.reshape(-1, size, size) / sums.sum(axis=1)[:, None, None]
    return _beyond(np.trace(table, axis1=1, axis2=2), (table.sum(axis=2) * table.sum(axis=1)).sum(axis=1))


def _beyond(seen: Floats, chance: Floats) -> Floats:
    """Agreement beyond chance as a share of what is possible."""
    nothing = np.full(len(seen), np.nan)
    return np.divide(seen - chance, 1 - chance, out=nothing, where=chance < 1 - 1e-12)


def _kappa(row: Row, columns: Floats, scenes: Sequence[str], statistic: Callable[[Floats], Floats]) -> None:
    value = float(statistic(columns.sum(axis=0)[None])[0])
    low, high = bootstrap(columns, scenes, statistic)
    row["kappa"] = None if math.isnan(value) else value
    row["kappa" + LOW], row["kappa" + HIGH] = (None, None) if math.isnan(low) or math.isnan(value) else (low, high)


def agreement_row(done: Sequence[Task], votes: Mapping[str, Sequence[Vote]], check: str) -> Row | None:
    tasks = [task for task in done if task.check == check]
    if not tasks or len(votes[tasks[0].task_id]) < 2:
        return None
    names = sorted({vote.answer for task in tasks for vote in votes[task.task_id]})
    counts = np.array([[sum(v.answer == name for v in votes[task.task_id]) for name in names] for task in tasks], np.float64)
    scenes = [task.scene_id for task in tasks]
    row: Row = {"check": check, "n": len(tasks)}
    raters = counts.sum(axis=1)
    put_share(row, "all_agree", (counts.max(axis=1) == raters).tolist(), scenes)
    put_share(row, "most_agree", (2 * counts.max(axis=1) > raters).tolist(), scenes)
    put_share(row, "pairs_agree", _fleiss_columns(counts)[:, 0].tolist(), scenes)
    _kappa(row, _fleiss_columns(counts), scenes, _fleiss)
    return row


def judge_row(done: Sequence[Task], verdicts: Mapping[str, str], judge: Mapping[str, str | None], check: str) -> Row | None:
    asked = [task for task in done if task.check == check and task.task_id in judge and verdicts[task.task_id] != NO_VERDICT]
    if not asked:
        return None
    row: Row = {"check": check, "n": len(asked)}
    put_share(row, "valid", [float(judge[task.task_id] is not None) for task in asked], [task.scene_id for task in asked])
    used = [task for task in asked if judge[task.task_id] is not None]
    if not used:
        return row
    scenes = [task.scene_id for task in used]
    pairs = [(judge[task.task_id] or "", verdicts[task.task_id]) for task in used]
    put_share(row, "agree", [float(said == meant) for said, meant in pairs], scenes)
    names = sorted({name for pair in pairs for name in pair})
    columns = np.zeros((len(pairs), len(names) ** 2))
    columns[range(len(pairs)), [names.index(said) * len(names) + names.index(meant) for said, meant in pairs]] = 1
    _kappa(row, columns, scenes, _cohen)
    bad = [(_is_bad(said, check), _is_bad(meant, check)) for said, meant in pairs]
    both = sum(said and meant for said, meant in bad)
    for name, number in (("recall", sum(meant for _, meant in bad)), ("precision", sum(said for said, _ in bad))):
        row[name] = 100 * both / number if number else None
    return row


def _is_bad(answer: str, check: str) -> bool:
    return answer != KEEP if check == STEPS else answer == FALSE


def read_judge(path: str | Path, desk: Desk, rejects: Rejects) -> dict[str, str | None]:
    """A language model's answers: JSON lines ``{task_id, answer}``, its answer in any spelling; others are kept as unusable.

    Raises:
        GrandError: Naming the line with an unknown task or one that comes twice, unless ``rejects`` collects it.
    """
    seen: set[str] = set()

    def read(row: Any) -> tuple[str, str | None]:
        if not isinstance(row, dict):
            raise GrandError(f"{shown(row)} is no judgement, expected a JSON object", "wrong type")
        task_id = field(row, "task_id", str, "judgement")
        if task_id not in desk.tasks:
            raise GrandError(f"no task {shown(task_id)}, expected one of the study's tasks.jsonl", "unknown task")
        if task_id in seen:
            raise GrandError(f"a second answer to task {shown(task_id)}, expected one; the first one counts", "second answer")
        seen.add(task_id)
        return task_id, _usable(desk.tasks[task_id], row.get("answer"))

    return dict(read_jsonl(path, read, rejects))


def _usable(task: Task, answer: Any) -> str | None:
    """An answer as people's are written; None for one that is none of them."""
    text = " ".join(str(answer).lower().replace("_", " ").split()).rstrip(".!") if isinstance(answer, str | bool) else ""
    text = {"false": FALSE, "yes": TRUE, "no": FALSE, "unsure": UNSURE}.get(text, text)
    return text if valid_answer(task, text) else None
