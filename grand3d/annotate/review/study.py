"""What people are asked: tasks drawn from a data folder, and the folder of a study that holds all of it.

The folder: ``study.json`` (the rules), ``scenes.jsonl`` and ``samples.jsonl`` (the texts that were drawn), ``tasks.jsonl`` (every
task with its text, and what is expected where that is known), ``people.jsonl`` (each person's link) and ``answers.jsonl``.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, field, read_json, read_jsonl, refuse_unknown, write_json, write_jsonl
from grand3d.markup import parse, plain, span
from grand3d.sample import Data, Sample, load_data, sample_to_dict, save_data
from grand3d.scene import Scene

STUDY, TASKS, PEOPLE, ANSWERS = "study.json", "tasks.jsonl", "people.jsonl", "answers.jsonl"
TRUTH, GROUNDING, STEPS = CHECKS = ("truth", "grounding", "steps")
WORK, QUALIFIER, HONEYPOT = ROLES = ("work", "qualifier", "honeypot")
TRUE, FALSE, UNSURE = VERDICTS = ("true", "not true", "cannot decide")
KEEP, DROP = "keep", "drop"
REVISE = re.compile(r"revise ([1-9][0-9]{0,3})")
"""What becomes of a plan: ``keep``, ``revise 3`` (its third step alone is wrong) or ``drop`` (more are)."""
_END = re.compile(r"[.!?]+[\"')\]]*\s+(?![a-z])|[。！？]\s*(?=\S)")


@dataclass(frozen=True, slots=True)
class Task:
    """One thing that a person judges.

    Attributes:
        check: ``truth`` (is what the sentence says so?), ``grounding`` (do its phrases point at the right objects?) or ``steps``
            (of a plan).
        role: ``work``; ``qualifier``, asked first of everybody, and ``honeypot``, hidden among the work, have a known answer.
        kind: Of the sample: ``meta.kind`` where it has one, else its task.
        text: Grounded; ``text[start:end]`` is the sentence to be judged.
        question: What the text answers; may be grounded too.
        expected: The known answer; empty for work.
        viewpoint: Of the speaker: position and look-at point, metres.
    """

    task_id: str
    check: str
    role: str
    sample_id: str
    scene_id: str
    kind: str
    text: str
    start: int
    end: int
    question: str = ""
    expected: str = ""
    viewpoint: tuple[tuple[float, float, float], tuple[float, float, float]] | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """How a study is run. The defaults are those of 3D-GRAND's human check (Yang et al., 2025, appendix E).

    Attributes:
        votes: Of different people on a task; more than half must agree.
        qualifiers: Tasks with known answers that come first, for each check that has them; 0 for none.
        pass_mark: Least share of them that lets a person in.
        honeypot_every: One task in so many has a known answer; 0 for none.
        honeypot_mark: Least share of these that keeps a person in.
        lease: Seconds after which a task that a person left lying goes to another.
    """

    checks: tuple[str, ...] = (TRUTH, GROUNDING)
    votes: int = 3
    qualifiers: int = 8
    pass_mark: float = 0.75
    honeypot_every: int = 10
    honeypot_mark: float = 0.89
    lease: int = 1800
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (("qualifiers", 0, 100), ("honeypot_every", 0, 1000), ("lease", 10, 10**6), ("votes", 1, 99)):
            if not low <= getattr(self, name) <= high:
                raise GrandError(f"{name} is {shown(getattr(self, name))}, expected {low} to {high}")
        if self.votes % 2 == 0:
            raise GrandError(f"votes is {self.votes}, expected an odd number, so that more than half can agree")
        for name in ("pass_mark", "honeypot_mark"):
            if not 0 <= getattr(self, name) <= 1:
                raise GrandError(f"{name} is {shown(getattr(self, name))}, expected a share, 0 to 1")
        if not self.checks or len(set(self.checks)) < len(self.checks) or not set(self.checks) <= set(CHECKS):
            raise GrandError(f"checks are {shown(list(self.checks))}, expected some of {', '.join(CHECKS)}, each once")
        if self.honeypot_every == 1:
            raise GrandError("honeypot_every is 1, expected 2 or more (or 0 for none): there would be nothing but honeypots")


@dataclass(frozen=True, slots=True)
class Study:
    """A study as it lies in its folder."""

    rules: Rules
    scenes: Mapping[str, Scene]
    samples: Sequence[Sample]
    tasks: Sequence[Task]


def valid_answer(task: Task, answer: str) -> bool:
    """Whether this can be answered to a task: one of VERDICTS; of a plan: keep, drop, or revise and the number of a step."""
    if task.check != STEPS:
        return answer in VERDICTS
    match = REVISE.fullmatch(answer)
    return answer in (KEEP, DROP) if match is None else int(match[1]) <= len(parse(task.text).steps)


def sentences(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence of a grounded text; no phrase or id list is cut."""
    kept = [(item.start, item.end) for item in parse(text).spans]
    bounds = [0]
    for match in _END.finditer(text):
        if not any(start < match.end() < end for start, end in kept):
            bounds.append(match.end())
    out = []
    for start, end in zip(bounds, [*bounds[1:], len(text)], strict=True):
        piece = text[start:end]
        if piece.strip():
            out.append((start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())))
    return out


def statement(sample: Sample, scene: Scene) -> tuple[str, str]:
    """The question of a sample and the grounded text that is to be judged; both empty where there is none.

    A reference without markup is one phrase that names its targets; an answer that names nothing is followed by its targets.
    """
    known = tuple(i for i in sample.target_ids if i in set(scene.object_ids))
    if sample.task == "object_reference":
        if parse(sample.text).spans or not sample.text.strip():
            return "", sample.text.strip()
        return "", span(plain(sample.text).strip(), known)
    question = sample.meta.get("question")
    question = question if isinstance(question, str) else sample.text
    answer = sample.answer.strip()
    if answer and known and sample.task != "plan" and not parse(answer).spans:
        answer += f" {span('', known)}"
    return question, answer


def sample_tasks(sample: Sample, scene: Scene, checks: Iterable[str]) -> list[Task]:
    """The tasks of one sample, without ids: plans by their steps, other texts sentence by sentence."""
    question, text = statement(sample, scene)
    if not text or sample.task == "placement":
        return []
    kind = sample.meta.get("kind")
    kind = kind if isinstance(kind, str) and kind else sample.task
    parsed = parse(text)
    whole = sample.task == "plan" or (not parse(sample.text).spans and sample.task == "object_reference")
    parts = [(0, len(text))] if whole else sentences(text)
    out = []
    for check in checks:
        if (check == STEPS) != bool(parsed.steps):
            continue
        for start, end in parts:
            named = any(start <= item.start and item.end <= end for item in parsed.spans)
            if check != GROUNDING or named:
                row = Task("", check, WORK, sample.sample_id, sample.scene_id, kind, text, start, end, question)
                out.append(dataclasses.replace(row, viewpoint=sample.viewpoint))
    return out


def draw(data: Data, rules: Rules, number: int | None, rejects: Rejects) -> tuple[list[Sample], list[Task]]:
    """Samples drawn at random that give tasks, and their tasks in an order of chance, not yet named.

    Args:
        number: Samples at most; None for all.
        rejects: Where samples without anything to judge are noted.
    """
    scenes = data.scenes if data.truth is None else data.truth
    order = list(data.samples)
    Random(f"review {rules.seed}").shuffle(order)
    samples: list[Sample] = []
    tasks: list[Task] = []
    for sample in order:
        if number is not None and len(samples) == number:
            break
        found = sample_tasks(sample, scenes[sample.scene_id], rules.checks)
        if not found:
            reason = f"nothing to judge for {', '.join(rules.checks)}"
            rejects.note(f"sample {shown(sample.sample_id)}", reason, sample_to_dict(sample), "nothing to judge")
            continue
        samples.append(sample)
        tasks += found
    Random(f"review order {rules.seed}").shuffle(tasks)
    return samples, tasks


def named(tasks: Iterable[Task], seed: int) -> list[Task]:
    """Tasks with ids that say nothing about their roles."""
    out = list(tasks)
    numbers = Random(f"review names {seed}").sample(range(len(out)), len(out))
    return [dataclasses.replace(task, task_id=f"t{number:05d}") for task, number in zip(out, numbers, strict=True)]


def save_study(folder: Path, study: Study) -> None:
    """Write a new study.

    Raises:
        GrandError: If the folder holds anything already: answers in it would belong to other tasks.
    """
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise GrandError(
            f"{place(folder)}: holds something already, expected a new folder: answers belong to the tasks of their own"
        )
    save_data(folder, Data(study.scenes, study.samples))
    write_jsonl(folder / TASKS, map(_task_row, study.tasks))
    write_json(folder / STUDY, dataclasses.asdict(study.rules) | {"checks": list(study.rules.checks)})  # last: it is whole now


def _task_row(task: Task) -> dict[str, Any]:
    row = dataclasses.asdict(task)
    return {key: value for key, value in row.items() if value not in ("", None)}


def load_study(folder: str | Path) -> Study:
    """Read a study.

    Raises:
        GrandError: If the folder is none, or a file of it is damaged.
    """
    folder = Path(folder)
    if not (folder / STUDY).is_file():
        raise GrandError(f"{place(folder)}: no {STUDY} in it, expected the folder of a study, which grand3d review make writes")
    rules, data = _read_rules(folder / STUDY), load_data(folder)
    seen: set[str] = set()

    def read(row: Any) -> Task:
        task = _read_task(row, data.scenes, rules)
        if task.task_id in seen:
            raise GrandError(f"task {shown(task.task_id)} occurs twice, expected once", "id twice")
        seen.add(task.task_id)
        return task

    tasks = list(read_jsonl(folder / TASKS, read))
    return Study(rules, data.scenes, data.samples, tasks)


def _read_rules(path: Path) -> Rules:
    row = read_json(path)
    if not isinstance(row, dict):
        raise GrandError(f"{place(path)}: seen {shown(row)}, expected a JSON object with the rules of a study")
    refuse_unknown(row, [f.name for f in dataclasses.fields(Rules)], str(path))
    kinds = {f.name: type(f.default) for f in dataclasses.fields(Rules) if f.name != "checks"}
    values: dict[str, Any] = {name: field(row, name, kind, str(path)) for name, kind in kinds.items()}
    return Rules(checks=tuple(field(row, "checks", list, str(path))), **values)


def _read_task(row: Any, scenes: Mapping[str, Scene], rules: Rules) -> Task:
    if not isinstance(row, dict):
        raise GrandError(f"{shown(row)} is no task, expected a JSON object", "wrong type")
    where = f"task {shown(row.get('task_id'))}"
    refuse_unknown(row, [f.name for f in dataclasses.fields(Task)], where)
    words = {name: field(row, name, str, where) for name in ("task_id", "check", "role", "sample_id", "scene_id", "kind", "text")}
    more = {name: field(row, name, str, where, "") for name in ("question", "expected")}
    start, end = (field(row, name, int, where, 0) for name in ("start", "end"))
    viewpoint = field(row, "viewpoint", list, where, None)
    task = Task(**words, **more, start=start, end=end, viewpoint=viewpoint and tuple(map(tuple, viewpoint)))  # type: ignore[arg-type]
    known = bool(task.expected) == (task.role != WORK) and (not task.expected or valid_answer(task, task.expected))
    fits = task.check in rules.checks and task.role in ROLES and task.scene_id in scenes and 0 <= start < end <= len(task.text)
    if not fits or not known:
        raise GrandError(f"{where}: its check, role, scene, sentence or expected answer is none, expected what make wrote")
    return task
