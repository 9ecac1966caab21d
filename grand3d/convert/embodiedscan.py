"""EmbodiedScan's and MMScan's infos: 9-DoF boxes of ScanNet, 3RScan and Matterport3D (from documentation)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grand3d.convert.areas import read_regions
from grand3d.convert.graphs import refuse_none_left
from grand3d.convert.instances import category_of, object_of_axes
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, read_json
from grand3d.frames import as_matrix
from grand3d.oriented import as_boxes, rotation_zxy
from grand3d.regions import with_members
from grand3d.sample import Data
from grand3d.scene import Object, Region, Scene, validate

INPUTS = {
    "infos": "embodiedscan_infos_*.json: the published .pkl saved as JSON (docs/formats.md), {metainfo: {categories}, data_list}",
    "regions": "{scene: [{region_id, name, polygon, object_ids}]}, in the aligned axes",
}


def convert(*, infos: str | Path, regions: str | Path | None = None, rejects: Rejects | None = None) -> Data:
    """Read scenes, ``id_space`` ``embodiedscan``: ``object_id`` is the ``bbox_id`` (its place in the list where it has none).

    ``scene_id`` is ``sample_idx`` without the data set in front: ``scene0191_00`` of ``scannet/scene0191_00``. Boxes are in the
    aligned axes; ``Scene.transform`` is ``axis_align_matrix``. The published files are Python pickles, which are programs and
    are not loaded here.

    Raises:
        GrandError: For a broken file. With ``rejects`` broken scenes are left out; boxes that are broken, or of an unknown
            category, are counted and left out, never raised.
    """
    rejects = rejects if rejects is not None else Rejects()
    document = read_json(infos)
    if not isinstance(document, dict) or not isinstance(document.get("data_list"), list):
        raise GrandError(f"{place(infos)}: holds {shown(document)}, expected {{metainfo, data_list: [...]}}", "wrong type")
    table = (document.get("metainfo") or {}).get("categories")
    if not isinstance(table, dict) or not table:
        raise GrandError(f"{place(infos)}: metainfo.categories is {shown(table)}, expected {{name: number}}", "wrong type")
    names = {number: name for name, number in table.items()}
    areas = read_regions(regions) if regions is not None else {}
    scenes: dict[str, Scene] = {}
    for index, row in enumerate(document["data_list"]):
        where = f"{place(infos)}: scene {index}"
        try:
            scene = _scene(row, names, areas, where, rejects)
            if scene.scene_id in scenes:
                raise GrandError(f"scene {shown(scene.scene_id)} occurs twice, expected once; the first one counts", "id twice")
            scenes[scene.scene_id] = scene
        except GrandError as error:
            rejects.add(where, str(error), row, error.cause)
    refuse_none_left(infos, scenes, rejects)
    return Data(scenes, ())


def _scene(row: Any, names: Mapping[Any, str], areas: Mapping[str, list[Region]], where: str, rejects: Rejects) -> Scene:
    if not isinstance(row, dict):
        raise GrandError(f"expected a JSON object, seen {shown(row)}", "wrong type")
    scene_id = field(row, "sample_idx", str, "").partition("/")[2] or row["sample_idx"]
    matrix = as_matrix(row["axis_align_matrix"], "axis_align_matrix") if row.get("axis_align_matrix") is not None else None
    objects: list[Object] = []
    for number, item in enumerate(field(row, "instances", list, "")):
        try:
            if not isinstance(item, dict):
                raise GrandError(f"expected a JSON object, seen {shown(item)}", "wrong type")
            kind = item.get("bbox_label_3d")
            if not isinstance(kind, int) or kind not in names:
                raise GrandError(f"bbox_label_3d is {shown(kind)}, expected a number of metainfo.categories", "unknown class")
            box = as_boxes([item.get("bbox_3d")], "bbox_3d")[0]
            name = category_of(names[kind])
            objects.append(object_of_axes(str(item.get("bbox_id", number)), name, box[:3], box[3:6], rotation_zxy(box[6:]).T))
        except GrandError as error:
            rejects.note(where, f"{scene_id}, instance {number}: {error}", item, error.cause)
    return validate(
        with_members(validate(Scene(scene_id, tuple(objects), tuple(areas.get(scene_id, ())), "embodiedscan", transform=matrix)))
    )
