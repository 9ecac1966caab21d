from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from grand3d import boxes
from grand3d import relations as rel
from grand3d.cli import main
from grand3d.sample import Data, Sample, load_data, save_data
from grand3d.scene import Object, Scene, validate
from grand3d.synth import detect, iter_data, make_data, make_room, make_samples
from grand3d.synth.detect import MATCH_IOU
from grand3d.synth.exact import Exact, holds
from grand3d.synth.presence import Presence
from grand3d.synth.vocabulary import HYPERNYMS, KINDS, PLURALS, RELATED, SYNONYMS, plural

SPAN = re.compile(r"<p>([^<]*)</p>\[([^\]]*)\]")
ID = re.compile(r"<([^<>]+)>")


@pytest.fixture(scope="module")
def data() -> Data:
    return make_data(60, seed=3, questions_per_scene=32)


def plain(text: str) -> str:
    return SPAN.sub(r"\1", text).lower()


def test_make_room_many_seeds_valid_and_furnished() -> None:
    rooms = [make_room(seed) for seed in range(60)]
    assert all(validate(room) is room for room in rooms)
    sizes = [len(room.objects) for room in rooms]
    assert min(sizes) >= 5
    assert max(sizes) <= 70
    assert 20 <= sorted(sizes)[30] <= 50
    most = [max(Counter(o.category for o in room.objects).values()) for room in rooms]
    assert sum(n >= 4 for n in most) > 20, "rooms need look-alikes"


def overlap(a: Object, b: Object) -> float:
    return float(boxes.iou(boxes.objects_bounds([a]), boxes.objects_bounds([b]))[0, 0])


def test_make_room_furniture_boxes_hardly_overlap() -> None:
    deep = total = 0
    for seed in range(40):
        solid = [
            o for o in make_room(seed).objects if o.category in ("table", "bed", "couch", "bookshelf", "refrigerator", "toilet")
        ]
        for i, a in enumerate(solid):
            for b in solid[:i]:
                total += 1
                deep += overlap(a, b) > 0.2
    assert total > 50
    assert deep <= 0.02 * total


def test_make_room_same_seed_same_room() -> None:
    assert make_room(5) == make_room(5)
    assert make_room(5) != make_room(6)


def test_detect_sorted_scored_and_noisy() -> None:
    exact = wrong = kept = pairs = 0
    for seed in range(40):
        room = make_room(seed)
        proposals, match = detect(room, seed)
        validate(proposals)
        scores = [o.score for o in proposals.objects]
        assert scores == sorted(scores, reverse=True)
        assert len(proposals.objects) <= 38
        assert set(match) == set(room.object_ids)
        for item in room.objects:
            if match[item.object_id] is not None:
                found = proposals[match[item.object_id]]
                assert overlap(item, found) >= MATCH_IOU
                kept += 1
                wrong += found.category != item.category
                exact += found.extent == item.extent
        same = Counter((o.centroid, o.extent) for o in proposals.objects)
        pairs += sum(n - 1 for n in same.values())
    assert exact < 0.01 * kept
    assert 0.03 < wrong / kept < 0.3
    assert pairs > 25, "a detector repeats boxes under other labels"


def test_detect_of_no_proposals_stands_for_nothing() -> None:
    proposals, match = detect(make_room(1), 1, limit=0)
    assert proposals.objects == () and set(match.values()) == {None}


def test_detect_limit_best_scored_kept() -> None:
    room = make_room(1)
    full, _ = detect(room, 1, limit=100)
    short, _ = detect(room, 1, limit=7)
    assert [o.score for o in short.objects] == [o.score for o in full.objects][:7]


def test_iter_data_same_arguments_same_data() -> None:
    assert list(iter_data(3, 9, 12)) == list(iter_data(3, 9, 12))
    assert [s for s, _ in iter_data(3, 9, 12)] != [s for s, _ in iter_data(3, 10, 12)]


def test_iter_data_more_scenes_same_beginning() -> None:
    assert list(iter_data(4, 2, 8))[:2] == list(iter_data(2, 2, 8))


def test_make_data_every_id_is_a_proposal(data: Data) -> None:
    assert len(data.samples) >= 0.95 * 60 * 32
    assert len({s.sample_id for s in data.samples}) == len(data.samples)
    for sample in data.samples:
        known = set(data.scenes[sample.scene_id].object_ids)
        assert set(sample.target_ids) <= known
        for text in (sample.text, sample.answer):
            for _, ids in SPAN.findall(text):
                assert set(ID.findall(ids)) <= known
            assert text.count("<p>") == len(SPAN.findall(text)), text


def test_make_data_text_clean_of_slots_and_doubles(data: Data) -> None:
    for sample in data.samples:
        text = plain(sample.text) + plain(sample.answer)
        assert not re.search(r"[{}]|  |None|\ba [aeio]", text), text
        assert "<" not in text


def test_make_data_reference_marks_its_target(data: Data) -> None:
    references = [s for s in data.samples if s.task == "object_reference"]
    assert references
    for sample in references:
        assert len(sample.target_ids) == 1
        spans = [tuple(ID.findall(ids)) for _, ids in SPAN.findall(sample.text)]
        assert sample.target_ids in spans, sample.text
        labels = {o.category for o in data.scenes[sample.scene_id].objects}
        assert sample.meta["label"] in labels


def _holds(scene: Scene, sample: Sample) -> bool:
    exact = Exact(scene)
    by_id = {o.object_id: o for o in exact.items}
    anchors = [by_id[i] for i in sample.meta["anchors"]]
    target = by_id[sample.target_ids[0]]
    return holds(sample.meta["relation"], target, exact.groups[sample.meta["label"]], anchors, exact.bounds)


def test_make_data_strict_samples_have_one_referent(data: Data) -> None:
    strict = [s for s in data.samples if s.meta.get("strict")]
    assert len(strict) > 200
    assert len({s.meta["relation"] for s in strict}) >= 8
    for sample in strict:
        assert _holds(data.scenes[sample.scene_id], sample), sample


def test_holds_two_fit_false() -> None:
    desk = Object("0", "desk", (0, 0, 0.36), (1.6, 0.8, 0.72))
    cups = [Object(str(k), "cup", (0.3 * k, 0, 0.77), (0.1, 0.1, 0.1)) for k in (1, 2)]
    bounds = rel.room_bounds([desk, *cups])
    assert not holds("on", cups[0], cups, [desk], bounds)
    assert holds("on", cups[0], cups[:1], [desk], bounds)
    assert not holds("only", cups[0], cups, [], bounds)


def test_make_data_existence_answers_follow_labels(data: Data) -> None:
    asked = [s for s in data.samples if s.task == "existence"]
    share = sum(s.answer == "Yes" for s in asked) / len(asked)
    assert 0.44 < share < 0.56
    for sample in asked:
        labels = {o.category for o in data.scenes[sample.scene_id].objects}
        name, label = sample.meta["name"], sample.meta["label"]
        assert (sample.answer == "Yes") == (label in labels)
        assert sample.answer in ("Yes", "No")
        assert name == label or (name in SYNONYMS[label] and sample.answer == "Yes")
        assert plural(name) in sample.text or name in sample.text


def test_make_data_negatives_include_near_names_and_common_ones(data: Data) -> None:
    near = common = 0
    for sample in data.samples:
        if sample.task == "existence" and sample.answer == "No":
            labels = {o.category for o in data.scenes[sample.scene_id].objects}
            name = sample.meta["name"]
            near += any(name in RELATED.get(x, ()) or name in HYPERNYMS.get(x, ()) for x in labels)
            common += name in ("chair", "table", "door", "window", "trash can", "pillow", "picture", "box")
    assert near > 20
    assert common > 10


def test_make_data_counting_answer_is_the_number_of_boxes(data: Data) -> None:
    counted = [s for s in data.samples if s.task == "counting"]
    assert len({s.meta["count"] for s in counted}) >= 4
    for sample in counted:
        boxes = {(o.centroid, o.extent) for o in data.scenes[sample.scene_id].objects if o.category == sample.meta["label"]}
        assert int(sample.answer.split()[0]) == len(boxes) == len(sample.target_ids)


def test_make_data_description_answer_names_target_first(data: Data) -> None:
    described = [s for s in data.samples if s.task == "object_description"]
    assert described
    for sample in described:
        assert sample.text == ""
        assert tuple(ID.findall(SPAN.findall(sample.answer)[0][1])) == sample.target_ids


def test_make_samples_weights_choose_tasks() -> None:
    room = make_room(4)
    proposals, match = detect(room, 4)
    only = make_samples(room, proposals, match, 4, 10, {"existence": 1.0})
    assert {s.task for s in only} == {"existence"}
    clean = make_samples(room, proposals, match, 4, 10, {"object_reference": 1.0}, strict=1.0)
    assert clean
    assert all(s.meta["strict"] for s in clean)


def test_make_samples_nothing_matched_asks_no_loose_reference() -> None:
    room = make_room(4)
    proposals, match = detect(room, 4)
    blind = make_samples(room, proposals, dict.fromkeys(match), 4, 10, {"object_reference": 1.0}, strict=0.0)
    assert blind == []


def test_make_data_mixture_near_the_weights(data: Data) -> None:
    tasks = Counter(s.task for s in data.samples)
    assert 0.6 < tasks["object_reference"] / len(data.samples) < 0.8
    assert 0.13 < tasks["existence"] / len(data.samples) < 0.27


def test_make_data_saved_and_loaded_equal(data: Data, tmp_path) -> None:
    save_data(tmp_path, data)
    again = load_data(tmp_path)
    assert again.samples == data.samples
    assert dict(again.scenes) == dict(data.scenes)


def test_presence_synonym_of_a_label_never_denied() -> None:
    scene = Scene("s", (Object("0", "couch", (0, 0, 0), (1, 1, 1)), Object("1", "tv", (0, 0, 0), (1, 1, 1))))
    asked = Presence(scene, scene)
    denied = {*asked.close, *asked.kin, *asked.common, *asked.other, *asked.rare}
    assert not denied & {"couch", "tv", "sofa", "television"}
    assert "armchair" in asked.close


@pytest.mark.parametrize(
    ("name", "many"),
    [
        ("chair", "chairs"), ("box", "boxes"), ("shelf", "shelves"), ("bookshelf", "bookshelves"),
        ("person", "people"), ("mouse", "mice"), ("furniture", "furniture"), ("toilet paper", "toilet papers"),
        ("bathroom vanity", "bathroom vanities"),
        ("couch", "couches"), ("case of water bottles", "cases of water bottles"),
        ("stairs", "stairs"), ("tv", "tvs"),
        ("kitchen cabinets", "kitchen cabinets"),
        ("bus", "buses"), ("luggage", "luggage"), ("soap dish", "soap dishes"),
        ("tray", "trays"),
    ],
)  # fmt: skip
def test_plural_name_expected(name: str, many: str) -> None:
    assert plural(name) == many


def test_vocabulary_names_placeable_and_plain() -> None:
    assert len(KINDS) >= 300
    for name, kind in KINDS.items():
        assert re.fullmatch(r"[a-z]+( [a-z]+)*", name), name
        assert all(0 < low <= high for low, high in kind.size), name
    for table in (SYNONYMS, HYPERNYMS, RELATED):
        assert set(table) <= set(KINDS)
    assert {r for row in RELATED.values() for r in row} <= set(KINDS)
    assert "mouse" in PLURALS


def test_iter_data_cost_grows_with_scenes_only() -> None:
    def seconds(scenes: int) -> float:
        start = time.process_time()
        for _ in iter_data(scenes, 1, 16):
            pass
        return time.process_time() - start

    seconds(2)
    assert seconds(24) < 6 * seconds(12)


# --- the command


def test_synth_says_how_far_it_is_and_what_the_rooms_could_not_give(monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    clock = itertools.count(0, 6)
    monkeypatch.setattr("grand3d.commands.data.time.monotonic", lambda: next(clock))
    monkeypatch.setattr("grand3d.synth.make_samples", lambda *_: [])
    assert main(["synth", "rooms", str(tmp_path / "rooms"), "--scenes", "5", "--questions", "2"]) == 0
    err = capsys.readouterr().err
    assert "2 of 5 rooms\n" in err and "1 of 5 rooms" not in err
    assert "10 questions fewer than asked for" in err


def test_synth_refuses_more_questions_than_a_room_has_matter_for(tmp_path: Path, capsys: Any) -> None:
    assert main(["synth", "rooms", str(tmp_path / "rooms"), "--questions", "10001"]) == 2
    assert "questions a room: 10,001, expected at most 10,000; a room has a few dozen things" in capsys.readouterr().err
    assert not (tmp_path / "rooms").exists()
