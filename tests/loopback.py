"""A server of OpenAI's protocol on loopback that answers by a script; what tests of clients talk to."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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
