"""Annotation by a real server: transformers' own with the default base, stopped and started again in the middle."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="openai is not installed (extra annotate)")
pytest.importorskip("torch", reason="torch is not installed (extra train)")

from loopback import save_base, transformers_serve

from grand3d.annotate.client import load_answers
from grand3d.scene import Scene, save_scenes

NUMBER = 12


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_client_and_server_are_killed_and_nothing_is_asked_twice_or_lost(toy_scene: Scene, tmp_path: Path) -> None:
    """The client is killed after some answers; it goes on while the server is killed too, and starts again."""
    from dataclasses import replace

    base, out, scenes = save_base(tmp_path / "base"), tmp_path / "out", tmp_path / "scenes.jsonl"
    save_scenes(scenes, [replace(toy_scene, scene_id=f"s{k}", objects=toy_scene.objects[:5]) for k in range(NUMBER // 2)])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answers, log = out / "answers.jsonl", tmp_path / "serve.log"
    line = [sys.executable, "-m", "grand3d", "annotate", str(scenes), str(out), "--server", f"{base}@http://127.0.0.1:{port}/v1"]
    line += ["--kinds", "existence,function", "--number", "1", "--parallel", "1", "--max-tokens", "24", "--patience", "300"]

    def wait_for(number: int, process: subprocess.Popen[str]) -> None:
        while process.poll() is None and (len(answers.read_text().splitlines()) if answers.exists() else 0) < number:
            time.sleep(0.05)

    def received() -> int:
        return log.read_text(errors="replace").count("[Request received]")

    with log.open("w") as file, transformers_serve(base, port, file):
        first = subprocess.Popen(line, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(3, first)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        kept = load_answers(answers)
        assert 3 <= len(kept) < NUMBER
        second = subprocess.Popen(line, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        wait_for(6, second)
    assert second.poll() is None  # the server is gone, and the client waits for it
    with log.open("a") as file, transformers_serve(base, port, file):
        _, said = second.communicate(timeout=300)
    found = load_answers(answers)
    assert len(found) == NUMBER and found.items() >= kept.items()
    assert received() <= NUMBER + 2  # at most the one on its way at either kill
    assert all(answer.completion_tokens > 0 for answer in found.values())
    # so small a model writes nothing that can be used: every answer is left out, with its cause, and that is said
    rejected = [json.loads(row) for row in (tmp_path / "out.rejected.jsonl").read_text().splitlines()]
    assert len(rejected) >= NUMBER and {row["cause"] for row in rejected} and "rejected:" in said
    assert second.returncode == 2 and "no text holds" in said
