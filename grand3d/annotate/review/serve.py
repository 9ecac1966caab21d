"""The server of a study: on this machine only, a secret link for each person, every answer on the disk before the next page."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from grand3d.annotate.review import pages
from grand3d.annotate.review.desk import MAX_NOTE, Desk, read_answers
from grand3d.annotate.review.examples import examples
from grand3d.annotate.review.study import ANSWERS, DROP, KEEP, PEOPLE, STEPS, Study, Task, valid_answer
from grand3d.errors import GrandError, shown, unusable
from grand3d.files import field, one_line, visible
from grand3d.journal import read_rows
from grand3d.replies import appending, cut_last_line

HOST = "127.0.0.1"
MOST_BYTES = 20_000
"""Of a form that is sent."""
MOST_SECONDS = 10.0
"""For a request to arrive."""
Write = Callable[[dict[str, Any]], None]


class Refused(Exception):
    """A request that is not carried out.

    Attributes:
        status: Of HTTP.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def links(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Each person's key, those of earlier starts too; people who are new get one. The file can be read by its owner alone.

    Raises:
        GrandError: If a name is blank or too long, or the file cannot be used.
    """
    for name in names:
        if not visible(name) or not one_line(name) or len(name) > 60 or name != name.strip():
            raise GrandError(f"the name {shown(name)} cannot be used, expected visible text of one line, at most 60 characters")
    path = folder / PEOPLE
    if path.exists() and path.stat().st_size:
        cut_last_line(path)
    rows = read_rows(path, lambda row: (field(row, "who", str, ""), field(row, "key", str, "")))[0]
    known = {row["who"]: row["key"] for row in rows}
    new = {name: secrets.token_urlsafe(18) for name in dict.fromkeys(names) if name not in known}
    if new:
        try:
            with open(path, "a", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.writelines(json.dumps({"who": who, "key": key}) + "\n" for who, key in new.items())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise unusable(path, error, "written") from None
    return known | new


class Room:
    """A study while it is served: its desk, and one lock for whatever reads or changes it."""

    def __init__(self, study: Study, desk: Desk, keys: dict[str, str], write: Write) -> None:
        self.study, self.desk, self.write = study, desk, write
        self.names = {key: who for who, key in keys.items()}
        self.lock = threading.Lock()
        self.failure: GrandError | None = None

    def _note(self, row: dict[str, Any]) -> None:
        """Put a row on the disk, and only then take it into account."""
        if self.failure is not None:
            raise Refused(500, "The answers cannot be stored any more. Please tell the person who sent you here.")
        self.desk.check(row)
        try:
            self.write(row)
        except GrandError as error:
            self.failure = error
            raise Refused(500, "Your answer could not be stored. Please tell the person who sent you here.") from None
        self.desk.apply(row)

    def page(self, who: str, nonce: str, said: str = "") -> str:
        """What a person sees now."""
        with self.lock:
            now = round(time.time(), 3)
            what, check, task = self.desk.next(who, now)
            undo = self.desk.last(who) is not None
            if what == "instructions":
                return pages.instructions_page(check, examples(check), nonce, self.desk.num_qualifiers[check], begin=True)
            if task is None:
                return self._ending(who, what, nonce, undo)
            person = self.desk.people[who]
            if task.task_id != person.task_id or now - person.since > self.study.rules.lease:
                self._note({"do": "assign", "who": who, "task": task.task_id, "at": now})
            done, of = self.desk.progress(who, check)
            around = pages.Around(done, of, undo, self.desk.standing(who, check) == "qualifying", said)
        return pages.task_page(task, self.study.scenes[task.scene_id], around, nonce)

    def _ending(self, who: str, what: str, nonce: str, undo: bool) -> str:
        if what == "wait":
            text = "Others are at the last tasks. This page looks again by itself: one of them may come back to you."
            return pages.message_page("One moment", text, nonce, reload=True, undo=undo)
        standings = {self.desk.standing(who, check) for check in self.study.rules.checks}
        done = len(self.desk.people[who].votes) if who in self.desk.people else 0
        text = f"You have answered {done} tasks. There is nothing more to do; you may close this page."
        if standings & {"failed", "banned"}:
            text += " In a part of it, too many of your answers differed from known ones, so that it ended early for you."
        return pages.message_page("Thank you", text, nonce, undo=undo)

    def start(self, who: str, form: dict[str, str]) -> None:
        """A person begins a check."""
        check = form.get("check", "")
        if set(form) != {"check"} or check not in self.study.rules.checks:
            raise Refused(400, "No such check.")
        with self.lock:
            if self.desk.standing(who, check) == "new":
                self._note({"do": "start", "who": who, "check": check, "at": round(time.time(), 3)})

    def undo(self, who: str, form: dict[str, str]) -> None:
        """A person takes the last answer back."""
        if form:
            raise Refused(400, "An undo has no fields.")
        with self.lock:
            vote = self.desk.last(who)
            if vote is None:
                raise Refused(409, "There is no answer to take back.")
            self._note({"do": "undo", "who": who, "task": vote.task.task_id, "at": round(time.time(), 3)})

    def answer(self, who: str, form: dict[str, str], wrong: Sequence[str]) -> None:
        """A person answers the task before them; the same answer sent twice counts once."""
        task = self.study_task(form.get("task", ""))
        row = _answer_row(task, form, wrong, self.study)
        with self.lock:
            person, now = self.desk.people.get(who), round(time.time(), 3)
            before = person.votes.get(task.task_id) if person is not None else None
            if before is not None and (before.answer, before.text, before.object_id) == (
                row["answer"],
                row.get("text", ""),
                row.get("object_id", ""),
            ):
                return
            if person is None or before is not None or person.task_id != task.task_id:
                raise Refused(409, "That answer was not taken: its task was no longer before you. Undo takes an answer back.")
            row["seconds"] = round(min(row["seconds"], max(0.0, now - person.since)), 2)
            self._note({"do": "answer", "who": who, "at": now, **row})

    def study_task(self, task_id: str) -> Task:
        if task_id not in self.desk.tasks:
            raise Refused(400, "No such task.")
        return self.desk.tasks[task_id]


def _answer_row(task: Task, form: dict[str, str], wrong: Sequence[str], study: Study) -> dict[str, Any]:
    """The fields of a form as those of a row.

    Raises:
        Refused: If the form is not one that the page sends.
    """
    fields = {"task", "seconds", "text", "object_id"} if task.check == STEPS else {"task", "seconds", "answer"}
    if not set(form) <= fields or (wrong and task.check != STEPS):
        raise Refused(400, "The form has fields that the page does not have.")
    try:
        seconds = float(form.get("seconds", ""))
    except ValueError:
        raise Refused(400, "The time is no number.") from None
    if not 0 <= seconds < 1e7:
        raise Refused(400, "The time is out of range.")
    answer = form.get("answer", "")
    if task.check == STEPS:
        answer = KEEP if not wrong else f"revise {wrong[0]}" if len(wrong) == 1 else DROP
    if (
        not valid_answer(task, answer)
        or len(set(wrong)) < len(wrong)
        or not all(valid_answer(task, f"revise {k}") for k in wrong)
    ):
        raise Refused(400, "No such answer.")
    row: dict[str, Any] = {"task": task.task_id, "answer": answer, "seconds": seconds}
    if len(wrong) == 1:
        text, object_id = " ".join(form.get("text", "").split()), form.get("object_id", "")
        if len(text) > MAX_NOTE or "\0" in text:
            raise Refused(400, "The step is too long, or no text.")
        if object_id and object_id not in study.scenes[task.scene_id].object_ids:
            raise Refused(400, "No such object.")
        row |= {name: value for name, value in (("text", text), ("object_id", object_id)) if value}
    return row


class Handler(BaseHTTPRequestHandler):
    """``GET /KEY/`` is what a person sees now; ``/KEY/how/CHECK`` the instructions; the rest is sent by forms."""

    timeout = MOST_SECONDS
    server: Server
    server_version, sys_version = "grand3d", ""

    def do_GET(self) -> None:
        self._guard(self._get)

    def do_POST(self) -> None:
        self._guard(self._post)

    def _guard(self, do: Callable[[str, list[str]], None]) -> None:
        nonce = self.nonce = secrets.token_urlsafe(12)
        try:
            if self.headers.get("Host") not in self.server.hosts:
                raise Refused(403, "Another host is asked for than this one.")
            _, key, *rest = self.path.split("/")
            who = self.server.room.names.get(key)
            if who is None:
                raise Refused(404, "There is nothing here. Please use the link that you were given, whole.")
            do(who, rest)
        except Refused as error:
            self._send(error.status, pages.message_page("That did not work", str(error), nonce))
            if self.server.room.failure is not None:
                threading.Thread(target=self.server.shutdown, daemon=True).start()

    def _get(self, who: str, rest: list[str]) -> None:
        room = self.server.room
        if rest == [""]:
            self._send(200, room.page(who, self.nonce))
        elif len(rest) == 2 and rest[0] == "how" and rest[1] in room.study.rules.checks:
            check = rest[1]
            self._send(200, pages.instructions_page(check, examples(check), self.nonce, room.desk.num_qualifiers[check], False))
        else:
            raise Refused(404, "There is no such page.")

    def _post(self, who: str, rest: list[str]) -> None:
        form, wrong = self._form()
        room = self.server.room
        try:
            if rest == ["answer"]:
                room.answer(who, form, wrong)
            elif rest == ["start"] and not wrong:
                room.start(who, form)
            elif rest == ["undo"] and not wrong:
                room.undo(who, form)
            else:
                raise Refused(404, "There is no such page.")
        except Refused as error:
            if error.status != 409:
                raise
            self._send(409, room.page(who, self.nonce, str(error)))  # with what is before the person now
            return
        self.send_response(303)
        self.send_header("Location", "./")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _form(self) -> tuple[dict[str, str], list[str]]:
        """The fields of a form, and the values of ``wrong``, which may come several times.

        Raises:
            Refused: If it was not sent by one of our pages, is too large, or no form.
        """
        if self.headers.get("Origin", "") not in self.server.origins:
            raise Refused(403, "The form was not sent by this page.")
        if self.headers.get_content_type() != "application/x-www-form-urlencoded":
            raise Refused(415, "A form is expected.")
        size = self.headers.get("Content-Length", "")
        if not size.isascii() or not size.isdigit():
            raise Refused(411, "The length of the form is not said.")
        if len(size) > 9 or int(size) > MOST_BYTES:
            raise Refused(413, "The form is too large.")
        try:
            fields = (
                parse_qs(
                    self.rfile.read(int(size)).decode("utf-8"),
                    keep_blank_values=True,
                    strict_parsing=True,
                    errors="strict",
                    max_num_fields=200,
                )
                if int(size)
                else {}
            )
        except ValueError:
            raise Refused(400, "The form cannot be read.") from None
        wrong = fields.pop("wrong", [])
        if any(len(values) > 1 for values in fields.values()):
            raise Refused(400, "A field comes twice.")
        return {name: values[0] for name, values in fields.items()}, wrong

    def _send(self, status: int, text: str) -> None:
        raw = text.encode()
        policy = f"default-src 'none'; style-src 'nonce-{self.nonce}'; script-src 'nonce-{self.nonce}'; img-src data:; "
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Length": str(len(raw)),
            "Content-Security-Policy": f"{policy}form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
            "Cache-Control": "no-store",
        }
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        """Nothing: a log of requests would hold the keys."""


class Server(ThreadingHTTPServer):
    """Bound to loopback; other hosts' names are refused, so that no page of the web can reach it through a name of its own."""

    daemon_threads = True

    def __init__(self, room: Room, port: int) -> None:
        super().__init__((HOST, port), Handler)
        self.room = room
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}
        self.origins = {f"http://{host}" for host in self.hosts}

    def handle_error(self, *_: Any) -> None:
        """A reader that went away is no fault of ours."""


@contextlib.contextmanager
def serving(study: Study, folder: Path, names: Sequence[str], port: int) -> Iterator[tuple[Server, dict[str, str]]]:
    """The server of a study, not yet running, and each person's link.

    Raises:
        GrandError: If another server has the study, its answers are damaged, the port is taken, or there are no people.
    """
    path = folder / ANSWERS
    with appending(path, sync=True) as write:
        if path.stat().st_size:
            cut_last_line(path)
        rows, _ = read_answers(folder, study)
        keys = links(folder, names)
        if not keys:
            raise GrandError("nobody is named, expected --people with names by commas")
        room = Room(study, Desk(study, rows), keys, write)
        try:
            server = Server(room, port)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise GrandError(
                f"port {port} of {HOST} cannot be used ({reason}); expected a free one, or --port 0 for any"
            ) from None
        with server:
            yield server, {who: f"http://{HOST}:{server.server_port}/{key}/" for who, key in keys.items()}
        if room.failure is not None:
            raise room.failure
