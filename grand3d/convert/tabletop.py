"""Scene files of CLEVR: coloured things on a plane, and the directions in which its camera has left, right, front and behind."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grand3d.convert.graphs import refuse_none_left
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, numbers, read_json, refuse_unfit
from grand3d.programs import SIDES
from grand3d.relations import directions
from grand3d.scene import Object, Scene

SCENES_HELP = "scenes.json of CLEVR, the file of one scene, or a folder of such files"
RADII = {"large": 0.7, "small": 0.35}
"""Units, as in CLEVR's properties.json."""
SPACE = "clevr"
CAMERA = (10.0, 5.5)
"""How far before the middle of the plane and how high a viewpoint is put: scene files tell the heading of the camera alone."""

Viewpoint = tuple[tuple[float, float, float], tuple[float, float, float]]


def read_tables(path: str | Path, rejects: Rejects) -> tuple[dict[str, tuple[Scene, Viewpoint]], set[str]]:
    """The scenes of CLEVR's files, each with the viewpoint of its camera, by the name of their image; and those rejected.

    ``object_id`` is the place in the scene's list, ``category`` all that the thing is told apart by ("small red metal cube"), the
    parts of it ``attributes``. A thing is as wide as high, twice the height of its centre. Pixels, masks, rotation and the
    relations, which follow from the places, are not carried over. Units are CLEVR's and stand for metres.

    Raises:
        GrandError: If a file is broken, or a scene, unless ``rejects`` collects it.
    """
    found: dict[str, tuple[Scene, Viewpoint]] = {}
    lost: set[str] = set()
    for where, row in _rows(path):
        try:
            scene, viewpoint = _scene(row)
            if scene.scene_id in found:
                raise GrandError(f"scene {shown(scene.scene_id)} occurs twice, expected once; the first one counts", "id twice")
        except GrandError as error:
            rejects.add(where, str(error), row, error.cause)
            with contextlib.suppress(GrandError, AttributeError):
                lost.add(name_of(row))
            continue
        found[scene.scene_id] = scene, viewpoint
    refuse_none_left(path, found, rejects)
    return found, lost - found.keys()


def _rows(path: str | Path) -> Iterator[tuple[str, Any]]:
    folder = Path(path)
    files = sorted(folder.glob("*.json")) if os.path.isdir(folder) else [folder]
    if not files:
        raise GrandError(f"{place(path)}: holds no .json file, expected scene files of CLEVR", "no scenes")
    for file in files:
        document = read_json(file)
        rows = document.get("scenes") if isinstance(document, dict) and "scenes" in document else document
        if isinstance(document, dict) and "objects" in document:
            yield place(file), document
        elif isinstance(rows, list) and rows:
            yield from ((f"{place(file)}: scene {index}", row) for index, row in enumerate(rows))
        else:
            expected = "expected a scene {objects, directions, ...} or {scenes: [...]} of them"
            raise GrandError(f"{place(file)}: holds {shown(document)}, {expected}", "no scenes")


def name_of(row: dict[str, Any]) -> str:
    """The name of the image that a row of CLEVR is about, without its ending."""
    if row.get("image_filename") is not None:
        return Path(field(row, "image_filename", str, "")).stem
    return f"CLEVR_{field(row, 'split', str, '', 'new')}_{field(row, 'image_index', int, ''):06d}"


def _scene(row: Any) -> tuple[Scene, Viewpoint]:
    if not isinstance(row, dict):
        raise GrandError(f"a scene is {shown(row)}, expected an object", "wrong type")
    refuse_unfit(row, "scene")
    name = name_of(row)
    objects = tuple(_object(k, item) for k, item in enumerate(field(row, "objects", list, "")))
    return Scene(name, objects, id_space=SPACE), _viewpoint(field(row, "directions", dict, ""))


def _object(number: int, row: Any) -> Object:
    where = f"object {number}"
    if not isinstance(row, dict):
        raise GrandError(f"{where} is {shown(row)}, expected an object", "wrong type")
    looks = {name: field(row, name, str, where) for name in ("size", "color", "material", "shape")}
    x, y, radius = numbers(row.get("3d_coords"), 3, f"{where}: 3d_coords")
    wanted = RADII.get(looks["size"])
    if wanted is None:
        raise GrandError(f"{where}: size is {shown(looks['size'])}, expected one of {', '.join(RADII)}", "unknown size")
    if (
        min(abs(radius - wanted), abs(radius - wanted / math.sqrt(2))) > 0.01
    ):  # the latter: what the generator makes of a plain cube
        reason = f"expected {wanted}, the radius of a {looks['size']} thing that stands on the plane"
        raise GrandError(f"{where}: its centre is {shown(radius)} high, {reason}", "bad height")
    return Object(str(number), " ".join(looks.values()), (x, y, radius), (2 * radius,) * 3, attributes=looks)


def _viewpoint(given: dict[str, Any]) -> Viewpoint:
    ways = {side: numbers(given.get(side), 3, f"directions: {side}") for side in SIDES}
    x, y, _ = ways["behind"]
    if not math.isclose(math.hypot(x, y), 1, abs_tol=1e-3):
        raise GrandError(f"directions: behind is {shown(ways['behind'])}, expected a unit vector", "bad directions")
    for side, way in directions((x, y)).items():
        if math.dist(way, ways[side][:2]) > 1e-3:
            reason = f"expected {shown(way)}, at a right angle to behind; is the scene mirrored?"
            raise GrandError(f"directions: {side} is {shown(ways[side])}, {reason}", "bad directions")
    far, high = CAMERA
    return (-far * x, -far * y, high), (0.0, 0.0, 0.0)
