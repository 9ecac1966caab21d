"""Seven samples of two scenes as a data folder, and a short run of the tiny base on them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from grand3d.config import from_dict
from grand3d.sample import Data, Sample, save_data
from grand3d.scene import Scene
from grand3d.schema import Config


def save_toy_data(folder: Path, scene: Scene, proposals: Scene) -> Path:
    other = replace(proposals, scene_id="other")
    samples = [
        Sample("r0", "toy_room", "object_reference", "the <p>office chair</p>[<1>] at the <p>desk</p>[<0>]", target_ids=("1",)),
        Sample("r1", "toy_room", "object_reference", "the <p>bed</p>[<4>]", target_ids=("4",)),
        Sample("e0", "toy_room", "existence", "Are there any pillows in the room?", "Yes", ("5", "6")),
        Sample("e1", "toy_room", "existence", "Is there a refrigerator in the room?", "No"),
        Sample("r2", "other", "object_reference", "a <p>lamp</p>[<p5>]", target_ids=("p5",)),
        Sample("e2", "other", "existence", "Is there a rug?", "Yes", ("p8",)),
        Sample("e3", "other", "existence", "Is there a sink?", "No"),
    ]
    save_data(folder, Data({"toy_room": scene, "other": other}, tuple(samples)))
    return folder


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def config(folder: Path, **changes: Any) -> Config:
    """Settings of the run; ``train__seed=1`` changes ``train.seed``."""
    raw: dict[str, dict[str, Any]] = {
        "model": {"base": "tiny"},
        "lora": {"rank": 4, "alpha": 8, "dropout": 0.1},
        "data": {"train": [{"path": str(folder)}], "questions_per_scene": 2},
        "train": {"global_batch": 4, "learning_rate": 0.005, "num_steps": 6, "warmup_steps": 1, "save_every": 3},
    }
    for key, value in changes.items():
        section, name = key.split("__")
        raw[section][name] = value
    return from_dict(raw)
