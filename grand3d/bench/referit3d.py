"""Nr3D and Sr3D: which of a scan's true objects does a description mean? Right is the one id.

Descriptions are told apart by their own id. The stimulus, by which torchmetrics_ext keys them, is shared by several: of 8 golden
rows 5 would be left. Which rows count differs between papers, so that is a setting (FILTERS) and stands in the report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grand3d.bench.common import Answer, Prediction, pair, percents, read_reply
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, read_json
from grand3d.metrics import mean_interval
from grand3d.sample import Data, Reply, Sample, load_replies

TASK = "object_reference"
TASKS = (TASK,)
SOURCE = ("referit3d", "questions")
OPTIONS = {"rows": "which rows count: all, referit3d (class named, at most 24 tokens) or butd (and the listener was right)"}
FILTERS: dict[str, Callable[[Sample], bool]] = {
    "all": lambda sample: True,
    "referit3d": lambda sample: sample.meta.get("mentions_target_class") is not False and sample.meta.get("num_tokens", 0) <= 24,
}
FILTERS["butd"] = lambda sample: FILTERS["referit3d"](sample) and sample.meta.get("correct_guess") is not False

PAPER: tuple[dict[str, Any], ...] = (
    {
        **{"name": "M3DRef-CLIP, Nr3D", "all": 49.4, "easy": 55.6, "hard": 43.4},
        **{"view-dependent": 42.3, "view-independent": 52.9, "source": "Multi3DRefer"},
    },
)


def score(data: Data, replies: Sequence[Answer], missing: str | None = None, rows: str = "all") -> dict[str, Any]:
    """Score answers to descriptions of one object: accuracy of all, easy and hard, view-dependent and independent.

    The first id of an answer counts; one that cannot be read is wrong.

    Args:
        missing: See ``common.pair``.
        rows: One of FILTERS.

    Raises:
        GrandError: If answers and data do not fit together, or ``rows`` is unknown.
    """
    if rows not in FILTERS:
        raise GrandError(f"rows is {shown(rows)}, expected one of {', '.join(FILTERS)}")
    pairs, counts = pair(data, replies, TASK, missing)
    kept = [(sample, answer) for sample, answer in pairs if FILTERS[rows](sample)]
    counts |= {"n": len(kept), "filtered": len(pairs) - len(kept), "unparsable": 0, "empty": 0, "several_ids": 0}
    if not kept:
        raise GrandError(f"no sample is left by the rows {rows!r}, expected some of {len(pairs)}")
    samples = []
    for sample, answer in kept:
        ids = None if answer is None else _ids(answer)
        counts["unparsable"] += answer is not None and ids is None
        counts["empty"] += ids == ()
        counts["several_ids"] += ids is not None and len(ids) > 1
        right = bool(ids) and ids[0] == sample.target_ids[0]
        error = (
            "" if right else "missing" if answer is None else "unparsable" if ids is None else "wrong object" if ids else "empty"
        )
        groups = {
            "difficulty": "easy" if sample.meta.get("easy") else "hard",
            "view": "view-dependent" if sample.meta.get("view_dependent") else "view-independent",
        }
        row = {"sample_id": sample.sample_id, "scene_id": sample.scene_id, "accuracy": float(right)}
        samples.append(row | groups | {"error": error})
    return {
        "benchmark": "referit3d",
        "counts": counts,
        "rules": {
            "accuracy": "the first id is the target's",
            "rows": OPTIONS["rows"].partition(":")[0] + f": {rows}",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": _rows(samples),
        "baselines": [],
        "paper": list(PAPER),
        "samples": samples,
    }


def _error(answer: Answer | None, ids: tuple[str, ...] | None) -> str:
    if answer is None or ids is None:
        return "missing" if answer is None else "unparsable"
    return "wrong object" if ids else "empty"


def _ids(answer: Answer) -> tuple[str, ...] | None:
    return read_reply(answer)[0] if isinstance(answer, Reply) else answer.object_ids


def _rows(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    right, scenes = np.array([row["accuracy"] for row in samples]), np.array([row["scene_id"] for row in samples])
    out = []
    for name, key in (
        *(("all", ""), ("easy", "difficulty"), ("hard", "difficulty")),
        *(("view-dependent", "view"), ("view-independent", "view")),
    ):
        mask = np.array([not key or row[key] == name for row in samples])
        if mask.any():
            low, high = mean_interval(right[mask], scenes[mask])
            figures = {"accuracy": right[mask].mean(), "accuracy_low": low, "accuracy_high": high}
            out.append({"name": name, "n": int(mask.sum())} | percents(figures))
    return out


def read_replies(path: str | Path, data: Data, rejects: Rejects | None = None) -> list[Answer]:
    """Answers from our replies file, or from one JSON object ``{sample id: object id}``.

    Raises:
        GrandError: For another form, or a broken row, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    if Path(path).suffix == ".jsonl":
        return list(load_replies(path, rejects))
    document = read_json(path)
    if not isinstance(document, dict):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected an object {{sample id: object id}}", "wrong type")
    scenes = {sample.sample_id: sample.scene_id for sample in data.samples}
    out: list[Answer] = []
    for key, value in document.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | str)):
            rejects.add(
                f"{place(path)}: {shown(key)}", f"the object id is {shown(value)}, expected a number or text", value, "bad id"
            )
            continue
        ids = () if value in (None, "") else (str(value),)
        out.append(Prediction(key, scenes.get(key, ""), object_ids=ids))
    return out
