"""Small studies of the toy room for tests, and people who sit at a desk or a server and answer."""

from __future__ import annotations

import contextlib
import http.client
import re
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from grand3d.annotate.review.desk import Desk
from grand3d.annotate.review.serve import Server, serving
from grand3d.annotate.review.study import FALSE, HONEYPOT, QUALIFIER, TRUE, WORK, Rules, Study, Task, save_study
from grand3d.sample import Sample
from grand3d.scene import Scene

TEXT = "The <p>pillows</p>[<5>, <6>] are on <p>the bed</p>[<4>]."
PLAN = (
    "<step>1. Walk to the desk. <p>desk</p>[<0>]</step><step>2. Switch on the lamp. <p>table lamp</p>[<3>]</step>"
    "<step>3. Sit down. <p>office chair</p>[<1>]</step>"
)


def study_of(scene: Scene, num_work: int = 6, num_known: int = 0, check: str = "truth", **rules: Any) -> Study:
    """A study with so many tasks of one check, in two rooms, and so many qualifiers and honeypots, every second one false."""
    scenes = {name: replace(scene, scene_id=name) for name in ("a", "b")}
    samples, tasks = [], []
    for k in range(num_work):
        name = "ab"[k % 2]
        sample = Sample(
            f"s{k}", name, "plan" if check == "steps" else "scene_description", "Read.", PLAN if check == "steps" else TEXT
        )
        samples.append(sample)
        tasks.append(Task(f"w{k}", check, WORK, sample.sample_id, name, sample.task, sample.answer, 0, len(sample.answer)))
    for role in (QUALIFIER, HONEYPOT):
        for k in range(num_known):
            expected = FALSE if k % 2 else TRUE
            tasks.append(Task(f"{role[0]}{k}", check, role, f"k{k}", "a", "existence", TEXT, 0, len(TEXT), expected=expected))
    found = Rules(**({"checks": (check,), "qualifiers": num_known, "honeypot_every": 4 if num_known else 0} | rules))
    return Study(found, scenes, samples, tasks)


class Sitting:
    """A person at a desk, without a server: each row is kept, so that another desk can be made of them."""

    def __init__(self, study: Study) -> None:
        self.desk, self.rows, self.now = Desk(study), [], 0.0

    def do(self, who: str, do: str, **more: Any) -> None:
        self.now += 1
        row = {"do": do, "who": who, "at": self.now, **more}
        self.desk.apply(row)
        self.rows.append(row)

    def look(self, who: str) -> Task | None:
        """The task before a person; instructions are read on the way."""
        what, check, task = self.desk.next(who, self.now)
        if what == "instructions":
            self.do(who, "start", check=check)
            return self.look(who)
        if task is not None and self.desk.people[who].task_id != task.task_id:
            self.do(who, "assign", task=task.task_id)
        return task

    def answer(self, who: str, answer: Callable[[Task], str], most: int = 1000) -> int:
        """Answer what comes until nothing does; gives the number of answers."""
        for number in range(most):
            task = self.look(who)
            if task is None:
                return number
            self.do(who, "answer", task=task.task_id, answer=answer(task), seconds=2.0)
        return most


def right(task: Task) -> str:
    return task.expected or TRUE


@contextlib.contextmanager
def served(study: Study, folder: Path, names: str = "anna,ben,cara") -> Iterator[tuple[Server, dict[str, str]]]:
    """A server in this process."""
    if not folder.exists():
        save_study(folder, study)
    with serving(study, folder, names.split(","), 0) as (server, links):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server, links
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def started(folder: Path, names: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """``grand3d review serve`` as a process of its own, and its links."""
    line = [sys.executable, "-m", "grand3d", "review", "serve", str(folder), "--people", names, "--port", "0"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        rows = [process.stdout.readline().strip().split("\t") for _ in names.split(",")]
        yield process, {row[0]: row[1] for row in rows}
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def ask(
    link: str, path: str = "", form: dict[str, Any] | str | None = None, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    """Status and text of a request below a link; with a form it is sent, as our pages do unless headers say otherwise."""
    address = urllib.parse.urlsplit(link)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    try:
        if form is None:
            connection.request("GET", address.path + path, headers=headers or {})
        else:
            body = form if isinstance(form, str) else urllib.parse.urlencode(form, doseq=True)
            own = {"Origin": f"http://{address.netloc}", "Content-Type": "application/x-www-form-urlencoded"} | (headers or {})
            connection.request("POST", address.path + path, body.encode(), {k: v for k, v in own.items() if v})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def task_of(page: str) -> str:
    """The id of the task on a page; empty where there is none."""
    found = re.search(r'name="task" value="([^"]*)"', page)
    return found[1] if found else ""


def work_through(link: str, study: Study, answer: Callable[[Task], str], most: int = 1000) -> int:
    """Answer over HTTP what comes; gives the number of answers taken. Waits are ended at once."""
    tasks = {task.task_id: task for task in study.tasks}
    for number in range(most):
        page = ask(link)[1]
        while begin := re.search(r'action="start"><input type="hidden" name="check" value="([a-z]+)"', page):
            assert ask(link, "start", {"check": begin[1]})[0] == 303
            page = ask(link)[1]
        if not task_of(page):
            return number
        assert ask(link, "answer", {"task": task_of(page), "seconds": "0.5", "answer": answer(tasks[task_of(page)])})[0] == 303
    return most
