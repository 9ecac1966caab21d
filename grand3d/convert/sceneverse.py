"""SceneVerse's objects of HM3D, ProcTHOR, 3RScan, ARKitScenes, MultiScan and Structured3D (from documentation)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from grand3d.convert.graphs import refuse_none_left
from grand3d.convert.instances import category_of, object_of_bounds
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, numbers, read_json
from grand3d.sample import Data
from grand3d.scene import Object, Scene, validate

INPUTS = {
    "graphs": "objects.json of a scene graph, {scan: {objects_info: [{id, label, position, size}]}}; or a folder of"
    " SCAN/objects.json",
}


def convert(*, graphs: str | Path, rejects: Rejects | None = None) -> Data:
    """Read scenes of true objects, ``id_space`` ``sceneverse``: ``object_id`` is SceneVerse's own ``id``, not HM3D's.

    ``position`` is the middle of the axis-aligned box, ``size`` its full sides, in metres, z up, as its graphs are made.
    Relations follow from the boxes and are not read; neither are the point clouds (.pth), which are Python pickles.

    Raises:
        GrandError: For a broken file or an id that occurs twice. With ``rejects`` such scans are left out; objects without a
            label or of no size at all are counted and left out, never raised.
    """
    rejects = rejects if rejects is not None else Rejects()
    top = Path(graphs)
    files = sorted(top.glob("*/objects.json")) if os.path.isdir(top) else [top]
    if not files:
        raise GrandError(f"{place(graphs)}: holds no SCAN/objects.json, expected graphs of SceneVerse", "no scenes")
    scenes: dict[str, Scene] = {}
    for file in files:
        document = read_json(file)
        if not isinstance(document, dict) or not document:
            raise GrandError(f"{place(file)}: holds {shown(document)}, expected {{scan: {{objects_info: [...]}}}}", "wrong type")
        for scan, row in document.items():
            where = f"{place(file)}: scan {scan}"
            try:
                if scan in scenes:
                    raise GrandError(f"scan {shown(scan)} occurs twice, expected once; the first one counts", "id twice")
                scenes[scan] = _scene(scan, row, where, rejects)
            except GrandError as error:
                rejects.add(where, str(error), row, error.cause)
    refuse_none_left(graphs, scenes, rejects)
    return Data(scenes, ())


def _scene(scan: str, row: Any, where: str, rejects: Rejects) -> Scene:
    if not isinstance(row, dict):
        raise GrandError(f"expected {{objects_info: [...]}}, seen {shown(row)}", "wrong type")
    objects: list[Object] = []
    for number, item in enumerate(field(row, "objects_info", list, "")):
        try:
            if not isinstance(item, dict):
                raise GrandError(f"expected a JSON object, seen {shown(item)}", "wrong type")
            centre, sides = numbers(item.get("position"), 3, "position"), numbers(item.get("size"), 3, "size")
            if min(sides) < 0 or max(sides) == 0:
                raise GrandError(f"size is {list(sides)}, expected full sides, of which one is above 0", "object without a size")
            low, high = ([c + sign * s / 2 for c, s in zip(centre, sides, strict=True)] for sign in (-1, 1))
            name = category_of(item.get("label"))
            objects.append(object_of_bounds(str(field(item, "id", int, "")), name, (low, high)))
        except GrandError as error:
            rejects.note(where, f"object number {number}: {error}", item, error.cause)
    return validate(Scene(scan, tuple(objects), (), "sceneverse"))
