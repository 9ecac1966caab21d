from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scans import ply_bytes, xyz

from grand3d.convert import ply, ply_file
from grand3d.errors import GrandError
from grand3d.files import Rejects

FORMS = ("ascii", "binary_little_endian", "binary_big_endian")
kinds = st.sampled_from(["f4", "f8", "u1", "i1", "u2", "i2", "i4", "u4"])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(FORMS), st.lists(kinds, min_size=1, max_size=5), st.integers(0, 6), st.integers(0, 1000), st.data())
def test_read_ply_gives_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, form: str, types: list[str], num: int, seed: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    columns = {f"c{k}": rng.uniform(0, 100, num).astype(kind) for k, kind in enumerate(types)}
    faces = data.draw(st.lists(st.lists(st.integers(0, 200), max_size=5), max_size=5))
    owners = list(range(len(faces)))
    path = tmp_path_factory.mktemp("ply") / "a.ply"
    path.write_bytes(ply_bytes(columns, form, faces, objectId=owners))
    read = ply_file.read_ply(path, ("vertex", "face"))
    for name, column in columns.items():
        assert np.array_equal(read["vertex"][name], column)
    assert [list(map(int, face)) for face in read["face"]["vertex_indices"]] == faces
    assert list(read["face"]["objectId"]) == owners


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(FORMS), st.integers(0, 400), st.binary(max_size=3), st.booleans())
def test_any_change_of_a_good_file_is_read_or_refused_in_one_message(
    tmp_path_factory: pytest.TempPathFactory, form: str, position: int, new: bytes, cut: bool
) -> None:
    raw = ply_bytes(xyz(np.arange(12).reshape(4, 3)), form, [[0, 1, 2], [1, 2, 3]])
    position = min(position, len(raw))
    path = tmp_path_factory.mktemp("ply") / "a.ply"
    path.write_bytes(raw[:position] + new + (b"" if cut else raw[position + len(new) :]))
    try:
        read = ply_file.read_ply(path, ("vertex", "face"))
        ply_file.points_of(path, read["vertex"])
    except GrandError as error:
        assert "expected" in str(error) or "cannot be read" in str(error)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "begins with b'', expected the line 'ply'"),
        (b"solid cube\n", "expected the line 'ply'"),
        (b"ply\nformat ascii 1.0\n", "the header has no end"),
        (b"ply\nelement vertex 1\nend_header\n", "no format, expected one of ascii"),
        (b"ply\nformat ascii 2.0\nend_header\n", "header line 'format ascii 2.0', expected"),
        (b"ply\nformat ascii 1.0\nelement face 0\nend_header\n", "has no vertex, expected one; it has 0 face"),
        (b"ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nend_header\n1\n", "1 are there"),
        (b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\nleft\n", "vertex 0 is 'left', expected"),
        (b"ply\nformat binary_little_endian 1.0\nelement vertex 9\nproperty float x\nend_header\n1234", "1 are there"),
        (b"ply\nformat ascii 1.0\nelement vertex 1\nproperty long x\nend_header\n1\n", "header line 'property long x'"),
    ],
)
def test_files_that_are_no_ply_are_refused(tmp_path: Path, raw: bytes, message: str) -> None:
    (tmp_path / "a.ply").write_bytes(raw)
    with pytest.raises(GrandError, match=message):
        ply_file.read_ply(tmp_path / "a.ply")


def test_a_list_longer_than_the_file_takes_no_memory(tmp_path: Path) -> None:
    header = b"ply\nformat binary_little_endian 1.0\nelement vertex 1\nproperty list uint int x\nend_header\n"
    (tmp_path / "a.ply").write_bytes(header + struct.pack("<I", 4_000_000_000))
    with pytest.raises(GrandError, match="the last one is not whole"):
        ply_file.read_ply(tmp_path / "a.ply")


def test_the_real_mesh_reads_whole(real: Callable[[str], Path]) -> None:
    path = real("scannet/scene0000_00/scene0000_00_vh_clean_2.labels.ply")
    read = ply_file.read_ply(path, ("vertex", "face"))
    assert ply_file.points_of(path, read["vertex"]).shape == (81369, 3)
    assert read["face"]["vertex_indices"].shape == (153587, 3)
    assert read["face"]["vertex_indices"].max() == 81368
    assert read["vertex"]["label"].dtype == np.uint16 and len(np.unique(read["vertex"]["label"])) > 10


# labelled points

POINTS = [[0, 0, 0], [1, 2, 3], [5, 5, 0], [6, 6, 1], [9, 9, 9]]


def _write(folder: Path, name: str = "lab.ply", **columns: Any) -> Path:
    (folder / "names.json").write_text(json.dumps({"3": "desk", "7": "office chair"}))
    table = {key: np.asarray(value, np.int32) for key, value in columns.items()}
    (folder / name).write_bytes(ply_bytes({**xyz(POINTS), **table}))
    return folder / name


def test_labelled_points_become_boxes(tmp_path: Path) -> None:
    path = _write(tmp_path, instance=[3, 3, 7, 7, -1])
    scene = ply.convert(points=path, labels=str(tmp_path / "names.json"), frame="raw").scenes["lab"]
    assert [(item.object_id, item.category) for item in scene.objects] == [("3", "desk"), ("7", "office chair")]
    assert scene["3"].centroid == (0.5, 1.0, 1.5) and scene["3"].extent == (1.0, 2.0, 3.0)
    assert scene.id_space == "ply" and scene.frame == "raw"


def test_y_up_and_centimetres_are_turned_and_kept(tmp_path: Path) -> None:
    path = _write(tmp_path, instance=[3, 3, 7, 7, -1])
    scene = ply.convert(points=path, labels=str(tmp_path / "names.json"), frame="raw", up="y", units="cm").scenes["lab"]
    assert scene["3"].centroid == pytest.approx((0.005, -0.015, 0.01)) and scene["3"].extent == pytest.approx((0.01, 0.03, 0.02))
    from grand3d.frames import source_objects

    assert source_objects(scene)[0].centroid == pytest.approx((0.5, 1.0, 1.5))


def test_classes_of_points_are_those_of_most(tmp_path: Path) -> None:
    path = _write(tmp_path, objectId=[0, 0, 0, 1, -5], label=[5, 7, 7, 2, 3])
    scene = ply.convert(points=path, labels="scannet20", semantic="label", frame="raw").scenes["lab"]
    assert [(item.object_id, item.category) for item in scene.objects] == [("0", "table"), ("1", "floor")]


def test_objects_of_faces_are_those_of_their_corners(tmp_path: Path) -> None:
    raw = ply_bytes(xyz(POINTS), faces=[[0, 1, 1], [2, 3], [4, 4, 4]], objectId=[3, 7, -1])
    (tmp_path / "m.ply").write_bytes(raw)
    (tmp_path / "names.json").write_text(json.dumps(["a", "b", "c", "desk", "e", "f", "g", "bed"]))
    scene = ply.convert(points=tmp_path / "m.ply", labels=str(tmp_path / "names.json"), frame="raw").scenes["m"]
    assert [(item.category, item.extent) for item in scene.objects] == [("desk", (1.0, 2.0, 3.0)), ("bed", (1.0, 1.0, 1.0))]


def test_instances_without_a_name_are_counted(tmp_path: Path) -> None:
    rejects = Rejects()
    path = _write(tmp_path, instance=[3, 3, 0, 0, 99])
    scene = ply.convert(points=path, labels=str(tmp_path / "names.json"), frame="raw", rejects=rejects).scenes["lab"]
    assert scene.object_ids == ("3",) and rejects.counts() == {"instance without a name": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "lab is not aligned: there is no lab.txt, expected .*--frame estimate"),
        ({"frame": "raw", "instance": "owner"}, "no property owner, expected the object of each point; its vertices have"),
        ({"frame": "raw", "semantic": "kind"}, "vertices have no kind, expected the class of each"),
        ({"frame": "raw", "units": "inch"}, "units is 'inch', expected one of m, cm, mm"),
        ({"frame": "raw", "labels": "nowhere.json"}, "labels is 'nowhere.json', expected"),
    ],
)
def test_what_cannot_be_told_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = _write(tmp_path, instance=[3, 3, 7, 7, -1])
    with pytest.raises(GrandError, match=message):
        ply.convert(**{"points": path, "labels": str(tmp_path / "names.json"), **options})
