"""SQA3D: one short answer, right when it is the annotated one; by the first word of the question.

``em`` by several rules (``answers``); ``lenient`` is the rule of SQA3D's script for language models, by which the published
GPT-3 and UnifiedQA rows were made: equal, part of the right answer, or any word in common. Where an answer is a pose
(``localization``): the share within 0.5 and 1 m and within 15 and 30 degrees, the best of up to three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from grand3d.bench.answers import match_scanqa
from grand3d.bench.common import Answer, pair
from grand3d.bench.texts import fault, matches, read_texts, references, rows_of, said
from grand3d.sample import Data

TASK = "question"
TASKS = (TASK,)
SOURCE = ("sqa3d", "questions")
OPTIONS: dict[str, str] = {}
TYPES = ("what", "is", "how", "can", "which")
read_replies = partial(read_texts, key="question_id")

PAPER: tuple[dict[str, Any], ...] = (
    {"name": "ScanQA", "accuracy": 46.58, "source": "SQA3D"},
    {"name": "people", "accuracy": 90.06, "source": "SQA3D"},
)


def question_type(question: str) -> str:
    """``what``, ``is``, ``how``, ``can``, ``which`` or ``other``, by how the text begins: ``island`` begins with ``is``."""
    return next((name for name in TYPES if question.strip().lower().startswith(name)), "other")


def lenient(answer: str, right: str) -> bool:
    """SQA3D's rule for free text: equal, part of the right answer, or a word in common."""
    a, b = answer.strip().lower(), right.strip().lower()
    return a == b or (bool(a) and a in b) or not set(a.split()).isdisjoint(b.split())


def score(data: Data, replies: Sequence[Answer], missing: str | None = None) -> dict[str, Any]:
    """Score answers to questions.

    Args:
        missing: See ``common.pair``; SQA3D's script for language models leaves such questions out.

    Raises:
        GrandError: If answers and data do not fit together.
    """
    pairs, counts = pair(data, replies, TASK, missing)
    counts["empty"] = sum(answer is not None and not said(answer) for _, answer in pairs)
    samples: list[dict[str, Any]] = []
    for (sample, answer), row in zip(pairs, matches(pairs), strict=True):
        kind = question_type(str(sample.meta.get("question", sample.text)))
        exact = answer is not None and match_scanqa(said(answer), references(sample))
        loose = answer is not None and lenient(said(answer), references(sample)[0])
        error = fault(bool(row["em (all references)"]), answer)
        about = {"sample_id": sample.sample_id, "scene_id": sample.scene_id, "type": kind}
        samples.append(about | {"accuracy": float(exact)} | row | {"lenient": float(loose), "error": error})
    figures = [key for key, value in samples[0].items() if isinstance(value, float)]
    groups = {name: [row["type"] == name for row in samples] for name in (*TYPES, "other")}
    return {
        "benchmark": "sqa3d",
        "counts": counts,
        "rules": {
            "accuracy": "the answer as it is, equal to the annotated one",
            "em": "as LEO's script has it (order of the references matters, nothing counts as contained), MMScan's, and over all",
            "lenient": "SQA3D's script for language models: a word in common is enough",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": rows_of(samples, figures, groups),
        "baselines": [],
        "paper": list(PAPER),
        "samples": samples,
    }


def localization(
    positions: Sequence[Sequence[Sequence[float]]],
    rotations: Sequence[Sequence[Sequence[float]]],
    true_positions: Sequence[Sequence[float]],
    true_rotations: Sequence[Sequence[float]],
) -> dict[str, float]:
    """Shares of poses found, the best guess of each: within 0.5 and 1.0 m on the floor, within 15 and 30 degrees about z.

    Args:
        positions: Guesses (n, up to 3, 3) in metres.
        rotations: Guesses (n, up to 3, 4) as quaternions x, y, z, w.
    """
    near = np.array([min(math.dist(p[:2], true[:2]) for p in row) for row, true in zip(positions, true_positions, strict=True)])
    turned = np.array([min(map(partial(_turned, true), row)) for row, true in zip(rotations, true_rotations, strict=True)])
    figures = {f"acc@{limit}m": float((near < limit).mean()) for limit in (0.5, 1.0)}
    return figures | {f"acc@{limit}°": float((turned < limit).mean()) for limit in (15, 30)}


def _turned(a: Sequence[float], b: Sequence[float]) -> float:
    """Degrees between two turns about z."""
    angle = 2 * (math.atan2(a[2], a[3]) - math.atan2(b[2], b[3]))
    return abs(math.degrees((angle + math.pi) % (2 * math.pi) - math.pi))
