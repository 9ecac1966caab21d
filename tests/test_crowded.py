"""Rooms of up to a hundred proposals: shown whole within their budget, or cut by score, which every report says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grand3d import evaluate
from grand3d.bench.common import left_out
from grand3d.duplicates import merge_duplicates
from grand3d.errors import GrandError
from grand3d.sample import Data, Reply, Sample, load_replies, save_data
from grand3d.scene import Object, Scene, confidence
from grand3d.schema import PromptConfig
from grand3d.synth import iter_data, make_data, make_scene


@pytest.fixture(scope="module")
def crowded() -> Data:
    return make_data(3, 5, 6, num_objects=100)


@pytest.mark.parametrize("number", [1, 5, 31, 64, 100])
def test_rooms_have_exactly_as_many_proposals_as_asked_for(number: int) -> None:
    rows = list(iter_data(6, 2, 12, num_objects=number))
    assert [len(scene.objects) for scene, _ in rows] == [number] * 6
    assert rows == list(iter_data(6, 2, 12, num_objects=number))
    if number > 5:
        assert all(len(samples) == 12 for _, samples in rows)


def test_rooms_of_more_proposals_than_formats_have_ids_for_are_refused(run: Any, tmp_path: Path) -> None:
    for number in (0, 101):
        with pytest.raises(GrandError, match="expected 1 to 100"):
            make_scene(0, 0, num_objects=number)
    code, _, err = run("synth", "rooms", tmp_path / "rooms", "--scenes", 1, "--objects", 101)
    assert code == 2 and "objects a room: 101, expected 1 to 100" in err and not (tmp_path / "rooms").exists()


@pytest.mark.parametrize(("form", "tokens"), [("table", 4096), ("scored", 4096), ("coord", 2048)])
def test_a_hundred_proposals_are_shown_whole_and_answered(form: str, tokens: int, crowded: Data, tiny_base: Any) -> None:
    from grand3d.decoding import Decoding
    from grand3d.generate import ask
    from grand3d.model import load_base

    model, tokenizer = load_base("tiny", serializer=form) if form == "coord" else tiny_base
    prompt = PromptConfig(serializer=form, top_k=100, max_tokens=tokens)
    scene_id = next(iter(crowded.scenes))
    samples = [sample for sample in crowded.samples if sample.scene_id == scene_id]
    replies = list(ask(model, tokenizer, prompt, crowded, samples, Decoding(192, constrained=False)))
    assert {reply.sample_id for reply in replies} == {sample.sample_id for sample in samples}
    shown, _ = merge_duplicates(crowded.scenes[scene_id])
    for reply in replies:
        assert reply.num_dropped == 0 and set(reply.object_ids) == set(shown.object_ids)


def test_what_does_not_fit_is_cut_by_score_and_counted_up_to_the_report(
    crowded: Data, tiny_base: Any, tmp_path: Path, monkeypatch: Any, run: Any
) -> None:
    monkeypatch.setattr(evaluate, "load_model", lambda name, dtype="fp32": (*tiny_base, PromptConfig()))
    data, out = tmp_path / "data", tmp_path / "replies.jsonl"
    save_data(data, crowded)
    code, _, err = run("predict", "base:tiny", data, out, "prompt.top_k=100", "prompt.max_tokens=1500", "--max-new-tokens", 128)
    assert code == 0 and "objects left out of prompts" in err, err
    replies = {reply.sample_id: reply for reply in load_replies(out)}
    described = {(s.scene_id, i) for s in crowded.samples if s.task == "object_description" for i in s.target_ids}
    unseen, most = 0, dict.fromkeys(crowded.scenes, 0)
    for sample in crowded.samples:
        scene, reply = crowded.scenes[sample.scene_id], replies[sample.sample_id]
        boxes = {(scene[i].centroid, scene[i].extent) for i in reply.object_ids}
        hidden = [o for o in scene.objects if (o.centroid, o.extent) not in boxes]
        assert len(hidden) == reply.num_dropped > 20
        worst = min(confidence(scene[i]) for i in reply.object_ids if (scene.scene_id, i) not in described)
        assert all(confidence(o) <= worst for o in hidden)
        most[sample.scene_id] = max(most[sample.scene_id], reply.num_dropped)
        unseen += any(scene[i] in hidden for i in sample.target_ids)
    code, text, err = run("score", "synth", data, out, "--json")
    assert code == 0, err
    counts = json.loads(text)["counts"]
    assert counts["partial_scenes"] == len(crowded.samples) and counts["dropped_objects"] == sum(most.values())
    assert counts["dropped_targets"] == unseen > 0
    _, text, _ = run("score", "scanrefer", data, out)
    assert "dropped objects" in text and "dropped targets" in text


def test_a_target_counts_as_dropped_only_where_something_shown_would_have_been_right() -> None:
    boxes = {"a": 0.0, "b": 3.0, "c": 6.0}
    scene = Scene("s", tuple(Object(key, "chair", (x, 0, 0), (1, 1, 1), score=0.5) for key, x in boxes.items()))
    twin = Object("twin", "seat", (3.0, 0, 0), (1, 1, 1), score=0.1)
    scene = replace(scene, objects=(*scene.objects, twin))

    def lost(data: Data, *seen: str, num_dropped: int = 1) -> int:
        reply = Reply("q", "s", "x", seen, num_dropped=num_dropped)
        return left_out(data, [(data.samples[0], reply)])["dropped_targets"]

    shown = Data({"s": scene}, (Sample("q", "s", "object_reference", "x", target_ids=("twin",)),))
    assert lost(shown, "a", "c") == 1 and lost(shown, "b") == 0 and lost(shown, "twin") == 0
    assert lost(shown, "a", num_dropped=0) == 0
    none = replace(shown, samples=(Sample("q", "s", "object_reference", "x"),))
    assert lost(none, "a") == 0
    several = replace(shown, samples=(Sample("q", "s", "object_reference", "x", target_ids=("a", "b")),))
    assert lost(several, "a", "b") == 0 and lost(several, "a") == 1
    true = Scene("s", (Object("0", "chair", (3.2, 0, 0), (1, 1, 1)), Object("1", "chair", (20, 0, 0), (1, 1, 1))))
    for target, seen, wanted in (("0", ("a", "b"), 0), ("0", ("a", "c"), 1), ("1", ("a", "c"), 0)):
        asked = Sample("q", "s", "object_reference", "x", target_ids=(target,))
        assert lost(Data({"s": scene}, (asked,), {"s": true}), *seen) == wanted
    assert left_out(shown, [(shown.samples[0], None)])["partial_scenes"] == 0
    assert left_out(replace(shown, scenes={}), [(shown.samples[0], Reply("q", "s", "x", ("a",), num_dropped=3))]) == {
        "partial_scenes": 0, "dropped_objects": 0, "dropped_targets": 0,
    }  # fmt: skip
