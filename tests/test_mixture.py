"""Epochs laid out by number: weights, limits, splits by room, small scenes first."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d.config import from_dict
from grand3d.errors import GrandError
from grand3d.mixture import SPLITS, Part, lay_out, room_of, split_of
from grand3d.sample import save_data
from grand3d.stream import open_stream
from grand3d.synth import make_data

parts = st.lists(
    st.builds(
        lambda scenes, weight: Part(np.array(scenes, np.int64), weight, np.arange(len(scenes)) % 3, {1: 2}),
        st.lists(st.integers(-1, 4), max_size=40),
        st.sampled_from([0.5, 1.0, 2.0, 2.25]),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(parts, st.integers(1, 5), st.integers(0, 9))
def test_every_sample_comes_as_often_as_its_weight_says(mixture: list[Part], size: int, seed: int) -> None:
    epoch = lay_out(mixture, size, (seed, 1))
    again = lay_out(mixture, size, (seed, 1))
    assert all(np.array_equal(getattr(epoch, name), getattr(again, name)) for name in ("sources", "starts", "ends", "rows"))
    seen: dict[int, Counter[int]] = defaultdict(Counter)
    groups: Counter[tuple[int, int]] = Counter()
    for number in range(len(epoch)):
        source, rows = epoch.group(number)
        scenes = set(mixture[source].scenes[rows].tolist())
        assert 1 <= len(rows) <= size and len(scenes) == 1 and min(scenes) >= 0
        groups[source, scenes.pop()] += 1
        seen[source].update(rows.tolist())
    for source, part in enumerate(mixture):
        assert part.tasks is not None
        inside = [k for k in range(len(part.scenes)) if part.scenes[k] >= 0]
        limited = [k for k in inside if part.tasks[k] == 1]
        taken = [k for k in limited if seen[source][k]]
        if part.weight >= 1:
            assert len(taken) == min(2, len(limited))
        for k in inside:
            if part.tasks[k] != 1:
                assert int(part.weight) <= seen[source][k] <= int(part.weight) + 1
        for scene in {int(part.scenes[k]) for k in inside}:
            total = sum(seen[source][k] for k in inside if part.scenes[k] == scene)
            assert groups[source, scene] == -(-total // size)  # no group is cut short but the last of its scene


def test_a_fraction_is_right_on_average() -> None:
    part = Part(np.repeat(np.arange(200), 3), 0.3)
    sizes = [len(lay_out([part], 8, (k, 0)).rows) for k in range(20)]
    assert abs(np.mean(sizes) - 180) < 8 and len(set(sizes)) > 1


def test_small_scenes_first_keeps_everything_and_sorts_by_size() -> None:
    part = Part(np.repeat(np.arange(50), 4))
    objects = np.random.default_rng(0).integers(1, 9, 50)
    epoch = lay_out([part, part], 2, (0, 0), [objects, objects])
    order = [int(objects[part.scenes[epoch.group(k)[1][0]]]) for k in range(len(epoch))]
    assert order == sorted(order) and len(epoch.rows) == 400
    assert len({epoch.group(k)[0] for k in range(6)}) == 2  # sources are mixed within a size


def test_scans_of_a_room_are_in_one_split_and_shares_are_right() -> None:
    assert {split_of(f"scene0011_{k:02d}") for k in range(9)} == {split_of("scene0011")} and room_of("office_3") == "office_3"
    found = Counter(split_of(f"room{k}") for k in range(20_000))
    assert {name: round(found[name] / 20_000, 2) for name in SPLITS} == SPLITS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_data(tmp_path / "d", make_data(40, 3, 12))
    return tmp_path / "d"


def samples_of(raw: dict) -> list:
    stream = open_stream(from_dict({"data": {"questions_per_scene": 4, **raw}, "train": {"global_batch": 4}}))
    return [sample for k in range(stream.num_groups) for sample in stream.group(k)[1]]


def test_configuration_of_a_mixture(folder: Path) -> None:
    everything = samples_of({"train": [{"path": str(folder)}]})
    tasks = Counter(sample.task for sample in everything)
    limited = Counter(s.task for s in samples_of({"train": [{"path": str(folder), "limits": {"existence": 5, "counting": 0}}]}))
    assert limited["existence"] == 5 and limited["counting"] == 0 and limited["object_reference"] == tasks["object_reference"]
    rooms = {
        name: {s.scene_id for s in samples_of({"train": [{"path": str(folder), "split": name}]})} for name in ("train", "val")
    }
    assert not rooms["train"] & rooms["val"] and all(split_of(scene) == name for name in rooms for scene in rooms[name])
    ordered = samples_of({"train": [{"path": str(folder)}], "curriculum": True})
    assert sorted(s.sample_id for s in ordered) == sorted(s.sample_id for s in everything)
    with pytest.raises(GrandError, match="limits names 'plan', expected tasks that it holds"):
        samples_of({"train": [{"path": str(folder), "limits": {"plan": 3}}]})
    with pytest.raises(GrandError, match=r"split is 'dev', expected one of train, val, test"):
        samples_of({"train": [{"path": str(folder), "split": "dev"}]})
