"""The loop on a terminal and behind a pipe, with scripted replies."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from scripted import REFERENCE, Script

from grand3d import repl
from grand3d.chat import Conversation
from grand3d.errors import GrandError
from grand3d.scene import Scene


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
