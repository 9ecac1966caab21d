"""Servers of OpenAI's protocol on loopback that tests of clients talk to: one that answers by a script, and transformers' own."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

import pytest


@dataclass(frozen=True)
class Reply:
    """What the server sends: a text as a model's answer, or with another status or ``raw`` that instead."""

    text: str = ""
    status: int = 200
    finish: str = "stop"
    raw: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Loopback:
    """A running server: its address and the bodies of all requests it got."""

    url: str
    port: int
    seen: list[dict[str, Any]]


@contextlib.contextmanager
def serving(script: Callable[[int, dict[str, Any]], Reply], port: int = 0) -> Iterator[Loopback]:
    """Serve answers of ``script(number of the request, its body)`` until the block ends."""
    seen: list[dict[str, Any]] = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                seen.append(body)
                number = len(seen) - 1
            reply = script(number, body)
            message = {"role": "assistant", "content": reply.text}
            usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
            choices = [{"index": 0, "message": message, "finish_reason": reply.finish}]
            whole = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": choices, "usage": usage}
            told = json.dumps(whole if reply.status == 200 else {"error": {"message": reply.text or "not today"}})
            raw = (told if reply.raw is None else reply.raw).encode()
            with contextlib.suppress(OSError):  # the client is gone
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", "Content-Length": str(len(raw)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        allow_reuse_address = True
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass

    http = Server(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Loopback(f"http://127.0.0.1:{http.server_port}/v1", http.server_port, seen)
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def save_base(folder: Path) -> Path:
    """The default base as a model folder; the test is skipped where packages that serve it are absent."""
    for module in ("fastapi", "uvicorn"):
        pytest.importorskip(module, reason="transformers serve needs fastapi and uvicorn")
    from grand3d.model import load_base

    model, tokenizer = load_base("smollm2")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@contextlib.contextmanager
def transformers_serve(folder: Path, port: int | None = None, log: IO[Any] | None = None) -> Iterator[str]:
    """``transformers serve`` with a model folder; gives its address once it answers."""
    if port is None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    env = os.environ | {"HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", "from transformers.cli.transformers import main; main()", "serve", str(folder)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 150
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()
