"""References that fit nothing or several things, read again by other means than they were made."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter

import pytest

from grand3d import markup
from grand3d.boxes import objects_bounds
from grand3d.checks import check_data
from grand3d.files import Rejects
from grand3d.prompts import dialogue
from grand3d.sample import Sample, save_data
from grand3d.scene import Object, Scene
from grand3d.schema import PromptConfig
from grand3d.serial import fit_scene
from grand3d.synth import iter_data, make_data
from grand3d.synth.counted import fitting
from grand3d.synth.describe import WEIGHTS
from grand3d.synth.exact import WORDS, Exact
from grand3d.synth.vocabulary import alike, plural

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


def by_hand(name: str, item: Object, anchor: Object, slack: float = 0.0) -> bool:
    """The relation from the bounds of the boxes, written here once more, with numbers in place of the names of ``relations``.

    With a slack (metres, or a share of size), also what misses it by less.
    """
    (low, high), (a_low, a_high) = objects_bounds([item, anchor])
    apart = [max(a_low[k] - high[k], low[k] - a_high[k], 0.0) for k in range(3)]
    size, a_size = high - low, a_high - a_low
    if name == "near":
        return math.hypot(*apart) <= 0.75 + slack
    if name == "taller":
        return size[2] > (1.15 - slack) * a_size[2]
    if name == "larger":
        return math.prod(max(x, 0.05) for x in size) > (1.15 - slack) * math.prod(max(x, 0.05) for x in a_size)
    if name == "supports":
        return by_hand("on", anchor, item, slack)
    area, a_area = size[0] * size[1], a_size[0] * a_size[1]
    common = math.prod(max(0.0, min(high[k], a_high[k]) - max(low[k], a_low[k])) for k in (0, 1))
    over = common >= (0.5 - slack) * min(area, a_area) or (slack > 0 and math.hypot(*apart[:2]) < slack)
    middle, a_middle = (low[2] + high[2]) / 2, (a_low[2] + a_high[2]) / 2
    if name == "on":
        rests = low[2] - a_high[2] <= 0.12 + slack and a_high[2] - low[2] <= (0.75 + slack) * a_size[2]
        return over and rests and area < a_area and middle > a_middle
    if name == "above":
        return over and low[2] > a_high[2] + 0.12 - slack
    within = area < a_area and high[2] <= a_high[2] + slack and middle < a_middle and low[2] < a_low[2] + 0.15 + slack
    return over and (within or a_low[2] > high[2] + 0.12 - slack)


WORD = {word: name for name, words in WORDS.items() for word in words if name in
        ("on", "under", "above", "near", "supports", "taller", "larger")}  # fmt: skip


def read(text: str) -> str:
    """The relation that an expression says, by its words; ``only`` where it names no anchor."""
    spans = markup.parse(text).spans
    if len(spans) == 1:
        return "only"
    between = text[text.index("]") + 1 : text.index("<p>", text.index("]"))].strip()
    return WORD[between]


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
        assert (sample.meta["targets"], "why" in sample.meta) == (("several", False) if sample.target_ids else ("none", True))
        if not sample.target_ids:
            assert bool(group) == (sample.meta["why"] == "relation")
        else:
            assert len(sample.target_ids) >= 2
            said = [number for word, number in NUMBERS.items() if re.search(rf"\b{word}\b", head.phrase)]
            assert said in ([], [len(sample.target_ids)])
        wanted = plural(label) if sample.target_ids else label
        typo = not head.phrase.endswith(f" {wanted}") or read_or_none(sample.text) != name
        counts["with a typo"] += typo
        counts[f"{sample.meta['targets']} {name}"] += 1
    assert sum(count for key, count in counts.items() if key.startswith("none")) > 100 and counts["with a typo"] < 20
    assert len({key for key in counts if key.startswith("several")}) >= 4, counts


def read_or_none(text: str) -> str | None:
    try:
        return read(text)
    except KeyError:
        return None


def test_no_other_thing_that_a_reader_may_mean_fits_or_nearly_does() -> None:
    for scene, sample in made(600):
        label, name, anchors = (sample.meta[key] for key in ("label", "relation", "anchors"))
        seen = set(sample.target_ids) | set(anchors)
        taken = {(scene[i].centroid, scene[i].extent) for i in seen}
        rest = [o for o in scene.objects if alike(o.category, label) and (o.centroid, o.extent) not in taken]
        if name == "only":
            assert not rest, sample
        else:
            slack = 0.1 if name in ("taller", "larger") else 0.25
            assert not any(by_hand(name, o, scene[anchors[0]], slack) for o in rest), sample
        for anchor in anchors:
            twins = [o for o in scene.objects if alike(o.category, scene[anchor].category)]
            assert {(o.centroid, o.extent) for o in twins} == {(scene[anchor].centroid, scene[anchor].extent)}, sample


def test_what_nearly_fits_or_goes_by_another_name_leaves_no_expression() -> None:
    desk = Object("0", "desk", (0.0, 0.0, 0.36), (1.6, 0.8, 0.72))

    def found(*others: Object, label: str = "chair", name: str = "near") -> list[str] | None:
        fits = fitting(Exact(Scene("s", (desk, *others))), label, name, desk)
        return None if fits is None else [o.object_id for o in fits]

    def chair(x: float, label: str = "chair", height: float = 1.0) -> Object:
        return Object(f"{label} {x}", label, (x, 0.0, height / 2), (0.5, 0.5, height))

    assert found(chair(1.6), chair(4.0)) == ["chair 1.6"] and found(chair(4.0)) == []
    assert found(chair(2.0)) is None  # 0.95 m away: not near, but who would swear to it
    assert found(chair(4.0), chair(1.6, "office chair")) is None  # which is a chair as well
    assert found(chair(4.0), chair(1.6, "bed")) == []
    assert found(chair(4.0), name="taller") == ["chair 4.0"] and found(chair(4.0, height=0.5), name="taller") == []
    assert found(chair(4.0, height=0.75), name="taller") is None
    bin_, aside = (Object("b", "bin", (x, 0.0, 0.2), (0.3, 0.3, 0.4)) for x in (0.5, 1.05))
    assert found(bin_, label="bin", name="under") == ["b"] and found(aside, label="bin", name="under") is None
    assert fitting(Exact(Scene("s", (desk, chair(4.0), chair(1.6, "armchair")))), "chair", "only", None) is None


def test_alike_is_any_two_names_for_one_thing() -> None:
    for a, b in (("couch", "couch"), ("office chair", "chair"), ("sofa", "couch"), ("wall clock", "clock"), ("desk", "table")):
        assert alike(a, b) and alike(b, a)
    for a, b in (("couch", "armchair"), ("chair", "table"), ("lamp", "clamp"), ("bookshelf", "book")):
        assert not alike(a, b) and not alike(b, a)


def test_share_of_zero_leaves_the_data_as_they_are() -> None:
    plain, mixed = make_data(3, 5, 12), make_data(3, 5, 12, none_or_several=0.0)
    assert plain.samples == mixed.samples and all("targets" not in sample.meta for sample in plain.samples)


def test_share_is_kept_and_check_finds_nothing_wrong(tmp_path) -> None:
    data = make_data(30, 9, 24, WEIGHTS, none_or_several=0.4)
    references = [sample for sample in data.samples if sample.task == "object_reference"]
    share = sum(sample.meta["targets"] != "one" for sample in references) / len(references)
    assert all((len(s.target_ids) == 1) == (s.meta["targets"] == "one") for s in references)
    assert not any("targets" in s.meta for s in data.samples if s.task != "object_reference")
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
