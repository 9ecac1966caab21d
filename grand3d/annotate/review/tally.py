"""What people said, as tables: verdicts, agreement, time, people, and a language model's judgements beside theirs.

Figures are in percent with 95 % intervals by scene. A verdict is what more than half of a task's votes say; votes of people who
failed the qualifiers or were banned by honeypots do not count, and their tasks go to others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from grand3d.annotate.review.agreement import NO_VERDICT, Row, agreement_row, judge_row, put_share
from grand3d.annotate.review.desk import FIRST_HONEYPOTS, Desk, Vote
from grand3d.annotate.review.study import (
    CHECKS,
    DROP,
    FALSE,
    HONEYPOT,
    KEEP,
    QUALIFIER,
    STEPS,
    TRUE,
    UNSURE,
    VERDICTS,
    WORK,
    Task,
)

REVISED = "revise"
NAMES = {TRUE: "true", FALSE: "not_true", UNSURE: "cannot_decide", NO_VERDICT: "no_agreement"}
NAMES |= {KEEP: "kept", REVISED: "revised", DROP: "dropped"}


def verdict(votes: Sequence[Vote]) -> str:
    """The answer that more than half of the votes give, or NO_VERDICT."""
    answer, number = Counter(vote.answer for vote in votes).most_common(1)[0]
    return answer if 2 * number > len(votes) else NO_VERDICT


def judged(desk: Desk) -> dict[str, list[Vote]]:
    """The votes that count of every task of the work that has all of them, by ``task_id``."""
    out = {}
    for task in desk.study.tasks:
        votes = desk.counted(task) if task.role == WORK else []
        if len(votes) == desk.rules.votes:
            out[task.task_id] = votes
    return out


def tally(desk: Desk, judge: Mapping[str, str | None] | None = None, cut: bool = False) -> Row:
    """The report of a study, for ``report.render``; whatever is not finished is left out of the figures and counted.

    Args:
        judge: A language model's answers by ``task_id``; None for one that cannot be used.
        cut: The last line of the answers was cut off.
    """
    votes = judged(desk)
    work = [task for task in desk.study.tasks if task.role == WORK]
    done = [task for task in work if task.task_id in votes]
    verdicts = {task.task_id: verdict(votes[task.task_id]) for task in done}
    tables = {
        "Verdicts": [row for check in CHECKS if check != STEPS for row in _verdict_rows(done, verdicts, check)],
        "Texts of which every sentence is": _text_rows(work, verdicts),
        "Plans": _plan_rows(done, verdicts),
        "Agreement of people": [row for check in CHECKS if (row := agreement_row(done, votes, check))],
        "Time": [row for check in CHECKS if (row := _time_row(desk, check))],
        "People": [
            row for who in sorted(desk.people) for check in desk.rules.checks if (row := _person_row(desk, verdicts, who, check))
        ],
    }
    if judge is not None:
        tables["Language model and people"] = [row for check in CHECKS if (row := judge_row(done, verdicts, judge, check))]
    return {
        "benchmark": "review",
        "counts": _counts(desk, work, done, verdicts, cut),
        "rules": _rules(desk, judge is not None),
        "tables": {name: rows for name, rows in tables.items() if rows},
        "samples": [_sample(task, votes[task.task_id], verdicts[task.task_id]) for task in done],
    }


def _counts(desk: Desk, work: Sequence[Task], done: Sequence[Task], verdicts: Mapping[str, str], cut: bool) -> Row:
    given = [vote for person in desk.people.values() for vote in person.votes.values()]
    of_work = [vote for vote in given if vote.task.role == WORK]
    counting = sum(len(desk.counted(task)) for task in work)
    void = sum(desk.standing(vote.who, vote.task.check) != "working" for vote in of_work)
    ends = Counter(desk.standing(who, check) for who in desk.people for check in desk.rules.checks)
    return {
        "n": len(done),
        "tasks": len(work),
        "unfinished": len(work) - len(done),
        "no_agreement": sum(value == NO_VERDICT for value in verdicts.values()),
        "votes": len(of_work),
        "votes_of_banned": void,
        "votes_too_many": len(of_work) - counting - void,
        "known_answers": len(given) - len(of_work),
        "undone": sum(person.undone for person in desk.people.values()),
        "people": len(desk.people),
        "failed": ends["failed"],
        "banned": ends["banned"],
        "cut_off_lines": int(cut),
    }


def _rules(desk: Desk, judged_too: bool) -> dict[str, str]:
    rules = desk.rules
    out = {
        "verdict": f"{rules.votes} votes of different people, {rules.votes // 2 + 1} must agree (3D-GRAND, app. E: 3 and 2)",
        "qualifiers": f"{rules.qualifiers} tasks with known answers first, at least {100 * rules.pass_mark:g} % right lets in",
        "honeypots": f"one task in {rules.honeypot_every} has a known answer; below {100 * rules.honeypot_mark:g} % right "
        f"a person is banned and their votes void (of the first {FIRST_HONEYPOTS}, those not answered yet count as right)",
        "intervals": "95 %, bootstrap over scenes",
        "kappa": "Fleiss (1971) among people; of a language model and the verdict of people, Cohen (1960)",
        "seconds": "the page was before a person, in a window that is seen",
    }
    if STEPS in rules.checks:
        out["plans"] = "one wrong step is revised, with more the plan is dropped (SG3D, section 3.2)"
    if judged_too:
        out["language model"] = (
            "valid: share of answers that can be used; the other figures are over those, where people agree. recall and "
            "precision: of what people call not true (of plans: not kept)"
        )
    return out


def _verdict_rows(done: Sequence[Task], verdicts: Mapping[str, str], check: str) -> list[Row]:
    """All tasks of a check, then those of each kind of text."""
    own = [task for task in done if task.check == check]
    kinds = sorted({task.kind for task in own})
    rows = []
    for kind in [None, *kinds] if len(kinds) > 1 else [None] if own else []:
        tasks = [task for task in own if kind in (None, task.kind)]
        row: Row = {"check": check, "kind": kind or "all", "n": len(tasks)}
        for name in (*VERDICTS, NO_VERDICT):
            values = [float(verdicts[task.task_id] == name) for task in tasks]
            put_share(row, NAMES[name], values, [task.scene_id for task in tasks])
        rows.append(row)
    return rows


def _text_rows(work: Sequence[Task], verdicts: Mapping[str, str]) -> list[Row]:
    """Whole texts of which every sentence has a verdict."""
    rows = []
    for check in CHECKS[:2]:
        texts: dict[str, list[Task]] = {}
        for task in work:
            if task.check == check:
                texts.setdefault(task.sample_id, []).append(task)
        whole = [tasks for tasks in texts.values() if all(task.task_id in verdicts for task in tasks)]
        if whole:
            row: Row = {"check": check, "n": len(whole)}
            values = [float(all(verdicts[task.task_id] == TRUE for task in tasks)) for tasks in whole]
            put_share(row, "true", values, [tasks[0].scene_id for tasks in whole])
            rows.append(row)
    return rows


def _plan_rows(done: Sequence[Task], verdicts: Mapping[str, str]) -> list[Row]:
    tasks = [task for task in done if task.check == STEPS]
    if not tasks:
        return []
    row: Row = {"check": STEPS, "n": len(tasks)}
    for name in (KEEP, REVISED, DROP, NO_VERDICT):
        values = [float(verdicts[task.task_id].startswith(name)) for task in tasks]
        put_share(row, NAMES[name], values, [task.scene_id for task in tasks])
    return [row]


def _time_row(desk: Desk, check: str) -> Row | None:
    seconds = [v.seconds for p in desk.people.values() for v in p.votes.values() if v.task.check == check and v.task.role == WORK]
    if not seconds:
        return None
    quarter, median, most = np.quantile(seconds, [0.25, 0.5, 0.75])
    return {
        "check": check,
        "votes": len(seconds),
        "seconds_mean": float(np.mean(seconds)),
        "seconds_median": float(median),
        "quarter_below": float(quarter),
        "quarter_above": float(most),
        "hours": sum(seconds) / 3600,
    }


def _person_row(desk: Desk, verdicts: Mapping[str, str], who: str, check: str) -> Row | None:
    standing = desk.standing(who, check)
    if standing == "new":
        return None
    own = [vote for vote in desk.people[who].votes.values() if vote.task.check == check and vote.task.role == WORK]
    agreed = [
        vote.answer == verdicts[vote.task.task_id] for vote in own if verdicts.get(vote.task.task_id, NO_VERDICT) != NO_VERDICT
    ]
    row: Row = {"who": who, "check": check, "standing": standing}
    for name, role in (("qualifiers", QUALIFIER), ("honeypots", HONEYPOT)):
        num, right = desk.known(who, check, role)
        row[name], row[f"{name}_right"] = num, 100 * right / num if num else None
    row |= {"votes": len(own), "with_verdict": 100 * float(np.mean(agreed)) if agreed else None}
    row["seconds_median"] = float(np.median([vote.seconds for vote in own])) if own else None
    return row


def _sample(task: Task, votes: Sequence[Vote], said: str) -> Row:
    notes = [
        {"text": vote.text, "object_id": vote.object_id}
        for vote in votes
        if vote.answer == said and (vote.text or vote.object_id)
    ]
    row: Row = {"sample_id": task.sample_id, "scene_id": task.scene_id, "task_id": task.task_id, "check": task.check}
    row |= {"kind": task.kind, "sentence": task.text[task.start : task.end], "verdict": said}
    row |= {"votes": [vote.answer for vote in votes], "seconds": [vote.seconds for vote in votes]}
    return row | ({"revisions": notes} if notes else {})
