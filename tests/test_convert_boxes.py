from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d.boxes import objects_bounds
from grand3d.convert import boxes
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.scene import Scene


def _scene(path: Path, **more: Any) -> Scene:
    (scene,) = boxes.convert(boxes=path, **more).scenes.values()
    return scene


def _json(tmp_path: Path, value: Any, name: str = "lab.json") -> Path:
    (tmp_path / name).write_text(json.dumps(value))
    return tmp_path / name


DESK = {"category": "desk", "centroid": [1, 2, 0.5], "extent": [2, 1, 1]}


@pytest.mark.parametrize(
    "value",
    [
        [DESK],
        {"objects": [DESK]},
        {"scene_id": "lab", "objects": [{**DESK, "id": 0}]},
        {"lab": [DESK]},
        {"lab": {"obj_0": DESK}},
        [{"label": "desk", "min": [0, 1.5, 0], "max": [2, 2.5, 1]}],
        [{"name": "desk", "center": [1, 2, 0.5], "size": [2, 1, 1]}],
        [{"class": "desk", "box": [1, 2, 0.5, 2, 1, 1]}],
        [{"category": "desk", "box": [1, 2, 0.5, 1, 2, 1, math.pi / 2, 0, 0]}],
        [{"category": "desk", "corners": [[x, y, z] for x in (0, 2) for y in (1.5, 2.5) for z in (0, 1)]}],
        [{**DESK, "rotation": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}],
    ],
)
def test_one_box_in_many_forms_is_one_box(tmp_path: Path, value: Any) -> None:
    scene = _scene(_json(tmp_path, value))
    (item,) = scene.objects
    assert (scene.scene_id, scene.id_space, item.object_id, item.category, item.score) == ("lab", "boxes", "0", "desk", None)
    assert item.rotation is None
    assert item.centroid == pytest.approx((1, 2, 0.5)) and item.extent == pytest.approx((2, 1, 1))


@pytest.mark.parametrize(
    "table",
    [
        "category,x,y,z,dx,dy,dz\ndesk,1,2,0.5,2,1,1\n",
        "category,xmin,ymin,zmin,xmax,ymax,zmax\ndesk,0,1.5,0,2,2.5,1\n",
        'label,centroid,extent\ndesk,"[1, 2, 0.5]",[2 1 1]\n',
        'label,centroid,extent\ndesk,"1,2,.5","(2, 1, 1)"\n',
        "\ufefflabel,centroid,extent,score\r\ndesk,1 2 0.5,2 1 1,\r\n",
    ],
)
def test_i06_numbers_of_a_table_are_read_by_rule(tmp_path: Path, table: str) -> None:
    (tmp_path / "lab.csv").write_text(table)
    (item,) = _scene(tmp_path / "lab.csv").objects
    assert (item.centroid, item.extent, item.score) == ((1.0, 2.0, 0.5), (2.0, 1.0, 1.0), None)


@pytest.mark.parametrize("text", ["5.0", "007", "1e5", "0", "dining chair-2"])
def test_i06_ids_of_a_table_stay_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "lab.csv").write_text(f"object_id,category,x,y,z,dx,dy,dz\n{text},desk,1,2,3,1,1,1\n")
    assert _scene(tmp_path / "lab.csv").object_ids == (text,)


@pytest.mark.parametrize(
    "cell", ["__import__('os').system('touch pwned')", "[1, 2", "1 2 x", "[[1,2,3]]", "nan 1 2", "1e999,0,0", "[" * 5000]
)
def test_i06_a_cell_of_another_form_is_a_refused_row_and_never_run(
    tmp_path: Path, cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.csv").write_text(f'label,centroid,extent\ndesk,"{cell}",1 1 1\nbed,1 2 3,1 1 1\n')
    with pytest.raises(GrandError, match=r"lab.csv:2: .*expected"):
        boxes.convert(boxes=tmp_path / "lab.csv")
    rejects = Rejects(skip_bad=True)
    assert boxes.convert(boxes=tmp_path / "lab.csv", rejects=rejects).scenes["lab"].objects[0].category == "bed"
    assert len(rejects.rows) == 1 and not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extent": [1, -1, 1]}, "expected full sides of 0 or more"),
        ({"extent": [1, 1]}, "extent is .*expected 3 finite numbers"),
        ({"centroid": None}, "centroid is None, expected 3"),
        ({"category": "  "}, "expected a name with something to see"),
        ({"category": 3}, "label is 3, expected text"),
        ({"score": 1.5}, "score is 1.5, expected 0 to 1"),
        ({"colour": "red"}, "unknown keys .*expected"),
        ({"min": [0, 0, 0], "max": [1, 1, 1]}, "has centroid and min, expected one of"),
        ({"yaw": 0.1, "rotation": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}, "has yaw and rotation, expected one"),
        ({"rotation": [[1, 0, 0], [1, 1, 0], [0, 0, 1]]}, "expected three at right angles"),
        ({"rotation": [[0, 0, 0], [0, 1, 0], [0, 0, 1]]}, "expected three of some length"),
        ({"label": "table"}, "mean the same, expected one"),
        ({"object_id": [1]}, "object_id is .*expected text"),
        ({"centroid": [1e9, 0, 0]}, "beyond 1000 m"),
    ],
)
def test_a_broken_box_is_refused_by_row(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = _json(tmp_path, [{**DESK, **change}])
    with pytest.raises(GrandError, match=message):
        boxes.convert(boxes=path)


@pytest.mark.parametrize("value", [[], {}, "desk", {"a": 1}, [3], {"a": [None]}])
def test_a_file_of_another_form_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(GrandError, match="expected"):
        boxes.convert(boxes=_json(tmp_path, value))


def test_an_id_that_occurs_twice_is_counted_and_the_first_stays(tmp_path: Path) -> None:
    rejects = Rejects(skip_bad=True)
    rows = [{**DESK, "id": 4}, {**DESK, "id": 4, "category": "bed"}]
    scene = boxes.convert(boxes=_json(tmp_path, rows), rejects=rejects).scenes["lab"]
    assert [item.category for item in scene.objects] == ["desk"] and rejects.counts() == {"id twice": 1}


def test_a04_an_oriented_cube_has_the_hull_of_its_corners(tmp_path: Path) -> None:
    c = math.sqrt(0.5)
    rows = [
        {"category": "cube", "centroid": [0, 0, 0], "extent": [1, 1, 1], "yaw": math.pi / 4},
        {"category": "cube", "centroid": [0, 0, 0], "extent": [1, 1, 1], "rotation": [[c, -c, 0], [c, c, 0], [0, 0, 1]]},
        {"category": "cube", "box": [0, 0, 0, 1, 1, 1, math.pi / 4]},
    ]
    for item in _scene(_json(tmp_path, rows)).objects:
        low, high = objects_bounds([item])[0]
        assert high - low == pytest.approx([2**0.5, 2**0.5, 1.0]) and item.extent == (1.0, 1.0, 1.0)


@settings(max_examples=50, deadline=None)
@given(st.floats(-3.1, 3.1), st.sampled_from(["z", "y"]), st.sampled_from([("m", 1.0), ("cm", 0.01), ("mm", 0.001)]))
def test_up_and_units_give_the_box_of_metres_and_z_up(
    tmp_path_factory: pytest.TempPathFactory, yaw: float, up: str, units: tuple[str, float]
) -> None:
    name, factor = units
    own = {"centroid": [1.0, 2.0, 3.0], "extent": [2.0, 1.0, 0.5]}
    if up == "y":
        own = {"centroid": [1.0, 3.0, -2.0], "extent": [2.0, 0.5, 1.0]}
    row = {"category": "desk", "yaw": yaw, **{key: [x / factor for x in value] for key, value in own.items()}}
    folder = tmp_path_factory.mktemp("b")
    plain = {"category": "desk", "centroid": [1, 2, 3], "extent": [2, 1, 0.5], "yaw": yaw}
    given_item = _scene(_json(folder, [row]), up=up, units=name).objects[0]
    assert np.allclose(objects_bounds([given_item]), objects_bounds([_scene(_json(folder, [plain], "p.json")).objects[0]]))


def test_scenes_come_from_rows_or_from_the_names_of_files(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "kitchen.csv").write_text("category,x,y,z,dx,dy,dz,score\noven,1,1,1,1,1,1,0.9\n")
    _json(folder, [{**DESK, "scene_id": "a"}, {**DESK, "scene_id": "b"}], "more.json")
    scenes = boxes.convert(boxes=folder, id_space="mine").scenes
    assert list(scenes) == ["kitchen", "a", "b"]
    assert scenes["kitchen"].objects[0].score == 0.9 and scenes["a"].id_space == "mine"


def test_objects_within_a_polygon_become_its_region_s(tmp_path: Path) -> None:
    rows = [DESK, {"category": "bed", "box": [8, 8, 0.3, 2, 1, 0.6]}, {"category": "tree", "box": [50, 0, 1, 1, 1, 1]}]
    areas = {"lab": [{"region_id": "r", "name": "office", "polygon": [[0, 0], [4, 0], [4, 4], [0, 4]]}, {"name": "bedroom",
             "polygon": [[5, 5], [9, 5], [9, 9], [5, 9]]}]}  # fmt: skip
    scene = _scene(_json(tmp_path, rows), regions=_json(tmp_path, areas, "areas.json"))
    assert [item.region_id for item in scene.objects] == ["r", "r1", None]
    assert [(region.name, region.object_ids) for region in scene.regions] == [("office", ("0",)), ("bedroom", ("1",))]


def test_a_file_with_a_nan_names_the_row(tmp_path: Path) -> None:
    (tmp_path / "lab.json").write_text('[{"category": "desk", "centroid": [NaN, 0, 0], "extent": [1, 1, 1]}]')
    with pytest.raises(GrandError, match=r"lab.json: row 0: .*expected"):
        boxes.convert(boxes=tmp_path / "lab.json")
