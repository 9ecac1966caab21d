"""Point clouds or meshes (PLY) that say which object each point belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from grand3d.convert.graphs import refuse_none_left
from grand3d.convert.instances import boxes_by_instance, object_of_bounds, whole_numbers
from grand3d.convert.labels import class_name, class_names
from grand3d.convert.ply_file import Columns, points_of, read_ply
from grand3d.convert.scans import (
    ALIGNMENT_HELP,
    FRAME_HELP,
    FRAMES,
    UNITS,
    UNITS_HELP,
    UP_HELP,
    UPS,
    alignment_of,
    frame_name,
    read_alignments,
    upright,
)
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects
from grand3d.frames import apply, compose
from grand3d.sample import Data
from grand3d.scene import Object, Scene, validate

INPUTS = {
    "points": "one .ply, whose name is the scene's, or a folder of them",
    "labels": "{number: name} (.json), scannet20, scannet200 or a label table: what instances, or with --semantic classes, are"
    " called",
    "instance": "property of vertices or faces with the object of each (default: instance, instance_id, objectId or object_id)",
    "semantic": "property of vertices with the class of each; an object has that of most of its points",
    "alignment": ALIGNMENT_HELP,
    "frame": FRAME_HELP,
    "up": UP_HELP,
    "units": UNITS_HELP,
}
SETTINGS = {"labels": str, "instance": str, "semantic": str, "frame": FRAMES, "up": UPS, "units": UNITS}
INSTANCES = ("instance", "instance_id", "objectId", "object_id")


def convert(
    *,
    points: str | Path,
    labels: str,
    instance: str = "",
    semantic: str = "",
    alignment: str | Path | None = None,
    frame: str = "axis_aligned",
    up: str = "z",
    units: str = "m",
    rejects: Rejects | None = None,
) -> Data:
    """Read labelled points into scenes of true objects, ``id_space`` ``ply``: ``object_id`` is the number of the instance.

    A box is the axis-aligned one around an instance's points, after the turn. Numbers below 0 mark points of no object.

    Counted and left out, never raised: instances that ``labels`` does not name (without ``semantic``), as 0 often is no object.

    Raises:
        GrandError: For a file that is missing or broken, has no such property, or is not aligned. With ``rejects`` such scenes
            are left out and collected instead.
    """
    rejects = rejects if rejects is not None else Rejects()
    names = class_names(labels)
    matrices = read_alignments(alignment) if alignment is not None else {}
    stand = upright(up, units)
    top = Path(points)
    files = sorted(top.glob("*.ply")) if os.path.isdir(top) else [top]
    if not files:
        raise GrandError(f"{place(points)}: holds no .ply, expected one for each scene", "no scenes")
    scenes = {}
    for file in files:
        try:
            vertices, owners = read_instances(file, instance)
            own = points_of(file, vertices)
            matrix = compose(alignment_of(file.stem, file.parent, matrices, frame, apply(stand, own)), stand)
            kinds = _kinds(file, vertices, owners, semantic) if semantic else None
            objects = _objects(apply(matrix, own), owners, kinds, names, labels, place(file), rejects)
            scenes[file.stem] = validate(Scene(file.stem, tuple(objects), (), "ply", frame_name(frame), transform=matrix))
        except GrandError as error:
            rejects.add(place(file), str(error), file.stem, error.cause)
    refuse_none_left(points, scenes, rejects)
    return Data(scenes, ())


def read_instances(file: Path, name: str = "") -> tuple[Columns, NDArray[np.int64]]:
    """The vertices of a file and the object (n,) of each; a property of faces gives their corners to the object, -1 none.

    Args:
        name: The property; empty for the first of INSTANCES.

    Raises:
        GrandError: If neither vertices nor faces have it.
    """
    vertices = read_ply(file)["vertex"]
    wanted = (name,) if name else INSTANCES
    for key in wanted:
        if key in vertices:
            return vertices, whole_numbers(vertices[key], f"{place(file)}: {key}")
    try:
        faces = read_ply(file, ("face",))["face"]
    except GrandError as error:
        if error.cause != "wrong elements":
            raise
        faces = {}
    num = len(vertices.get("x", ()))
    for key in wanted:
        corners = faces.get("vertex_indices", faces.get("vertex_index"))
        if key in faces and corners is not None:
            owners = np.full(num, -1, np.int64)
            numbers = whole_numbers(faces[key], f"{place(file)}: {key}")
            sizes = [len(corner) for corner in corners]
            flat = np.concatenate([np.asarray(corner, np.int64) for corner in corners]) if len(sizes) else np.zeros(0, np.int64)
            if len(flat) and not 0 <= flat.min() <= flat.max() < num:
                raise GrandError(
                    f"{place(file)}: a face has a corner beyond its {num} vertices, expected 0 to {num - 1}", "bad face"
                )
            every = np.repeat(numbers, sizes)
            owners[flat[every >= 0]] = every[every >= 0]
            return vertices, owners
    has = f"its vertices have {shown(sorted(vertices))}" + (f", its faces {shown(sorted(faces))}" if faces else "")
    raise GrandError(
        f"{place(file)}: no property {' or '.join(wanted)}, expected the object of each point; {has}", "no instances"
    )


def _kinds(file: Path, vertices: Columns, owners: NDArray[np.int64], name: str) -> dict[int, int]:
    """The class that most points of each object have, the smaller number of equals."""
    if name not in vertices:
        raise GrandError(
            f"{place(file)}: vertices have no {name}, expected the class of each; they have {shown(sorted(vertices))}",
            "no classes",
        )
    kinds = whole_numbers(vertices[name], f"{place(file)}: {name}")
    pairs, counts = np.unique(np.stack([owners, kinds], axis=1), axis=0, return_counts=True)
    best: dict[int, tuple[int, int]] = {}
    for (owner, kind), count in zip(pairs.tolist(), counts.tolist(), strict=True):
        if count > best.get(owner, (0, 0))[0]:
            best[owner] = count, kind
    return {owner: kind for owner, (_, kind) in best.items()}


def _objects(
    points: NDArray[np.float64],
    owners: NDArray[np.int64],
    kinds: Mapping[int, int] | None,
    names: Mapping[int, str],
    labels: str,
    where: str,
    rejects: Rejects,
) -> list[Object]:
    objects = []
    for number, bounds in boxes_by_instance(points, owners).items():
        if number < 0:
            continue
        if kinds is None and number not in names:
            rejects.note(where, f"instance {number} has no name in {labels}", None, "instance without a name")
            continue
        category = names[number] if kinds is None else class_name(kinds[number], names, labels)
        objects.append(object_of_bounds(str(number), category, bounds))
    return objects
