"""SG3D: plans of which every step names an object (from documentation)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from grand3d.convert.graphs import assemble, rows_of, scannet_id
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field
from grand3d.sample import Data, Sample

INPUTS = {
    "questions": "train.json or test.json: a list of {scan_id, task_description, action_steps: [{action, target_id, label}]}",
    "truth": "graph of the true objects, keyed by their ids; needed for prompts",
    "task": "ground (the steps are given, as in the published figures) or plan (they are to be written)",
}
TASKS = ("ground", "plan")
_NUMBER = re.compile(r"^\s*[0-9]+\s*[.)]\s*")


def convert(
    *, questions: str | Path, truth: str | Path | None = None, task: str = "ground", rejects: Rejects | None = None
) -> Data:
    """Read SG3D into samples of the task ``plan``: ``text`` is what is to be done, ``answer`` the steps, each with its object.

    ``meta`` holds ``steps`` (their texts), ``step_ids`` (their objects in order, which may repeat), ``dataset``, and ``given``:
    whether prompts show the steps. The scene is the scan's name without that of the data set in front.

    Raises:
        GrandError: See ``graphs.assemble``; also for an unknown ``task``.
    """
    if task not in TASKS:
        raise GrandError(f"task is {shown(task)}, expected one of {', '.join(TASKS)}")
    rejects = rejects if rejects is not None else Rejects()
    rows = ((f"{place(questions)}: row {index}", row) for index, row in enumerate(rows_of(questions)))
    count: Counter[str] = Counter()

    def make(row: dict[str, Any]) -> Sample:
        dataset, _, scene_id = field(row, "scan_id", str, "").partition("_")
        if not scene_id:
            raise GrandError(f"scan_id is {shown(row['scan_id'])}, expected DATASET_scan", "bad id")
        steps, ids, labels = [], [], []
        for number, step in enumerate(field(row, "action_steps", list, ""), 1):
            if not isinstance(step, dict):
                raise GrandError(f"step {number} is {shown(step)}, expected action, target_id and label", "broken row")
            steps.append(_NUMBER.sub("", field(step, "action", str, f"step {number}")).strip())
            ids.append(scannet_id(step.get("target_id"), f"target_id of step {number}"))
            labels.append(field(step, "label", str, f"step {number}", "object"))
        if not steps:
            raise GrandError("action_steps is empty, expected at least one step", "broken row")
        name = f"{scene_id}_plan_{count[scene_id]}"
        count[scene_id] += 1
        text = field(row, "task_description", str, "").strip()
        answer = "".join(
            f"<step>{k}. {step} <p>{label}</p>[<{target}>]</step>"
            for k, (step, label, target) in enumerate(zip(steps, labels, ids, strict=True), 1)
        )
        meta = {"dataset": dataset, "steps": steps, "step_ids": ids, "given": task == "ground"}
        return Sample(name, scene_id, "plan", text, answer, tuple(dict.fromkeys(ids)), meta=meta)

    return assemble(questions, rows, make, truth, None, rejects)
