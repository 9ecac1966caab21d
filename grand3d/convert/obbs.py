"""Annotated oriented boxes, ``{centroid, axesLengths, normalizedAxes}``, as ScanNet++, 3RScan, ARKitScenes and MultiScan have.

``normalizedAxes`` are nine numbers, three for each axis of the box one after the other, ``axesLengths`` full sides along them.
The ``min`` and ``max`` beside them are of no use: in some files they are corners along the box's own axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from grand3d.convert.graphs import refuse_none_left
from grand3d.convert.instances import category_of, object_of_axes
from grand3d.convert.ply_file import points_of, read_ply
from grand3d.convert.scans import FRAMES, alignment_of, frame_name, read_alignments, scan_folders
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, numbers, read_json
from grand3d.frames import move_object
from grand3d.sample import Data
from grand3d.scene import Object, Scene, validate

ALIGNMENT_HELP = "{scan: 16 numbers} of a matrix that turns a scan so that walls run along x and y; for --frame axis_aligned"
FRAME_HELP = (
    "raw (default) keeps the axes of the files, estimate turns them by the walls of the mesh, axis_aligned by --alignment"
)
SETTINGS = {"frame": FRAMES}

Row = tuple[Any, Any, Any]
"""(id, label, box)"""


def read_boxes(
    scans: str | Path,
    needed: str,
    mesh: str,
    rows: Callable[[Any], Iterable[Row]],
    id_space: str,
    alignment: str | Path | None,
    frame: str,
    rejects: Rejects | None,
) -> Data:
    """Scenes of true objects with the oriented boxes that a source annotates; z is up and units are metres.

    Args:
        scans: Folder of a scan, or of such.
        needed: The annotation of a scan, in its folder; ``{scan}`` stands for the folder's name.
        mesh: Its mesh likewise, which only ``frame`` ``estimate`` reads.
        rows: The decoded annotation to its rows; raises KeyError or TypeError for another document.

    Raises:
        GrandError: For a broken file and an id that occurs twice. With ``rejects`` such scans are left out instead. Objects
            without a box or with a blank label are counted and left out, never raised.
    """
    rejects = rejects if rejects is not None else Rejects()
    matrices = read_alignments(alignment) if alignment is not None else {}
    scenes = {}
    for scan, folder in scan_folders(scans, needed, rejects):
        file, cloud = folder / needed.format(scan=scan), folder / mesh.format(scan=scan)
        try:
            points = points_of(cloud, read_ply(cloud)["vertex"]) if frame == "estimate" else np.zeros((0, 3))
            matrix = alignment_of(scan, folder, matrices, frame, points)
            objects = [move_object(item, matrix) for item in _objects(file, rows, rejects)]
            scenes[scan] = validate(Scene(scan, tuple(objects), (), id_space, frame_name(frame), transform=matrix))
        except GrandError as error:
            rejects.add(place(file), str(error), scan, error.cause)
    refuse_none_left(scans, scenes, rejects)
    return Data(scenes, ())


def _objects(file: Path, rows: Callable[[Any], Iterable[Row]], rejects: Rejects) -> list[Object]:
    document = read_json(file)
    try:
        listed = list(rows(document))
    except (KeyError, TypeError, AttributeError):
        raise GrandError(
            f"{place(file)}: holds {shown(document)}, expected another form; is it of this source?", "wrong type"
        ) from None
    objects: dict[str, Object] = {}
    for number, (given, label, box) in enumerate(listed):
        object_id = str(given) if isinstance(given, int | str) and not isinstance(given, bool) else ""
        try:
            if not object_id:
                raise GrandError(f"id is {shown(given)}, expected text or a whole number", "bad id")
            if not isinstance(box, dict):
                raise GrandError("has no oriented box, expected centroid, axesLengths and normalizedAxes", "object without a box")
            item = object_of_obb(object_id, category_of(label), box)
        except GrandError as error:
            rejects.note(place(file), f"object number {number}, {shown(given)}: {error}", None, error.cause)
            continue
        if object_id in objects:
            raise GrandError(f"{place(file)}: object {shown(object_id)} occurs twice, expected each once", "id twice")
        objects[object_id] = item
    return list(objects.values())


def object_of_obb(object_id: str, category: str, box: dict[str, Any]) -> Object:
    """An object from ``{centroid, axesLengths, normalizedAxes}``.

    Raises:
        GrandError: If one of them is missing or something else.
    """
    sides = numbers(field(box, "axesLengths", list, ""), 3, "axesLengths")
    if min(sides) < 0:
        raise GrandError(f"axesLengths are {list(sides)}, expected full sides of 0 or more", "negative side")
    axes = np.reshape(numbers(field(box, "normalizedAxes", list, ""), 9, "normalizedAxes"), (3, 3))
    return object_of_axes(object_id, category, numbers(field(box, "centroid", list, ""), 3, "centroid"), sides, axes)
