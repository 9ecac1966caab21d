"""Plain boxes, CSV or JSON: what any detector or annotation tool can write."""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from grand3d.convert.areas import move_region, read_regions
from grand3d.convert.graphs import object_id_of, refuse_none_left
from grand3d.convert.instances import category_of, object_of_axes, object_of_bounds
from grand3d.convert.scans import UNITS, UNITS_HELP, UP_HELP, UPS, frame_name, read_alignments, upright
from grand3d.convert.tables import read_table
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, numbers, read_json, refuse_unfit
from grand3d.frames import compose, move_object
from grand3d.oriented import as_boxes, rotation_zxy
from grand3d.regions import with_members
from grand3d.sample import Data
from grand3d.scene import Object, Scene, validate

INPUTS = {
    "boxes": "one .csv or .json whose name is the scene's unless rows have a scene_id, or a folder of them",
    "regions": "{scene: [{region_id, name, polygon, object_ids}]}: rooms and other parts of the floor",
    "alignment": "{scene: 16 numbers} of a matrix that turns boxes into the scene's axes, after up and units",
    "frame": "axis_aligned (default), or raw where walls do not run along x and y",
    "up": UP_HELP,
    "units": UNITS_HELP,
    "id_space": "what the numbering of the file is called (default: boxes)",
}
FRAMES = ("axis_aligned", "raw")
SETTINGS = {"frame": FRAMES, "up": UPS, "units": UNITS, "id_space": str}
FORMS = "centroid and extent (with yaw or rotation), min and max, box (6, 7 or 9 numbers) or corners (8 points)"
COLUMNS = {
    "centroid": ("x", "y", "z"),
    "extent": ("dx", "dy", "dz"),
    "min": ("xmin", "ymin", "zmin"),
    "max": ("xmax", "ymax", "zmax"),
}
"""Columns of a table that stand for three numbers of a row of JSON."""
ALIASES = {
    **{"center": "centroid", "size": "extent", "label": "category", "class": "category", "name": "category"},
    **{"id": "object_id", "confidence": "score", "scene": "scene_id", "scan_id": "scene_id"},
}
KNOWN = ("scene_id", "object_id", "category", "score", "description", "region_id", "attributes")
BOX = ("centroid", "extent", "yaw", "rotation", "min", "max", "box", "corners")


def convert(
    *,
    boxes: str | Path,
    regions: str | Path | None = None,
    alignment: str | Path | None = None,
    frame: str = "axis_aligned",
    up: str = "z",
    units: str = "m",
    id_space: str = "boxes",
    rejects: Rejects | None = None,
) -> Data:
    """Read boxes into scenes. A row is a true object, or a proposal where it has a ``score``.

    A row names its ``category`` and its box in one of the ways of FORMS: full sides; ``yaw`` about z and the angles of ``box``
    (ZXY, as in EmbodiedScan) in radians; ``rotation`` the rows of a matrix from box to scene axes; of ``corners`` the box
    around them. All are in the file's own axes and units: with ``up`` y, a yaw is about y. Without ``object_id`` rows count
    from 0. Objects in a polygon become its region's.

    Raises:
        GrandError: For a broken file. Broken rows, ids that occur twice, and scenes raise too, unless ``rejects`` collects them.
    """
    rejects = rejects if rejects is not None else Rejects()
    if frame not in FRAMES:
        raise GrandError(f"frame is {shown(frame)}, expected one of {', '.join(FRAMES)}: boxes show no walls to estimate it from")
    matrices = read_alignments(alignment) if alignment is not None else {}
    areas = read_regions(regions) if regions is not None else {}
    stand = upright(up, units)
    found: dict[str, dict[str, Object]] = defaultdict(dict)
    for where, scene_id, row in _rows(boxes, rejects):
        try:
            item = object_of_row(row, str(len(found[scene_id])), up)
            if item.object_id in found[scene_id]:
                raise GrandError(f"object {shown(item.object_id)} occurs twice, expected once; the first one counts", "id twice")
        except GrandError as error:
            rejects.add(where, str(error), row, error.cause)
            continue
        found[scene_id][item.object_id] = item
    scenes = {}
    for scene_id, objects in found.items():
        matrix = compose(matrices[scene_id], stand) if scene_id in matrices else stand
        moved = tuple(move_object(item, matrix) for item in objects.values())
        rings = tuple(move_region(region, matrix) for region in areas.get(scene_id, ()))
        try:
            scene = Scene(scene_id, moved, rings, id_space, frame_name(frame), transform=matrix)
            scenes[scene_id] = validate(with_members(validate(scene)))
        except GrandError as error:
            rejects.add(place(boxes), str(error), scene_id, error.cause)
    refuse_none_left(boxes, scenes, rejects)
    return Data(scenes, ())


def _rows(path: str | Path, rejects: Rejects) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(where, scene, row) of a file or a folder of files."""
    top = Path(path)
    files = [top]
    if os.path.isdir(top):
        files = sorted(file for file in top.iterdir() if file.suffix in (".csv", ".json"))
        if not files:
            raise GrandError(f"{place(path)}: holds no .csv and no .json, expected boxes", "no scenes")
    for file in files:
        rows = _of_table(file, rejects) if file.suffix == ".csv" else _of_json(file)
        for where, scene, given in rows:
            try:
                if not isinstance(given, Mapping):
                    raise GrandError(f"expected an object with category and box, seen {shown(given)}", "wrong type")
                row = {ALIASES.get(key, key): value for key, value in given.items()}
                if len(row) < len(given):
                    raise GrandError(f"two keys of {shown(sorted(given))} mean the same, expected one of them", "key twice")
                yield where, field(row, "scene_id", str, "", scene).strip(), row
            except GrandError as error:
                rejects.add(where, str(error), given, error.cause)


def _of_json(file: Path) -> Iterator[tuple[str, str, Any]]:
    document = read_json(file)
    where = place(file)
    if isinstance(document, dict) and isinstance(document.get("objects"), list):
        scene, document = document.get("scene_id", file.stem), document["objects"]
        yield from ((f"{where}: object {index}", str(scene), row) for index, row in enumerate(document))
    elif isinstance(document, list) and document:
        yield from ((f"{where}: row {index}", file.stem, row) for index, row in enumerate(document))
    elif isinstance(document, dict) and document and all(isinstance(item, list | dict) for item in document.values()):
        for scene, rows in document.items():
            items: Iterable[tuple[Any, Any]] = enumerate(rows) if isinstance(rows, list) else rows.items()
            for key, row in items:
                named = isinstance(rows, dict) and isinstance(row, dict) and "object_id" not in row and "id" not in row
                yield f"{where}: scene {scene}, {key}", scene, {**row, "object_id": object_id_of(key)} if named else row
    else:
        expected = "expected a list of boxes, {objects: [...]}, {scene: [...]} or {scene: {id: box}}"
        raise GrandError(f"{where}: holds {shown(document)}, {expected}", "wrong type")


def _of_table(file: Path, rejects: Rejects) -> Iterator[tuple[str, str, Any]]:
    for where, cells in read_table(file, (), "boxes"):
        row: dict[str, Any] = {}
        try:
            for key, text in cells.items():
                name, text = ALIASES.get(key.strip(), key.strip()), text.strip()
                if not text:
                    continue
                if name in ("score", "yaw"):
                    row[name] = number_cell(text, name)
                elif name in BOX:
                    row[name] = numbers_cell(text, name)
                else:
                    row[name] = text
            for name, columns in COLUMNS.items():
                given = [column for column in columns if column in row]
                if len(given) == 3:
                    row[name] = [number_cell(row.pop(column), column) for column in columns]
                elif given:
                    raise GrandError(f"has {', '.join(given)}, expected {', '.join(columns)}", "missing key")
        except GrandError as error:
            rejects.add(where, str(error), cells, error.cause)
            continue
        yield where, file.stem, row


def number_cell(text: str, name: str) -> float:
    """A number that a cell of a table holds.

    Raises:
        GrandError: If it is none, or not finite.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise GrandError(f"{name} is {shown(text)}, expected a finite number", "bad number")
    return value


def numbers_cell(text: str, name: str) -> list[float]:
    """Numbers that a cell holds: ``[1, 2, 3]``, ``[1 2 3]`` (numpy's writing), ``1,2,3`` or ``1 2 3``; nothing is run as code.

    Raises:
        GrandError: If it holds something else.
    """
    inner = re.fullmatch(r"\s*[\[(]?([^\[\]()]*)[\])]?\s*", text)
    words = re.split(r"[,;\s]+", inner[1].strip()) if inner else [text]
    return [number_cell(word, name) for word in words]


def object_of_row(row: Mapping[str, Any], default_id: str, up: str = "z") -> Object:
    """An object from a row with the keys of KNOWN and BOX, in the row's own axes.

    Raises:
        GrandError: For keys that are missing, unknown or of the wrong type, or not exactly one box.
    """
    unknown = sorted(set(row) - {*KNOWN, *BOX})
    if unknown:
        raise GrandError(f"unknown keys {shown(unknown)}, expected {', '.join((*KNOWN, *BOX))}", "unknown key")
    refuse_unfit(dict(row), "a field")
    given = row.get("object_id", default_id)
    object_id = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
    if not isinstance(object_id, str):
        raise GrandError(f"object_id is {shown(given)}, expected text or a whole number", "bad id")
    category = category_of(row.get("category"))
    attributes = field(dict(row), "attributes", dict, "", {})
    more = {
        "score": field(dict(row), "score", float, "", None),
        "description": field(dict(row), "description", str, "", None),
        "region_id": field(dict(row), "region_id", str, "", None),
        "attributes": {str(key): str(value) for key, value in attributes.items()},
    }
    ways = [name for name in ("centroid", "min", "box", "corners") if name in row]
    if len(ways) != 1:
        raise GrandError(f"has {' and '.join(ways) or 'no box'}, expected one of {FORMS}", "bad box")
    if ways == ["box"]:
        box = as_boxes([row["box"]], "box")[0]
        if up == "y" and box[6:].any():
            raise GrandError("box has angles, which are about z, and up is y, expected centroid, extent and rotation", "bad box")
        return object_of_axes(object_id, category, box[:3], box[3:6], rotation_zxy(box[6:]).T, **more)
    if ways == ["corners"]:
        points = [numbers(corner, 3, "a corner") for corner in field(dict(row), "corners", list, "")]
        if len(points) != 8:
            raise GrandError(f"corners are {len(points)} points, expected 8", "bad box")
        return object_of_bounds(object_id, category, (np.min(points, axis=0), np.max(points, axis=0)), **more)
    if ways == ["min"]:
        low, high = numbers(row["min"], 3, "min"), numbers(row.get("max"), 3, "max")
        if any(a > b for a, b in zip(low, high, strict=True)):
            raise GrandError(f"min is {list(low)} and max {list(high)}, expected min below max on every axis", "bad box")
        return object_of_bounds(object_id, category, (low, high), **more)
    centroid, extent = numbers(row["centroid"], 3, "centroid"), numbers(row.get("extent"), 3, "extent")
    if min(extent) < 0:
        raise GrandError(f"extent is {list(extent)}, expected full sides of 0 or more", "negative side")
    if "rotation" in row and "yaw" in row:
        raise GrandError("has yaw and rotation, expected one of them", "bad box")
    turn = np.eye(3)
    if "rotation" in row:
        turn = np.array([numbers(r, 3, "a row of rotation") for r in field(dict(row), "rotation", list, "")])
        if turn.shape != (3, 3):
            raise GrandError(f"rotation has {len(turn)} rows, expected 3", "bad rotation")
    elif "yaw" in row:
        c, s = math.cos(field(dict(row), "yaw", float, "")), math.sin(field(dict(row), "yaw", float, ""))
        turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]] if up == "z" else [[c, 0, s], [0, 1, 0], [-s, 0, c]])
    return object_of_axes(object_id, category, centroid, extent, turn.T, **more)
