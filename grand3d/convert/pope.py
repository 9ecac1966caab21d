"""3D-POPE question files: is there such a thing in the room?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from grand3d.convert.graphs import absent_scene, object_of, refuse_none_left, rows_of, split_graphs, used_scenes
from grand3d.errors import GrandError, place
from grand3d.files import Rejects, field, shown
from grand3d.sample import Data, Sample
from grand3d.scene import Scene

INPUTS = {
    "questions": "a question file, or a folder of them (3 types x 4 templates)",
    "proposals": "graph of a detector's proposals for the scans asked about; without it the questions can be scored, not asked",
    "truth": "graph of the true objects of the scans: reports then say how many labels it contradicts",
}


def convert(
    *, questions: str | Path, proposals: str | Path | None = None, truth: str | Path | None = None, rejects: Rejects | None = None
) -> Data:
    """Read 3D-POPE into samples of the task ``existence``, answers ``Yes`` or ``No``.

    ``sample_id`` is the public id. ``meta`` holds ``type`` (random, popular, adversarial) and ``template``. Questions lose
    their image mark. Scans that are not asked about are left out.

    Raises:
        GrandError: If a file is broken. Broken rows, ids that occur twice and unknown scans raise too, unless ``rejects``
            collects them.
    """
    rejects = rejects if rejects is not None else Rejects()
    path = Path(questions)
    files = sorted(path.glob("*.json")) if os.path.isdir(path) else [path]
    if not files:
        raise GrandError(f"{place(path)}: the folder holds no .json file")
    scenes, rejected = split_graphs(proposals, "mask3d", rejects=rejects) if proposals is not None else ({}, set())
    samples: dict[str, Sample] = {}
    for file in files:
        for index, row in enumerate(rows_of(file)):
            try:
                sample = _sample(object_of(row))
                if proposals is None:
                    scenes.setdefault(sample.scene_id, Scene(sample.scene_id, (), id_space="mask3d"))
                if sample.scene_id not in scenes:
                    raise absent_scene(sample.scene_id, rejected, "has no proposals")
                if sample.sample_id in samples:
                    raise GrandError(
                        f"id {shown(sample.sample_id)} occurs twice, expected once; are these files of two label sets?",
                        "id twice",
                    )
            except GrandError as error:
                rejects.add(f"{place(file)}: row {index}", str(error), row, error.cause)
                continue
            samples[sample.sample_id] = sample
    refuse_none_left(path, samples, rejects)
    asked = {sample.scene_id for sample in samples.values()}
    true = None if truth is None else _true_scenes(truth, asked, rejects)
    return Data(used_scenes(scenes, asked), tuple(samples.values()), true)


def _true_scenes(path: str | Path, asked: set[str], rejects: Rejects) -> dict[str, Scene]:
    """The true objects of the scans asked about; a scan that is not in the file has none that are known."""
    found, _ = split_graphs(path, "scannet", scored=False, rejects=rejects)
    if not asked & found.keys():
        raise GrandError(
            f"{place(path)}: holds none of the {len(asked)} scans asked about, expected their true objects", "no truth"
        )
    return {name: found.get(name, Scene(name, (), id_space="scannet")) for name in asked}


def _sample(row: dict[str, Any]) -> Sample:
    sample_id = field(row, "id", str, "")
    turns = field(row, "conversations", list, "")
    if len(turns) != 1 or not isinstance(turns[0], dict) or turns[0].get("from") != "human":
        raise GrandError(f"conversations is {shown(turns)}, expected one human turn", "wrong turns")
    answer = field(row, "ground_truth_answer", str, "")
    if answer.lower() not in ("yes", "no"):
        raise GrandError(f"ground_truth_answer is {shown(answer)}, expected yes or no", "bad answer")
    return Sample(
        sample_id=sample_id,
        scene_id=field(row, "scene_id", str, ""),
        task="existence",
        text=field(turns[0], "value", str, "the human turn").replace("<image>", "").strip(),
        answer=answer.capitalize(),
        meta={"type": field(row, "question_type", str, ""), "template": field(row, "template", str, "")},
    )
