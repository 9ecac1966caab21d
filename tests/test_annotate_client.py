"""Long runs against a server: nothing asked twice, nothing lost, failures waited out, and what it costs counted."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="openai is not installed (extra annotate)")

from loopback import Loopback, Reply, serving

from grand3d.annotate.client import Answer, Asker, Request, Terms, ask_all, estimate, key_of, load_answers
from grand3d.errors import GrandError
from grand3d.server import Server

SCHEMA = {"type": "object", "properties": {"items": {"type": "array"}}, "required": ["items"]}
QUICK = Terms(parallel=3, patience=5.0, price=(1.0, 10.0))


def requests(number: int) -> list[Request]:
    return [Request(f"r{k}", ({"role": "user", "content": f"question {k}"},), SCHEMA) for k in range(number)]


def asked(server: Loopback) -> list[str]:
    return [body["messages"][0]["content"] for body in server.seen]


def echo(_: int, body: dict[str, Any]) -> Reply:
    return Reply(f"answer to {body['messages'][0]['content']}")


def ask(url: str, wanted: list[Request], path: Path, terms: Terms = QUICK) -> tuple[dict[str, str], Asker]:
    asker = Asker(Server("m", url), terms)
    return {request.name: answer.text for request, answer in ask_all(wanted, asker, path)}, asker


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pauses between tries of a hundredth of their length."""
    real = threading.Event.wait
    monkeypatch.setattr("threading.Event.wait", lambda self, timeout=None: real(self, timeout and timeout / 100))
    yield


def test_answers_are_kept_and_not_asked_for_again(tmp_path: Path) -> None:
    with serving(echo) as server:
        first, asker = ask(server.url, requests(7), tmp_path / "a.jsonl")
        again, second = ask(server.url, requests(9), tmp_path / "a.jsonl")
    assert first == {f"r{k}": f"answer to question {k}" for k in range(7)} and again.items() >= first.items() and len(again) == 9
    assert sorted(asked(server)) == sorted(f"question {k}" for k in range(9))
    assert (asker.spent.asked, second.spent.asked, second.spent.kept) == (7, 2, 7)
    assert asker.spent.prompt_tokens == 700 and asker.spent.dollars == pytest.approx((700 * 1 + 140 * 10) / 1e6)
    assert server.seen[0]["response_format"]["json_schema"]["schema"] == SCHEMA and server.seen[0]["max_tokens"] == 1024


def test_equal_requests_are_paid_for_once(tmp_path: Path) -> None:
    twice = [Request(name, ({"role": "user", "content": "same"},), SCHEMA) for name in ("a", "b")]
    with serving(echo) as server:
        found, _ = ask(server.url, twice, tmp_path / "a.jsonl")
    assert found == {"a": "answer to same", "b": "answer to same"} and len(server.seen) == 1


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(
    ("failure", "counted"),
    [
        (Reply(status=429, headers={"Retry-After": "1"}), "status 429"),
        (Reply(status=500), "status 500"),
        (Reply(status=503), "status 503"),
        (Reply(raw='{"id": "1", "choices": [{"ind'), "JSONDecodeError"),
        (Reply(raw='{"id": "1", "choices": []}'), "IndexError"),
    ],
)
def test_a_failure_for_a_while_is_waited_out_and_counted(tmp_path: Path, failure: Reply, counted: str) -> None:
    with serving(lambda number, body: failure if number % 2 == 0 else echo(number, body)) as server:
        found, asker = ask(server.url, requests(4), tmp_path / "a.jsonl", Terms(parallel=1, patience=60))
    assert len(found) == 4 and asker.spent.asked == 4
    assert sum(asker.spent.retries.values()) == len(server.seen) - 4 >= 1
    assert set(asker.spent.retries) == {counted} or counted == "JSONDecodeError"


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(("status", "named"), [(401, "OPENAI_API_KEY"), (404, "model of that name"), (400, "not today")])
def test_a_refusal_ends_the_run_in_one_message_and_keeps_what_was_answered(tmp_path: Path, status: int, named: str) -> None:
    def script(number: int, body: dict[str, Any]) -> Reply:
        return echo(number, body) if number < 2 else Reply(status=status)

    with serving(script) as server, pytest.raises(GrandError, match=named) as error:
        ask(server.url, requests(6), tmp_path / "a.jsonl", Terms(parallel=1))
    assert "expected an answer" in str(error.value) and "\n" not in str(error.value)
    assert len(load_answers(tmp_path / "a.jsonl")) == 2 and len(server.seen) == 3


def test_a_server_that_takes_no_schema_is_asked_without(tmp_path: Path) -> None:
    def script(number: int, body: dict[str, Any]) -> Reply:
        if "response_format" in body:
            return Reply("response_format is not supported", status=400)
        return echo(number, body)

    with serving(script) as server:
        found, asker = ask(server.url, requests(3), tmp_path / "a.jsonl", Terms(parallel=1))
    assert len(found) == 3 and asker.form == "none"
    assert [("response_format" in body) for body in server.seen] == [True, True, False, False, False]


def test_a_server_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(GrandError, match="is it running, and is the address right"):
        ask(url, requests(2), tmp_path / "a.jsonl", Terms(patience=0.5))


def test_a_server_that_goes_and_comes_back_is_waited_for(tmp_path: Path) -> None:
    found: dict[str, str] = {}

    def work(port: int) -> None:
        terms = Terms(parallel=2, patience=30)
        found.update(ask(f"http://127.0.0.1:{port}/v1", requests(12), tmp_path / "a.jsonl", terms)[0])

    def slow(number: int, body: dict[str, Any]) -> Reply:
        time.sleep(0.05)
        return echo(number, body)

    with serving(slow) as first:
        thread = threading.Thread(target=work, args=(first.port,))
        thread.start()
        while len(first.seen) < 5:
            time.sleep(0.01)
    kept = {row["name"] for row in map(json.loads, (tmp_path / "a.jsonl").read_text().splitlines())}
    time.sleep(0.3)
    with serving(echo, first.port) as second:
        thread.join(30)
    assert len(found) == 12 and kept
    assert not {f"question {name[1:]}" for name in kept} & set(asked(second))


def test_the_last_line_of_a_run_that_was_killed_is_mended_or_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with serving(echo) as server:
        ask(server.url, requests(3), path)
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])  # only its line end is lost
        _, kept = ask(server.url, requests(3), path)
        assert kept.spent.kept == 3 and path.read_bytes() == whole
        path.write_bytes(whole[:-9])
        found, _ = ask(server.url, requests(3), path)
    assert len(found) == 3 and len(server.seen) == 4 and len(load_answers(path)) == 3


def test_a_damaged_file_of_answers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"key": "x"}\n{"key": "y", "text": "t"}\n')
    with pytest.raises(GrandError, match=r"a.jsonl:1"):
        list(ask_all(requests(1), Asker(Server("m", "http://127.0.0.1:9/v1"), QUICK), tmp_path / "a.jsonl"))


def test_a_budget_stops_the_run_and_more_of_it_goes_on(tmp_path: Path) -> None:
    cost = (100 * 1 + 20 * 10) / 1e6
    with serving(echo) as server:
        with pytest.raises(GrandError, match="expected a --budget above"):
            ask(server.url, requests(6), tmp_path / "a.jsonl", Terms(parallel=1, price=(1, 10), budget=2.5 * cost))
        assert len(server.seen) == 3
        found, _ = ask(server.url, requests(6), tmp_path / "a.jsonl", Terms(parallel=1, price=(1, 10), budget=9 * cost))
    assert len(found) == 6 and len(server.seen) == 6


def test_requests_begin_no_faster_than_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("grand3d.annotate.client.time.monotonic", lambda: now[0])

    def skip(_: Any, timeout: float | None = None) -> bool:
        now[0] += timeout or 0.0
        return False

    asker = Asker(Server("m", "http://127.0.0.1:9/v1"), Terms(per_minute=2))
    monkeypatch.setattr("threading.Event.wait", skip)
    begun = []
    for _ in range(5):
        asker.pace.wait(asker.stopped)
        begun.append(now[0])
    assert begun == [0, 0, 60, 60, 120]


def test_an_estimate_counts_what_is_left_and_sends_nothing(tmp_path: Path) -> None:
    server, wanted = Server("m", "http://127.0.0.1:9/v1"), requests(4)
    known = {key_of(wanted[0], server, QUICK): Answer("t", True, 90, 30)}
    found = estimate(wanted, server, QUICK, known)
    assert (found["requests"], found["answered"], found["to_ask"]) == (4, 1, 3)
    assert found["completion_tokens_at_most"] == 3 * 1024 and found["completion_tokens_expected"] == 90
    assert found["dollars_expected"] < found["dollars_at_most"]


def test_the_key_of_a_request_depends_on_all_that_decides_the_answer() -> None:
    request, server = requests(1)[0], Server("m", "http://a/v1")
    keys = {
        key_of(request, server, Terms()),
        key_of(request, Server("n", None), Terms()),
        key_of(request, server, Terms(temperature=0.1)),
        key_of(request, server, Terms(seed=1)),
        key_of(request, server, Terms(max_tokens=9)),
        key_of(requests(2)[1], server, Terms()),
    }
    assert len(keys) == 6 and key_of(request, Server("m", "http://b/v1"), Terms(parallel=1)) in keys


def test_an_interrupt_sends_nothing_more_and_keeps_what_is_on_its_way(tmp_path: Path) -> None:
    def slow(number: int, body: dict[str, Any]) -> Reply:
        time.sleep(0.2 if number else 0.0)
        return echo(number, body)

    with serving(slow) as server:
        running = ask_all(requests(12), Asker(Server("m", server.url), QUICK), tmp_path / "a.jsonl")
        next(running)
        running.close()
        assert len(load_answers(tmp_path / "a.jsonl")) == len(server.seen) <= 4
        found, _ = ask(server.url, requests(12), tmp_path / "a.jsonl")
    assert len(found) == len(server.seen) == 12
