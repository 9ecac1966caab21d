"""Conversations over a scene, the scenes a name stands for, and the terminal loop, with scripted replies."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d import repl
from grand3d.chat import Conversation, open_scenes, resolve
from grand3d.config import PromptConfig
from grand3d.errors import GrandError
from grand3d.scene import Object, Scene, save_scenes
from grand3d.serial import fit_scene

REFERENCE = (
    "<detailed_grounding><p>the chair</p>[<obj_1>] <p>the desk</p>[<obj_0>]</detailed_grounding>"
    "<refer_expression_grounding><p>chair</p>[<obj_1>]</refer_expression_grounding>"
)


class Script:
    """Stands in for ``generate``: gives the replies one after the other and keeps what was asked."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.replies: list[Any] = []
        self.prompts: list[str] = []

    def __call__(self, model: Any, tokenizer: Any, requests: Any, max_new_tokens: int, *rest: Any) -> Iterator[Any]:
        self.prompts.append(self.tokenizer.decode(requests[0].prefix + requests[0].suffix))
        reply = self.replies.pop(0) if self.replies else "Yes"
        if isinstance(reply, BaseException):
            raise reply
        yield 0, reply, True


@pytest.fixture
def script(tiny_base: Any, monkeypatch: pytest.MonkeyPatch) -> Script:
    import grand3d.generate

    made = Script(tiny_base[1])
    monkeypatch.setattr(grand3d.generate, "generate", made)
    return made


@pytest.fixture
def begin(tiny_base: Any) -> Callable[..., Conversation]:
    from grand3d.generate import Decoding

    def make(scene: Scene, max_new_tokens: int = 32, turns: int = 100, **prompt: Any) -> Conversation:
        return Conversation(*tiny_base, PromptConfig(**prompt), scene, Decoding(max_new_tokens), turns)

    return make


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


def test_ask_over_many_turns_forgets_the_oldest_and_keeps_the_scene(toy_scene: Scene, script: Script, begin: Any) -> None:
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


def test_conversation_with_a_scene_that_cannot_fit_says_how_many_tokens(toy_scene: Scene, begin: Any) -> None:
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


# --- the loop


@pytest.fixture
def talk(
    toy_scene: Scene, begin: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[str, str]]:
    """Feed lines through a pipe; gives stdout and stderr."""

    def run(lines: str, code: int = 0, begin: Any = begin, **options: Any) -> tuple[str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        scenes = {"toy_room": toy_scene, "toy_room_2": replace(toy_scene, scene_id="toy_room_2", objects=toy_scene.objects[:3])}
        assert repl.run(repl.Session(scenes, "toy_room", begin, **options)) == code
        return capsys.readouterr()

    return run


def test_run_answers_a_piped_line_and_ends(talk: Any, script: Script) -> None:
    script.replies = ["<p>the desk</p>[<obj_0>] stands there"]
    out, _ = talk("where is the desk?\n")
    assert out.splitlines() == [
        "> where is the desk?",
        "the desk [0] stands there",
        "  [0] desk: centre 1.00, 0.40, 0.38, size 1.60 x 0.80 x 0.75 m",
    ]


def test_run_answers_a_last_line_without_line_break(talk: Any, script: Script) -> None:
    assert talk("one?\n\n  \ntwo?")[0].count("Yes") == 2


def test_run_of_empty_input_says_nothing_and_loads_no_model(
    toy_scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))

    def fail(scene: Scene) -> Conversation:
        raise AssertionError("the model was loaded")

    assert repl.run(repl.Session({"s": toy_scene}, "s", fail)) == 0
    assert capsys.readouterr().out == ""


def test_run_shows_a_reference_with_the_answer_first(talk: Any, script: Script) -> None:
    script.replies = [REFERENCE.replace("obj_0", "obj_77")]
    out, _ = talk("/ground the chair at the desk\n")
    assert out.splitlines() == [
        "> /ground the chair at the desk",
        "chair [1]",
        "mentioned: the chair [1], the desk [obj_77?]",
        "  [1] office chair: centre 1.00, 1.20, 0.50, size 0.60 x 0.60 x 1.00 m",
        "  [obj_77] is not in the scene",
    ]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("/ground", "expected /ground EXPRESSION"),
        ("/history abc", "expected /history [N]"),
        ("/history -1", "expected /history [N]"),
        ("/json now", "expected /json"),
        ("/reset all", "expected /reset"),
        ("/help me", "expected /help"),
        ("/objects 3", "expected /objects"),
        ("/scene toy_roomm_2", "did you mean 'toy_room_2'"),
        ("/temp abc", "unknown command /temp"),
        ("/", "unknown command /"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_run_goes_on_after_a_silly_command_and_ends_with_2(talk: Any, script: Any, line: str, word: str, as_json: bool) -> None:
    out, err = talk(f"{line}\nstill there?\n", code=2, as_json=as_json)
    if as_json:
        wrong, answer = map(json.loads, out.splitlines())
        assert wrong["question"] == line and word in wrong["error"] and answer["text"] == "Yes" and err == ""
    else:
        assert err.startswith("error: ") and word in err and out == "> still there?\nYes\n"


@pytest.mark.parametrize("number", ["0", "99999999999999999999"])
def test_run_shows_no_turns_where_there_are_none(talk: Any, number: str) -> None:
    assert talk(f"/history {number}\n") == ("no turns yet\n", "")


def test_run_takes_any_white_space_behind_a_command(talk: Any, script: Script) -> None:
    out, err = talk("/ground\tthe desk\n/scene \t toy_room_2\n/history\t1\n")
    assert out.startswith("> /ground the desk\n") and "scene toy_room_2: 3 objects" in out and err == ""


def test_run_changes_the_scene_and_leaves_its_history(talk: Any, script: Script) -> None:
    out, _ = talk("one?\n/scene\n/scene toy_room_2\ntwo?\n/history\n")
    assert "* toy_room  10 objects\n  toy_room_2  3 objects" in out and "scene toy_room_2: 3 objects" in out
    assert "bookshelf" in script.prompts[0] and "bookshelf" not in script.prompts[1] and "one?" not in script.prompts[1]
    assert out.endswith("> two?\nYes\n")


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("first", ["", "one?\n"])
def test_run_keeps_the_scene_when_another_one_is_too_large(
    talk: Any, script: Script, begin: Any, toy_scene: Scene, as_json: bool, first: str
) -> None:
    def begin_small(scene: Scene) -> Conversation:
        return begin(scene, max_tokens=4096 if len(scene.objects) == 10 else 130)

    lines = f"{first}/scene toy_room_2\ntwo?\n/history 1\n"
    out, err = talk(lines, code=2, begin=begin_small, as_json=as_json)
    words = "scene 'toy_room_2' does not fit the context"
    if as_json:
        row = json.loads(out.splitlines()[-2])
        assert row["question"] == "/scene toy_room_2" and row["error"].startswith(words)
        assert json.loads(out.splitlines()[-1])["scene_id"] == "toy_room"
    else:
        assert f"error: {words}" in err and "the scene is still toy_room" in err
        assert out.endswith("> two?\nYes\n" * 2)
    assert "bookshelf" in script.prompts[-1]


def test_run_shows_the_last_turns(talk: Any, script: Script) -> None:
    out, _ = talk("one?\ntwo?\n/reset\nthree?\nfour?\n/history 1\n/history 0\n")
    assert out.endswith("> four?\nYes\n> four?\nYes\n")


def test_run_as_json_prints_nothing_but_json_lines(talk: Any, script: Script) -> None:
    script.replies = ["Yes", "<p>d\x9besk</p>[<obj_0>]", GrandError("too long")]
    out, err = talk("one?\n/json\n/history x\nwhere is the desk?\nthree?\n/json\nfour?\n", code=2)
    lines = out.split("\n")
    assert lines[:2] == ["> one?", "Yes"] and lines[5:] == ["> four?", "Yes", ""]
    assert json.loads(lines[4]) == {"question": "three?", "error": "too long"}
    assert json.loads(lines[2])["question"] == "/history x" and "expected /history" in json.loads(lines[2])["error"]
    row = json.loads(lines[3])
    assert row["question"] == "where is the desk?" and row["text"] == "<p>d\x9besk</p>[<obj_0>]" and row["finished"]
    assert row["mentions"][0]["objects"] == [
        {"object_id": "0", "category": "desk", "centroid": [1.0, 0.4, 0.375], "extent": [1.6, 0.8, 0.75]}
    ]
    assert "expected /history" not in err and "too long" not in err


def test_run_of_a_pipe_with_a_failed_question_goes_on_and_ends_with_2(talk: Any, script: Script) -> None:
    script.replies = [GrandError("too long"), "Yes"]
    out, err = talk("one?\ntwo?\n", code=2)
    assert out.endswith("> two?\nYes\n") and err == "error: too long\n"


def test_run_cancels_only_the_answer_on_ctrl_c(talk: Any, script: Script) -> None:
    script.replies = [KeyboardInterrupt(), "Yes"]
    out, _ = talk("one?\ntwo?\n/history\n")
    assert "cancelled" in out and out.endswith("> two?\nYes\n> two?\nYes\n") and "one?" not in script.prompts[1]


def test_run_keeps_control_characters_of_replies_from_the_terminal(talk: Any, script: Script) -> None:
    script.replies = ["\x1b[2J\x9b1mred\u202e"]
    assert talk("?\n")[0] == "> ?\n[2J1mred\n"


@pytest.mark.parametrize("line", ["/quit", "/exit"])
def test_run_leaves_on_command(talk: Any, script: Script, line: str) -> None:
    assert "later" not in talk(f"{line}\nlater?\n")[0]


def test_run_on_a_terminal_survives_ctrl_c_and_leaves_on_ctrl_d(
    toy_scene: Scene, begin: Any, script: Script, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    script.replies = ["Yes", KeyboardInterrupt()]
    typed = iter(["one?", KeyboardInterrupt, "two?", "/help", EOFError])

    def read(_: str) -> str:
        line = next(typed)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(repl, "_prompt", lambda: read)
    assert repl.run(repl.Session({"toy_room": toy_scene}, "toy_room", begin)) == 0
    out = capsys.readouterr().out
    assert (
        out.startswith("scene toy_room: 10 objects; /help") and "Ctrl-D leaves" in out and "cancelled" in out and "/quit" in out
    )
