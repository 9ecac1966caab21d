from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grand3d import frames, regions
from grand3d.boxes import objects_bounds
from grand3d.convert import front3d
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.sample import Data
from grand3d.scene import Object

Real = Callable[[str], Path]
HOUSES = ("0a17c68b-b74d-4d81-afe4-bc2ed405f0ec", "1d481334-3f7f-4a41-8d8c-8c6e05a9ac10")
CEILINGS = (2.6, 2.54)


@pytest.fixture(scope="module")
def houses() -> Callable[[Real], tuple[Data, Rejects]]:
    kept: list[tuple[Data, Rejects]] = []

    def read(real: Real) -> tuple[Data, Rejects]:
        if not kept:
            rejects = Rejects()
            kept.append((front3d.convert(houses=real("front3d"), rejects=rejects), rejects))
        return kept[0]

    return read


def test_the_real_houses_convert_and_say_what_is_missing(real: Real, houses: Any) -> None:
    data, rejects = houses(real)
    assert tuple(data.scenes) == HOUSES and [len(scene.objects) for scene in data.scenes.values()] == [28, 29]
    assert rejects.counts() == {
        "reference to nothing": 56,
        "furniture without a name": 28,
        "furniture without size": 12,
        "marked invalid": 1,
    }
    assert all("expected" in row["reason"] or row["reason"] for row in rejects.rows)


def test_objects_of_the_real_houses_stand_on_the_floor_and_in_their_rooms(real: Real, houses: Any) -> None:
    data, _ = houses(real)
    for scene, ceiling in zip(data.scenes.values(), CEILINGS, strict=True):
        rings = {region.region_id: region.polygon for region in scene.regions}
        for item in scene.objects:
            low, high = objects_bounds([item])[0]
            assert low[2] >= -0.05 and high[2] <= ceiling + 0.2, item
            if item.object_id.startswith("furniture"):
                assert regions.inside(rings[item.region_id], [item.centroid[:2]])[0], item


def test_lamps_of_the_real_houses_end_at_the_ceiling(real: Real, houses: Any) -> None:
    """They have no category: what hangs there shows that the origin of a model is the middle of its underside."""
    data, _ = houses(real)
    tops = {item.object_id: objects_bounds([item])[0, 1, 2] for item in data.scenes[HOUSES[1]].objects}
    for number in (112, 184, 245):
        assert tops[f"furniture/{number}"] == pytest.approx(2.54, abs=0.005)


def test_scaled_chairs_of_the_real_house_stand_side_by_side(real: Real, houses: Any) -> None:
    data, _ = houses(real)
    chairs = [item for item in data.scenes[HOUSES[0]].objects if item.category == "Dining Chair"]
    assert len(chairs) == 4
    gap = abs(chairs[0].centroid[1] - chairs[1].centroid[1])
    assert gap == pytest.approx(chairs[0].extent[1], abs=1e-3)  # one scaled chair wide


def test_rooms_have_the_outline_of_their_floors(real: Real, houses: Any) -> None:
    data, _ = houses(real)
    areas = {region.name: round(regions.area(region.polygon), 2) for region in data.scenes[HOUSES[0]].regions}
    assert areas["living dining room"] == 18.65 and areas["bedroom"] == 11.33 and len(areas) == 6
    assert len(data.scenes[HOUSES[0]].regions[1].polygon) == 6  # an L
    members = [item for region in data.scenes[HOUSES[1]].regions for item in region.object_ids]
    assert sorted(members) == sorted(data.scenes[HOUSES[1]].object_ids)


def test_one_scene_a_room_holds_the_same_objects(real: Real, houses: Any) -> None:
    data, _ = houses(real)
    rooms = front3d.convert(houses=real("front3d"), scene="room").scenes
    assert len(rooms) == 13 and f"{HOUSES[0]}/Kitchen-4962" in rooms
    assert sum(len(room.objects) for room in rooms.values()) == sum(len(house.objects) for house in data.scenes.values())


def _house(**changed: Any) -> dict[str, Any]:
    """A room of 4 x 3 m: the floor spans x 0 to 4 and z -3 to 0, so that y is 0 to 3 in the scene."""
    floor = {"uid": "f", "type": "Floor", "xyz": [0, 0, 0, 4, 0, 0, 4, 0, -3, 0, 0, -3], "faces": [0, 1, 2, 0, 2, 3]}
    door = {"uid": "d/1", "type": "Door", "xyz": [1, 0, 0, 2, 2, 0.2], "faces": [0, 1, 1]}
    sill = {"uid": "d/2", "type": "Door", "xyz": [1, 0, 0, 2, 0, 0.2], "faces": [0, 1, 1]}
    bed = {"uid": "b", "jid": "m1", "size": [2, 1.5, 0.5]}
    child = {
        "ref": "b",
        "instanceid": "furniture/1",
        "pos": [2, 0, -1],
        "rot": [0, 0.70710678, 0, 0.70710678],
        "scale": [1, 1, -1],
    }
    children = [{"ref": ref, "instanceid": f"mesh/{ref}"} for ref in ("f", "d/1", "d/2")] + [child]
    house = {
        "uid": "house",
        "furniture": [bed],
        "mesh": [floor, door, sill],
        "extension": {"door": [{"ref": ["d/1", "d/2"]}]},
        "scene": {
            "room": [{"type": "MasterBedroom", "instanceid": "r1", "pos": [0, 0, 0], "rot": [0, 0, 0, 1], "children": children}]
        },
    }
    for key, value in changed.items():
        (child if key in child else house if key in house else bed)[key] = value
    return house


def _convert(tmp_path: Path, **changed: Any) -> tuple[Data, Rejects]:
    (tmp_path / "house.json").write_text(json.dumps(_house(**changed)))
    rejects = Rejects()
    return front3d.convert(houses=tmp_path / "house.json", rejects=rejects), rejects


def _bed(data: Data) -> Object:
    return data.scenes["house"]["furniture/1"]


def test_a_turned_bed_lies_where_it_was_put(tmp_path: Path) -> None:
    data, rejects = _convert(tmp_path)
    assert _bed(data).centroid == pytest.approx((2, 1, 0.25)) and _bed(data).extent == pytest.approx((1.5, 2, 0.5))
    assert rejects.counts() == {"furniture without a name": 1}
    door = data.scenes["house"]["d/1"]
    assert door.extent == pytest.approx((1, 0.2, 2)) and len(data.scenes["house"].objects) == 2
    (room,) = data.scenes["house"].regions
    assert room.name == "master bedroom" and set(room.object_ids) == {"d/1", "furniture/1"}
    assert set(room.polygon) == {(0.0, 0.0), (4.0, 0.0), (4.0, 3.0), (0.0, 3.0)}
    back = frames.source_objects(data.scenes["house"])[1]
    assert back.centroid == pytest.approx((2, 0.25, -1))  # y up


@pytest.mark.parametrize(
    ("changed", "extent"),
    [
        ({"size": None, "bbox": [2, 0.5, 1.5], "scale": [0.5, 1, -2]}, (3, 1, 0.5)),
        ({"size": None, "bbox": [[2, 0.5, 1.5]]}, (1.5, 2, 0.5)),
        ({"rot": [0, 0, 0, 1]}, (2, 1.5, 0.5)),
    ],
)
def test_sizes_follow_the_rule(tmp_path: Path, changed: dict[str, Any], extent: tuple[float, ...]) -> None:
    data, _ = _convert(tmp_path, **changed)
    assert _bed(data).extent == pytest.approx(extent)


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"size": None}, "furniture without size"),
        ({"valid": False}, "marked invalid"),
        ({"ref": "gone"}, "reference to nothing"),
        ({"rot": [0, 0, 0, 0]}, "bad rotation"),
        ({"size": [1, "x", 2]}, "bad number"),
    ],
)
def test_what_cannot_be_known_is_counted(tmp_path: Path, changed: dict[str, Any], cause: str) -> None:
    data, rejects = _convert(tmp_path, **changed)
    assert data.scenes["house"].object_ids == ("d/1",) and rejects.counts()[cause] == 1


def test_a_list_of_models_names_furniture(tmp_path: Path) -> None:
    (tmp_path / "house.json").write_text(json.dumps(_house()))
    models = tmp_path / "model_info.json"
    models.write_text(json.dumps([{"model_id": "m1", "super-category": "Bed", "category": "King-size Bed"}]))
    rejects = Rejects()
    data = front3d.convert(houses=tmp_path / "house.json", models=models, rejects=rejects)
    assert _bed(data).category == "King-size Bed" and not rejects.rows


@pytest.mark.parametrize("changed", [{"scene": []}, {"furniture": {}}, {"mesh": [{"type": "Floor"}]}, {"scene": {"room": None}}])
def test_a_broken_house_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(GrandError, match="expected"):
        _convert(tmp_path, **changed)
