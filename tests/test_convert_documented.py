"""Sources known from their documentation alone: made-up files of the documented shape."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scans import ply_bytes, xyz

from grand3d import regions
from grand3d.boxes import objects_bounds
from grand3d.convert import arkit, embodiedscan, multiscan, rscan, scannetpp, sceneverse, structured3d
from grand3d.errors import GrandError
from grand3d.files import Rejects

C, S = math.cos(math.pi / 4), math.sin(math.pi / 4)
TURNED = {"centroid": [1, 2, 0.5], "axesLengths": [1, 1, 1], "normalizedAxes": [C, S, 0, -S, C, 0, 0, 0, 1]}
UPRIGHT = {"centroid": [4, 2, 1], "axesLengths": [3, 2, 0.5], "normalizedAxes": [1, 0, 0, 0, 0, 1, 0, -1, 0]}  # z along y


def _write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def _groups(*groups: Any) -> Any:
    return {"segGroups": list(groups)}


def _obb_file(source: Any, folder: Path, boxes: list[tuple[Any, Any, Any]]) -> None:
    """The annotation of one scan, ``lab``, in the form of a source."""
    if source is scannetpp:
        rows = [{"id": i, "objectId": i, "label": name, "segments": [1], "obb": box} for i, name, box in boxes]
        _write(folder / "lab/scans/segments_anno.json", _groups(*rows))
    elif source is rscan:
        _write(folder / "lab/semseg.v2.json", _groups(*({"objectId": i, "label": name, "obb": box} for i, name, box in boxes)))
    elif source is arkit:
        rows = [{"uid": str(i), "label": name, "segments": box and {"obb": UPRIGHT, "obbAligned": box}} for i, name, box in boxes]
        _write(folder / "lab/lab_3dod_annotation.json", {"data": rows, "skipped": False})
    else:
        rows = [{"objectId": i, "label": f"{name}.1" if name.strip() else name, "obb": box} for i, name, box in boxes]
        _write(folder / "lab/lab.annotations.json", {"scanId": "lab", "objects": rows})


OBB_SOURCES = (scannetpp, rscan, arkit, multiscan)
BOXES = [(7, "cube", TURNED), (9, "bed", UPRIGHT)]


@pytest.mark.parametrize("source", OBB_SOURCES, ids=lambda source: source.__name__.rpartition(".")[2])
def test_a04_annotated_oriented_boxes_keep_their_axes(source: Any, tmp_path: Path) -> None:
    _obb_file(source, tmp_path, BOXES)
    scene = source.convert(scans=tmp_path).scenes["lab"]
    assert [(item.object_id, item.category) for item in scene.objects] == [("7", "cube"), ("9", "bed")] and scene.frame == "raw"
    low, high = objects_bounds([scene["7"]])[0]
    assert high - low == pytest.approx([2**0.5, 2**0.5, 1.0])  # not the axesLengths
    assert scene["9"].rotation is None and scene["9"].extent == pytest.approx((3, 0.5, 2))
    assert scene.id_space in ("scannetpp", "3rscan", "arkit", "multiscan")


@pytest.mark.parametrize("source", OBB_SOURCES, ids=lambda source: source.__name__.rpartition(".")[2])
def test_broken_objects_are_counted_and_ids_that_occur_twice_refused(source: Any, tmp_path: Path) -> None:
    broken = {**TURNED, "normalizedAxes": [1, 0, 0, 1, 0, 0, 0, 0, 1]}
    (tmp_path / "other").mkdir()
    _obb_file(source, tmp_path, [*BOXES, (10, " ", TURNED), (11, "lamp", None), (12, "lamp", broken)])
    rejects = Rejects()
    assert len(source.convert(scans=tmp_path, rejects=rejects).scenes["lab"].objects) == 2
    assert rejects.counts() == {"folder without annotation": 1, "blank label": 1, "object without a box": 1, "bad rotation": 1}
    _obb_file(source, tmp_path, [*BOXES, BOXES[0]])
    with pytest.raises(GrandError, match="object '7' occurs twice, expected each once"):
        source.convert(scans=tmp_path)
    file = next(path for path in tmp_path.rglob("*.json"))
    file.write_text("[]")
    with pytest.raises(GrandError, match=r"holds \[\], expected another form"):
        source.convert(scans=tmp_path)


def test_frames_of_oriented_boxes_are_the_files_own_unless_turned(tmp_path: Path) -> None:
    _obb_file(rscan, tmp_path, BOXES)
    with pytest.raises(GrandError, match="lab is not aligned"):
        rscan.convert(scans=tmp_path, frame="axis_aligned")
    turn = [C, S, 0, 0, -S, C, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]  # by -45 degrees
    scene = rscan.convert(scans=tmp_path, alignment=_write(tmp_path / "a.json", {"lab": turn}), frame="axis_aligned").scenes[
        "lab"
    ]
    assert scene["7"].rotation is None and scene["7"].extent == pytest.approx((1, 1, 1)) and scene.frame == "axis_aligned"
    walls = np.array([[x, y, z] for x in np.linspace(0, 5, 60) for y in (0, 4) for z in (0, 1)], float)
    turned = np.column_stack([walls[:, 0] * C - walls[:, 1] * S, walls[:, 0] * S + walls[:, 1] * C, walls[:, 2]])
    (tmp_path / "lab/labels.instances.annotated.v2.ply").write_bytes(ply_bytes(xyz(turned), "ascii"))
    scene = rscan.convert(scans=tmp_path, frame="estimate").scenes["lab"]
    low, high = objects_bounds([scene["7"]])[0]
    assert high - low == pytest.approx([1, 1, 1], abs=0.02) and scene.frame == "axis_aligned"


def _infos(**changed: Any) -> dict[str, Any]:
    scene = {
        "sample_idx": "scannet/scene0191_00",
        "axis_align_matrix": [[0, -1, 0, 3], [1, 0, 0, 2], [0, 0, 1, 0], [0, 0, 0, 1]],
        "instances": [
            {"bbox_3d": [1, 2, 0.5, 1, 1, 1, math.pi / 4, 0, 0], "bbox_label_3d": 4, "bbox_id": 12},
            {"bbox_3d": [5, 2, 0.5, 1, 2, 3, 0, 0, 0], "bbox_label_3d": 1},
        ],
        "images": [],
    }
    return {"metainfo": {"categories": {"bed": 1, "chair": 4}}, "data_list": [{**scene, **changed}]}


def test_embodiedscan_boxes_and_regions(tmp_path: Path) -> None:
    areas = {"scene0191_00": [{"region_id": "r0", "name": "resting region", "polygon": [[0, 0], [3, 0], [3, 3], [0, 3]]}]}
    path = _write(tmp_path / "infos.json", _infos())
    scene = embodiedscan.convert(infos=path, regions=_write(tmp_path / "r.json", areas)).scenes["scene0191_00"]
    assert [(item.object_id, item.category, item.region_id) for item in scene.objects] == [
        ("12", "chair", "r0"),
        ("1", "bed", None),
    ]
    low, high = objects_bounds([scene["12"]])[0]
    assert high - low == pytest.approx([2**0.5, 2**0.5, 1]) and scene["1"].extent == (1.0, 2.0, 3.0)
    assert scene.transform is not None and scene.transform[0][3] == 3 and scene.regions[0].object_ids == ("12",)


@pytest.mark.parametrize(
    ("instance", "cause"),
    [
        ({"bbox_3d": [0] * 9, "bbox_label_3d": 99}, "unknown class"),
        ({"bbox_3d": [0] * 5, "bbox_label_3d": 1}, "bad box"),
        ({"bbox_3d": [0, 0, 0, -1, 1, 1], "bbox_label_3d": 1}, "bad box"),
        (None, "wrong type"),
    ],
)
def test_embodiedscan_counts_boxes_that_cannot_be_read(tmp_path: Path, instance: Any, cause: str) -> None:
    rejects = Rejects()
    data = embodiedscan.convert(infos=_write(tmp_path / "i.json", _infos(instances=[instance])), rejects=rejects)
    assert len(data.scenes) == 1 and rejects.counts() == {cause: 1}


def test_embodiedscan_loads_no_pickle(tmp_path: Path) -> None:
    import pickle

    (tmp_path / "infos.pkl").write_bytes(pickle.dumps(_infos()))
    with pytest.raises(GrandError, match="expected"):
        embodiedscan.convert(infos=tmp_path / "infos.pkl")
    with pytest.raises(GrandError, match=r"axis_align_matrix is .*expected 16 numbers"):
        embodiedscan.convert(infos=_write(tmp_path / "i.json", _infos(axis_align_matrix=[1, 2])))


def test_sceneverse_objects(tmp_path: Path) -> None:
    rows = [
        {"id": 3, "label": "sofa", "position": [1, 2, 0.5], "size": [2, 1, 1], "mesh": None},
        {"id": 4, "label": "void", "position": [0, 0, 0], "size": [0, 0, 0]},
        {"id": 5, "label": "", "position": [0, 0, 0], "size": [1, 1, 1]},
    ]
    _write(tmp_path / "00800-abc/objects.json", {"00800-abc": {"objects_info": rows, "inst_to_label": {}}})
    rejects = Rejects()
    scene = sceneverse.convert(graphs=tmp_path, rejects=rejects).scenes["00800-abc"]
    assert [(item.object_id, item.centroid, item.extent) for item in scene.objects] == [("3", (1.0, 2.0, 0.5), (2.0, 1.0, 1.0))]
    assert rejects.counts() == {"object without a size": 1, "blank label": 1}
    with pytest.raises(GrandError, match="the id occurs twice"):
        sceneverse.convert(graphs=_write(tmp_path / "x.json", {"00800-abc": {"objects_info": [rows[0], rows[0]]}}))


def _flat() -> dict[str, Any]:
    """One room of 4 x 3 m, 2.5 m high, with a door of 1 m in the wall at y = 0."""
    floor = [[0, 0, 0], [4000, 0, 0], [4000, 3000, 0], [0, 3000, 0]]
    door = [[1000, 0, 0], [2000, 0, 0], [2000, 0, 2000], [1000, 0, 2000]]
    sides = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4)]
    of_lines = [[int(j in side) for j in range(8)] for side in sides]
    of_planes = [[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]
    return {
        "junctions": [{"ID": k, "coordinate": point} for k, point in enumerate([*floor, *door])],
        "lines": [{"ID": k} for k in range(8)],
        "planes": [{"ID": 0, "type": "floor"}, {"ID": 1, "type": "wall"}],
        "semantics": [
            {"ID": 0, "type": "living room", "planeID": [0]},
            {"ID": 1, "type": "door", "planeID": [1]},
            {"ID": 2, "type": "outwall", "planeID": []},
        ],
        "planeLineMatrix": of_planes,
        "lineJunctionMatrix": of_lines,
    }


def test_structured3d_rooms_doors_and_boxes(tmp_path: Path) -> None:
    _write(tmp_path / "scene_00001/annotation_3d.json", _flat())
    box = {"ID": 5, "basis": [[C, S, 0], [-S, C, 0], [0, 0, 1]], "coeffs": [500, 500, 250], "centroid": [2000, 1500, 250]}
    bad = {**box, "ID": 6, "basis": [[1, 0, 0]]}
    _write(tmp_path / "scene_00001/bbox_3d.json", [box, bad, {**box, "ID": 7, "label": "bed", "basis": np.eye(3).tolist()}])
    rejects = Rejects()
    scene = structured3d.convert(scenes=tmp_path, rejects=rejects).scenes["scene_00001"]
    assert [(item.object_id, item.category) for item in scene.objects] == [("door-1", "door"), ("5", "object"), ("7", "bed")]
    assert scene["door-1"].extent == pytest.approx((1, 0, 2)) and scene["7"].extent == pytest.approx((1, 1, 0.5))
    low, high = objects_bounds([scene["5"]])[0]
    assert high - low == pytest.approx([2**0.5, 2**0.5, 0.5])  # coeffs are half sides
    (room,) = scene.regions
    assert (room.region_id, room.name, regions.area(room.polygon)) == ("room-0", "living room", pytest.approx(12))
    assert set(room.object_ids) >= {"5", "7"}
    assert rejects.counts() == {"bad box": 1, "box without a label": 1}


def test_structured3d_errata_leave_out_scenes_and_count_rooms(tmp_path: Path) -> None:
    for name in ("scene_00001", "scene_01155", "scene_00043"):
        _write(tmp_path / "in" / name / "annotation_3d.json", _flat())
    errata = tmp_path / "errata.txt"
    errata.write_text("# invalid scene\nscene_01155\n# self-intersection layout\nscene_00043_room_1518\nscene_00043_room_3128\n")
    rejects = Rejects()
    assert list(structured3d.convert(scenes=tmp_path / "in", errata=errata, rejects=rejects).scenes) == [
        "scene_00001",
        "scene_00043",
    ]
    counts = rejects.counts()
    assert (
        counts["scene in the errata"] == 1
        and counts["scene with a room in the errata"] == 1
        and counts["scene without boxes"] == 2
    )
    errata.write_text("room 5\n")
    with pytest.raises(GrandError, match=r"errata.txt:1: seen 'room 5', expected scene_N"):
        structured3d.convert(scenes=tmp_path / "in", errata=errata)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"planes": []}, "expected .0 planes"),
        ({"semantics": [{"ID": 0, "type": "room", "planeID": [9]}]}, "a plane beyond the 2"),
        ({"junctions": None}, "expected junctions, planes"),
        ({"planeLineMatrix": [[1], [1, 2]]}, "expected"),
    ],
)
def test_structured3d_broken_annotations_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    _write(tmp_path / "scene_00001/annotation_3d.json", {**_flat(), **change})
    with pytest.raises(GrandError, match=message):
        structured3d.convert(scenes=tmp_path / "scene_00001")


def test_a_room_whose_floor_does_not_close_has_no_polygon(tmp_path: Path) -> None:
    flat = _flat()
    flat["planeLineMatrix"][0][0] = 0
    _write(tmp_path / "scene_00001/annotation_3d.json", flat)
    rejects = Rejects()
    scene = structured3d.convert(scenes=tmp_path, rejects=rejects).scenes["scene_00001"]
    assert scene.regions[0].polygon == () and rejects.counts()["room without outline"] == 1
