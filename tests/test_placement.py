"""Programs about tables and the relations a placement is judged by: golden values, CLEVR's own scenes, properties."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d import placement as pl
from grand3d import programs
from grand3d import relations as rel
from grand3d.convert.tabletop import read_tables
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.placement import FAMILIES, NUM_ANCHORS, RELAXED, STRICT, PlacementRules, Placing, Program
from grand3d.programs import INVALID, SIDES, Table
from grand3d.scene import Object

SMALL, LARGE = 0.35, 0.7


def thing(name: str, x: float, y: float, radius: float = SMALL, shape: str = "cube", color: str = "red") -> Object:
    size = "large" if radius == LARGE else "small"
    looks = {"size": size, "color": color, "material": "metal", "shape": shape}
    return Object(name, f"{size} {color} metal {shape}", (x, y, radius), (2 * radius,) * 3, attributes=looks)


def placing(family: str, *anchors: Object, others: tuple[Object, ...] = (), forward: rel.Point = (0.0, 1.0)) -> Placing:
    return Placing(family, thing("t", -2.9, -2.9), anchors, (*anchors, *others), forward)


def chain(color: str, *more: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "scene"}, {"type": "filter_color", "side_inputs": [color]}, {"type": "unique"}, *more]


# CLEVR's relations and programs


@pytest.fixture
def clevr(golden: Callable[[str], Path]) -> dict[str, Any]:
    return json.loads(golden("reref3d/clevr_scene_relations.json").read_text())


@pytest.fixture
def clevr_table(clevr: dict[str, Any]) -> Table:
    scene = clevr["scene"]
    objects = []
    for k, row in enumerate(scene["objects"]):
        x, y, z = row["3d_coords"]
        objects.append(Object(str(k), row["shape"], (x, y, z), (2 * z,) * 3, attributes={n: row[n] for n in programs.ATTRIBUTES}))
    return Table(tuple(objects), tuple(scene["directions"]["behind"][:2]))


def test_relations_are_those_of_clevr(clevr: dict[str, Any], clevr_table: Table) -> None:
    for eps, wanted in clevr["relationships"].items():
        for side in SIDES:
            found = [
                [int(o.object_id) for o in programs.related(item, clevr_table, side, float(eps))] for item in clevr_table.objects
            ]
            assert found == wanted[side], (eps, side)


def test_programs_answer_as_clevrs_engine(clevr: dict[str, Any], clevr_table: Table) -> None:
    assert len(clevr["programs"]) == 4
    for case in clevr["programs"]:
        found = programs.run(case["nodes"], clevr_table)
        answer = int(found.object_id) if isinstance(found, Object) else found
        assert answer == case["answer"], case["name"]
        if case["degenerate"] is not None:
            assert programs.is_degenerate(case["nodes"], clevr_table) == case["degenerate"]
    assert [programs.num_hops(case["nodes"]) for case in clevr["programs"]] == [1, 0, 1, 2]


def test_relations_in_clevrs_own_files_follow_from_places(real: Callable[[str], Path]) -> None:
    num = 0
    for name in ("CLEVR_scenes.json", "CLEVR_new_000000.json", "CLEVR_new_000008.json"):
        document = json.loads(real(f"clevr/{name}").read_text())
        tables, _ = read_tables(real(f"clevr/{name}"), Rejects())
        for row in document.get("scenes", [document]):
            scene, viewpoint = tables[row["image_filename"].removesuffix(".png")]
            table = programs.table_of(scene, viewpoint)
            for side in SIDES:
                for item, wanted in zip(table.objects, row["relationships"][side], strict=True):
                    assert [int(o.object_id) for o in programs.related(item, table, side)] == wanted
                    num += len(wanted)
    assert num > 500


def test_operations_of_programs() -> None:
    table = Table(
        (thing("a", -2, 0), thing("b", 0, 0, LARGE, "sphere", "blue"), thing("c", 2, 1, shape="sphere", color="green")),
        (0.0, 1.0),
    )

    def run(*nodes: tuple[Any, ...]) -> Any:
        return programs.run([{"type": n[0], "side_inputs": list(n[2:]), "inputs": n[1]} for n in nodes], table)

    scene = ("scene", [])
    spheres = ("filter_shape", [0], "sphere")
    assert [o.object_id for o in run(scene, spheres)] == ["b", "c"]
    assert run(scene, spheres, ("count", [1])) == 2 and run(scene, spheres, ("exist", [1])) is True
    assert run(scene, ("ordinal", [0], "left", 2)).object_id == "b" and run(scene, ("ordinal", [0], "right", 1)).object_id == "c"
    assert run(scene, ("ordinal", [0], "left", 4)) == INVALID
    assert run(scene, ("ordinal", [0], "front", 1)) == INVALID  # two stand equally far in front
    same = (scene, ("filter_color", [0], "blue"), ("unique", [1]), ("same_shape", [2]))
    assert [o.object_id for o in run(*same)] == ["c"]
    assert [o.object_id for o in run(*same, ("union", [3, 1]))] == ["c", "b"] and run(*same, ("intersect", [3, 1])) == ()
    both = (scene, ("filter_color", [0], "red"), ("unique", [1]), ("filter_color", [0], "green"), ("unique", [3]))
    assert run(*both, ("query_size", [2]), ("query_size", [4]), ("equal_size", [5, 6])) is True
    assert run(*both, ("equal_object", [2, 4])) is False
    assert run(scene, spheres, ("count", [1]), ("count", [0]), ("less_than", [2, 3])) is True
    assert run(scene, spheres, ("count", [1]), ("count", [0]), ("greater_than", [2, 3])) is False
    assert run(scene, spheres, ("unique", [1]), ("relate", [2], "left"), ("count", [3])) == INVALID  # goes through
    published = [
        {"function": "scene", "inputs": [], "value_inputs": []},
        {"function": "count", "inputs": [0], "value_inputs": []},
    ]
    assert programs.run(published, table) == 3


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "1 to 100 nodes"),
        ("scene", "1 to 100 nodes"),
        ([3], "an object with type"),
        ([{"type": "scene"}, {"type": "filter_colour", "side_inputs": ["red"]}], "filter_colour"),
        ([{"type": "scene"}, {"type": "count", "inputs": [1]}], "numbers of nodes before it"),
        ([{"type": "scene"}, {"type": "count", "inputs": [-1]}], "numbers of nodes before it"),
        ([{"type": "scene"}, {"type": "relate", "side_inputs": ["left"]}], "given a set of objects, expected a single object"),
        ([{"type": "scene"}, {"type": "filter_color", "side_inputs": []}], "side inputs"),
        ([*chain("red"), {"type": "relate", "side_inputs": ["above"]}], "a side is 'above'"),
        ([{"type": "scene"}, {"type": "ordinal", "side_inputs": ["left", "2"]}], "counts to '2'"),
        ([{"type": "scene"}, {"type": "unique"}, {"type": "scene", "inputs": [0]}], "expected 0 numbers"),
    ],
)
def test_malformed_program_is_refused(nodes: Any, message: str) -> None:
    with pytest.raises(GrandError, match=message) as error:
        programs.run(nodes, Table((thing("a", 0, 0),), (0.0, 1.0)))
    assert "expected" in str(error.value)


def test_viewpoint_that_has_no_left_is_refused() -> None:
    for viewpoint in (None, ((0.0, 0.0, 5.0), (0.0, 0.0, 0.0))):
        with pytest.raises(GrandError, match="expected"):
            programs.table_of(read_scene(), viewpoint)


def read_scene() -> Any:
    from grand3d.scene import Scene

    return Scene("s", (thing("a", 0, 0),))


# Families


def test_sixteen_families_each_with_a_rule() -> None:
    assert len(FAMILIES) == 16 == len(pl._HOLDS) and set(pl._HOLDS) == set(FAMILIES)


@pytest.mark.parametrize(
    ("family", "anchors", "cases"),
    [
        # (x, y): holds as written, holds 1.5 times as wide; the viewer looks along +y
        ("left", (thing("a", 0, 0),), {(-0.2, 0): "ny", (-0.13, 0): "nn", (-1, 0): "yy", (-1, 1.01): "ny", (-1, 2.5): "nn"}),
        ("right", (thing("a", 0, 0),), {(1, -0.99): "yy", (-1, 0): "nn"}),
        ("front", (thing("a", 0, 0),), {(0, -1): "yy", (0, 1): "nn"}),
        ("behind", (thing("a", 0, 0),), {(0, 1): "yy", (0, -1): "nn"}),
        ("left_adjacent", (thing("a", 0, 0),), {(-1.2, 0): "yy", (-1.25, 0): "ny", (-1.46, 0): "nn", (1.2, 0): "nn"}),
        ("near", (thing("a", 0, 0, LARGE),), {(0, 1.55): "yy", (0, 1.6): "ny", (0, 1.85): "nn"}),
        ("aligned", (thing("a", 1, 1),), {(1.3, -2): "yy", (-2, 0.6): "ny", (1.46, -2): "nn"}),
        (
            "between",
            (thing("a", -2, 0, LARGE), thing("b", 2, 0)),
            {(0, 0.17): "yy", (0, 0.18): "nn", (-1.9, 0): "yy", (-2, 0): "nn", (2, 0): "nn", (2.5, 0): "nn"},
        ),
        ("centre", (), {(0.6, 0.8): "yy", (1.1, 0): "ny", (1.6, 0): "nn"}),
        ("edge", (), {(0, -2): "yy", (1.4, 0): "ny", (1.3, 1.3): "nn"}),
        ("corner", (), {(2, -2): "yy", (2, 1.4): "ny", (2.9, 0): "nn"}),
    ],
)
def test_family_as_written_and_half_as_wide_again(
    family: str, anchors: tuple[Object, ...], cases: dict[tuple[float, float], str]
) -> None:
    for point, wanted in cases.items():
        found = "".join("ny"[pl.satisfied(placing(family, *anchors), point, rules)] for rules in (STRICT, RELAXED))
        assert found == wanted, point


def test_nearest_and_farthest_hold_against_all_other_things() -> None:
    rivals = (thing("b", 1, 0), thing("c", 0, 2))
    near, far = (placing(family, thing("a", 0, 0), others=rivals) for family in ("nearest", "farthest"))
    for distance, wanted in ((1.0, "yn"), (1.2, "nn"), (2.0, "ny")):
        assert wanted == "".join("ny"[pl.satisfied(item, (-distance, 0))] for item in (near, far))
    assert pl.satisfied(near, (-1.5, 0), RELAXED) and not pl.satisfied(near, (-1.51, 0), RELAXED)
    assert pl.satisfied(far, (-1.34, 0), RELAXED) and not pl.satisfied(far, (-1.3, 0), RELAXED)


def test_places_that_are_free_or_not_are_those_of_the_proposal(golden: Callable[[str], Path]) -> None:
    case = json.loads(golden("reref3d/distance_and_validity_PROPOSED.json").read_text())
    others = tuple(thing(str(row["id"]), *row["xy"], row["r"]) for row in case["scene"])
    for row in case["placements"]:
        item = Placing("centre", thing("t", 0, 0, row["r"]), (), others, (0.0, 1.0))
        gaps = [rel.disc_gap(pl.put(item, row["xy"]), other) for other in others]
        assert min(gaps) == pytest.approx(row["min_gap"]) and pl.put(item, row["xy"]).centroid[2] == row["z"]
        roomy = PlacementRules(half_side=100)
        assert (pl.fault(item, row["xy"], roomy) == "") == row["no_overlap"]
        assert (pl.fault(item, row["xy"], replace(roomy, min_gap=0.25)) == "") == row["clevr_min_dist_0_25"]
        alone = replace(item, others=())
        assert (pl.fault(alone, row["xy"]) == "") == row["centre_in_3"]
        assert (pl.fault(alone, row["xy"], PlacementRules(whole_inside=True)) == "") == row["footprint_in_3"]


POINT = st.tuples(st.floats(-3, 3), st.floats(-3, 3))
PLACINGS = st.builds(
    lambda family, anchors, others, angle: Placing(
        family,
        thing("t", 0, 0),
        tuple(thing(f"a{k}", *p, LARGE) for k, p in enumerate(anchors[: NUM_ANCHORS[family]])),
        tuple(thing(f"a{k}", *p, LARGE) for k, p in enumerate(anchors[: NUM_ANCHORS[family]]))
        + tuple(thing(f"o{k}", *p) for k, p in enumerate(others)),
        (math.cos(angle), math.sin(angle)),
    ),
    st.sampled_from(FAMILIES),
    st.tuples(POINT, POINT),
    st.lists(POINT, max_size=3),
    st.floats(0, 7),
)


@settings(max_examples=300, deadline=None)
@given(PLACINGS, POINT, st.floats(1, 3))
def test_wider_rules_take_all_that_strict_ones_take(item: Placing, point: tuple[float, float], relax: float) -> None:
    wide = PlacementRules(relax=relax)
    if pl.satisfied(item, point):
        assert pl.satisfied(item, point, wide)
    assert pl.fault(item, point) == pl.fault(item, point, wide)
    if item.family == "between":
        assert pl.satisfied(item, point) == pl.satisfied(item, point, wide)


@settings(max_examples=100, deadline=None)
@given(PLACINGS, st.floats(0, 7), st.floats(3.001, 1e6))
def test_place_far_off_the_table_is_never_valid(item: Placing, angle: float, far: float) -> None:
    assert pl.fault(item, (far * math.cos(angle) * 2, far * math.sin(angle) * 2)) == "out of bounds"


@settings(max_examples=100, deadline=None)
@given(PLACINGS, POINT, st.floats(0, 7))
def test_turning_table_and_viewer_together_changes_no_relation(item: Placing, point: tuple[float, float], angle: float) -> None:
    if item.family in ("aligned", "edge", "corner"):
        return  # these keep to the axes

    def turn(x: float, y: float) -> tuple[float, float]:
        return (x * math.cos(angle) - y * math.sin(angle), x * math.sin(angle) + y * math.cos(angle))

    def turned(o: Object) -> Object:
        return replace(o, centroid=(*turn(*o.centroid[:2]), o.centroid[2]))

    anchors = tuple(map(turned, item.anchors))
    others = (*anchors, *map(turned, item.others[len(anchors) :]))
    other = Placing(item.family, item.thing, anchors, others, turn(*item.forward))
    rules = [PlacementRules(relax=relax) for relax in (0.999, 1.0, 1.001)]
    if len({pl.satisfied(item, point, some) for some in rules}) == 1 and item.family != "between":  # not on the very border
        assert pl.satisfied(item, point) == pl.satisfied(other, turn(*point))


# Programs of placements


TABLE = Table((thing("0", -2, 0), thing("1", 0, 0, LARGE, "sphere", "blue"), thing("2", 2, 2, color="green")), (0.0, 1.0))


def test_resolve_frees_the_old_place_of_the_thing() -> None:
    program = pl.program_from_dict({"family": "behind", "target": chain("red"), "anchors": [chain("blue")]})
    item = pl.resolve(program, TABLE)
    assert (item.thing.object_id, item.anchors[0].object_id) == ("0", "1")
    assert [other.object_id for other in item.others] == ["1", "2"]
    assert pl.fault(item, (-2, 0)) == ""  # its own old place
    new = pl.resolve(Program("centre", radius=SMALL), TABLE)
    assert len(new.others) == 3 and pl.fault(new, (-2, 0)) == "overlap"


def test_depth_counts_the_relations_of_the_anchors() -> None:
    hop = [{"type": "relate", "side_inputs": ["right"]}, {"type": "unique"}]
    for hops, wanted in ((0, "direct"), (1, "one-hop"), (2, "two-hop"), (3, "two-hop")):
        assert pl.depth(Program("near", tuple(chain("red")), (tuple(chain("blue", *hop * hops)),))) == wanted
    assert pl.depth(Program("centre", radius=1)) == "none"
    counted = ({"type": "scene"}, {"type": "ordinal", "side_inputs": ["left", 2]})
    assert pl.is_ordinal(Program("near", (), (counted,), 1)) and not pl.is_ordinal(Program("near", (), (tuple(chain("red")),), 1))


def test_feasible_points_are_all_right_and_leave_none_out() -> None:
    item = pl.resolve(Program("left", tuple(chain("green")), (tuple(chain("blue")),)), TABLE)
    points = pl.feasible(item, step=0.25)
    assert len(points) and all(pl.satisfied(item, p) and not pl.fault(item, p) for p in points)
    assert not any(pl.fault(item, p) == "" and pl.satisfied(item, p) for p in ((0.5, 0.0), (-2.0, 0.0)))
    assert (-3.0, 0.0) in points and len(pl.feasible(item, RELAXED, 0.25)) > len(points)


def test_mistaken_finds_the_other_object_of_the_shape() -> None:
    table = Table((*TABLE.objects, thing("3", 2, -2, color="gray")), TABLE.forward)
    item = pl.resolve(Program("near", tuple(chain("blue")), (tuple(chain("green")),)), table)
    assert pl.mistaken(item, (2, -1)) and not pl.mistaken(item, (-0.5, 2.9))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (None, "expected an object"),
        ({"family": "under", "target": chain("red")}, "expected one of left"),
        ({"family": "left", "target": chain("red")}, "0 anchors, expected 1"),
        ({"family": "centre", "target": [3]}, "no chain"),
        ({"family": "centre"}, "expected either target"),
        ({"family": "centre", "target": chain("red"), "radius": 1}, "expected either target"),
        ({"family": "centre", "radius": 0}, "expected more than 0"),
        ({"family": "centre", "radius": math.nan}, "expected a number"),
        ({"family": "centre", "radius": 1, "anchor": []}, "unknown keys"),
        ({"family": "near", "target": chain("red"), "anchors": [chain("pink")]}, "anchor 1 fits no or several"),
        ({"family": "near", "target": chain("red"), "anchors": [chain("red")]}, "names one object twice"),
        ({"family": "near", "target": chain("red"), "anchors": [[{"type": "scene"}]]}, "end it with unique"),
    ],
)
def test_program_that_cannot_be_meant_is_refused(row: Any, message: str) -> None:
    with pytest.raises(GrandError, match=message) as error:
        pl.resolve(pl.program_from_dict(row), TABLE)
    assert "expected" in str(error.value)


def test_program_survives_its_json_form() -> None:
    for program in (Program("near", tuple(chain("red")), (tuple(chain("blue")),)), Program("edge", radius=0.5)):
        assert pl.program_from_dict(json.loads(json.dumps(pl.program_to_dict(program)))) == program
