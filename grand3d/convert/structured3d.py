"""Structured3D: designed houses with rooms, doors, windows and boxes (from documentation)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from grand3d.boxes import Floats
from grand3d.convert.graphs import refuse_none_left
from grand3d.convert.instances import category_of, object_of_axes, object_of_bounds
from grand3d.convert.scans import scan_folders
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, numbers, read_json, read_text
from grand3d.frames import move_object, scaled
from grand3d.regions import Polygon, area, with_members
from grand3d.sample import Data
from grand3d.scene import Object, Region, Scene, validate

INPUTS = {
    "scenes": "folder of a scene, or of such: SCENE/annotation_3d.json, and where there is one SCENE/bbox_3d.json",
    "errata": "the authors' errata.txt: scenes to be left out, and scenes of which a room is wrong",
}
OPENINGS = ("door", "window")
NAMELESS = "object"
"""Category of a box without a label: the published files have none, some derived ones add ``label``."""
_ERRATUM = re.compile(r"(scene_[0-9]+)(?:_room_([0-9]+))?")


def convert(*, scenes: str | Path, errata: str | Path | None = None, rejects: Rejects | None = None) -> Data:
    """Read scenes of true objects, ``id_space`` ``structured3d``; rooms are regions, with the outline of their floors.

    Boxes of ``bbox_3d.json`` keep their ``ID``; doors and windows, from the junctions they touch, are ``door-ID`` and
    ``window-ID``. Files are in millimetres; ``Scene.transform`` has the scale.

    Counted and left out, never raised: scenes that the errata list whole; boxes that are broken; rooms without an outline (they
    stay, without a polygon). A scene with a room in the errata stays and is counted, as annotation and rooms share no number.
    Boxes without a label are called ``object``, and counted.

    Raises:
        GrandError: For a broken file. With ``rejects`` such scenes are left out and collected instead.
    """
    rejects = rejects if rejects is not None else Rejects()
    wrong = read_errata(errata) if errata is not None else {}
    found = {}
    folders = scan_folders(scenes, "annotation_3d.json", rejects)
    for name, folder in folders:
        rooms = wrong.get(name)
        if rooms is not None:
            what = f"{len(rooms)} of its rooms" if rooms else "the scene"
            cause = "scene with a room in the errata" if rooms else "scene in the errata"
            rejects.note(place(folder), f"{name}: the errata list {what}", sorted(rooms), cause)
            if not rooms:
                continue
        try:
            found[name] = _scene(name, folder, rejects)
        except GrandError as error:
            rejects.add(place(folder), str(error), name, error.cause)
    refuse_none_left(scenes, found, rejects)
    return Data(found, ())


def read_errata(path: str | Path) -> dict[str, set[str]]:
    """``{scene: rooms}`` of the authors' list; no rooms where the whole scene is listed.

    Raises:
        GrandError: For a line that is neither a comment nor ``scene_N`` nor ``scene_N_room_M``.
    """
    whole: set[str] = set()
    rooms: dict[str, set[str]] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        text = line.partition("#")[0].strip()
        match = _ERRATUM.fullmatch(text)
        if text and match is None:
            raise GrandError(f"{place(path)}:{number}: seen {shown(line)}, expected scene_N or scene_N_room_M", "broken row")
        if match and match[2]:
            rooms.setdefault(match[1], set()).add(match[2])
        elif match:
            whole.add(match[1])
    return rooms | {scene: set() for scene in whole}


def _scene(name: str, folder: Path, rejects: Rejects) -> Scene:
    file = folder / "annotation_3d.json"
    where = place(file)
    document = read_json(file)
    try:
        junctions = np.array([numbers(row["coordinate"], 3, f"{where}: coordinate") for row in document["junctions"]])
        planes = [str(row["type"]) for row in document["planes"]]
        of_planes, of_lines = (np.array(document[key], bool) for key in ("planeLineMatrix", "lineJunctionMatrix"))
        semantics = [
            (int(row["ID"]), str(row["type"]), [int(plane) for plane in row["planeID"]]) for row in document["semantics"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, GrandError):
            raise
        raise GrandError(
            f"{where}: holds {shown(document)}, expected junctions, planes, semantics and matrices", "wrong type"
        ) from None
    lines = of_planes.shape[1] if of_planes.ndim == 2 else -1
    if of_planes.shape != (len(planes), lines) or of_lines.shape != (lines, len(junctions)):
        seen = f"planeLineMatrix {of_planes.shape}, lineJunctionMatrix {of_lines.shape}"
        raise GrandError(
            f"{where}: {seen}, expected ({len(planes)} planes, lines) and (lines, {len(junctions)} junctions)", "wrong shape"
        )
    if any(not 0 <= plane < len(planes) for _, _, ids in semantics for plane in ids):
        raise GrandError(
            f"{where}: a semantic names a plane beyond the {len(planes)} there are, expected one of them", "unknown plane"
        )
    matrix = scaled(0.001)
    regions, objects = [], []
    for number, kind, ids in semantics:
        if kind in OPENINGS:
            touched = junctions[of_lines[of_planes[ids].any(axis=0)].any(axis=0)]
            if len(touched):
                item = object_of_bounds(f"{kind}-{number}", kind, (touched.min(axis=0), touched.max(axis=0)))
                objects.append(move_object(item, matrix))
        elif kind != "outwall":
            floors = [plane for plane in ids if planes[plane] == "floor"]
            ring = _ring(of_lines[of_planes[floors].any(axis=0)], junctions) if floors else ()
            if not ring:
                reason = f"room {number}, {kind}: its floor has no outline that could be found"
                rejects.note(where, reason, None, "room without outline")
            polygon = tuple((x / 1000, y / 1000) for x, y in ring)
            regions.append(Region(f"room-{number}", category_of(kind), polygon))
    boxes = folder / "bbox_3d.json"
    if boxes.exists():
        objects += [move_object(item, matrix) for item in _boxes(boxes, rejects)]
    else:
        rejects.note(where, f"{name} has no bbox_3d.json; its scene has doors and windows alone", None, "scene without boxes")
    return validate(with_members(validate(Scene(name, tuple(objects), tuple(regions), "structured3d", transform=matrix))))


def _ring(lines: Any, junctions: Floats) -> Polygon:
    """The outline of a floor whose sides are lines between two junctions each; empty where they do not close."""
    sides = [np.flatnonzero(line).tolist() for line in lines]
    count = Counter(point for side in sides for point in side)
    if any(len(side) != 2 for side in sides) or not sides or any(number != 2 for number in count.values()):
        return ()
    start, here = sides[0]
    ring, left = [start], sides[1:]
    while here != start:
        ring.append(here)
        side = next(side for side in left if here in side)
        left.remove(side)
        here = side[1 - side.index(here)]
    if left:
        return ()
    points = junctions[ring][:, :2]
    points = points if area(points) > 0 else points[::-1]
    return tuple((float(x), float(y)) for x, y in points)


def _boxes(file: Path, rejects: Rejects) -> list[Object]:
    rows = read_json(file)
    if not isinstance(rows, list):
        raise GrandError(f"{place(file)}: holds {shown(rows)}, expected a list of {{ID, basis, coeffs, centroid}}", "wrong type")
    objects = []
    for index, row in enumerate(rows):
        where = f"{place(file)}: box {index}"
        try:
            if not isinstance(row, dict):
                raise GrandError(f"expected a JSON object, seen {shown(row)}", "wrong type")
            basis = [numbers(axis, 3, "a row of basis") for axis in field(row, "basis", list, "")]
            half = numbers(row.get("coeffs"), 3, "coeffs")
            if len(basis) != 3 or max(map(abs, half)) == 0:
                raise GrandError(f"basis has {len(basis)} rows and coeffs are {list(half)}, expected 3 and half sides", "bad box")
            name = category_of(row["label"]) if row.get("label") else NAMELESS
            sides = [2 * abs(side) for side in half]
            item = object_of_axes(str(field(row, "ID", int, "")), name, numbers(row.get("centroid"), 3, "centroid"), sides, basis)
        except GrandError as error:
            rejects.note(where, str(error), row, error.cause)
            continue
        if name == NAMELESS:
            rejects.note(where, f"has no label; it stays, as {NAMELESS}", None, "box without a label")
        objects.append(item)
    return objects
