"""Questions to a server of OpenAI's protocol: what is sent, what comes back, and what is said when it does not."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="openai is not installed (extra annotate)")

from loopback import save_base, transformers_serve

from grand3d import evaluate, server
from grand3d.decoding import Decoding
from grand3d.errors import GrandError
from grand3d.sample import Data, load_replies
from grand3d.schema import PromptConfig
from grand3d.synth import make_data


@pytest.fixture(scope="module")
def rooms() -> Data:
    return make_data(2, 11, 6)


@pytest.fixture
def listening() -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """A server on loopback: its address, the requests it got, and what it is to answer."""
    seen: list[Any] = []
    answer: dict[str, Any] = {"status": 200, "text": "Yes", "finish_reason": "stop"}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            message = {"role": "assistant", "content": answer["text"]}
            choices = [{"index": 0, "message": message, "finish_reason": answer["finish_reason"]}]
            body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}
            raw = json.dumps(body if answer["status"] == 200 else {"error": {"message": "not today"}}).encode()
            self.send_response(answer["status"])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}/v1", seen, answer
    http.shutdown()
    http.server_close()


def test_predict_by_a_server_sends_the_scene_first_and_keeps_what_comes(rooms: Data, listening: Any, tmp_path: Path) -> None:
    url, seen, answer = listening
    answer["finish_reason"] = "length"
    done = evaluate.predict(f"openai:small@{url}", rooms, tmp_path / "r.jsonl", Decoding(9))
    replies = load_replies(tmp_path / "r.jsonl")
    assert {r.sample_id for r in replies} == {s.sample_id for s in rooms.samples} and done.num_unfinished == len(replies)
    assert all(r.text == "Yes" and r.object_ids for r in replies)
    assert {request["model"] for request in seen} == {"small"} and {request["max_tokens"] for request in seen} == {9}
    system, user = seen[0]["messages"]
    assert system["role"] == "system" and user["content"].startswith("label and id:")
    assert len({request["messages"][1]["content"].split("\n")[1] for request in seen}) == len(rooms.scenes)
    again = evaluate.predict(f"openai:small@{url}", rooms, tmp_path / "r.jsonl", Decoding(9))
    assert again.num_new == 0 and again.num_kept == len(replies)


@pytest.mark.parametrize(("status", "named"), [(404, "NotFoundError"), (401, "is OPENAI_API_KEY set"), (400, "not today")])
def test_a_server_that_refuses_is_one_message(rooms: Data, listening: Any, tmp_path: Path, status: int, named: str) -> None:
    url, _, answer = listening
    answer["status"] = status
    with pytest.raises(GrandError, match=named) as error:
        evaluate.predict(f"openai:small@{url}", rooms, tmp_path / "r.jsonl")
    assert "expected a reply" in str(error.value) and "\n" not in str(error.value)


def test_a_server_that_is_not_there_is_one_message(rooms: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(GrandError, match="is it running, and is the address right"):
        evaluate.predict(f"openai:small@{url}", rooms, tmp_path / "r.jsonl")


@pytest.mark.parametrize("name", ["openai:", "openai:@http://x/v1", "openai:m@", "openai:m@ftp://x"])
def test_a_name_that_is_no_server_is_refused(name: str) -> None:
    with pytest.raises(GrandError, match="expected openai:MODEL@"):
        server.read_server(name)


def test_candidates_of_a_server_are_refused(rooms: Data, tmp_path: Path) -> None:
    with pytest.raises(GrandError, match="expected no --candidates"):
        list(server.ask_server(server.Server("m", None), PromptConfig(), rooms, rooms.samples, Decoding(candidates=True)))


@pytest.mark.slow
def test_transformers_serve_answers_the_questions_of_a_room(rooms: Data, tmp_path: Path) -> None:
    """The real thing on loopback: transformers' own server with the default base."""
    base = save_base(tmp_path / "base")
    with transformers_serve(base) as url:
        few = Data(rooms.scenes, rooms.samples[:3])
        evaluate.predict(f"openai:{base}@{url}", few, tmp_path / "r.jsonl", Decoding(8))
        replies = load_replies(tmp_path / "r.jsonl")
        assert len(replies) == 3 and all(reply.text.strip() for reply in replies)
