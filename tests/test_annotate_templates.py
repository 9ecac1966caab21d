"""Texts from templates: all kinds over made-up rooms and a real scan, checked; references that fit one object; hierarchy."""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grand3d.annotate.facts import Facts
from grand3d.annotate.filters import faults
from grand3d.annotate.hierarchy import with_regions
from grand3d.annotate.kinds import ALL_KINDS, KINDS, SUB_CLASSES, Draft, draft_faults
from grand3d.annotate.make import MAKERS, make_texts
from grand3d.annotate.pipeline import Job, template_rows
from grand3d.annotate.statistics import statistics_of
from grand3d.bench.mmscan import CLASSES, paper_class
from grand3d.checks import check_data
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.markup import parse, plain
from grand3d.sample import Data, Sample, sample_from_dict, save_data
from grand3d.scene import Object, Scene, validate
from grand3d.synth import make_room

SCAN = "scannet/scene0000_00/scene0000_00.expected_boxes.derived.json"


def real_scan(path: Path) -> Scene:
    """The scan's annotated objects as boxes in the aligned frame."""
    objects = []
    for i, row in json.loads(path.read_text())["objects"].items():
        box = row["aligned"]
        objects.append(Object(i, row["label"], tuple(box["aabb_center"]), tuple(box["aabb_size"])))
    return Scene("scene0000_00", tuple(objects), id_space="scannet")


def texts_of(scenes: list[Scene], number: int = 3) -> tuple[dict[str, Scene], list[Sample], Rejects]:
    ready = {scene.scene_id: validate(with_regions(scene)) for scene in scenes}
    rejects, samples = Rejects(skip_bad=True), []
    for row in template_rows(list(ready.values()), Job(tuple(ALL_KINDS), number)):
        samples += map(sample_from_dict, row["samples"])
        rejects.rows += row["rejects"]
    return ready, samples, rejects


def check(folder: Path, scenes: dict[str, Scene], samples: list[Sample]) -> None:
    save_data(folder, Data(scenes, tuple(samples)))
    found = Rejects(skip_bad=True)
    assert len(check_data(folder, found).samples) == len(samples) and found.rows == []


def test_every_kind_over_made_up_rooms_has_no_fault(tmp_path: Path) -> None:
    scenes, samples, rejects = texts_of([make_room(k) for k in range(12)])
    assert rejects.rows == []
    check(tmp_path, scenes, samples)
    kinds = Counter(sample.meta["kind"] for sample in samples)
    assert set(kinds) == set(ALL_KINDS) == set(MAKERS) and min(kinds.values()) >= 18 and kinds["existence"] == 36
    assert len({sample.sample_id for sample in samples}) == len(samples)


@pytest.mark.slow
def test_every_kind_over_a_hundred_rooms_has_no_fault(tmp_path: Path) -> None:
    scenes, samples, rejects = texts_of([make_room(1000 + k) for k in range(100)])
    assert rejects.rows == []
    check(tmp_path, scenes, samples)


def test_every_kind_over_a_real_scan_has_no_fault(tmp_path: Path, real: Callable[[str], Path]) -> None:
    scenes, samples, rejects = texts_of([real_scan(real(SCAN))], 12)
    assert rejects.rows == []
    check(tmp_path, scenes, samples)
    kinds = Counter(sample.meta["kind"] for sample in samples)
    # the scan says nothing about colours, materials and shapes
    assert set(ALL_KINDS) - set(kinds) == {"VG-ST-attr", "VG-OO-attr", "QA-OO-attr"}


def test_a_reference_fits_its_object_and_no_other_of_its_kind() -> None:
    for number in range(10):
        facts = Facts(make_room(50 + number))
        for sample in make_texts(facts, "object_reference", 8):
            (target,) = sample.target_ids
            assert target in {i for span in parse(sample.text).spans for i in span.ids}
            for rival in facts.called(facts.by_id[target].category):
                if rival.object_id != target and sample.meta["relation"] not in ("largest", "smallest", "tallest"):
                    moved = sample.text.replace(f"<{target}>", f"<{rival.object_id}>")
                    assert faults(moved, facts), f"{rival.object_id} fits it too: {sample.text}"


def test_questions_are_asked_without_ids_and_keep_their_grounded_form() -> None:
    facts = Facts(with_regions(make_room(4)))
    for kind in ("existence", "attribute", "spatial_relation", "counting", "comparison"):
        for sample in make_texts(facts, kind, 6):
            assert "<" not in sample.text and plain(sample.meta["question"]) == sample.text
            spans = parse(sample.answer).spans
            assert spans and set(sample.target_ids) == {i for span in spans for i in span.ids}
    for sample in make_texts(facts, "object_meta", 3):
        assert parse(sample.text).spans[0].ids == sample.target_ids and sample.meta["aspects"]["type"]


def test_the_same_seed_gives_the_same_texts_and_another_others() -> None:
    scene = make_room(9)
    first, again, other = (make_texts(Facts(scene), "comparison", 8, seed) for seed in (1, 1, 2))
    assert first == again != other
    with pytest.raises(GrandError, match="expected one of object_reference"):
        make_texts(Facts(scene), "poem", 1)


def test_a_draft_that_lies_is_not_kept() -> None:
    facts = Facts(make_room(9))
    chair = next(item for item in facts.scene.objects if item.category != "window")
    draft = Draft("existence", "Is there <p>a zebra</p>[]?", f"Yes, there is <p>a zebra</p>[<{chair.object_id}>].")
    assert [finding.cause for finding in draft_faults(draft, facts)] == ["existence"]


def test_sub_classes_are_those_of_the_benchmark() -> None:
    assert {paper_class(name) for kind, name in SUB_CLASSES.items() if kind.startswith("VG")} == set(CLASSES)
    assert all(paper_class(name).replace("EQ", "ST-attr") in CLASSES for name in SUB_CLASSES.values())


def test_spans_of_a_scene_caption_are_where_its_words_stand() -> None:
    facts = Facts(with_regions(make_room(3)))
    for sample in make_texts(facts, "scene_caption", 4):
        text = plain(sample.answer)
        said = [(span.phrase, i) for span in parse(sample.answer).spans for i in span.ids]
        found = [(text[a:b], i) for i, places in sample.meta["spans"].items() for a, b in places]
        assert sorted(found) == sorted(said) and found


def test_areas_are_made_where_a_scene_has_no_regions(toy_scene: Scene) -> None:
    made = validate(with_regions(toy_scene))
    assert [region.name for region in made.regions] == ["bed area", "desk area", "bookshelf area"]
    assert made["5"].region_id == made["4"].region_id and with_regions(made) == made
    assert with_regions(Scene("empty", ())) == Scene("empty", ())


def test_an_empty_scene_and_one_of_doubles_give_nothing_and_no_error() -> None:
    box = Object("0", "chair", (0.0, 0.0, 0.5), (0.5, 0.5, 1.0))
    twin = Object("1", "stool", (0.0, 0.0, 0.5), (0.5, 0.5, 1.0))
    for scene in (Scene("empty", ()), Scene("one", (box,)), Scene("two", (box, twin))):
        for kind in ALL_KINDS:
            make_texts(Facts(with_regions(scene)), kind, 2)


def test_statistics_count_words_without_markup() -> None:
    sample = Sample(
        "a", "s", "question", "What is there?", "<p>A red chair</p>[<1>] is there.", ("1",), meta={"kind": "function"}
    )
    found = statistics_of([sample], {"relation": 2})
    assert found["kinds"][0] | {"n": 1, "answer words": 5, "question words": 3, "spans": 1, "grounded": 60.0} == found["kinds"][0]
    assert found["frequent_phrases"] == {"red chair": 1} and found["rejected"] == {"relation": 2}


def test_the_bench_of_made_texts_runs(capsys: pytest.CaptureFixture[str]) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
    try:
        bench: Any = importlib.import_module("bench_synth")
    finally:
        sys.path.pop(0)
    bench.main(["--rooms", "2", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {row["kind"] for row in found["kinds"]} == set(ALL_KINDS) and all(row["rejected"] == 0 for row in found["kinds"])
    assert set(KINDS) <= {row["kind"] for row in found["kinds"] if row["samples_per_s"] > 0}
