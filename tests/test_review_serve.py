"""The server of a human check: loopback only, secret links, bad requests refused, every answer kept whatever is killed."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import stat
import threading
import time
import urllib.parse
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studies import PLAN, ask, right, served, started, study_of, task_of, work_through

from grand3d.annotate.review.desk import Desk, read_answers
from grand3d.annotate.review.serve import serving
from grand3d.annotate.review.study import FALSE, TRUE, load_study, save_study
from grand3d.annotate.review.tally import tally
from grand3d.errors import GrandError
from grand3d.scene import Object, Scene

HOSTILE = "</title><script>alert(1)</script>\"'&<b onmouseover=alert(2)>"


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]


def test_three_people_at_once_give_all_votes_and_none_twice(toy_scene: Scene, tmp_path: Path) -> None:
    study = study_of(toy_scene, 12, 2)
    with served(study, tmp_path / "s") as (_, links):
        threads = [threading.Thread(target=work_through, args=(link, study, right)) for link in links.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for link in links.values():  # whatever the others had before them is free now
            work_through(link, study, right)
        assert "Thank you" in ask(links["anna"])[1]
    answers = Counter((row["who"], row["task"]) for row in rows_of(tmp_path / "s") if row["do"] == "answer")
    assert set(answers.values()) == {1}
    report = tally(Desk(study, rows_of(tmp_path / "s")))
    assert report["counts"]["n"] == 12 and report["counts"]["votes"] == 36 and report["counts"]["votes_too_many"] == 0


def test_what_a_person_has_before_them_stays_until_it_is_answered_also_over_a_restart(toy_scene: Scene, tmp_path: Path) -> None:
    study = study_of(toy_scene, 9)
    with served(study, tmp_path / "s") as (_, links):
        ask(links["anna"], "start", {"check": "truth"})
        first = task_of(ask(links["anna"])[1])
        assert first and task_of(ask(links["anna"])[1]) == first
    with served(study, tmp_path / "s") as (_, again):
        assert urllib.parse.urlsplit(again["anna"]).path == urllib.parse.urlsplit(links["anna"]).path
        assert task_of(ask(again["anna"])[1]) == first
    assert sum(row["do"] == "assign" for row in rows_of(tmp_path / "s")) == 1


@pytest.mark.parametrize("moment", range(3))
def test_killed_in_the_middle_no_answer_is_lost(toy_scene: Scene, tmp_path: Path, moment: int) -> None:
    """Each answer whose page came back is in the file after kill -9 while two people work; a half line is cut off, and said."""
    study, folder = study_of(toy_scene, 40, 2), tmp_path / "s"
    save_study(folder, study)
    taken: list[tuple[str, str]] = []
    tasks = {task.task_id: task for task in study.tasks}

    def work(who: str, link: str, most: int) -> None:
        try:
            for _ in range(most):
                page = ask(link)[1]
                if 'action="start"' in page:
                    ask(link, "start", {"check": "truth"})
                    continue
                form = {"task": task_of(page), "seconds": "1", "answer": right(tasks[task_of(page)])}
                if ask(link, "answer", form)[0] == 303:
                    taken.append((who, form["task"]))
        except (OSError, http.client.HTTPException):
            pass

    with started(folder, "anna,ben") as (process, links):
        threads = [threading.Thread(target=work, args=(who, link, 200)) for who, link in links.items()]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 60
        while len(taken) < 5 + 4 * moment:
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        for thread in threads:
            thread.join()
    kept = {(row["who"], row["task"]) for row in rows_of(folder) if row["do"] == "answer"}
    assert set(taken) <= kept and len(kept) <= len(taken) + 2 and len(taken) == len(set(taken))
    with (folder / "answers.jsonl").open("a") as file:
        file.write('{"do": "answer", "who": "anna", "ta')
    assert tally(*_desk(folder))["counts"]["cut_off_lines"] == 1
    with served(study, folder) as (_, links):
        for who in ("anna", "ben", "cara"):
            work_through(links[who], study, right)
    desk, _, cut = _desk(folder)
    assert not cut and tally(desk)["counts"]["n"] == 40
    assert {(row["who"], row["task"]) for row in rows_of(folder) if row["do"] == "answer"} >= kept


def _desk(folder: Path) -> tuple[Desk, None, bool]:
    study = load_study(folder)
    rows, cut = read_answers(folder, study)
    return Desk(study, rows), None, cut


def test_bad_posts_are_refused_and_leave_nothing(toy_scene: Scene, tmp_path: Path) -> None:
    study = study_of(toy_scene, 3)
    with served(study, tmp_path / "s") as (server, links):
        link = links["anna"]
        ask(link, "start", {"check": "truth"})
        task = task_of(ask(link)[1])
        good = {"task": task, "seconds": "1", "answer": TRUE}
        before = rows_of(tmp_path / "s")
        foreign = {"Origin": "http://evil.example"}
        bad: list[tuple[int, str, Any, dict[str, str]]] = [
            (403, "answer", good, foreign),
            (403, "answer", good, {"Origin": "null"}),
            (403, "answer", good, {"Origin": ""}),
            (403, "answer", good, {"Host": "evil.example"}),
            (403, "answer", good, {"Host": f"evil.example:{server.server_port}"}),
            (415, "answer", json.dumps(good), {"Content-Type": "application/json"}),
            (415, "answer", good, {"Content-Type": "text/plain"}),
            (413, "answer", "x=" + "a" * 30_000, {}),
            (400, "answer", "task=%ff", {}),
            (400, "answer", "task", {}),
            (400, "answer", f"task={task}&task={task}&seconds=1&answer=true", {}),
            (400, "answer", {**good, "answer": "maybe"}, {}),
            (400, "answer", {**good, "answer": "keep"}, {}),
            (400, "answer", {**good, "task": "x"}, {}),
            (400, "answer", {**good, "seconds": "nan"}, {}),
            (400, "answer", {**good, "seconds": "-1"}, {}),
            (400, "answer", {**good, "seconds": "1e999"}, {}),
            (400, "answer", {**good, "seconds": ""}, {}),
            (400, "answer", {**good, "more": "1"}, {}),
            (400, "answer", {**good, "wrong": "1"}, {}),
            (400, "answer", {}, {}),
            (400, "start", {"check": "steps"}, {}),
            (400, "undo", {"task": task}, {}),
            (409, "undo", "", {}),
            (409, "answer", {**good, "task": next(t.task_id for t in study.tasks if t.task_id != task)}, {}),
            (404, "other", good, {}),
            (404, "../answer", good, {}),
        ]
        for status, path, form, headers in bad:
            assert ask(link, path, form, headers)[0] == status, (path, form, headers)
        stranger = re.sub(r"/[^/]+/$", "/none/", link)
        assert ask(stranger)[0] == ask(stranger, "answer", good)[0] == ask(link, "how/none")[0] == 404
        assert ask(re.sub(r"/[^/]+/$", "/", link))[0] == 404
        assert rows_of(tmp_path / "s") == before
        assert ask(link, "answer", good)[0] == ask(link, "answer", good)[0] == 303  # sent twice, counted once
        assert ask(link, "answer", {**good, "answer": FALSE})[0] == 409
        assert sum(row["do"] == "answer" for row in rows_of(tmp_path / "s")) == 1


def test_time_is_never_longer_than_the_task_was_out(toy_scene: Scene, tmp_path: Path) -> None:
    with served(study_of(toy_scene, 2), tmp_path / "s") as (_, links):
        ask(links["anna"], "start", {"check": "truth"})
        task = task_of(ask(links["anna"])[1])
        ask(links["anna"], "answer", {"task": task, "seconds": "9999", "answer": TRUE})
    assert next(row["seconds"] for row in rows_of(tmp_path / "s") if row["do"] == "answer") < 10


def test_only_loopback_hears_and_the_links_are_private(toy_scene: Scene, tmp_path: Path) -> None:
    with served(study_of(toy_scene, 2), tmp_path / "s") as (server, links):
        assert server.socket.getsockname()[0] == "127.0.0.1"
        assert len(set(links.values())) == 3 and all(len(urllib.parse.urlsplit(link).path) > 20 for link in links.values())
        assert stat.S_IMODE((tmp_path / "s" / "people.jsonl").stat().st_mode) == 0o600
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
        connection.request("GET", urllib.parse.urlsplit(links["anna"]).path)
        headers = connection.getresponse().headers
        connection.close()
        assert "default-src 'none'" in headers["Content-Security-Policy"] and headers["Cache-Control"] == "no-store"


def test_second_server_of_a_study_and_a_taken_port_are_refused(toy_scene: Scene, tmp_path: Path) -> None:
    study = study_of(toy_scene, 2)
    save_study(tmp_path / "other", study)
    with served(study, tmp_path / "s") as (server, _):
        with pytest.raises(GrandError, match="expected"), serving(study, tmp_path / "s", ["x"], 0):
            pass
        with (
            pytest.raises(GrandError, match=r"port \d+ .*expected"),
            serving(study, tmp_path / "other", ["x"], server.server_port),
        ):
            pass
    for port in (-1, 70_000):
        with pytest.raises(GrandError, match="expected"), serving(study, tmp_path / "other", ["x"], port):
            pass


@pytest.mark.parametrize("names", [[], [" "], ["a\nb"], ["x" * 61]])
def test_names_that_cannot_be_used_are_refused(toy_scene: Scene, tmp_path: Path, names: list[str]) -> None:
    study = study_of(toy_scene, 2)
    save_study(tmp_path / "s", study)
    with pytest.raises(GrandError, match="expected"), serving(study, tmp_path / "s", names, 0):
        pass


def test_damaged_answers_are_named(toy_scene: Scene, tmp_path: Path) -> None:
    study = study_of(toy_scene, 2)
    save_study(tmp_path / "s", study)
    (tmp_path / "s" / "answers.jsonl").write_text(
        '{"do": "sing", "who": "a", "at": 1}\n{"do": "start", "who": "a", "at": 1, "check": "truth"}\n'
    )
    with pytest.raises(GrandError, match=r"answers\.jsonl:1"), serving(study, tmp_path / "s", ["x"], 0):
        pass


def test_answer_that_cannot_be_stored_is_said_and_ends_the_server(toy_scene: Scene, tmp_path: Path) -> None:
    study = study_of(toy_scene, 2)
    with pytest.raises(GrandError, match="cannot be written"), served(study, tmp_path / "s") as (server, links):
        ask(links["anna"], "start", {"check": "truth"})
        task = task_of(ask(links["anna"])[1])

        def full(_: dict[str, Any]) -> None:
            raise GrandError("answers.jsonl: cannot be written (No space left on device)")

        server.room.write = full
        status, page = ask(links["anna"], "answer", {"task": task, "seconds": "1", "answer": TRUE})
        assert status == 500 and "could not be stored" in page
    assert not any(row["do"] == "answer" for row in rows_of(tmp_path / "s"))


def test_client_that_sends_half_a_request_holds_nobody_up(toy_scene: Scene, tmp_path: Path) -> None:
    with (
        served(study_of(toy_scene, 2), tmp_path / "s") as (server, links),
        socket.create_connection(("127.0.0.1", server.server_port)) as half,
    ):
        half.sendall(b"POST /x/answer HTTP/1.1\r\nContent-Le")
        assert ask(links["anna"])[0] == 200


@pytest.mark.parametrize("check", ["truth", "grounding", "steps"])
def test_hostile_texts_come_out_as_text(tmp_path: Path, check: str) -> None:
    room = Scene(
        "a",
        tuple(
            Object(
                i, HOSTILE.replace("\n", " "), (float(i), 0, 0.5), (1, 1, 1), attributes={"colour": HOSTILE}, description=HOSTILE
            )
            for i in "34056"
        ),
    )
    study = study_of(room, 2, check=check)
    tasks = []
    for task in study.tasks:
        text = task.text.replace("the bed", "the onmouseover=alert(3) bed\"'").replace("Sit down", f"Sit {HOSTILE}")
        tasks.append(replace(task, text=text, end=len(text), question=HOSTILE))
    with served(replace(study, tasks=tasks), tmp_path / "s") as (_, links):
        ask(links["anna"], "start", {"check": check})
        page = ask(links["anna"])[1]
    assert task_of(page) and "alert(1)" in page
    assert len(re.findall("<script", page)) == 1 and "<b onmouseover" not in page
    assert not re.search(r"<[a-z]+ [^<>]*\"'&<b", page)


def test_steps_of_a_plan_are_kept_revised_or_dropped(toy_scene: Scene, tmp_path: Path) -> None:
    study = study_of(toy_scene, 3, check="steps", votes=1)
    with served(study, tmp_path / "s") as (_, links):
        link = links["anna"]
        ask(link, "start", {"check": "steps"})
        for form, status in (
            ({"wrong": ["1", "1"]}, 400),
            ({"wrong": ["4"]}, 400),
            ({"wrong": ["x"]}, 400),
            ({"wrong": ["2"], "text": "x", "object_id": "99"}, 400),
            ({"wrong": ["2"], "text": "x" * 2001}, 400),
            ({"answer": "keep"}, 400),
            ({}, 303),
            ({"wrong": ["2"], "text": "Switch  the lamp off.\r\n", "object_id": "3"}, 303),
            ({"wrong": ["1", "3"]}, 303),
        ):
            assert ask(link, "answer", {"task": task_of(ask(link)[1]), "seconds": "1", **form})[0] == status, form
    answers = [row for row in rows_of(tmp_path / "s") if row["do"] == "answer"]
    assert [row["answer"] for row in answers] == ["keep", "revise 2", "drop"]
    assert answers[1]["text"] == "Switch the lamp off." and answers[1]["object_id"] == "3" and PLAN.count("<step>") == 3
