"""Objects, regions and scenes: what a room is before it becomes text.

Frame: metres, z up, right-handed, axis-aligned unless the scene says ``raw``. See docs/conventions.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from grand3d.errors import GrandError
from grand3d.files import (
    Rejects,
    field,
    is_number,
    numbers,
    one_line,
    read_jsonl,
    refuse_unfit,
    refuse_unknown,
    shown,
    texts,
    visible,
    write_jsonl,
)

Triple = tuple[float, float, float]
Matrix = tuple[tuple[float, float, float, float], ...]
"""Four rows of a homogeneous matrix that acts on column vectors."""

FRAMES = ("axis_aligned", "raw")
"""Walls along x and y as well as the source could make them; or the axes of the source's own mesh, kept as they are."""
UPS = ("z",)
UNITS = ("m",)

MAX_LABEL = 200
"""Characters of a category or region name; a longer one is no name but a field gone astray."""

_MARKS = "<>,"


@dataclass(frozen=True, slots=True)
class Object:
    """One instance: a true object of its source, or a detector's proposal when ``score`` is set.

    Attributes:
        object_id: In the numbering of the source named by ``Scene.id_space``. Text without ``<``, ``>``, ``,``,
            line breaks or outer blanks.
        category: Free-text class name, as the source writes it.
        centroid: Box centre (min + max) / 2, metres.
        extent: Full side lengths, metres, each >= 0; along the box's own axes when ``rotation`` is set.
        rotation: Rows of a 3x3 rotation matrix, box axes to scene axes; None for an axis-aligned box.
        score: Detector confidence in [0, 1]; None for a true object.
        description: One sentence about the object; 3D-GRAND's scene text carries it when present.
        attributes: Such as colour and material, by name.
        region_id: The region it belongs to.
    """

    object_id: str
    category: str
    centroid: Triple
    extent: Triple
    rotation: tuple[Triple, Triple, Triple] | None = None
    score: float | None = None
    description: str | None = None
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    region_id: str | None = None


@dataclass(frozen=True, slots=True)
class Region:
    """A named part of the floor: ``polygon`` is a ring of (x, y) corners in metres."""

    region_id: str
    name: str
    polygon: tuple[tuple[float, float], ...] = ()
    object_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """One scanned or synthetic room.

    Attributes:
        id_space: Whose numbering ``object_id`` follows: ``scannet``, ``scanrefer_rank``, ``mask3d``, ``synthetic``, ...
            Ids of different spaces are never compared; boxes are.
        frame: One of FRAMES. Boxes of different frames are never compared.
        transform: From the coordinates of the source's files to those of the scene: a turn, a uniform scale and a shift
            (``frames.inverse`` is the way back). None where source and scene have the same coordinates, or it is not known.
    """

    scene_id: str
    objects: tuple[Object, ...]
    regions: tuple[Region, ...] = ()
    id_space: str = "unknown"
    frame: str = "axis_aligned"
    up: str = "z"
    units: str = "m"
    transform: Matrix | None = None

    def __getitem__(self, object_id: str) -> Object:
        for item in self.objects:
            if item.object_id == object_id:
                return item
        raise GrandError(f"scene {self.scene_id!r} has no object {object_id!r}; it has {len(self.objects)} objects")

    @property
    def object_ids(self) -> tuple[str, ...]:
        return tuple(item.object_id for item in self.objects)


def validate(scene: Scene) -> Scene:
    """Check a scene and give it back.

    Raises:
        GrandError: All faults of the scene in one message: wrong types, NaN or infinite numbers, negative sides, blank
            categories, ids twice or with markup characters, a matrix that is no rotation, unknown frame, up axis or units,
            regions with unknown members.
    """
    faults: list[tuple[str, str]] = []  # (cause, message)
    for name, value, known in (("frame", scene.frame, FRAMES), ("up", scene.up, UPS), ("units", scene.units, UNITS)):
        if value not in known:
            expected = " or ".join(map(repr, known))
            text = f"{name} is {shown(value)}, expected {expected}; convert the scene first (docs/conventions.md)"
            faults.append((f"foreign {name}", text))
    if scene.transform is not None and not is_similarity(scene.transform):
        expected = "expected 4 rows of 4 numbers: a turn times a scale above 0, a shift, and last 0 0 0 1"
        faults.append(("bad transform", f"transform is {shown(scene.transform)}, {expected}"))
    if _bad_id(scene.scene_id, ""):
        faults.append(("bad id", f"scene_id is {shown(scene.scene_id)}, expected {_good_id()}"))
    seen: set[str] = set()
    regions = {region.region_id for region in scene.regions}
    for index, item in enumerate(scene.objects):
        where = f"object {shown(item.object_id)} (number {index})"
        if item.object_id in seen:
            faults.append(("id twice", f"{where}: the id occurs twice"))
        seen.add(item.object_id)
        faults += [(cause, f"{where}: {text}") for cause, text in _object_faults(item)]
        if regions and item.region_id is not None and item.region_id not in regions:
            faults.append(("unknown region", f"{where}: region_id {shown(item.region_id)} is none of the scene's regions"))
    if len(regions) < len(scene.regions):
        faults.append(("id twice", "a region_id occurs twice"))
    for region in scene.regions:
        where = f"region {shown(region.region_id)}"
        if region.region_id in seen:
            faults.append(("id twice", f"{where}: an object has the same id, expected another; texts name both by it"))
        if _bad_id(region.region_id, _MARKS):
            faults.append(("bad id", f"{where}: region_id is {shown(region.region_id)}, expected {_good_id(_MARKS)}"))
        faults += [(cause, f"{where}: {text}") for cause, text in _label_faults("name", region.name)]
        unknown = [i for i in region.object_ids if i not in seen]
        if unknown:
            faults.append(("unknown member", f"{where}: unknown members {shown(unknown)}, expected ids of the scene's objects"))
    if faults:
        more = f" (and {len(faults) - 5} more faults)" if len(faults) > 5 else ""
        text = "; ".join(message for _, message in faults[:5])
        raise GrandError(f"scene {shown(scene.scene_id)}: {text}{more}", faults[0][0])
    return scene


def _bad_id(value: Any, forbidden: str) -> bool:
    if not isinstance(value, str) or not visible(value) or value != value.strip():
        return True
    return not one_line(value) or any(c in value for c in forbidden)


def _good_id(forbidden: str = "") -> str:
    return f"visible text without {''.join(f'{mark!r}, ' for mark in forbidden)}line breaks or outer blanks"


def _label_faults(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(value, str) or not visible(value):
        yield f"blank {name}", f"{name} is {shown(value)}, expected a name with something to see in it"
    elif not one_line(value):
        yield f"bad {name}", f"{name} is {shown(value)}, expected a name without line breaks; is it a description?"
    elif len(value) > MAX_LABEL:
        text = f"{name} is {shown(value)}, {len(value):,} characters, expected at most {MAX_LABEL}; is it a description?"
        yield f"bad {name}", text


def _object_faults(item: Object) -> Iterator[tuple[str, str]]:
    if _bad_id(item.object_id, _MARKS):
        yield "bad id", f"object_id is {shown(item.object_id)}, expected {_good_id(_MARKS)}"
    yield from _label_faults("category", item.category)
    for name in ("centroid", "extent"):
        value = getattr(item, name)
        if not isinstance(value, tuple | list) or len(value) != 3 or not all(map(is_number, value)):
            yield "bad number", f"{name} is {shown(value)}, expected 3 finite numbers in metres"
        elif name == "extent" and min(value) < 0:
            yield "negative side", f"extent is {list(value)} m; every side must be >= 0. Was a rotation applied to it?"
        elif max(map(abs, value)) > 1000:
            yield "beyond 1000 m", f"{name} is {list(value)}; beyond 1000 m. Are the units millimetres?"
    if item.score is not None and not (is_number(item.score) and 0 <= item.score <= 1):
        yield "bad score", f"score is {shown(item.score)}, expected 0 to 1"
    if item.rotation is not None and not _is_rotation(item.rotation):
        yield "no rotation", f"rotation is {shown(item.rotation)}, expected the 3 rows of a rotation matrix (orthonormal, det +1)"


def _is_rotation(rows: Any) -> bool:
    if not _has_shape(rows, 3):
        return False
    dots = [sum(x * y for x, y in zip(u, v, strict=True)) - float(i == j) for i, u in enumerate(rows) for j, v in enumerate(rows)]
    return max(map(abs, dots)) < 1e-3 and _determinant(rows) > 0


def is_similarity(rows: Any) -> bool:
    """Whether 4 rows of 4 numbers turn, scale alike in all directions and shift, and do not mirror."""
    if not _has_shape(rows, 4) or any(abs(x - y) > 1e-9 for x, y in zip(rows[3], (0, 0, 0, 1), strict=True)):
        return False
    turn = [row[:3] for row in rows[:3]]
    scale = _determinant(turn) ** (1 / 3) if _determinant(turn) > 0 else 0.0
    return scale > 0 and _is_rotation([[x / scale for x in row] for row in turn])


def _has_shape(rows: Any, size: int) -> bool:
    if not isinstance(rows, tuple | list) or len(rows) != size:
        return False
    return all(isinstance(row, tuple | list) and len(row) == size and all(map(is_number, row)) for row in rows)


def _determinant(rows: Any) -> float:
    a, b, c = rows
    return sum(a[i] * (b[(i + 1) % 3] * c[(i + 2) % 3] - b[(i + 2) % 3] * c[(i + 1) % 3]) for i in range(3))


def scene_to_dict(scene: Scene) -> dict[str, Any]:
    """The JSON form: one line of a scenes file. Empty fields are left out."""
    objects = []
    for item in scene.objects:
        row: dict[str, Any] = {
            "object_id": item.object_id,
            "category": item.category,
            "centroid": list(item.centroid),
            "extent": list(item.extent),
        }
        if item.rotation is not None:
            row["rotation"] = [list(r) for r in item.rotation]
        for name in ("score", "description", "region_id"):
            if getattr(item, name) is not None:
                row[name] = getattr(item, name)
        if item.attributes:
            row["attributes"] = dict(item.attributes)
        objects.append(row)
    out: dict[str, Any] = {
        "scene_id": scene.scene_id,
        "id_space": scene.id_space,
        "frame": scene.frame,
        "up": scene.up,
        "units": scene.units,
        "objects": objects,
    }
    if scene.transform is not None:
        out["transform"] = [list(row) for row in scene.transform]
    if scene.regions:
        out["regions"] = [
            {"region_id": r.region_id, "name": r.name, "polygon": [list(p) for p in r.polygon], "object_ids": list(r.object_ids)}
            for r in scene.regions
        ]
    return out


def scene_from_dict(row: Any) -> Scene:
    """Read and check the JSON form. An optional field may be absent or null; an unknown key is refused.

    Raises:
        GrandError: If a key is missing, unknown or of the wrong type, or the scene is invalid.
    """
    if not isinstance(row, dict):
        raise GrandError(f"{shown(row)} is no scene, expected a JSON object", "wrong type")
    scene_id = field(row, "scene_id", str, "scene")
    where = f"scene {shown(scene_id)}"
    refuse_unknown(row, [f.name for f in fields(Scene)], where)
    objects = [
        _object_from_dict(entry, f"{where}, object number {index}")
        for index, entry in enumerate(field(row, "objects", list, where))
    ]
    regions = [
        _region_from_dict(entry, f"{where}, region number {index}")
        for index, entry in enumerate(field(row, "regions", list, where, []))
    ]
    transform = field(row, "transform", list, where, None)
    scene = Scene(
        scene_id,
        tuple(objects),
        tuple(regions),
        id_space=field(row, "id_space", str, where, "unknown"),
        frame=field(row, "frame", str, where, "axis_aligned"),
        up=field(row, "up", str, where, "z"),
        units=field(row, "units", str, where, "m"),
        transform=None if transform is None else tuple(numbers(r, 4, f"{where}: a row of transform") for r in transform),  # type: ignore[misc]
    )
    refuse_unfit(row, where)
    return validate(scene)


def _object_from_dict(entry: Any, where: str) -> Object:
    if not isinstance(entry, dict):
        raise GrandError(f"{where}: expected a JSON object, seen {shown(entry)}", "wrong type")
    refuse_unknown(entry, [f.name for f in fields(Object)], where)
    rotation = field(entry, "rotation", list, where, None)
    attributes = field(entry, "attributes", dict, where, {})
    for name, value in attributes.items():
        if not isinstance(value, str):
            raise GrandError(f"{where}: attributes: {shown(name)} is {shown(value)}, expected text", "wrong type")
    return Object(
        object_id=field(entry, "object_id", str, where),
        category=field(entry, "category", str, where),
        centroid=_triple(field(entry, "centroid", list, where), f"{where}: centroid"),
        extent=_triple(field(entry, "extent", list, where), f"{where}: extent"),
        rotation=None if rotation is None else tuple(_triple(r, f"{where}: a row of rotation") for r in rotation),  # type: ignore[arg-type]
        score=field(entry, "score", float, where, None),
        description=field(entry, "description", str, where, None),
        attributes=attributes,
        region_id=field(entry, "region_id", str, where, None),
    )


def _region_from_dict(entry: Any, where: str) -> Region:
    if not isinstance(entry, dict):
        raise GrandError(f"{where}: expected a JSON object, seen {shown(entry)}", "wrong type")
    refuse_unknown(entry, [f.name for f in fields(Region)], where)
    polygon = field(entry, "polygon", list, where, [])
    return Region(
        region_id=field(entry, "region_id", str, where),
        name=field(entry, "name", str, where),
        polygon=tuple(numbers(p, 2, f"{where}: a corner of polygon") for p in polygon),  # type: ignore[misc]
        object_ids=texts(field(entry, "object_ids", list, where, []), f"{where}: object_ids"),
    )


def _triple(value: Any, what: str) -> Triple:
    return numbers(value, 3, what)  # type: ignore[return-value]


def load_scenes(path: str | Path, rejects: Rejects | None = None) -> dict[str, Scene]:
    """Read a scenes file (JSON lines) into ``{scene_id: Scene}``.

    Raises:
        GrandError: Naming file and line; also for a scene_id that occurs twice.
    """
    return split_scenes(path, rejects)[0]


def split_scenes(path: str | Path, rejects: Rejects | None = None) -> tuple[dict[str, Scene], set[str]]:
    """What ``load_scenes`` gives, and the ids of the scenes that were rejected, as far as their lines are JSON."""
    scenes: dict[str, Scene] = {}
    named: set[str] = set()

    def new_scene(row: Any) -> Scene:
        if isinstance(row, dict) and isinstance(row.get("scene_id"), str):
            named.add(row["scene_id"])
        scene = scene_from_dict(row)
        if scene.scene_id in scenes:
            raise GrandError(f"scene {shown(scene.scene_id)} occurs twice, expected once; the first one counts", "id twice")
        return scene

    for scene in read_jsonl(path, new_scene, rejects):
        scenes[scene.scene_id] = scene
    return scenes, named - scenes.keys()


def save_scenes(path: str | Path, scenes: Iterable[Scene]) -> int:
    """Write a scenes file at once; returns the number of scenes."""
    return write_jsonl(path, (scene_to_dict(scene) for scene in scenes))


def confidence(item: Object) -> float:
    """The score of a proposal; 1 for a true object."""
    return 1.0 if item.score is None else item.score
