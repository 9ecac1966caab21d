"""SQA3D: one short answer, right when it is the annotated one; by the first word of the question.

``em`` by several rules (``answers``); ``lenient`` is the rule of SQA3D's script for language models, by which the published
GPT-3 and UnifiedQA rows were made: equal, part of the right answer, or any word in common. It leaves out questions without an
answer, which is ``missing="skip"``. Where the asker is also to be found (``poses``): the share within 0.5 and 1 m and within 15
and 30 degrees, the best of up to three guesses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from grand3d.bench.answers import match_scanqa
from grand3d.bench.common import Answer, pair
from grand3d.bench.texts import fault, matches, read_texts, references, rows_of, said, write_texts
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, numbers, read_json
from grand3d.sample import Data, Sample

TASK = "question"
TASKS = (TASK,)
SOURCE = ("sqa3d", "questions")
OPTIONS = {"poses": "where the asker was found: {question id: {position: [[x, y, z], ...], rotation: [[x, y, z, w], ...]}}"}
Poses = Mapping[str, tuple[list[tuple[float, ...]], list[tuple[float, ...]]]]
MOST_POSES = 3
TYPES = ("what", "is", "how", "can", "which")
read_replies = partial(read_texts, key="question_id")

PAPER: tuple[dict[str, Any], ...] = (
    {"name": "ScanQA", "accuracy": 46.58, "source": "SQA3D"},
    {"name": "best of the paper", "accuracy": 47.20, "source": "SQA3D"},
    {"name": "people", "accuracy": 90.06, "source": "SQA3D"},
    {"name": "baseline of MMScan", "em (leo)": 51.6, "em_r (leo)": 54.1, "source": "MMScan, Table 6"},
    {"name": "Chat-Scene", "em (leo)": 54.6, "source": "3DGraphLLM, Table 2"},
    {"name": "3DGraphLLM, Llama 3 8B", "em (leo)": 55.9, "source": "3DGraphLLM, Table 2"},
)


def question_type(question: str) -> str:
    """``what``, ``is``, ``how``, ``can``, ``which`` or ``other``, by how the text begins: ``island`` begins with ``is``."""
    return next((name for name in TYPES if question.strip().lower().startswith(name)), "other")


def lenient(answer: str, right: str) -> bool:
    """SQA3D's rule for free text: equal, part of the right answer, or a word in common."""
    a, b = answer.strip().lower(), right.strip().lower()
    return a == b or (bool(a) and a in b) or not set(a.split()).isdisjoint(b.split())


def score(data: Data, replies: Sequence[Answer], missing: str | None = None, poses: Poses | None = None) -> dict[str, Any]:
    """Score answers to questions.

    Args:
        missing: See ``common.pair``; SQA3D's script for language models leaves such questions out.
        poses: Guesses of where the asker stands and how turned, by question, in the form of the published annotations
            (``meta["position"]``, ``meta["rotation"]``); see ``read_poses``. A question without any is wrong.

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
    if poses is not None:
        counts["unlocalized"] = sum(sample.sample_id not in poses for sample, _ in pairs)
        for (sample, _), row in zip(pairs, samples, strict=True):
            row |= _localized(sample, *poses.get(sample.sample_id, ([], [])))
    figures = [key for key, value in samples[0].items() if isinstance(value, float)]
    groups = {name: [row["type"] == name for row in samples] for name in (*TYPES, "other")}
    return {
        "benchmark": "sqa3d",
        "counts": counts,
        "rules": {
            "accuracy": "the answer as it is, equal to the annotated one",
            "em": "as LEO's script has it (order of the references matters, nothing counts as contained), MMScan's, and over all",
            "lenient": "SQA3D's script for language models: a word in common is enough",
            "poses": "not given" if poses is None else "the best of up to three guesses, on the floor, nearer than the limit",
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
    each = [_found(*row) for row in zip(positions, rotations, true_positions, true_rotations, strict=True)]
    return {name: float(np.mean([row[name] for row in each])) for name in each[0]}


def _found(positions: Any, rotations: Any, true_position: Sequence[float], true_rotation: Sequence[float]) -> dict[str, float]:
    near = min((math.dist(guess[:2], true_position[:2]) for guess in positions), default=math.inf)
    turned = min((_turned(true_rotation, guess) for guess in rotations), default=math.inf)
    figures = {f"acc@{limit}m": float(near < limit) for limit in (0.5, 1.0)}
    return figures | {f"acc@{limit}°": float(turned < limit) for limit in (15, 30)}


def _localized(sample: Sample, positions: Any, rotations: Any) -> dict[str, float]:
    where = f"sample {shown(sample.sample_id)}: meta"
    true = (field(dict(sample.meta), name, list, where) for name in ("position", "rotation"))
    return _found(positions, rotations, *true)


def read_poses(path: str | Path, rejects: Rejects | None = None) -> Poses:
    """Guesses by question, MOST_POSES at most: ``{question id: {position: [[x, y, z], ...], rotation: [[x, y, z, w], ...]}}``.

    Raises:
        GrandError: For another form, or a broken guess, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    document = read_json(path)
    if not isinstance(document, dict):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected an object of poses by question id", "wrong type")
    out = {}
    for name, row in document.items():
        try:
            row = row if isinstance(row, dict) else {}
            positions, rotations = (field(row, key, list, "") for key in ("position", "rotation"))
            if not 1 <= len(positions) <= MOST_POSES or len(positions) != len(rotations):
                seen = f"{len(positions)} positions and {len(rotations)} rotations"
                raise GrandError(f"{seen}, expected as many of both, {MOST_POSES} at most", "wrong number")
            turns = [numbers(item, 4, "rotation") for item in rotations]
            if not all(turn[2] or turn[3] for turn in turns):
                raise GrandError(
                    f"rotation is {shown(rotations)}, expected quaternions x, y, z, w that turn about z", "bad number"
                )
            out[name] = [numbers(item, 3, "position") for item in positions], turns
        except GrandError as error:
            rejects.add(f"{place(path)}: {shown(name)}", str(error), row, error.cause)
    return out


def _turned(a: Sequence[float], b: Sequence[float]) -> float:
    """Degrees between two turns about z."""
    angle = 2 * (math.atan2(a[2], a[3]) - math.atan2(b[2], b[3]))
    return abs(math.degrees((angle + math.pi) % (2 * math.pi) - math.pi))


def write_upload(path: str | Path, data: Data, answers: Sequence[Answer]) -> int:
    """Write ``[{scene_id, question_id, answer}]``; see ``texts.write_texts``."""

    def form(sample: Sample, answer: Answer) -> dict[str, Any]:
        return {"scene_id": sample.scene_id, "question_id": sample.sample_id, "answer": said(answer)}

    return write_texts(path, data, answers, form)
