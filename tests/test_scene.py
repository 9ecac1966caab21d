from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d.errors import GrandError
from grand3d.files import Rejects, visible
from grand3d.scene import Object, Region, Scene, confidence, load_scenes, save_scenes, scene_from_dict, scene_to_dict, validate

names = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=12)
ids = names.filter(lambda s: s == s.strip() and s and not set(s) & set("<>,") and len(s.splitlines()) == 1 and visible(s))
numbers = st.floats(-999, 999)
sides = st.floats(0, 999)
turns = st.floats(-math.pi, math.pi).map(
    lambda a: ((math.cos(a), -math.sin(a), 0.0), (math.sin(a), math.cos(a), 0.0), (0.0, 0.0, 1.0))
)

moves = st.tuples(turns, st.tuples(numbers, numbers, numbers), st.floats(0.001, 10)).map(
    lambda m: (*((*(m[2] * x for x in row), shift) for row, shift in zip(m[0], m[1], strict=True)), (0.0, 0.0, 0.0, 1.0))
)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    object_ids = draw(st.lists(ids.filter(lambda i: i != "r"), max_size=5, unique=True))
    objects = tuple(
        Object(
            i,
            draw(names.filter(visible)),
            draw(st.tuples(numbers, numbers, numbers)),
            draw(st.tuples(sides, sides, sides)),
            draw(st.none() | turns),
            draw(st.none() | st.floats(0, 1)),
            draw(st.none() | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=8)),
            draw(st.dictionaries(names, names, max_size=2)),
            draw(st.sampled_from([None, "r"])),
        )
        for i in object_ids
    )
    regions = (Region("r", "corner", ((0.0, 1.0), (2.0, 3.0), (4.0, 5.5)), tuple(object_ids)),)
    frame = draw(st.sampled_from(["axis_aligned", "raw"]))
    return Scene(draw(ids), objects, regions, draw(names), frame, transform=draw(st.none() | moves))


@settings(max_examples=60, deadline=None)
@given(scenes())
def test_scene_from_dict_of_scene_to_dict_through_json_returns_the_scene(scene: Scene) -> None:
    assert scene_from_dict(json.loads(json.dumps(scene_to_dict(validate(scene))))) == scene


ROW: dict[str, Any] = {
    "scene_id": "room",
    "id_space": "synthetic",
    "objects": [
        {
            "object_id": "7",
            "category": "desk",
            "centroid": [1, 2.5, 0.4],
            "extent": [1.2, 0.6, 0.8],
            "rotation": [[0, -1, 0], [1, 0, 0], [0, 0, 1]],
            "score": 0.5,
            "description": "a desk",
            "attributes": {"colour": "brown"},
            "region_id": "r",
        }
    ],
    "regions": [{"region_id": "r", "name": "work area", "polygon": [[0, 0], [1, 0], [1, 1]], "object_ids": ["7"]}],
}


def _with(path: str, value: Any) -> dict[str, Any]:
    """ROW with one place changed; ``path`` like ``objects.0.score``; ``...`` takes the key away."""
    row: Any = copy.deepcopy(ROW)
    *steps, last = [int(s) if s.isdigit() else s for s in path.split(".")]
    inner = row
    for step in steps:
        inner = inner[step]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return row


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        ("scene_id", ..., "scene_id is missing"),
        ("scene_id", 5, "scene_id is 5, expected text"),
        ("scene_id", "", "scene_id"),
        ("scene_id", " room", "outer blanks"),
        ("objects", ..., "objects is missing"),
        ("objects", None, "objects is None, expected a list"),
        ("objects", {}, "expected a list"),
        ("objects.0", None, "object number 0: expected a JSON object"),
        ("objects.0.object_id", ..., "object_id is missing"),
        ("objects.0.object_id", 7, "object_id is 7, expected text"),
        ("objects.0.object_id", "", "expected visible text"),
        ("objects.0.object_id", "a<b", "expected visible text"),
        ("objects.0.object_id", "a,b", "expected visible text"),
        ("objects.0.object_id", "a\u2028b", "expected visible text"),
        ("objects.0.object_id", "a ", "expected visible text"),
        ("objects.0.category", "  ", "category"),
        ("objects.0.category", "\u200b\u2060", "something to see"),
        ("objects.0.category", "chair\n", "without line breaks"),
        ("objects.0.category", "x" * 201, "201 characters, expected at most 200"),
        ("objects.0.category", "de\0sk", "NUL character"),
        ("objects.0.description", "de\0sk", "NUL character"),
        ("objects.0.attributes", {"co\0lour": "brown"}, "NUL character"),
        ("objects.0.category", None, "category is None, expected text"),
        ("objects.0.centroid", ..., "centroid is missing"),
        ("objects.0.centroid", [1, 2], "expected 3 finite numbers"),
        ("objects.0.centroid", [1, 2, float("nan")], "expected 3 finite numbers"),
        ("objects.0.centroid", [1, 2, True], "expected 3 finite numbers"),
        ("objects.0.centroid", [1, 2, 10**400], "expected 3 finite numbers"),
        ("objects.0.centroid", "1, 2, 3", "expected a list"),
        ("objects.0.centroid", [1500, 0, 0], "millimetres"),
        ("objects.0.extent", [1, -0.1, 1], "every side must be >= 0"),
        ("objects.0.extent", None, "extent is None"),
        ("objects.0.rotation", [[1, 0, 0], [0, 1, 0]], "rotation"),
        ("objects.0.rotation", [[1, 0, 0], [0, 1, 0], [0, 0]], "rotation"),
        ("objects.0.rotation", [1, 0, 0], "rotation"),
        ("objects.0.rotation", 3, "rotation"),
        ("objects.0.rotation", [[1, 0, 0], [0, 1, 0], [0, 0, -1]], "orthonormal"),
        ("objects.0.rotation", [[2, 0, 0], [0, 1, 0], [0, 0, 1]], "orthonormal"),
        ("objects.0.score", "high", "score is 'high', expected a number"),
        ("objects.0.score", True, "expected a number"),
        ("objects.0.score", 1.5, "expected 0 to 1"),
        ("objects.0.score", float("nan"), "score is nan"),
        ("objects.0.description", ["a desk"], "description is"),
        ("objects.0.attributes", ["brown"], "attributes is"),
        ("objects.0.attributes", {"colour": 3}, "attributes: 'colour' is 3, expected text"),
        ("objects.0.region_id", 3, "region_id is 3, expected text"),
        ("objects.0.region_id", "attic", "none of the scene's regions"),
        ("objects.0.rotaton", [], "unknown keys"),
        ("regions", {"r": 1}, "regions is"),
        ("regions.0", "r", "region number 0"),
        ("regions.0.region_id", "7", "an object has the same id, expected another"),
        ("regions.0.name", ..., "name is missing"),
        ("regions.0.region_id", None, "region_id is None"),
        ("regions.0.region_id", "", "region_id is '', expected visible text"),
        ("regions.0.region_id", "a<b", "region_id is 'a<b', expected visible text"),
        ("regions.0.name", "\u200b", "something to see"),
        ("regions.0.name", "a\nb", "without line breaks"),
        ("regions.0.polygon", [[0, 0, 0]], "corner of polygon"),
        ("regions.0.polygon", [[0, "x"]], "corner of polygon"),
        ("regions.0.object_ids", [7], "object_ids is"),
        ("regions.0.object_ids", ["8"], "unknown members"),
        ("id_space", 4, "id_space is 4"),
        ("frame", "camera", "expected 'axis_aligned' or 'raw'; convert the scene first"),
        ("transform", [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], "transform is"),
        ("transform", [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0], [0, 0, 0, 1]], "expected 4 rows of 4 numbers: a turn"),
        ("transform", [[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], "a turn times a scale"),
        ("transform", [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]], "last 0 0 0 1"),
        ("frame", ["raw"], "frame is"),
        ("up", "y", "convert the scene first"),
        ("units", "mm", "convert the scene first"),
        ("object", [], "unknown keys"),
    ],
)
def test_scene_from_dict_with_one_fault_says_what_and_where(path: str, value: Any, word: str) -> None:
    with pytest.raises(GrandError) as caught:
        scene_from_dict(_with(path, value))
    assert word in str(caught.value)
    assert caught.value.cause


@pytest.mark.parametrize("row", [None, [], "room", 3, {}])
def test_scene_from_dict_of_no_scene_is_refused(row: Any) -> None:
    with pytest.raises(GrandError):
        scene_from_dict(row)


def test_scene_from_dict_takes_null_for_an_optional_field() -> None:
    scene = scene_from_dict(_with("objects.0.score", None) | {"regions": None, "units": None, "objects": []})
    assert scene == Scene("room", (), id_space="synthetic")


def test_validate_reports_the_faults_of_all_objects_at_once() -> None:
    bad = Object("a", "desk", (0, 0, math.inf), (1, 1, -1))
    with pytest.raises(GrandError) as caught:
        validate(Scene("room", (bad, replace(bad, object_id="b"), Object("b", "", (0, 0, 0), (1, 1, 1)))))
    message = str(caught.value)
    assert message.count("centroid") == 2 and message.count("every side") == 2
    assert "1 more faults" in message


def test_validate_of_wrong_python_types_is_a_grand_error() -> None:
    for changed in ({"centroid": None}, {"extent": 3}, {"object_id": 3}, {"category": None}, {"score": "x"}, {"rotation": "x"}):
        with pytest.raises(GrandError):
            validate(Scene("room", (replace(Object("a", "desk", (0, 0, 0), (1, 1, 1)), **changed),)))


def test_getitem_of_an_unknown_object_is_a_grand_error(toy_scene: Scene) -> None:
    assert toy_scene["3"].category == "table lamp"
    with pytest.raises(GrandError, match="no object '33'"):
        toy_scene["33"]


def test_load_scenes_of_save_scenes_returns_them(tmp_path: Path, toy_scene: Scene, toy_proposals: Scene) -> None:
    other = replace(toy_proposals, scene_id="other")
    assert save_scenes(tmp_path / "scenes.jsonl", [toy_scene, other]) == 2
    assert load_scenes(tmp_path / "scenes.jsonl") == {"toy_room": toy_scene, "other": other}


def test_load_scenes_with_a_scene_twice_names_the_line_or_keeps_the_first(tmp_path: Path, toy_scene: Scene) -> None:
    path = tmp_path / "scenes.jsonl"
    save_scenes(path, [toy_scene, replace(toy_scene, objects=())])
    with pytest.raises(GrandError, match=r"scenes\.jsonl:2: .*twice"):
        load_scenes(path)
    rejects = Rejects(skip_bad=True)
    assert load_scenes(path, rejects) == {"toy_room": toy_scene}
    assert rejects.counts() == {"id twice": 1}


def test_confidence_of_a_true_object_is_one_and_of_a_proposal_its_score(toy_scene: Scene, toy_proposals: Scene) -> None:
    assert (confidence(toy_scene["0"]), confidence(toy_proposals["p8"])) == (1.0, 0.35)
