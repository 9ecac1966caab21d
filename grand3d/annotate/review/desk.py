"""Who is asked what next, and what counts: all of it follows from the rows of a study's ``answers.jsonl``, in their order.

Rows: ``start`` (a person has read the instructions of a check), ``assign`` (a task was shown), ``answer`` and ``undo``; each with
``who`` and ``at`` (seconds since 1970). They are written before they count, so that a stop at any moment loses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from grand3d.annotate.review.study import ANSWERS, HONEYPOT, QUALIFIER, WORK, Study, Task, valid_answer
from grand3d.errors import GrandError, shown
from grand3d.files import field as value_of
from grand3d.journal import read_rows

FIRST_HONEYPOTS = 10
"""Of so many, those not answered yet count as right, so that nobody is banned for a single slip."""
WAYS = ("start", "assign", "answer", "undo")
MAX_NOTE = 2000
"""Characters of a revised step."""


@dataclass(frozen=True, slots=True)
class Vote:
    """What a person answered to a task.

    Attributes:
        seconds: The page was looked at.
        text: Of a revised step.
        object_id: Of a revised step.
    """

    task: Task
    who: str
    answer: str
    seconds: float
    text: str = ""
    object_id: str = ""


@dataclass(slots=True)
class Person:
    """What one person has done. ``votes`` are in the order in which they were given."""

    started: set[str] = field(default_factory=set)
    votes: dict[str, Vote] = field(default_factory=dict)
    task_id: str = ""  # the task before them
    since: float = 0.0
    undone: int = 0


class Desk:
    """The state of a study, made of its rows one by one."""

    def __init__(self, study: Study, rows: Iterable[dict[str, Any]] = ()) -> None:
        self.study, self.rules = study, study.rules
        self.tasks = {task.task_id: task for task in study.tasks}
        self.people: dict[str, Person] = {}
        self.given: dict[str, list[str]] = {task_id: [] for task_id in self.tasks}  # who answered, in order
        self.num_qualifiers = Counter(task.check for task in study.tasks if task.role == QUALIFIER)
        self._orders: dict[str, list[Task]] = {}
        self._standings: dict[tuple[str, str], str] = {}
        for row in rows:
            self.apply(row)

    def apply(self, row: dict[str, Any]) -> None:
        """Take one row into account.

        Raises:
            GrandError: If it is no row of this study.
        """
        self.check(row)
        person = self.people.setdefault(row["who"], Person())
        task_id, do = row.get("task", ""), row["do"]
        for check in self.rules.checks:
            self._standings.pop((row["who"], check), None)
        if do == "start":
            person.started.add(row["check"])
        elif do == "assign":
            person.task_id, person.since = task_id, row["at"]
        elif do == "answer":
            if task_id in person.votes:
                raise GrandError(f"{row['who']} answers task {task_id} a second time, expected an undo before it")
            task = self.tasks[task_id]
            more = (row.get("text", ""), row.get("object_id", ""))
            person.votes[task_id] = Vote(task, row["who"], row["answer"], row["seconds"], *more)
            person.task_id = ""
            self.given[task_id].append(row["who"])
        else:
            if task_id not in person.votes:
                raise GrandError(f"{row['who']} takes back task {task_id}, expected an answer before that")
            del person.votes[task_id]
            self.given[task_id].remove(row["who"])
            person.task_id, person.since, person.undone = task_id, row["at"], person.undone + 1

    def check(self, row: dict[str, Any]) -> None:
        """Whether a row is one of this study, whatever came before it.

        Raises:
            GrandError: If it is not.
        """
        do = value_of(row, "do", str, "")
        if do not in WAYS or not value_of(row, "who", str, "") or value_of(row, "at", float, "") < 0:
            raise GrandError(f"do is {shown(do)}, expected one of {', '.join(WAYS)}, with who and at")
        if do == "start":
            if value_of(row, "check", str, "") not in self.rules.checks:
                raise GrandError(f"check is {shown(row['check'])}, expected one of the study")
            return
        task = self.tasks.get(value_of(row, "task", str, ""))
        if task is None:
            raise GrandError(f"task is {shown(row['task'])}, expected one of the study")
        if do == "answer":
            if not valid_answer(task, value_of(row, "answer", str, "")) or value_of(row, "seconds", float, "") < 0:
                raise GrandError(
                    f"answer is {shown(row['answer'])}, expected one that task {task.task_id} takes, and seconds >= 0"
                )
            for name in ("text", "object_id"):
                value_of(row, name, str, "", "")

    def own(self, who: str, check: str, role: str) -> list[Task]:
        """The tasks of a role in this person's own order."""
        if who not in self._orders:
            order = list(self.study.tasks)
            Random(f"{self.rules.seed} {who}").shuffle(order)
            self._orders[who] = order
        return [task for task in self._orders[who] if task.check == check and task.role == role]

    def known(self, who: str, check: str, role: str) -> tuple[int, int]:
        """How many known tasks of a role a person has answered, and how many of them rightly."""
        person = self.people.get(who, Person())
        votes = [vote for vote in person.votes.values() if vote.task.check == check and vote.task.role == role]
        return len(votes), sum(vote.answer == vote.task.expected for vote in votes)

    def standing(self, who: str, check: str) -> str:
        """``new``, ``qualifying``, ``failed`` (the qualifiers), ``working`` or ``banned`` (by honeypots)."""
        if (who, check) not in self._standings:
            self._standings[who, check] = self._judge(who, check)
        return self._standings[who, check]

    def _judge(self, who: str, check: str) -> str:
        if check not in self.people.get(who, Person()).started:
            return "new"
        of = self.num_qualifiers[check]
        num, right = self.known(who, check, QUALIFIER)
        if num < of:
            return "qualifying"
        if of and right / of < self.rules.pass_mark:
            return "failed"
        num, right = self.known(who, check, HONEYPOT)
        least = max(num, FIRST_HONEYPOTS)
        return "banned" if (least - (num - right)) / least < self.rules.honeypot_mark else "working"

    def counted(self, task: Task) -> list[Vote]:
        """The votes on a task that count: the first of people who are not banned, as many as the rules ask for."""
        good = [who for who in self.given[task.task_id] if self.standing(who, task.check) == "working"]
        return [self.people[who].votes[task.task_id] for who in good[: self.rules.votes]]

    def next(self, who: str, at: float) -> tuple[str, str, Task | None]:
        """What a person is shown now: ``(what, check, task)``.

        ``what`` is ``instructions`` of the check, ``task``, ``wait`` (others have the last tasks before them), or ``end``.
        """
        person = self.people.get(who, Person())
        waiting = ""
        for check in self.rules.checks:
            standing = self.standing(who, check)
            if standing == "new":
                if self._possible(who, check):
                    return "instructions", check, None
                continue
            if standing in ("failed", "banned"):
                continue
            open_task = self.tasks.get(person.task_id)
            if open_task is not None and open_task.check == check and open_task.task_id not in person.votes:
                late = at - person.since > self.rules.lease  # others may have done it since
                if open_task.role != WORK or not late or self._room(open_task, self._held(who, at)):
                    return "task", check, open_task
            if standing == "qualifying":
                left = [task for task in self.own(who, check, QUALIFIER) if task.task_id not in person.votes]
                return "task", check, left[0]
            task = self._honeypot(who, check) or self._work(who, check, at)
            if task is not None:
                return "task", check, task
            if self._possible(who, check):
                waiting = waiting or check
        return ("wait", waiting, None) if waiting else ("end", "", None)

    def _possible(self, who: str, check: str) -> bool:
        """Whether some work of a check lacks votes that this person may give."""
        done = self.people.get(who, Person()).votes
        work = (task for task in self.study.tasks if task.check == check and task.role == WORK and task.task_id not in done)
        return any(len(self.counted(task)) < self.rules.votes for task in work)

    def _held(self, who: str, at: float) -> Counter[str]:
        """How many others have each task before them, and are about to answer it."""
        others = (person for other, person in self.people.items() if other != who)
        return Counter(person.task_id for person in others if person.task_id and at - person.since <= self.rules.lease)

    def _room(self, task: Task, held: Counter[str]) -> bool:
        """Whether a task lacks votes beyond those that others are about to give."""
        return len(self.counted(task)) + held[task.task_id] < self.rules.votes

    def _honeypot(self, who: str, check: str) -> Task | None:
        """The next honeypot, at one place of chance in each ``honeypot_every`` tasks."""
        every, votes = self.rules.honeypot_every, self.people[who].votes
        left = [task for task in self.own(who, check, HONEYPOT) if task.task_id not in votes] if every else []
        if not left:
            return None
        block, place = divmod(sum(vote.task.check == check and vote.task.role != QUALIFIER for vote in votes.values()), every)
        due = Random(f"{self.rules.seed} {who} {check} {block}").randrange(every)
        return left[0] if place == due else None

    def _work(self, who: str, check: str, at: float) -> Task | None:
        """The task that is nearest to having all its votes."""
        done, held = self.people[who].votes, self._held(who, at)
        free = [t for t in self.own(who, check, WORK) if t.task_id not in done and self._room(t, held)]
        return max(free, key=lambda task: len(self.given[task.task_id]), default=None)

    def last(self, who: str) -> Vote | None:
        """The answer that a person may take back: the last one, while they are neither failed nor banned for it."""
        person = self.people.get(who, Person())
        if not person.votes:
            return None
        vote = next(reversed(person.votes.values()))
        return vote if self.standing(who, vote.task.check) in ("qualifying", "working") else None

    def progress(self, who: str, check: str) -> tuple[int, int]:
        """Tasks of a check that a person has done, and about how many there are for them in all."""
        person = self.people.get(who, Person())
        done = sum(vote.task.check == check for vote in person.votes.values())
        if self.standing(who, check) == "qualifying":
            return done, self.num_qualifiers[check]
        work = [t for t in self.study.tasks if t.check == check and t.role == WORK and t.task_id not in person.votes]
        left = sum(len(self.counted(task)) < self.rules.votes for task in work)
        return done, done + left


def read_answers(folder: Path, study: Study) -> tuple[list[dict[str, Any]], bool]:
    """The rows of a study, and whether the last line was cut off, as a kill leaves it.

    Raises:
        GrandError: If a line is damaged in another way.
    """
    return read_rows(folder / ANSWERS, Desk(study).check)
