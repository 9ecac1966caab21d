"""3D-FRONT: designed houses with their rooms and furniture."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from grand3d.boxes import Floats
from grand3d.convert.graphs import refuse_none_left
from grand3d.convert.instances import category_of, object_of_bounds, triple
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, numbers, read_json
from grand3d.files import field as key
from grand3d.frames import Y_UP, apply, compose, from_quaternion, move_object
from grand3d.regions import Polygon, area, outline
from grand3d.sample import Data
from grand3d.scene import Matrix, Object, Region, Scene, validate

INPUTS = {
    "houses": "one house (.json), or a folder of them",
    "models": "model_info.json of 3D-FUTURE: names furniture that a house does not name",
    "scene": "what a scene is: house (default) or room",
}
SETTINGS = {"scene": ("house", "room")}
OPENINGS = {"Door": "door", "Window": "window"}
"""Types of meshes that are objects, too; walls, floors and ceilings are none."""
NAMELESS = "furniture"
"""Category of furniture that neither the house nor the list of models names."""
FLAT = 1e-3
"""Metres; an opening lower than this is the strip of floor under a door."""


def convert(
    *, houses: str | Path, models: str | Path | None = None, scene: str = "house", rejects: Rejects | None = None
) -> Data:
    """Read houses into scenes of true objects, ``id_space`` ``front3d``; rooms are regions, with the outline of their floors.

    ``object_id`` is the ``instanceid`` of a piece of furniture, or the name of the mesh of a door or window. y is up in files;
    ``Scene.transform`` turns it. The origin of a model is the middle of its underside. Its size is, of what there is:

    - ``size``: width, depth and height as placed (in the one piece of the sample houses that is scaled and has both, this is
      ``bbox`` scaled),
    - ``bbox``: width, height and depth before the ``scale`` of the piece, which may be negative where it is mirrored.

    Counted and left out, never raised: pieces without either, references to nothing, pieces marked invalid, rooms whose floor has
    no outline (they stay, without a polygon). Pieces without a name are called ``furniture``, and counted.

    Raises:
        GrandError: For a file that is no house. With ``rejects`` such houses are left out and collected instead.
    """
    rejects = rejects if rejects is not None else Rejects()
    if scene not in SETTINGS["scene"]:
        raise GrandError(f"scene is {shown(scene)}, expected house or room")
    names = read_models(models) if models is not None else {}
    top = Path(houses)
    files = sorted(top.glob("*.json")) if os.path.isdir(top) else [top]
    if not files:
        raise GrandError(f"{place(houses)}: holds no .json, expected houses of 3D-FRONT", "no scenes")
    scenes: dict[str, Scene] = {}
    for file in files:
        try:
            house = _read(file, names, rejects)
            parts = [house] if scene == "house" else [_room(house, region) for region in house.regions]
            scenes |= {part.scene_id: validate(part) for part in parts}
        except GrandError as error:
            rejects.add(place(file), str(error), file.stem, error.cause)
    refuse_none_left(houses, scenes, rejects)
    return Data(scenes, ())


def read_models(path: str | Path) -> dict[str, str]:
    """``{model: category}`` of 3D-FUTURE's list; a model without a category has its super-category.

    Raises:
        GrandError: If it is no such list.
    """
    rows = read_json(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and isinstance(row.get("model_id"), str) for row in rows):
        raise GrandError(f"{place(path)}: holds {shown(rows)}, expected [{{model_id, super-category, category}}]", "wrong type")
    return {row["model_id"]: row.get("category") or row.get("super-category") or "" for row in rows}


@dataclass(slots=True)
class _House:
    """What is read of one file, and where its faults go."""

    where: str
    furniture: Mapping[str, dict[str, Any]]
    meshes: Mapping[str, dict[str, Any]]
    names: Mapping[str, str]
    rejects: Rejects
    doors: Mapping[str, tuple[str, ...]]
    objects: dict[str, Object] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)

    def note(self, what: str, reason: str, cause: str, row: Any = None) -> None:
        self.rejects.note(self.where, f"{what}: {reason}", row, cause)


def _read(file: Path, names: Mapping[str, str], rejects: Rejects) -> Scene:
    document = read_json(file)
    where = place(file)
    if not isinstance(document, dict) or not {"furniture", "mesh", "scene"} <= document.keys():
        expected = "expected a house {furniture, mesh, scene: {room: [...]}}"
        raise GrandError(f"{where}: holds {shown(document)}, {expected}", "wrong type")
    tables = []
    for name in ("furniture", "mesh"):
        rows = key(document, name, list, where)
        table: dict[str, dict[str, Any]] = {}
        for row in rows:
            uid = key(row, "uid", str, f"{where}: {name}")
            if table.setdefault(uid, row) != row:
                raise GrandError(f"{where}: {name} {shown(uid)} occurs twice and differs, expected once", "id twice")
        tables.append(table)
    doors = {}
    for row in (document.get("extension") or {}).get("door") or ():
        refs = tuple(ref for ref in row.get("ref", ()) if tables[1].get(ref, {}).get("type") in OPENINGS)
        doors |= dict.fromkeys(refs, refs)
    house = _House(where, tables[0], tables[1], names, rejects, doors)
    whole = key(document, "scene", dict, where)
    matrix = compose(Y_UP, _pose(whole, where))
    for index, room in enumerate(key(whole, "room", list, f"{where}: scene")):
        _read_room(house, room, compose(matrix, _pose(room, f"{where}: room {index}")), index)
    scene_id = document.get("uid") or file.stem
    return Scene(scene_id, tuple(house.objects.values()), tuple(house.regions), "front3d", transform=Y_UP)


def _pose(row: dict[str, Any], where: str) -> Matrix:
    """Turn and shift; the scale of a piece acts on its size, that of rooms is 1 in all houses seen."""
    turn = numbers(row.get("rot", (0, 0, 0, 1)), 4, f"{where}: rot")
    return from_quaternion(turn, numbers(row.get("pos", (0, 0, 0)), 3, f"{where}: pos"))


def _read_room(house: _House, room: dict[str, Any], matrix: Matrix, index: int) -> None:
    region_id = str(room.get("instanceid") or f"room-{index}")
    name = " ".join(re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", str(room.get("type") or "room"))).lower() or "room"
    members, floors = [], []
    for child in key(room, "children", list, f"{house.where}: room {region_id}"):
        ref, own = child.get("ref"), child.get("instanceid") or child.get("ref")
        what = f"{name} {region_id}, {own}"
        mesh = house.meshes.get(ref)
        try:
            if mesh is not None and mesh.get("type") == "Floor":
                floors.append(_points(mesh, matrix, what))
            if mesh is not None:
                item = _opening(house, ref, matrix, what)
            elif ref in house.furniture:
                item = _piece(house, house.furniture[ref], child, str(own), matrix, what)
            else:
                item = None
                house.note(what, f"refers to {shown(ref)}, which is neither furniture nor mesh", "reference to nothing", child)
        except GrandError as error:
            house.note(what, str(error), error.cause or "broken row", child)
            continue
        if item is None:
            continue
        if item.object_id in house.objects:
            if mesh is None:
                house.note(what, "the id occurs twice; the first one counts", "id twice", child)
            continue
        house.objects[item.object_id] = replace(item, region_id=region_id)
        members.append(item.object_id)
    if any(region.region_id == region_id for region in house.regions):
        raise GrandError(f"{house.where}: room {shown(region_id)} occurs twice, expected each once", "id twice")
    polygon = _outline(floors)
    if not polygon:
        house.note(f"{name} {region_id}", "its floor has no outline that could be found", "room without outline")
    house.regions.append(Region(region_id, name, polygon, tuple(members)))


def _points(mesh: dict[str, Any], matrix: Matrix, what: str) -> tuple[Floats, Floats]:
    """Vertices (n, 3) in the scene and triangles (m, 3) of a mesh."""
    flat = key(mesh, "xyz", list, what)
    xyz = np.asarray(numbers(flat, len(flat), f"{what}: xyz"))
    faces = np.asarray(key(mesh, "faces", list, what))
    if not len(xyz) or len(xyz) % 3 or len(faces) % 3 or (len(faces) and not 0 <= faces.min() <= faces.max() < len(xyz) // 3):
        raise GrandError(f"mesh of {len(xyz)} numbers and {len(faces)} corners, expected triples of both", "broken mesh")
    return apply(matrix, xyz.reshape(-1, 3)), faces.reshape(-1, 3)


def _outline(floors: Sequence[tuple[Floats, Floats]]) -> Polygon:
    """The ring around a room's floor, or nothing where it does not enclose what the triangles cover."""
    if not floors:
        return ()
    starts = np.cumsum([0, *(len(points) for points, _ in floors)])
    vertices = np.concatenate([points for points, _ in floors])[:, :2]
    triangles = np.concatenate([faces + start for (_, faces), start in zip(floors, starts, strict=False)]).astype(int)
    ring = outline(vertices, triangles)
    covered = sum(abs(area(vertices[triangle])) for triangle in triangles)
    return ring if ring and abs(area(ring) - covered) <= 0.01 * covered else ()


def _opening(house: _House, ref: str, matrix: Matrix, what: str) -> Object | None:
    """A door or window from the meshes that make it up; None for other meshes."""
    kind = house.meshes[ref].get("type")
    if kind not in OPENINGS:
        return None
    parts = house.doors.get(ref, (ref,))
    points = np.concatenate([_points(house.meshes[part], matrix, what)[0] for part in parts])
    item = object_of_bounds(parts[0], OPENINGS[kind], (points.min(axis=0), points.max(axis=0)))
    return item if item.extent[2] > FLAT else None


def _piece(house: _House, row: dict[str, Any], child: dict[str, Any], own: str, matrix: Matrix, what: str) -> Object | None:
    """A piece of furniture; None where it is left out."""
    if row.get("valid") is False:
        house.note(what, "is marked invalid", "marked invalid", row)
        return None
    size = _size(row, numbers(child.get("scale", (1, 1, 1)), 3, "scale"))
    if size is None:
        house.note(what, "has neither size nor bbox, so its box is not known", "furniture without size", row)
        return None
    name = _name(row, house.names)
    if name == NAMELESS:
        house.note(what, f"has no name; it stays, as {NAMELESS}", "furniture without a name", row)
    width, height, depth = size
    pose = compose(matrix, _pose(child, what))
    return move_object(Object(own, name, (0.0, height / 2, 0.0), triple((width, height, depth))), pose)


def _size(row: dict[str, Any], scale: Sequence[float]) -> tuple[float, float, float] | None:
    """Width, height and depth (along the piece's own x, y and z, y up) as placed."""
    if row.get("size"):
        width, depth, height = numbers(row["size"], 3, "size")
        return width, height, depth
    box = row.get("bbox")
    if isinstance(box, list) and len(box) == 1 and isinstance(box[0], list):  # as some rows have it
        box = box[0]
    if not box:
        return None
    width, height, depth = (side * abs(factor) for side, factor in zip(numbers(box, 3, "bbox"), scale, strict=True))
    return width, height, depth


def _name(row: dict[str, Any], names: Mapping[str, str]) -> str:
    for value in (row.get("category"), row.get("title"), names.get(str(row.get("jid")))):
        if isinstance(value, str) and value.strip():
            return category_of(value)
    return NAMELESS


def _room(house: Scene, region: Region) -> Scene:
    """One room of a house as a scene of its own."""
    own = tuple(item for item in house.objects if item.region_id == region.region_id)
    return replace(house, scene_id=f"{house.scene_id}/{region.region_id}", objects=own, regions=(region,))
