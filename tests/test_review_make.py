"""How a study is drawn: sentences, tasks with known answers, the folder, the command line."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grand3d.annotate.facts import Facts
from grand3d.annotate.filters import faults
from grand3d.annotate.kinds import KINDS
from grand3d.annotate.make import make_texts
from grand3d.annotate.review.known import made_tasks
from grand3d.annotate.review.pages import marks_of, numbered
from grand3d.annotate.review.study import FALSE, TRUE, load_study, sample_tasks, sentences
from grand3d.annotate.review.views import VIEWS, draw_views
from grand3d.markup import parse, span
from grand3d.sample import Data, Sample, load_data, save_data
from grand3d.scene import Object, Scene
from grand3d.synth import make_room

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def rooms() -> dict[str, Scene]:
    return {room.scene_id: room for room in map(make_room, range(3))}


@pytest.fixture
def texts(tmp_path: Path, rooms: dict[str, Scene]) -> Path:
    """A data folder of made texts of all kinds."""
    samples = [sample for room in rooms.values() for kind in KINDS for sample in make_texts(Facts(room), kind, 2)]
    save_data(tmp_path / "texts", Data(rooms, samples))
    return tmp_path / "texts"


def test_sentences_end_where_people_end_them() -> None:
    text = 'It is 1.5 m away. See <p>Mr. Desk</p>[<a. b>]. "Is it?" Yes! e.g. this.'
    assert [text[a:b] for a, b in sentences(text)] == [
        "It is 1.5 m away.",
        "See <p>Mr. Desk</p>[<a. b>].",
        '"Is it?"',
        "Yes! e.g. this.",
    ]
    assert sentences("") == sentences("  ") == []


WORDS = st.text(st.sampled_from("ab. !?\n"), min_size=1, max_size=12)
SPANS = st.builds(lambda words, k: span(words.replace("\n", " "), (f"o. {k}",)), WORDS.filter(str.strip), st.integers(0, 3))


@given(st.lists(st.one_of(WORDS, SPANS), max_size=8).map("".join))
def test_sentences_cover_every_character_and_cut_no_phrase(text: str) -> None:
    parts = sentences(text)
    assert "".join(text[a:b] for a, b in parts).replace(" ", "").replace("\n", "") == text.replace(" ", "").replace("\n", "")
    assert all(b <= c for (_, b), (c, _) in itertools.pairwise(parts))
    for item in parse(text).spans:
        assert sum(a <= item.start and item.end <= b for a, b in parts) == 1


def test_each_kind_of_sample_gives_the_tasks_that_fit_it(toy_scene: Scene) -> None:
    def tasks(task: str, text: str, answer: str = "", ids: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        found = sample_tasks(Sample("s", "toy_room", task, text, answer, ids), toy_scene, ("truth", "grounding", "steps"))
        return [(row.check, row.text[row.start : row.end]) for row in found]

    assert tasks("object_reference", "the chair. At the desk.", ids=("1",)) == [
        (check, "<p>the chair. At the desk.</p>[<1>]") for check in ("truth", "grounding")
    ]
    assert tasks("existence", "Any pillows?", "Yes", ("5", "6")) == [
        (check, "Yes [<5>, <6>]") for check in ("truth", "grounding")
    ]
    assert tasks("existence", "Any cats?", "No") == [("truth", "No")]
    assert tasks("scene_description", "Describe.", "A <p>bed</p>[<4>]. It is big.") == [
        ("truth", "A <p>bed</p>[<4>]."),
        ("truth", "It is big."),
        ("grounding", "A <p>bed</p>[<4>]."),
    ]
    assert tasks("plan", "Sleep.", "<step>1. Lie down. <p>bed</p>[<4>]</step>") == [
        ("steps", "<step>1. Lie down. <p>bed</p>[<4>]</step>")
    ]
    assert tasks("placement", "Put a cup on the desk.", "<place>1, 1, 1</place>") == [] == tasks("scene_description", "Describe.")


@pytest.mark.parametrize("check", ["truth", "grounding"])
def test_known_answers_are_known(rooms: dict[str, Scene], check: str) -> None:
    tasks = made_tasks(rooms, check, 20, 0)
    assert Counter(task.expected for task in tasks) == {TRUE: 10, FALSE: 10}
    assert len({task.kind for task in tasks}) > 1
    for task in tasks:
        facts = Facts(rooms[task.scene_id])
        text = task.text[task.start : task.end]
        assert bool(faults(text, facts)) == (task.expected == FALSE)
        if task.expected == FALSE and check == "truth":  # something is named that the room lacks
            assert any(not facts.called(item.phrase.split(" ", 1)[-1]) for item in parse(text).spans)
        if task.expected == FALSE and check == "grounding":
            assert any(facts.by_id[i].category not in item.phrase for item in parse(text).spans for i in item.ids)


def test_a_room_is_drawn_four_times_with_every_mark_in_every_view(toy_scene: Scene) -> None:
    study_task = sample_tasks(
        Sample("s", "toy_room", "scene_description", "", "A <p>bed</p>[<4>] and <p>pillows</p>[<5>, <6>]."), toy_scene, ("truth",)
    )
    marked = marks_of(numbered(study_task[0]))
    assert marked == {"4": [1], "5": [2], "6": [2]}
    views = draw_views(toy_scene, marked, ((0, 0, 1), (1, 1, 1)))
    assert len(views) == len(VIEWS) == 4
    for svg in views:
        assert svg.count('class="hit') == svg.count('class="badge') == 3 and svg.count('class="off"') == 7 and "nan" not in svg
    assert [svg.count('class="speaker"') for svg in views] == [1, 0, 0, 0]


@pytest.mark.parametrize("objects", [(), (Object("0", "point", (1, 1, 1), (0, 0, 0)),)])
def test_rooms_of_nothing_can_be_drawn(objects: tuple[Object, ...]) -> None:
    assert all("nan" not in svg for svg in draw_views(Scene("x", objects), {}))


def test_boxes_that_are_turned_are_drawn_turned() -> None:
    turned = ((0.8, -0.6, 0.0), (0.6, 0.8, 0.0), (0.0, 0.0, 1.0))
    plain, other = (
        draw_views(Scene("x", (Object("0", "desk", (0, 0, 0.5), (2, 1, 1), rotation=r),)), {"0": [1]})[0] for r in (None, turned)
    )
    assert plain != other


def test_make_draws_the_same_study_twice_and_loads_it_again(run: Run, texts: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        code, out, err = run("review", "make", texts, tmp_path / name, "--number", 12, "--qualifiers", 4, "--seed", 3)
        assert code == 0 and "truth" in out and "qualifiers" in out, err
    assert (tmp_path / "a/tasks.jsonl").read_text() == (tmp_path / "b/tasks.jsonl").read_text()
    study = load_study(tmp_path / "a")
    roles = Counter((task.check, task.role) for task in study.tasks)
    assert roles["truth", "qualifier"] == roles["grounding", "qualifier"] == 4 and roles["truth", "honeypot"] >= 1
    assert len(study.samples) == 12 and len({task.task_id for task in study.tasks}) == len(study.tasks)
    assert not any(task.task_id[1:].isdigit() and task.role in task.task_id for task in study.tasks)
    code, out, _ = run("review", "tally", tmp_path / "a", "--json")
    assert code == 0 and json.loads(out)["counts"]["n"] == 0


def test_known_answers_of_a_file_leave_the_work(run: Run, texts: Path, tmp_path: Path) -> None:
    data = load_data(texts)
    rows = [{"sample_id": s.sample_id, "check": "truth", "answer": "true"} for s in data.samples if s.task == "counting"]
    (tmp_path / "known.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = ("review", "make", texts, tmp_path / "s", "--checks", "truth", "--known", tmp_path / "known.jsonl", "--qualifiers", 3)
    assert run(*line)[0] == 0
    study = load_study(tmp_path / "s")
    roles = Counter(task.role for task in study.tasks)
    assert roles["qualifier"] == 3 and roles["honeypot"] == len(rows) - 3
    assert not {t.sample_id for t in study.tasks if t.role == "work"} & {row["sample_id"] for row in rows}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"sample_id": "x", "check": "truth", "answer": "true"}, "no sample 'x'"),
        ({"sample_id": "ID", "check": "steps", "answer": "true"}, "the check is 'steps'"),
        ({"sample_id": "ID", "check": "truth", "answer": "keep"}, "the known answer is 'keep'"),
        ({"sample_id": "ID", "check": "truth", "answer": "true", "sentence": 9}, "sentence 1"),
        ({"sample_id": "ID", "check": "truth", "answer": "true", "more": 9}, "unknown keys"),
        (3, "no known answer"),
    ],
)
def test_broken_known_answers_are_named(run: Run, texts: Path, tmp_path: Path, row: Any, said: str) -> None:
    first = next(s.sample_id for s in load_data(texts).samples if s.task == "counting")
    row = {key: first if value == "ID" else value for key, value in row.items()} if isinstance(row, dict) else row
    (tmp_path / "known.jsonl").write_text(json.dumps(row) + "\n")
    code, _, err = run("review", "make", texts, tmp_path / "s", "--known", tmp_path / "known.jsonl")
    assert code == 2 and said in err and "known.jsonl:1" in err and "expected" in err and not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--votes", 2), "odd"),
        (("--number", 0), "--number"),
        (("--checks", "nothing"), "checks"),
        (("--checks", "steps"), "no sample can be judged"),
        (("--pass-mark", "2"), "pass_mark"),
        (("--qualifiers", 101), "qualifiers"),
        (("--votes", "x"), "invalid int"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_message(
    run: Run, texts: Path, tmp_path: Path, more: tuple[Any, ...], said: str
) -> None:
    code, _, err = run("review", "make", texts, tmp_path / "s", *more)
    assert code == 2 and said in err and "Traceback" not in err


def test_folders_that_hold_something_or_nothing_are_refused(run: Run, texts: Path, tmp_path: Path) -> None:
    assert run("review", "make", texts, tmp_path / "s", "--number", 6, "--qualifiers", 2)[0] == 0
    for line in (
        ("make", texts, tmp_path / "s"),
        ("tally", texts),
        ("serve", tmp_path / "none"),
        ("serve", tmp_path / "s"),
    ):
        code, _, err = run("review", *line, *(("--port", 0) if line[0] == "serve" else ()))
        assert code == 2 and "expected" in err.lower() and "Traceback" not in err, line
    damaged = tmp_path / "damaged"
    shutil.copytree(tmp_path / "s", damaged)
    (damaged / "tasks.jsonl").write_text((damaged / "tasks.jsonl").read_text().replace('"role": "work"', '"role": "boss"', 1))
    code, _, err = run("review", "tally", damaged)
    assert code == 2 and "tasks.jsonl:" in err and "expected" in err


def test_kept_texts_are_a_data_folder(run: Run, texts: Path, tmp_path: Path) -> None:
    run("review", "make", texts, tmp_path / "s", "--number", 6, "--qualifiers", 0, "--honeypot-every", 0, "--votes", 1)
    study = load_study(tmp_path / "s")
    rows: list[dict[str, Any]] = [{"do": "start", "who": "a", "at": 1.0, "check": check} for check in ("truth", "grounding")]
    for task in study.tasks:
        answer = FALSE if task.sample_id == study.samples[0].sample_id else TRUE
        rows.append({"do": "assign", "who": "a", "at": 2.0, "task": task.task_id})
        rows.append({"do": "answer", "who": "a", "at": 3.0, "task": task.task_id, "answer": answer, "seconds": 1.0})
    (tmp_path / "s/answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = run(
        "review", "tally", tmp_path / "s", "--keep", tmp_path / "kept", "--samples", tmp_path / "votes.jsonl", "--markdown"
    )
    assert code == 0 and "| check" in out and "noted: 1 x people say: not true" in err
    assert len(load_data(tmp_path / "kept").samples) == 5
    assert len((tmp_path / "votes.jsonl").read_text().splitlines()) == len(study.tasks)
