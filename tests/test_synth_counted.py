"""References that fit nothing or several things, read again by other means than they were made."""

from __future__ import annotations

import itertools
import re
from collections import Counter

import pytest

from grand3d import markup
from grand3d import relations as rel
from grand3d.boxes import objects_bounds
from grand3d.checks import check_data
from grand3d.config import PromptConfig
from grand3d.files import Rejects
from grand3d.prompts import dialogue
from grand3d.sample import Sample, save_data
from grand3d.scene import Object, Scene
from grand3d.serial import fit_scene
from grand3d.synth import iter_data, make_data
from grand3d.synth.describe import WEIGHTS
from grand3d.synth.vocabulary import plural

ONLY = {"object_reference": 1.0}
NUMBERS = {"both": 2, "two": 2, "three": 3, "four": 4, "five": 5}


def made(num: int) -> list[tuple[Scene, Sample]]:
    out = []
    for scene, samples in iter_data(10_000, 77, 24, ONLY, none_or_several=1.0):
        out += [(scene, sample) for sample in samples]
        if len(out) >= num:
            return out[:num]
    raise AssertionError


def boxes_of(scene: Scene, label: str) -> list[list[Object]]:
    """The boxes of which some proposal bears a label, each as all the proposals on it."""
    boxes: dict[tuple, list[Object]] = {}
    for item in scene.objects:
        boxes.setdefault((item.centroid, item.extent), []).append(item)
    return [items for items in boxes.values() if any(item.category == label for item in items)]


def by_hand(name: str, item: Object, anchor: Object) -> bool:
    """The relation from the bounds of the boxes, written here once more."""
    (low, high), (a_low, a_high) = objects_bounds([item, anchor])
    apart = [max(a_low[k] - high[k], low[k] - a_high[k], 0.0) for k in range(3)]
    if name == "near":
        return sum(x * x for x in apart) ** 0.5 <= rel.NEAR_GAP
    return getattr(rel, name)(item, anchor)


@pytest.mark.parametrize("part", range(2))
def test_expressions_are_true_and_name_all_that_fits(part: int) -> None:
    counts: Counter[str] = Counter()
    for scene, sample in made(600)[part::2]:
        label, name, anchors = (sample.meta[key] for key in ("label", "relation", "anchors"))
        group = boxes_of(scene, label)
        fits = [
            {item.object_id for item in items} for items in group if name == "only" or by_hand(name, items[0], scene[anchors[0]])
        ]
        found = [next(k for k, ids in enumerate(fits) if item in ids) for item in sample.target_ids]
        assert sorted(found) == list(range(len(fits))), sample
        spans = markup.parse(sample.text).spans
        assert not markup.check(markup.parse(sample.text), set(scene.object_ids))
        head = spans[0]
        assert head.ids == sample.target_ids and [i for span in spans[1:] for i in span.ids] == anchors
        if sample.meta["targets"] == "none":
            assert not sample.target_ids
            assert bool(group) == (sample.meta["why"] == "relation")
        else:
            assert len(sample.target_ids) >= 2
            said = [number for word, number in NUMBERS.items() if re.search(rf"\b{word}\b", head.phrase)]
            assert said in ([], [len(sample.target_ids)])
        wanted = plural(label) if sample.target_ids else label
        exact = head.phrase.endswith(f" {wanted}")
        counts["with a typo"] += not exact
        counts[f"{sample.meta['targets']} {name}"] += 1
    assert sum(count for key, count in counts.items() if key.startswith("none")) > 100 and counts["with a typo"] < 20
    assert len({key for key in counts if key.startswith("several")}) >= 2, counts


def test_share_of_zero_leaves_the_data_as_they_are() -> None:
    plain, mixed = make_data(3, 5, 12), make_data(3, 5, 12, none_or_several=0.0)
    assert plain.samples == mixed.samples and all("targets" not in sample.meta for sample in plain.samples)


def test_share_is_kept_and_check_finds_nothing_wrong(tmp_path) -> None:
    data = make_data(30, 9, 24, WEIGHTS, none_or_several=0.4)
    references = [sample for sample in data.samples if sample.task == "object_reference"]
    share = sum("targets" in sample.meta for sample in references) / len(references)
    assert 0.25 < share < 0.45  # where a room has nothing of the kind another question takes its place
    save_data(tmp_path, data)
    rejects = Rejects(skip_bad=True)
    check_data(tmp_path, rejects)
    assert rejects.rows == []


def test_answers_have_an_empty_list_or_all_ids_in_the_order_of_the_scene_text() -> None:
    for scene, sample in itertools.islice(made(60), 60):
        text = fit_scene(scene, keep=sample.target_ids)
        (turn,) = dialogue(sample, text, PromptConfig(), with_answer=True).turns
        parsed = markup.parse(turn.answer)
        ids = markup.answer_ids(parsed)
        assert not parsed.faults and ids is not None and len(ids) == len({text.same.get(i, i) for i in sample.target_ids})
        assert list(ids) == sorted(ids, key=lambda name: int(name.removeprefix("obj_")))
