"""The command line as a process: signals, pipes that close, empty input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


def start(*argv: str, **options: Any) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", "grand3d", *argv], text=True, **(pipes | options))


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
