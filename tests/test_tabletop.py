"""Generated instructions to place things: balanced, unique, not done already, and right by the benchmark that judges them."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d import relations as rel
from grand3d.bench import reref3d
from grand3d.cli import main
from grand3d.config import from_dict
from grand3d.errors import GrandError
from grand3d.placement import (
    FAMILIES,
    NUM_ANCHORS,
    RELAXED,
    STRICT,
    depth,
    fault,
    feasible,
    is_ordinal,
    program_from_dict,
    resolve,
    satisfied,
)
from grand3d.places import grid, redrawn, region_of, region_points
from grand3d.programs import is_degenerate, run, table_of
from grand3d.sample import Data, Reply, Sample, load_data, save_data
from grand3d.scene import Scene
from grand3d.stream import open_stream
from grand3d.synth.naming import KINDS, namings
from grand3d.synth.tables import RULES, make_table, spread
from grand3d.synth.tabletop import balance, iter_tables
from grand3d.synth.wording import TEMPLATES, naturalised, phrase, templated


@pytest.fixture(scope="module")
def made() -> Data:
    scenes: dict[str, Scene] = {}
    samples: list[Sample] = []
    for scene, rows in iter_tables(24, 24 * 34, 5):
        scenes[scene.scene_id] = scene
        samples += rows
    return Data(scenes, tuple(samples))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 99), st.integers(0, 9999))
def test_things_of_a_table_stand_apart_as_in_clevr(seed: int, index: int) -> None:
    scene, viewpoint = make_table(seed, index)
    assert RULES.num_objects[0] <= len(scene.objects) <= RULES.num_objects[1] and (scene, viewpoint) == make_table(seed, index)
    ways = rel.directions((-viewpoint[0][0], -viewpoint[0][1]))
    for a, b in combinations(scene.objects, 2):
        assert rel.disc_gap(a, b) >= 0.25
        assert all(abs(rel.beyond(a, b, ways[side])) >= 0.4 for side in ("right", "behind"))
    assert all(max(map(abs, item.centroid[:2])) <= 3 and item.centroid[2] == rel.radius(item) for item in scene.objects)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9999))
def test_every_naming_names_its_object_and_says_nothing_idle(index: int) -> None:
    scene, viewpoint = make_table(0, index)
    table = table_of(scene, viewpoint)
    for kind, by_object in namings(table).items():
        for object_id, found in by_object.items():
            for naming in found[:4]:
                nodes = list(naming.nodes)
                assert run(nodes, table).object_id == object_id and not is_degenerate(nodes, table)
                assert object_id not in naming.through and phrase(nodes).startswith("the ")
                assert (kind == "two-hop") == (sum(node["type"] == "relate" for node in nodes) == 2)


def test_every_goal_is_right_and_nothing_is_right_before(made: Data) -> None:
    assert len(made.samples) == 24 * 34
    for sample in made.samples:
        placing = resolve(program_from_dict(sample.meta["program"]), table_of(made.scenes[sample.scene_id], sample.viewpoint))
        goal = sample.meta["goal"]
        assert satisfied(placing, goal, STRICT) and fault(placing, goal, STRICT) == ""
        assert not satisfied(placing, placing.thing.centroid, RELAXED)
        assert sample.target_ids == (placing.thing.object_id,)
        points = region_points(sample.meta["region"])
        assert np.array_equal(points, feasible(placing)) and len(points) >= 0.02 * len(grid(3.0))
    replies = [Reply(sample.sample_id, sample.scene_id, sample.answer) for sample in made.samples]
    report = reref3d.score(made, replies)
    assert report["rows"][0]["accuracy_strict"] == 100 and report["counts"]["goals_off"] == 0


def test_a_goal_moved_out_of_its_region_is_wrong(made: Data) -> None:
    rng = Random(0)
    for sample in made.samples[::7]:
        placing = resolve(program_from_dict(sample.meta["program"]), table_of(made.scenes[sample.scene_id], sample.viewpoint))
        inside = {tuple(point) for point in region_points(sample.meta["region"]).tolist()}
        outside = [point for point in grid(3.0).tolist() if tuple(point) not in inside]
        for point in rng.sample(outside, 20):
            assert not satisfied(placing, point, STRICT) or fault(placing, point, STRICT)


def test_families_and_namings_are_balanced(made: Data) -> None:
    rows = balance(list(made.samples))
    counts = [row[kind] for row in rows for kind in KINDS]
    assert [row["family"] for row in rows] == list(FAMILIES) and sum(counts) == 24 * 17
    assert max(counts) - min(counts) <= 3
    for sample in made.samples:
        program = program_from_dict(sample.meta["program"])
        kind = sample.meta["naming"]
        assert is_ordinal(program) == (kind == "ordinal")
        assert depth(program) == ("direct" if kind == "ordinal" else kind)


def test_pairs_share_all_but_their_words(made: Data) -> None:
    pairs = [made.samples[k : k + 2] for k in range(0, len(made.samples), 2)]
    for first, second in pairs:
        assert (first.meta["style"], second.meta["style"]) == ("templated", "naturalised")
        assert first.meta["pair_id"] == second.meta["pair_id"] and first.answer == second.answer
        assert first.text != second.text and first.text[0].isupper() and "{" not in first.text + second.text
    assert len({sample.meta["pair_id"] for sample in made.samples}) == len(pairs)
    assert len({a.text for a, _ in pairs if a.scene_id == pairs[0][0].scene_id}) == 17
    assert {sample.meta["split"] for sample in made.samples} <= {"train", "val", "test"}
    assert all(len(splits) == 1 for splits in _splits(made).values())


def _splits(data: Data) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {}
    for sample in data.samples:
        out.setdefault(sample.scene_id, set()).add(sample.meta["split"])
    return out


def test_words_of_every_family(made: Data) -> None:
    said = {}
    for sample in made.samples:
        program = program_from_dict(sample.meta["program"])
        if sample.meta["style"] == "templated":
            assert sample.text == templated(program)
            said[program.family] = program
    assert set(said) == set(TEMPLATES) == set(NUM_ANCHORS)
    for program in said.values():
        texts = {naturalised(program, Random(k)) for k in range(40)}
        assert len(texts) > 10 and all("{" not in text for text in texts)


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(0, 3720), max_size=60))
def test_a_region_survives_its_short_form(indices: set[int]) -> None:
    points = grid(3.0)[sorted(indices)]
    assert np.array_equal(region_points(region_of(points, 3.0)), points)


def test_a_broken_region_is_refused() -> None:
    for region in ([], {"half_side": 3.0, "step": 0.1, "runs": [5]}, {"half_side": 3.0, "step": 9.0, "runs": []}, {"x": 1}):
        with pytest.raises(GrandError, match="expected"):
            region_points(region)


def test_places_may_be_drawn_anew_within_the_region(made: Data) -> None:
    sample = made.samples[0]
    drawn = {redrawn(sample, Random(k)).answer for k in range(30)}
    assert len(drawn) > 10
    placing = resolve(program_from_dict(sample.meta["program"]), table_of(made.scenes[sample.scene_id], sample.viewpoint))
    for answer in drawn:
        point = reref3d.read_place(answer, 0.7)
        assert point is not None and satisfied(placing, point, STRICT)


def test_training_may_learn_another_place_each_time(made: Data, tmp_path: Path) -> None:
    save_data(tmp_path / "d", made)
    raw = {"data": {"train": [{"path": str(tmp_path / "d")}], "questions_per_scene": 4}, "train": {"global_batch": 4}}
    fixed, free = (open_stream(from_dict(raw | {"data": raw["data"] | {"redraw_places": flag}})) for flag in (False, True))
    for number in (0, fixed.num_groups + 1):
        (scene, samples), (_, drawn), (_, again) = fixed.group(number), free.group(number), free.group(number)
        assert [s.sample_id for s in samples] == [s.sample_id for s in drawn] and drawn == again
        assert any(a.answer != b.answer for a, b in zip(samples, drawn, strict=True))
        for sample in drawn:
            point = reref3d.read_place(sample.answer, 0.7)
            placing = resolve(program_from_dict(sample.meta["program"]), table_of(scene, sample.viewpoint))
            assert point is not None and satisfied(placing, point, STRICT) and fault(placing, point, STRICT) == ""


def test_command_line_makes_the_same_bytes_for_the_same_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        args = ["synth", "tabletop", "--scenes", "6", "--instructions", "204", "--seed", "3", str(tmp_path / name)]
        assert main(args) == 0
    out = capsys.readouterr().out
    assert all(family in out for family in FAMILIES) and "two-hop" in out
    for file in ("scenes.jsonl", "samples.jsonl"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert len(load_data(tmp_path / "a").samples) == 204
    assert main(["check", str(tmp_path / "a")]) == 0
    assert main(["synth", "tabletop", "--scenes", "6", "--instructions", "205", str(tmp_path / "c")]) == 2
    assert "expected an even number" in capsys.readouterr().err


def test_spread_differs_by_one_at_most() -> None:
    assert spread(10, 3) == [3, 3, 4] and Counter(spread(16_913, 998)) == Counter({17: 945, 16: 53})
