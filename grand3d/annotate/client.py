"""A client of servers that speak OpenAI's protocol, for long runs: nothing is asked twice, nothing answered is lost.

Every answer is put at the end of a file as it comes, under a hash of all that was sent. A run that is stopped, by whatever,
asks only for what is not in the file; what was on its way when it was killed (at most ``parallel`` requests) is asked again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grand3d.errors import GrandError, import_extra, place, shown
from grand3d.files import field as read_field
from grand3d.journal import read_rows
from grand3d.replies import appending, cut_last_line
from grand3d.server import NO_KEY, Server

LETTERS_A_TOKEN = 3.6
"""Of English text with ids and numbers, by which tokens are estimated before anything is asked."""
TOKENS_AN_IMAGE = 800
STRUCTURED = ("schema", "json", "none")
"""How a server is told of the form of an answer, the strictest first: by its JSON schema, as JSON, or in words alone."""
FIRST_PATIENCE = 8.0
"""Seconds after which a server that has never answered counts as not there."""
LONGEST_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked.

    Attributes:
        name: What it is about, for messages.
        messages: Chat messages; the content of one may be a list of text and image parts.
        schema: JSON schema that the answer is to fit.
        about: Whatever the asker needs with the answer; not sent.
    """

    name: str
    messages: tuple[Mapping[str, Any], ...]
    schema: Mapping[str, Any]
    about: Any = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: ``finished`` is False where the token limit cut it. Tokens are as the server counts them, else 0."""

    text: str
    finished: bool
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Terms:
    """How a server is asked, and what it costs.

    Attributes:
        max_tokens: An answer is cut here.
        parallel: Requests on their way at a time.
        per_minute: Requests begun within 60 s at most; None for no limit of ours.
        price: US dollars for a million tokens read, and written.
        budget: Dollars of one run after which nothing more is asked; None for no limit.
        patience: Seconds that one request may wait for a server that is busy or away.
    """

    temperature: float = 0.7
    seed: int = 0
    max_tokens: int = 1024
    parallel: int = 8
    per_minute: int | None = None
    price: tuple[float, float] = (0.0, 0.0)
    budget: float | None = None
    patience: float = 600.0


@dataclass(slots=True)
class Spent:
    """What a run has asked for, kept and paid so far."""

    asked: int = 0
    kept: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    dollars: float = 0.0
    retries: Counter[str] = field(default_factory=Counter)

    def add(self, answer: Answer, price: tuple[float, float]) -> None:
        self.asked += 1
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens
        self.dollars += (answer.prompt_tokens * price[0] + answer.completion_tokens * price[1]) / 1e6


def key_of(request: Request, server: Server, terms: Terms) -> str:
    """A hash of everything that decides an answer; where the server stands does not."""
    about = [server.model, request.messages, request.schema, terms.temperature, terms.seed, terms.max_tokens]
    return hashlib.sha256(json.dumps(about, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:32]


def load_answers(path: Path) -> dict[str, Answer]:
    """The answers that a file of earlier runs holds, by their keys; a last line that a kill cut off is not there.

    Raises:
        GrandError: If the file holds something else.
    """
    rows, _ = read_rows(path, lambda row: (read_field(row, "key", str, ""), _answer(row)))
    return {row["key"]: _answer(row) for row in rows}


def _answer(row: dict[str, Any]) -> Answer:
    return Answer(
        read_field(row, "text", str, ""),
        read_field(row, "finished", bool, "", True),
        read_field(row, "prompt_tokens", int, "", 0),
        read_field(row, "completion_tokens", int, "", 0),
    )


def estimate(requests: Iterable[Request], server: Server, terms: Terms, known: Mapping[str, Answer]) -> dict[str, Any]:
    """What is still to be asked, about how many tokens, and what it costs at most. Nothing is sent."""
    number, letters, left = 0, 0.0, set()
    for request in requests:
        number += 1
        key = key_of(request, server, terms)
        if key not in known and key not in left:
            left.add(key)
            letters += sum(map(_letters, request.messages))
    read, written = round(letters / LETTERS_A_TOKEN), terms.max_tokens * len(left)
    done = [answer.completion_tokens for answer in known.values() if answer.completion_tokens]
    usual = round(sum(done) / len(done)) * len(left) if done else None
    cost = (read * terms.price[0] + written * terms.price[1]) / 1e6
    out: dict[str, Any] = {"requests": number, "answered": number - len(left), "to_ask": len(left), "prompt_tokens": read}
    out |= {"completion_tokens_at_most": written, "dollars_at_most": round(cost, 4)}
    if usual is not None:
        out |= {"completion_tokens_expected": usual}
        out |= {"dollars_expected": round((read * terms.price[0] + usual * terms.price[1]) / 1e6, 4)}
    return out


def _letters(message: Mapping[str, Any]) -> float:
    content = message["content"]
    if isinstance(content, str):
        return len(content)
    images = sum(part["type"] == "image_url" for part in content)
    return sum(len(part.get("text", "")) for part in content) + images * TOKENS_AN_IMAGE * LETTERS_A_TOKEN


class _Pace:
    """Lets requests begin no faster than so many within any minute."""

    def __init__(self, per_minute: int | None) -> None:
        self.per_minute, self.begun, self.lock = per_minute, deque[float](), threading.Lock()

    def wait(self, stopped: threading.Event) -> None:
        while self.per_minute is not None and not stopped.is_set():
            with self.lock:
                now = time.monotonic()
                while self.begun and now - self.begun[0] >= 60:
                    self.begun.popleft()
                if len(self.begun) < self.per_minute:
                    self.begun.append(now)
                    return
                rest = 60 - (now - self.begun[0])
            stopped.wait(rest)


class Asker:
    """Asks one server, from several threads."""

    def __init__(self, server: Server, terms: Terms, say: Callable[[str], None] = lambda _: None) -> None:
        self.openai = import_extra("openai", "annotate")
        self.server, self.terms, self.say = server, terms, say
        self.client = self.openai.OpenAI(
            api_key=os.environ.get("OPENAI_API_KEY") or NO_KEY,
            base_url=server.url,
            max_retries=0,
            timeout=max(60.0, terms.patience),
        )
        self.form = STRUCTURED[0]
        self.spent, self.pace = Spent(), _Pace(terms.per_minute)
        self.stopped, self.reached = threading.Event(), threading.Event()
        self.lock = threading.Lock()

    def ask(self, request: Request) -> Answer:
        """One answer; waits where the server is busy or away.

        Raises:
            GrandError: If it refuses, or for longer than ``patience``.
        """
        start, tries = time.monotonic(), 0
        while True:
            self.pace.wait(self.stopped)
            if self.stopped.is_set():
                raise GrandError("stopped", "stopped")
            form = self.form
            try:
                return self._send(request, form)
            except self.openai.BadRequestError as error:
                if form == "none" or ("response_format" not in str(error) and "json_schema" not in str(error)):
                    raise GrandError(self._failure(request, error)) from None
                with self.lock:
                    if self.form == form:
                        self.form = STRUCTURED[STRUCTURED.index(form) + 1]
                        self.say(f"the server refuses {form!r} as the form of an answer; asking with {self.form!r}")
            except (self.openai.OpenAIError, ValueError, IndexError, TypeError, AttributeError) as error:
                pause = self._pause(error, tries)
                if pause is None:
                    raise GrandError(self._failure(request, error)) from None
                patience = self.terms.patience if self.reached.is_set() else min(FIRST_PATIENCE, self.terms.patience)
                if time.monotonic() - start + pause > patience and tries:
                    raise GrandError(self._failure(request, error)) from None
                with self.lock:
                    self.spent.retries[_reason(error)] += 1
                tries += 1
                self.stopped.wait(pause)

    def _send(self, request: Request, form: str) -> Answer:
        more: dict[str, Any] = {}
        if form == "schema":
            schema = {"name": "annotation", "strict": True, "schema": dict(request.schema)}
            more = {"response_format": {"type": "json_schema", "json_schema": schema}}
        elif form == "json":
            more = {"response_format": {"type": "json_object"}}
        reply = self.client.chat.completions.create(
            model=self.server.model,
            messages=list(request.messages),
            max_tokens=self.terms.max_tokens,
            temperature=self.terms.temperature,
            seed=self.terms.seed,
            **more,
        )
        choice = reply.choices[0]
        self.reached.set()
        usage = reply.usage
        read, written = (usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage is not None else (0, 0)
        return Answer(choice.message.content or "", choice.finish_reason != "length", read, written)

    def _pause(self, error: Exception, tries: int) -> float | None:
        """Seconds before a request is sent again; None where that is of no use."""
        status = getattr(error, "status_code", None)
        if isinstance(error, self.openai.APIStatusError) and status not in (408, 409, 425, 429) and status < 500:
            return None
        if status is not None:
            self.reached.set()  # it is there, only busy
        if isinstance(error, self.openai.RateLimitError) and "insufficient_quota" in str(error):
            return None
        asked = getattr(getattr(error, "response", None), "headers", {}).get("retry-after", "")
        if re.fullmatch(r"\d+(\.\d+)?", asked):
            return min(float(asked), LONGEST_WAIT)
        return min(LONGEST_WAIT, 0.5 * 2**tries) * random.uniform(0.75, 1.25)

    def _failure(self, request: Request, error: Exception) -> str:
        where = f"{self.server.url or 'the server of OpenAI'}, model {shown(self.server.model)}, {request.name}"
        likely = {
            "APIConnectionError": "is it running, and is the address right?",
            "AuthenticationError": "is OPENAI_API_KEY set to a valid key?",
            "NotFoundError": "does the server know a model of that name?",
            "RateLimitError": "ask with a lower --per-minute, or later",
        }.get(type(error).__name__, "")
        said = " ".join(str(error).split())[:300]
        return f"{where}: {type(error).__name__}: {said}; expected an answer; what was answered is kept" + (
            f"; {likely}" if likely else ""
        )


def _reason(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    return f"status {status}" if status is not None else type(error).__name__


def ask_all(requests: Iterable[Request], asker: Asker, path: Path) -> Iterator[tuple[Request, Answer]]:
    """Answers to all requests as they come, those that the file holds at once; each is in the file before it is given.

    Requests are taken one by one, as there is room for them. On an interrupt or a failure nothing more is sent, and what is on
    its way is waited for and kept.

    Raises:
        GrandError: If the server refuses, the budget is spent, or another run writes to the file.
    """
    server, terms = asker.server, asker.terms
    asker.stopped.clear()
    with appending(path) as write:
        _mend(path)
        known = load_answers(path)
        running: dict[Future[Answer], tuple[str, list[Request]]] = {}
        pool = ThreadPoolExecutor(max(1, terms.parallel))

        def settle(futures: Iterable[Future[Answer]]) -> Iterator[tuple[Request, Answer]]:
            for future in futures:
                key, same = running.pop(future)
                answer = known[key] = future.result()
                write({"key": key, "name": same[0].name, "model": server.model} | _answer_row(answer))
                asker.spent.add(answer, terms.price)
                yield from ((one, answer) for one in same)

        try:
            for request in requests:
                key = key_of(request, server, terms)
                twin = next((same for other, same in running.values() if other == key), None)
                if key in known:
                    asker.spent.kept += 1
                    yield request, known[key]
                elif twin is not None:
                    twin.append(request)
                else:
                    while len(running) >= terms.parallel:
                        yield from settle(wait(running, return_when=FIRST_COMPLETED).done)
                    if terms.budget is not None and asker.spent.dollars >= terms.budget:
                        spent = f"{asker.spent.dollars:.4f} dollars are spent, and {request.name} is not asked"
                        raise GrandError(f"{place(path)}: {spent}; expected a --budget above that. What was answered is kept")
                    running[pool.submit(asker.ask, request)] = key, [request]
            while running:
                yield from settle(wait(running, return_when=FIRST_COMPLETED).done)
        finally:
            asker.stopped.set()
            for future in list(running):
                if not future.cancel():
                    with contextlib.suppress(Exception):
                        future.result()  # on its way, and perhaps paid for
                        list(settle([future]))
            pool.shutdown(cancel_futures=True)


def _mend(path: Path) -> None:
    """Cut off a last line that a kill left half written; one that lacks only its line end is whole, and paid for."""
    raw = path.read_bytes()
    if not raw or raw.endswith(b"\n"):
        return
    try:
        json.loads(raw[raw.rfind(b"\n") + 1 :])
    except ValueError:
        cut_last_line(path)
        return
    with path.open("ab") as file:
        file.write(b"\n")


def _answer_row(answer: Answer) -> dict[str, Any]:
    row: dict[str, Any] = {
        "text": answer.text,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
    }
    return row if answer.finished else row | {"finished": False}
