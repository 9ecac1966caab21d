"""The command line as a process: signals, standard streams that are closed, full or no longer read, empty input."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def heed_ctrl_c() -> None:
    """A process that was started with Ctrl-C ignored, as ``nohup ... &`` does, hands that on to all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*argv: str, **options: Any) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", "grand3d", *argv], text=True, preexec_fn=heed_ctrl_c, **(pipes | options))


def test_module_says_its_version() -> None:
    out, err = start("--version").communicate(timeout=60)
    assert out.startswith("grand3d 0.") and err == ""


def test_chat_of_empty_input_ends_with_0_and_prints_nothing() -> None:
    process = start("chat", "demo")
    out, err = process.communicate("", timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


def test_ctrl_c_while_waiting_ends_with_130_and_no_traceback() -> None:
    process = start("chat", "demo", env=os.environ | {"PYTHONUNBUFFERED": "1"})
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("/help\n")
    process.stdin.flush()
    process.stdout.readline()  # it is in its loop
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err


def test_reader_that_stops_reading_gets_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("lora: {rank: 4}\n")
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = start("check", str(tmp_path / "c.yaml"), stdout=write_end)
    os.close(write_end)
    _, err = process.communicate(timeout=60)
    assert err == "" and process.returncode == 141


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a configuration, a data folder with a sample, and a reply to it."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "c.yaml").write_text("lora: {rank: 4}\n")
    (folder / "data").mkdir()
    box = {"object_id": "0", "category": "desk", "centroid": [0, 0, 0], "extent": [1, 1, 1]}
    sample = {"sample_id": "a", "scene_id": "s", "task": "existence", "text": "Is there a desk?", "answer": "Yes"}
    (folder / "data" / "scenes.jsonl").write_text(json.dumps({"scene_id": "s", "objects": [box]}) + "\n")
    (folder / "data" / "samples.jsonl").write_text(json.dumps(sample) + "\n")
    (folder / "r.jsonl").write_text(json.dumps({"sample_id": "a", "scene_id": "s", "text": "Yes"}) + "\n")
    return folder


def shell(words: str, place: Path, redirect: str, lines: str = "/help\n", buffered: bool = True) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command line with a redirection."""
    command = f"{shlex.quote(sys.executable)} -m grand3d {words} {redirect}"
    env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    env |= {} if buffered else {"PYTHONUNBUFFERED": "1"}
    done = subprocess.run(["bash", "-c", command], input=lines, capture_output=True, text=True, cwd=place, env=env, timeout=120)
    return done.returncode, done.stdout, done.stderr


PRINTING = ("--help", "check data", "score pope data r.jsonl", "chat data")
WAYS = [*((words, True) for words in PRINTING), ("--help", False), ("chat data", False)]


@pytest.mark.parametrize(("words", "buffered"), WAYS)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_full_standard_output_gets_one_message(place: Path, words: str, buffered: bool) -> None:
    code, _, err = shell(words, place, "> /dev/full", buffered=buffered)
    assert (code, err) == (2, "grand3d: error: standard output cannot be written (No space left on device)\n")


@pytest.mark.parametrize("words", ["--help", "synth rooms new --scenes 1", "fly"])
def test_closed_standard_output_gets_one_message_and_nothing_is_done(place: Path, words: str) -> None:
    code, _, err = shell(words, place, ">&-")
    assert code == 2 and err.startswith("grand3d: error: standard output is closed") and err.count("\n") == 1
    assert not (place / "new").exists()


@pytest.mark.parametrize("words", ["check data", "chat data"])
def test_closed_standard_input_stops_the_chat_alone(place: Path, words: str) -> None:
    code, out, err = shell(words, place, "<&-")
    if words.startswith("chat"):
        assert (code, out, err) == (2, "", "grand3d: error: standard input is closed; chat reads its questions from it\n")
    else:
        assert code == 0 and out


def test_standard_input_that_cannot_be_read_gets_one_message(place: Path) -> None:
    code, _, err = shell("chat data", place, "0> written")
    assert code == 2 and err.startswith("grand3d: error: standard input cannot be read (") and err.count("\n") == 1


@pytest.mark.parametrize("redirect", ["2>&-", "2> /dev/full"])
@pytest.mark.parametrize("words", ["fly", "chat data --json"])
def test_closed_or_full_standard_error_never_lands_in_the_output(place: Path, words: str, redirect: str) -> None:
    code, out, err = shell(words, place, redirect)
    assert (out, err) == ("", "") and code == (0 if words.startswith("chat") and redirect == "2>&-" else 2)


@pytest.mark.parametrize(("words", "buffered"), WAYS)
def test_reader_that_is_gone_ends_any_command_without_a_word(place: Path, words: str, buffered: bool) -> None:
    redirect = '2> err | head -n 0; echo "${PIPESTATUS[0]}" > code; cat err >&2'
    assert shell(words, place, redirect, buffered=buffered) == (0, "", "")
    assert int((place / "code").read_text()) in (0, 141)  # 0 where all was written before the reader went
