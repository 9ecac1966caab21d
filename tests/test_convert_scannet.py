from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scans import GROUPS, POINTS, write_scan

from grand3d import frames
from grand3d.boxes import iou, objects_bounds
from grand3d.convert import labels, scannet
from grand3d.convert.scans import wall_turn
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.scene import Scene

Real = Callable[[str], Path]


def _real(real: Real, **more: Any) -> Scene:
    table = real("scannet/scans_axis_alignment_matrices.json")
    return scannet.convert(scans=real("scannet/scene0000_00"), alignment=table, **more).scenes["scene0000_00"]


@pytest.mark.parametrize(("frame", "key"), [("raw", "raw"), ("axis_aligned", "aligned")])
def test_a01_boxes_of_the_real_scan_are_those_derived_raw_and_aligned(real: Real, frame: str, key: str) -> None:
    expected = json.loads(real("scannet/scene0000_00/scene0000_00.expected_boxes.derived.json").read_text())["objects"]
    scene = _real(real, frame=frame)
    assert list(scene.object_ids) == sorted(expected, key=int)
    assert scene.frame == frame and scene.id_space == "scannet"
    for item in scene.objects:
        row = expected[item.object_id]
        assert item.category == row["label"]
        assert item.centroid == pytest.approx(row[key]["aabb_center"], abs=1e-4)
        assert item.extent == pytest.approx(row[key]["aabb_size"], abs=1e-4)


def test_a01_the_two_frames_of_the_real_scan_lie_metres_apart(real: Real) -> None:
    raw, aligned = _real(real, frame="raw"), _real(real)
    gap = np.subtract([item.centroid for item in raw.objects], [item.centroid for item in aligned.objects])
    assert np.linalg.norm(gap, axis=1).mean() == pytest.approx(6.44, abs=0.01)
    assert not (np.diag(iou(objects_bounds(raw.objects), objects_bounds(aligned.objects))) > 0.25).any()


def test_a02_a_real_scan_without_the_line_takes_the_table_and_is_refused_without_both(real: Real) -> None:
    assert _real(real).transform is not None  # its .txt is an early one, without axisAlignment
    with pytest.raises(GrandError, match=r"scene0000_00 is not aligned: .*no line axisAlignment, expected .*--frame raw"):
        scannet.convert(scans=real("scannet/scene0000_00"))


def test_a02_aligned_boxes_go_back_to_the_mesh(tmp_path: Path) -> None:
    turn = frames.compose(frames.from_quaternion((0, 0, 0.3, 1), (4, -2, 0.5)))
    line = f"axisAlignment = {' '.join(str(x) for row in turn for x in row)}\n"
    scene = scannet.convert(scans=write_scan(tmp_path, alignment=line)).scenes["scene0000_00"]
    chair = frames.source_objects(scene)[0]
    own = np.asarray(POINTS, float)[[2, 3, 5]]
    box_axes = np.asarray(chair.rotation)
    inside = np.abs((own - chair.centroid) @ box_axes) <= np.asarray(chair.extent) / 2 + 1e-6
    assert inside.all()


def test_a11_segment_numbers_of_a_group_are_not_vertices(tmp_path: Path) -> None:
    scene = scannet.convert(scans=write_scan(tmp_path), frame="raw").scenes["scene0000_00"]
    chair = scene["0"]  # segment 9 is of the vertices 2, 3 and 5
    assert chair.centroid == (4.5, 1.0, 0.5) and chair.extent == (1.0, 2.0, 1.0)
    aligned = scannet.convert(scans=write_scan(tmp_path)).scenes["scene0000_00"]
    assert aligned["0"].centroid == (5.5, 3.0, 3.5) and aligned["0"].extent == (1.0, 2.0, 1.0)


def test_a14_scans_whose_annotation_is_missing_are_listed_and_the_rest_goes_on(tmp_path: Path) -> None:
    write_scan(tmp_path)
    (tmp_path / "scene0707_00").mkdir()
    (tmp_path / "scene0708_00").mkdir()
    rejects = Rejects()
    data = scannet.convert(scans=tmp_path, rejects=rejects)
    assert list(data.scenes) == ["scene0000_00"]
    assert rejects.counts() == {"folder without annotation": 2}
    assert "scene0707_00" in rejects.rows[0]["where"]


def test_a14_a_scan_that_lacks_another_file_is_refused_or_left_out(tmp_path: Path) -> None:
    write_scan(tmp_path)
    (write_scan(tmp_path, "scene0001_00") / "scene0001_00_vh_clean_2.ply").unlink()
    with pytest.raises(GrandError, match="no such file"):
        scannet.convert(scans=tmp_path)
    rejects = Rejects(skip_bad=True)
    assert list(scannet.convert(scans=tmp_path, rejects=rejects).scenes) == ["scene0000_00"]
    assert len(rejects.rows) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"segments": [5] * 7}, "7 segment numbers, .* has 8 vertices, expected as many"),
        ({"segments": ["a"] * 8}, "segIndices are .*expected whole numbers"),
        ({"groups": [*GROUPS, GROUPS[0]]}, "objectId 0 occurs twice, expected each once"),
        ({"groups": [*GROUPS, {"objectId": 2, "segments": [9], "label": "bed"}]}, "objects 0 and 2 share a segment, expected"),
        ({"groups": [{"objectId": 0, "segments": [2], "label": "bed"}]}, "segment 2 of object 0 is of no vertex, expected"),
        ({"groups": [{"objectId": -1, "segments": [9], "label": "bed"}]}, "objectId is -1, expected a number"),
        ({"groups": {}}, "expected {segGroups"),
        ({"scene_id": "scene0002_00"}, "sceneId is 'scene0002_00', expected scene0000_00"),
        ({"points": [[float("nan"), 0, 0]] * 8}, "vertex 0 is .*expected finite numbers"),
        ({"alignment": "axisAlignment = 1 0 0\n"}, "txt:1: axisAlignment is .*expected 16 numbers"),
    ],
)
def test_files_of_a_scan_that_do_not_fit_together_are_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    write_scan(tmp_path, **changed)
    with pytest.raises(GrandError, match=message):
        scannet.convert(scans=tmp_path)


def test_two_alignments_that_differ_are_refused(tmp_path: Path) -> None:
    write_scan(tmp_path)
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"scene0000_00": [1, 0, 0, 9, 0, 1, 0, 2, 0, 0, 1, 3, 0, 0, 0, 1]}))
    with pytest.raises(GrandError, match="differ by 8, expected one matrix"):
        scannet.convert(scans=tmp_path / "scene0000_00", alignment=table)


def test_objects_without_a_point_or_a_name_are_counted(tmp_path: Path) -> None:
    groups = [*GROUPS, {"objectId": 2, "segments": [], "label": "bed"}, {"objectId": 3, "segments": [], "label": " \t"}]
    rejects = Rejects()
    scene = scannet.convert(scans=write_scan(tmp_path, groups=groups), rejects=rejects).scenes["scene0000_00"]
    assert scene.object_ids == ("0", "1")
    assert rejects.counts() == {"object without points": 1, "blank label": 1}


TABLES = ("M3DRef-CLIP.LF", "ScanRefer.CRLF", "ZSVG3D", "butd_detr")


@pytest.mark.parametrize("name", TABLES)
def test_a15_blank_cells_of_the_real_tables_follow_the_rule(real: Real, name: str) -> None:
    path = real(f"scannet/scannetv2-labels.combined.{name}.tsv")
    table = labels.read_label_table(path, "nyu40class")
    assert len(table.by_label) == 607 and len(set(table.by_label.values())) == 40
    assert all(value == " ".join(value.split()) and value for value in (*table.by_label.values(), *table.by_id.values()))


def test_a15_the_first_release_has_a_row_without_a_class(real: Real) -> None:
    path = real("scannet/scannet-labels.combined.v1-2017.LouYJ.tsv")
    assert labels.read_label_table(path, "nyu40class").by_label["storage"] == "otherprop"
    assert "storage" not in labels.read_label_table(path, "nyuClass").by_label
    assert labels.read_label_table(path).by_label["tissue `paper"] == "tissue `paper"


@pytest.mark.parametrize("name", TABLES)
def test_a17_the_refrigerator_is_spelt_as_everywhere_else(real: Real, name: str) -> None:
    path = real(f"scannet/scannetv2-labels.combined.{name}.tsv")
    table = labels.read_label_table(path, "nyu40class")
    assert table.by_label["refrigerator"] == "refrigerator"
    missing = set(labels.SPACES["scannet20"].values()) - set(table.by_label.values())
    assert not missing  # no class of the benchmark is silently empty


def test_a19_class_numbers_mean_what_the_named_numbering_says(real: Real) -> None:
    names = {space: dict(labels.SPACES[space]) for space in ("scannet20", "scannet200")}
    for space, column in (("scannet20", "nyu40_id"), ("scannet200", "raw_id")):
        lines = real(f"scannet/{space}_classes.derived.tsv").read_text().splitlines()
        header, *rows = [line.split("\t") for line in lines]
        at, label = header.index(column), header.index("name")
        assert [(int(row[at]), row[label]) for row in rows] == list(names[space].items())
    assert names["scannet20"][7] == "table" and names["scannet200"][7] == "cabinet"
    table = labels.class_names(str(real("scannet/scannetv2-labels.combined.M3DRef-CLIP.LF.tsv")))
    assert all(table[number] == name for number, name in names["scannet200"].items())


def test_a19_a_number_of_another_numbering_is_refused() -> None:
    with pytest.raises(GrandError, match=r"class 1191 is none of the 20 of scannet20, expected .*scannet200 would have it"):
        labels.class_name(1191, labels.class_names("scannet20"), "scannet20")
    with pytest.raises(GrandError, match="labels is 'nyu', expected scannet20, scannet200"):
        labels.class_names("nyu")


def test_a26_labels_of_a_table_replace_those_annotated_which_stay_beside(tmp_path: Path) -> None:
    table = tmp_path / "labels.tsv"
    table.write_text("id\traw_category\tcategory\n1\ttrash bin\ttrash can\n2\ttrashcan\ttrash can \n3\ttrash can\ttrash can\n")
    names = ["trash bin", "trashcan", "trash can", "TV  Monitor"]
    groups = [{"objectId": k, "segments": [], "label": name} for k, name in enumerate(names)]
    groups[0]["segments"], groups[1]["segments"], groups[2]["segments"] = [5], [7], [9]
    segments = [5, 5, 9, 9, 5, 11, 7, 7]
    groups[3]["segments"] = [11]
    rejects = Rejects()
    folder = write_scan(tmp_path, groups=groups, segments=segments)
    scene = scannet.convert(scans=folder, labels=table, rejects=rejects).scenes["scene0000_00"]
    assert [item.category for item in scene.objects] == ["trash can"] * 3 + ["TV Monitor"]
    assert [item.attributes.get("raw_category") for item in scene.objects] == ["trash bin", "trashcan", None, None]
    assert rejects.counts() == {"label not in the table": 1}


def test_estimated_walls_of_the_real_scan_are_those_of_its_matrix_to_a_degree(real: Real) -> None:
    scene = _real(real, frame="estimate")
    turn = np.rad2deg(np.arctan2(scene.transform[1][0], scene.transform[0][0]))  # type: ignore[index]
    assert abs(turn - -19.0) <= 1 and scene.frame == "axis_aligned"


@pytest.mark.parametrize("angle", [-40.0, -12.5, 0.0, 7.25, 33.0])
def test_wall_turn_finds_how_a_room_was_turned(angle: float) -> None:
    rng = np.random.default_rng(0)
    walls = [np.column_stack([np.full(900, x), rng.uniform(0, 3, 900)]) for x in (0.0, 5.0)]
    walls += [np.column_stack([rng.uniform(0, 5, 900), np.full(900, y)]) for y in (0.0, 3.0)]
    floor = rng.uniform((0, 0), (5, 3), (2000, 2))
    plane = np.concatenate([*walls, floor]) + rng.normal(0, 0.01, (5600, 2))
    turned = frames.apply(frames.from_quaternion((0, 0, np.sin(np.deg2rad(angle) / 2), np.cos(np.deg2rad(angle) / 2))),
                          np.column_stack([plane, rng.uniform(0, 2.5, len(plane))]))  # fmt: skip
    matrix = wall_turn(turned)
    assert np.rad2deg(np.arctan2(matrix[1][0], matrix[0][0])) == pytest.approx(-angle, abs=0.5)
