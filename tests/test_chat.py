"""Conversations over a scene and the scenes a name stands for, with scripted replies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import REFERENCE, Script

from grand3d import repl
from grand3d.chat import Conversation, open_scenes, resolve
from grand3d.errors import GrandError
from grand3d.scene import Object, Scene, save_scenes
from grand3d.schema import PromptConfig
from grand3d.serial import fit_scene


def test_ask_keeps_the_turns_and_shows_them_to_the_model(toy_scene: Scene, script: Script, begin: Any) -> None:
    talk = begin(toy_scene)
    script.replies = ["Yes", REFERENCE]
    talk.ask("Are there any chairs?")
    answer = talk.ground("the chair at the desk")
    assert [turn.answer for turn in talk.history] == ["Yes", REFERENCE]
    first, second = script.prompts
    assert second.count("office chair") == first.count("office chair") == 2  # the scene stands once
    assert second.index("Are there any chairs?") < second.index("Yes<|im_end|>") < second.index("the chair at the desk")
    assert "Ground these sentences: <refer_expression>the chair at the desk</refer_expression>" in second
    assert answer.num_forgotten == 0 and answer.finished
    talk.reset()
    talk.ask("And lamps?")
    assert script.prompts[-1].count("<|im_start|>user") == 1


@pytest.mark.parametrize(("turns", "seen"), [(0, []), (1, ["four?"]), (3, ["two?", "three?", "four?"])])
def test_ask_shows_as_many_earlier_turns_as_set_and_keeps_all(
    toy_scene: Scene, script: Script, begin: Any, turns: int, seen: list[str]
) -> None:
    talk = begin(toy_scene, turns=turns)
    asked = ["one?", "two?", "three?", "four?", "How many chairs are there?"]
    answers = [talk.ask(question) for question in asked]
    assert [question for question in asked[:4] if question in script.prompts[-1]] == seen
    assert [turn.question for turn in talk.history] == asked and answers[-1].num_forgotten == 0


def test_conversation_shows_no_earlier_turn_unless_told(toy_scene: Scene, script: Script, tiny_base: Any) -> None:
    talk = Conversation(*tiny_base, PromptConfig(), toy_scene)
    talk.ask("one?")
    talk.ask("two?")
    assert "one?" not in script.prompts[-1]
    with pytest.raises(GrandError, match="turns is -1"):
        Conversation(*tiny_base, PromptConfig(), toy_scene, turns=-1)


def test_ask_resolves_ids_to_the_objects_of_the_scene(toy_proposals: Scene, script: Script, begin: Any) -> None:
    script.replies = [REFERENCE + " <p>ghost</p>[<obj_99>]"]
    answer = begin(toy_proposals).ask("?")
    # ordered by score: obj_0 is the desk p0, obj_1 the bed p1
    assert [(m.phrase, [o.object_id for o in m.objects], m.unknown, m.is_answer) for m in answer.mentions] == [
        ("the chair", ["p1"], (), False),
        ("the desk", ["p0"], (), False),
        ("chair", ["p1"], (), True),
        ("ghost", [], ("obj_99",), False),
    ]


def test_two_conversations_share_nothing(toy_scene: Scene, script: Script, begin: Any) -> None:
    one, two = begin(toy_scene), begin(replace(toy_scene, scene_id="other"))
    one.ask("first")
    two.ask("second")
    one.ask("third")
    assert [turn.question for turn in one.history] == ["first", "third"]
    assert "second" not in script.prompts[-1] and [turn.question for turn in two.history] == ["second"]


def test_d14_ask_over_many_turns_forgets_the_oldest_and_keeps_the_scene(toy_scene: Scene, script: Script, begin: Any) -> None:
    talk = begin(toy_scene, max_tokens=500)
    for number in range(40):
        answer = talk.ask(f"question number {number}?")
        assert len(script.tokenizer.encode(script.prompts[-1])) <= 500 - 32
    last = script.prompts[-1]
    assert "table lamp" in last and "question number 39?" in last and "question number 0?" not in last
    assert answer.num_forgotten > 25 and len(talk.history) == 40
    assert f"question number {answer.num_forgotten}?" in last  # the oldest that is not forgotten


def test_ask_a_question_beyond_the_context_is_refused_with_counts(toy_scene: Scene, script: Script, begin: Any) -> None:
    talk = begin(toy_scene, max_tokens=500)
    with pytest.raises(GrandError, match=r"question is too long: 9\d\d tokens beside 2\d\d of scene .* 468 fit"):
        talk.ask("word " * 900)
    assert talk.history == () and talk.ask("short?").text == "Yes"


def test_conversation_with_a_large_scene_leaves_out_the_lowest_scores(toy_proposals: Scene, script: Script, begin: Any) -> None:
    talk = begin(toy_proposals, max_tokens=300)
    assert 0 < talk.scene_text.num_dropped < 8
    assert "p8" not in talk.scene_text.object_ids and talk.ask("?").text == "Yes"


def test_d14_conversation_with_a_scene_that_cannot_fit_says_how_many_tokens(toy_scene: Scene, begin: Any) -> None:
    with pytest.raises(GrandError, match=r"'toy_room' does not fit the context: \d+ tokens of scene, .* 130 fit"):
        begin(toy_scene, max_tokens=130)


def test_ask_with_the_real_loop_streams_and_reads_the_scene_once(toy_scene: Scene, begin: Any) -> None:
    talk, pieces = begin(toy_scene, 6), []
    answer = talk.ask("where is the desk?", pieces.append)
    assert "".join(pieces) == answer.text != ""
    (kept,) = talk._memory.values()
    talk.ask("and the bed?")
    assert list(talk._memory.values()) == [kept]


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="<>p/[]obj_019, desk", max_size=60))
def test_resolve_and_render_take_any_reply(text: str) -> None:
    scene = Scene("s", (Object("7", "desk", (0, 0, 0), (1, 1, 1)),))
    mentions = resolve(text, scene, fit_scene(scene))
    shown = repl.render(repl.Answer("?", text, mentions, True, 0))
    assert isinstance(shown, str) and shown


# --- scenes by name


def test_open_scenes_demo_is_a_room_with_much_to_ask_about() -> None:
    scenes, scene_id = open_scenes("demo")
    labels = [item.category for item in scenes[scene_id].objects]
    assert 20 <= len(labels) <= 40 and labels.count("chair") >= 2 and {"desk", "lamp", "office chair"} <= set(labels)


def test_open_scenes_reads_scenes_graphs_and_folders(tmp_path: Path, toy_scene: Scene) -> None:
    other = replace(toy_scene, scene_id="b-2")
    save_scenes(tmp_path / "scenes.jsonl", [toy_scene, other])
    graph = {"g1": {"obj_0": {"category": "desk", "centroid": [0, 0, 0], "extent": [1, 1, 1]}}}
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    (tmp_path / "indented.json").write_text(json.dumps(graph, indent=1))
    assert open_scenes(str(tmp_path / "scenes.jsonl"))[1] == "toy_room"
    assert open_scenes(f"{tmp_path}:b-2")[1] == "b-2"
    assert open_scenes(str(tmp_path))[1] == "toy_room"
    for name in ("graph.json", "indented.json"):
        scenes, scene_id = open_scenes(str(tmp_path / name))
        assert scene_id == "g1" and scenes["g1"].objects[0].object_id == "0"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dmo", "no scene 'dmo': .*; did you mean 'demo'"),
        ("{tmp}/scene.jsonl", r"; did you mean '.*scenes\.jsonl'"),
        ("{tmp}/scenes.jsonl:toy_rom", "no scene 'toy_rom' among 1; did you mean 'toy_room'"),
        ("{tmp}/scenes.jsonl:zzz", "no scene 'zzz' among 1; there are toy_room"),
        ("{tmp}/empty.jsonl", "holds no scene"),
    ],
)
def test_open_scenes_of_an_unknown_name_says_what_is_near(tmp_path: Path, toy_scene: Scene, name: str, message: str) -> None:
    save_scenes(tmp_path / "scenes.jsonl", [toy_scene])
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(GrandError, match=message):
        open_scenes(name.format(tmp=tmp_path))


def test_open_scenes_of_deep_nesting_or_an_impossible_name_is_one_message(tmp_path: Path) -> None:
    for name in ("deep.json", "deep.jsonl"):
        (tmp_path / name).write_text("[" * 100_000)
        with pytest.raises(GrandError, match="nested too deeply"):
            open_scenes(str(tmp_path / name))
    for place in ("x" * 5000, f"{tmp_path}/{'x' * 300}:a", "a\0b", f"{'x' * 300}/y"):
        with pytest.raises(GrandError, match="no scene ") as caught:
            open_scenes(place)
        assert len(str(caught.value)) < 250
