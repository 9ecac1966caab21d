"""ReRef-3D: where to put a thing, told by other things (from documentation; the form of the file is proposed here)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grand3d.convert.graphs import absent_scene, object_of, refuse_none_left, used_scenes
from grand3d.convert.tabletop import SCENES_HELP, Viewpoint, read_tables
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, numbers, read_numbered, refuse_unknown
from grand3d.placement import answer, program_from_dict, program_to_dict, resolve
from grand3d.programs import table_of
from grand3d.sample import Data, Sample
from grand3d.scene import Scene

INPUTS = {
    "questions": "JSON lines {pair_id, style, scene, text, program, goal} (docs/formats.md)",
    "scenes": SCENES_HELP,
}
STYLES = ("templated", "naturalised")
KEYS = ("question_id", "pair_id", "style", "scene", "text", "program", "goal", "train_style")


def convert(*, questions: str | Path, scenes: str | Path, rejects: Rejects | None = None) -> Data:
    """Read placement instructions into samples of the task ``placement``.

    ``text`` is the instruction, ``answer`` names the thing and its anchors, then the annotated goal as a place; ``target_ids`` is
    the thing to be moved, ``viewpoint`` the camera's. ``meta`` holds ``program``, ``goal``, ``pair_id`` and ``style``, and
    ``train_style`` where the row has one.

    Raises:
        GrandError: If a file is broken. Broken rows, unknown scenes and programs that do not name exactly one object each raise
            too, unless ``rejects`` collects them.
    """
    rejects = rejects if rejects is not None else Rejects()
    tables, lost = read_tables(scenes, rejects)
    samples: dict[str, Sample] = {}

    def make(row: Any) -> Sample:
        name = field(object_of(row), "scene", str, "").removesuffix(".png")
        if name not in tables:
            raise absent_scene(name, lost, "is not among the scenes")
        sample = _sample(row, *tables[name])
        if sample.sample_id in samples:
            raise GrandError(f"instruction {shown(sample.sample_id)} occurs twice, expected once", "id twice")
        return sample

    for _, sample in read_numbered(questions, make, rejects):
        samples[sample.sample_id] = sample
    if not samples and not rejects.rows:
        raise GrandError(f"{place(questions)}: holds no row, expected JSON lines of instructions", "no rows")
    refuse_none_left(questions, samples, rejects)
    found = {name: scene for name, (scene, _) in tables.items()}
    return Data(used_scenes(found, {sample.scene_id for sample in samples.values()}), tuple(samples.values()))


def _sample(row: dict[str, Any], scene: Scene, viewpoint: Viewpoint) -> Sample:
    refuse_unknown(row, KEYS, "instruction")
    pair_id, text = field(row, "pair_id", str, "").strip(), field(row, "text", str, "").strip()
    style, trained = field(row, "style", str, ""), field(row, "train_style", str, "", None)
    if style not in STYLES or trained not in (*STYLES, None):
        seen = shown(style if style not in STYLES else trained)
        raise GrandError(f"style is {seen}, expected one of {', '.join(STYLES)}", "bad style")
    if not pair_id or not text:
        raise GrandError("pair_id or text is empty, expected both", "broken row")
    program = program_from_dict(row.get("program"))
    placing = resolve(program, table_of(scene, viewpoint))
    goal = numbers(row.get("goal"), 3, "goal")
    meta: dict[str, Any] = {"program": program_to_dict(program), "goal": list(goal), "pair_id": pair_id, "style": style}
    if trained is not None:
        meta["train_style"] = trained
    targets = (placing.thing.object_id,) if program.target else ()
    name = field(row, "question_id", str, "", f"{pair_id}_{style}")
    return Sample(name, scene.scene_id, "placement", text, answer(placing, goal), targets, viewpoint, meta)
