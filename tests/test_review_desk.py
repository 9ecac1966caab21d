"""Who is asked what in a human check: votes, qualifiers, honeypots, bans, undo, and nothing lost or given twice."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import Sitting, right, study_of

from grand3d.annotate.review.desk import Desk
from grand3d.annotate.review.study import FALSE, HONEYPOT, QUALIFIER, TRUE, UNSURE, WORK, Rules
from grand3d.annotate.review.tally import judged, tally, verdict
from grand3d.errors import GrandError
from grand3d.scene import Object, Scene

ROOM = Scene("toy", (Object("4", "bed", (0, 0, 0.3), (2, 1, 0.6)), Object("5", "pillow", (0, 0, 0.7), (0.4, 0.4, 0.2))))


def wrong(task):
    return FALSE if task.expected == TRUE else TRUE


def test_each_task_gets_its_votes_from_different_people_and_no_more() -> None:
    sitting = Sitting(study_of(ROOM, 7))
    done = [sitting.answer(who, right) for who in ("a", "b", "c", "d")]
    assert done == [7, 7, 7, 0]
    assert all(len(set(sitting.desk.given[f"w{k}"])) == 3 for k in range(7))
    assert sitting.desk.next("d", 0.0)[0] == "end"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 9))
def test_whoever_comes_in_whatever_order_nothing_is_lost_or_doubled(seed: int, num_people: int, num_work: int) -> None:
    """People look, answer and take back at random; a desk made of the rows is the same, and in the end all votes are there."""
    rng, study = Random(seed), study_of(ROOM, num_work, 2, lease=10)
    sitting, people = Sitting(study), [f"p{k}" for k in range(num_people)]
    for _ in range(60):
        who = rng.choice(people)
        task = sitting.look(who)
        held = Counter(p.task_id for n, p in sitting.desk.people.items() if p.task_id and sitting.now - p.since <= 10)
        for task_id, number in held.items():
            if sitting.desk.tasks[task_id].role == WORK and not any(p.undone for p in sitting.desk.people.values()):
                assert number + len(sitting.desk.counted(sitting.desk.tasks[task_id])) <= study.rules.votes
        what = rng.random()
        if task is not None and what < 0.7:
            sitting.do(who, "answer", task=task.task_id, answer=right(task), seconds=1.0)
        elif what > 0.9 and (vote := sitting.desk.last(who)) is not None:
            sitting.do(who, "undo", task=vote.task.task_id)
    again = Desk(study, sitting.rows)
    assert again.given == sitting.desk.given and again.people == sitting.desk.people
    for _ in range(3):
        for who in people:
            sitting.now += 100  # whatever others left lying is free again
            sitting.answer(who, right)
    for task in study.tasks:
        if task.role == WORK:
            givers = sitting.desk.given[task.task_id]
            assert len(givers) == len(set(givers)) and len(sitting.desk.counted(task)) == min(3, num_people)


def test_two_people_at_once_never_hold_more_than_the_votes_that_lack() -> None:
    sitting = Sitting(study_of(ROOM, 1, votes=1))
    assert sitting.look("a") is not None
    assert sitting.look("b") is None and sitting.desk.next("b", sitting.now)[0] == "wait"
    sitting.now += 10_000  # a is gone
    task = sitting.look("b")
    assert task is not None
    sitting.do("b", "answer", task=task.task_id, answer=TRUE, seconds=1.0)
    sitting.do("a", "answer", task=task.task_id, answer=FALSE, seconds=1.0)  # a comes back with the old page
    report = tally(sitting.desk)
    assert report["counts"]["votes"] == 2 and report["counts"]["votes_too_many"] == 1
    assert report["samples"][0]["verdict"] == TRUE and report["counts"]["n"] == 1


@pytest.mark.parametrize(("num_right", "standing"), [(8, "working"), (6, "working"), (5, "failed"), (0, "failed")])
def test_qualifiers_let_in_from_three_quarters_on(num_right: int, standing: str) -> None:
    sitting = Sitting(study_of(ROOM, 2, 8))
    for k in range(8):
        task = sitting.look("a")
        assert task is not None and task.role == QUALIFIER
        sitting.do("a", "answer", task=task.task_id, answer=right(task) if k < num_right else wrong(task), seconds=1.0)
    assert sitting.desk.standing("a", "truth") == standing
    assert (sitting.look("a") is not None) == (standing == "working")
    assert (sitting.desk.last("a") is None) == (standing == "failed")  # nobody tries until they pass


def test_cannot_decide_is_no_right_answer_to_a_known_task() -> None:
    sitting = Sitting(study_of(ROOM, 2, 4))
    sitting.answer("a", lambda _: UNSURE)
    assert sitting.desk.standing("a", "truth") == "failed"


@pytest.mark.parametrize(("num_wrong", "standing"), [(0, "working"), (1, "working"), (2, "banned")])
def test_honeypots_ban_below_089_but_not_for_a_single_slip(num_wrong: int, standing: str) -> None:
    sitting, missed = Sitting(study_of(ROOM, 40, 12)), 0
    while (task := sitting.look("a")) is not None:
        miss = task.role == HONEYPOT and missed < num_wrong
        missed += miss
        sitting.do("a", "answer", task=task.task_id, answer=wrong(task) if miss else right(task), seconds=1.0)
    assert sitting.desk.standing("a", "truth") == standing
    assert sitting.desk.known("a", "truth", HONEYPOT)[0] == (12 if standing == "working" else 2)


def test_later_honeypots_count_by_their_share() -> None:
    study = study_of(ROOM, 200, 30)
    for num_wrong, standing in ((3, "working"), (4, "banned")):  # 27 of 30 is 0.9, 26 of 30 is 0.867
        sitting = Sitting(study)
        while (task := sitting.look("a")) is not None:
            num, _ = sitting.desk.known("a", "truth", HONEYPOT)
            miss = task.role == HONEYPOT and num >= 30 - num_wrong
            sitting.do("a", "answer", task=task.task_id, answer=wrong(task) if miss else right(task), seconds=1.0)
        assert sitting.desk.standing("a", "truth") == standing


def test_votes_of_a_banned_person_are_void_and_their_tasks_go_to_others() -> None:
    sitting = Sitting(study_of(ROOM, 12, 4))
    sitting.answer("bad", lambda task: wrong(task) if task.role == HONEYPOT else right(task) if task.expected else FALSE)
    assert sitting.desk.standing("bad", "truth") == "banned"
    given = sum("bad" in who for who in sitting.desk.given.values())
    for who in ("a", "b", "c"):
        sitting.answer(who, right)
    report = tally(sitting.desk)
    assert report["counts"]["n"] == 12 and report["counts"]["banned"] == 1
    assert 0 < report["counts"]["votes_of_banned"] < given
    assert {row["verdict"] for row in report["samples"]} == {TRUE}
    assert all(row["votes"] == [TRUE] * 3 for row in report["samples"])


def test_honeypots_come_at_one_place_in_every_block_and_look_like_work() -> None:
    sitting = Sitting(study_of(ROOM, 30, 10))
    roles = []
    while (task := sitting.look("a")) is not None:
        roles += [task.role] if task.role != QUALIFIER else []
        sitting.do("a", "answer", task=task.task_id, answer=right(task), seconds=1.0)
    blocks = [roles[k : k + 4] for k in range(0, 40, 4)]
    assert all(block.count(HONEYPOT) == 1 for block in blocks)
    assert len({block.index(HONEYPOT) for block in blocks}) > 1


def test_undo_takes_the_last_answer_back_and_shows_its_task_again() -> None:
    sitting = Sitting(study_of(ROOM, 3))
    sitting.answer("a", right, most=2)
    last = sitting.desk.last("a")
    assert last is not None
    sitting.look("a")
    sitting.do("a", "undo", task=last.task.task_id)
    task = sitting.look("a")
    assert task is last.task and sitting.desk.given[task.task_id] == []
    sitting.do("a", "answer", task=task.task_id, answer=FALSE, seconds=1.0)
    assert sitting.desk.people["a"].votes[task.task_id].answer == FALSE and sitting.answer("a", right) == 1
    assert tally(sitting.desk)["counts"]["undone"] == 1


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ((TRUE, TRUE, FALSE), TRUE),
        ((FALSE, UNSURE, FALSE), FALSE),
        ((UNSURE, UNSURE, TRUE), UNSURE),
        ((TRUE, FALSE, UNSURE), "no agreement"),
    ],
)
def test_two_of_three_must_agree(answers: tuple[str, ...], found: str) -> None:
    sitting = Sitting(study_of(ROOM, 1))
    for who, answer in zip("abc", answers, strict=True):
        assert not judged(sitting.desk)
        sitting.answer(who, lambda _, answer=answer: answer)
    assert verdict(judged(sitting.desk)["w0"]) == found


@pytest.mark.parametrize(
    "row",
    [
        {"do": "answer", "who": "a", "at": 1, "task": "w0", "answer": "maybe", "seconds": 1},
        {"do": "answer", "who": "a", "at": 1, "task": "x", "answer": TRUE, "seconds": 1},
        {"do": "answer", "who": "a", "at": 1, "task": "w0", "answer": TRUE, "seconds": -1},
        {"do": "answer", "who": "", "at": 1, "task": "w0", "answer": TRUE, "seconds": 1},
        {"do": "sing", "who": "a", "at": 1},
        {"do": "start", "who": "a", "at": 1, "check": "steps"},
        {"do": "undo", "who": "a", "at": 1, "task": "w0"},
        {},
    ],
)
def test_rows_of_another_study_are_refused(row: dict[str, object]) -> None:
    with pytest.raises(GrandError, match="expected"):
        Desk(study_of(ROOM, 1)).apply(row)


@pytest.mark.parametrize(
    "change",
    [
        {"votes": 2},
        {"votes": 0},
        {"pass_mark": 2.0},
        {"pass_mark": float("nan")},
        {"checks": ("x",)},
        {"checks": ()},
        {"honeypot_every": 1},
    ],
)
def test_rules_that_make_no_sense_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(GrandError, match="expected"):
        Rules(**change)  # type: ignore[arg-type]
