"""Boxes, predictions and reports of references, for the tests of their benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grand3d.bench.common import Prediction
from grand3d.sample import Data, Sample
from grand3d.scene import Object, Scene

HALF = [[0, 0, 0], [1, 1, 0.5]]
UNIT = [[0, 0, 0], [1, 1, 1]]


def scene_of(found: Any, scene_id: str = "s") -> Scene:
    """A scene of boxes given by their corners."""
    rows = np.asarray(found, float).reshape(-1, 2, 3)
    items = (Object(str(k), "thing", tuple((b[0] + b[1]) / 2), tuple(b[1] - b[0])) for k, b in enumerate(rows))
    return Scene(scene_id, tuple(items), id_space="scannet")


def data_of(cases: list[dict[str, Any]], meta: Callable[[dict[str, Any]], dict[str, Any]]) -> tuple[Data, list[Prediction]]:
    """One scene a case, whose objects are its true boxes; predictions with the boxes of the case."""
    scenes, samples, answers = {}, [], []
    for case in cases:
        name = case["name"]
        scenes[name] = scene_of(case["gt"], name)
        samples.append(Sample(name, name, "object_reference", "it", target_ids=scenes[name].object_ids, meta=meta(case)))
        answers.append(Prediction(name, name, np.asarray(case["pred"], float).reshape(-1, 2, 3)))
    return Data(scenes, tuple(samples)), answers


def row_of(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    return next(row for row in rows if all(row.get(key) == value for key, value in wanted.items()))


def reply_text(number: str) -> str:
    return f"<refer_expression_grounding><p>it</p>[<obj_{number}>]</refer_expression_grounding>"
