"""Tasks whose answer is known: qualifiers and honeypots, made from templates over the scenes of a study, or given in a file.

A true sentence comes from the templates, which say only what the scene bears out. A false one is such a sentence with one thing
exchanged: for ``truth`` a name for that of a thing that the room lacks, for ``grounding`` an id for that of another kind of
thing. The filter of annotations is asked too: it must pass the former and refuse the latter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from grand3d.annotate.facts import Facts
from grand3d.annotate.filters import faults
from grand3d.annotate.lexicon import same
from grand3d.annotate.make import make_texts
from grand3d.annotate.review.study import (
    FALSE,
    GROUNDING,
    HONEYPOT,
    QUALIFIER,
    STEPS,
    TRUE,
    TRUTH,
    WORK,
    Rules,
    Task,
    sample_tasks,
    valid_answer,
)
from grand3d.errors import GrandError, shown
from grand3d.files import Rejects, field, read_jsonl, refuse_unknown
from grand3d.markup import Span, parse, span
from grand3d.sample import Data, Sample
from grand3d.scene import Scene
from grand3d.synth.presence import Presence

KINDS = ("spatial_relation", "object_reference", "comparison", "scene_description")
"""What is true or not by boxes and categories, which the pages show."""
_NEGATIVE = re.compile(r"\b(no|not|none|neither|nor|without|nothing|never)\b", re.IGNORECASE)
A_SCENE = 4
"""Texts of a kind that are made of one scene."""


def made_tasks(scenes: Mapping[str, Scene], check: str, number: int, seed: int) -> list[Task]:
    """Tasks of one check with known answers, every second one false; fewer where the scenes give no more."""
    rng = Random(f"review known {seed} {check}")
    out: list[Task] = []
    num_false = 0
    for task, facts in _true_tasks(scenes, check, rng, seed):
        if len(out) == number:
            break
        if 2 * num_false > len(out) or number == 1:
            out.append(replace(task, expected=TRUE))
            continue
        planted = _planted(task, facts, rng, _other_name if check == TRUTH else _other_object)
        if planted is not None:
            out.append(planted)
            num_false += 1
    return out


def _true_tasks(scenes: Mapping[str, Scene], check: str, rng: Random, seed: int) -> Iterator[tuple[Task, Facts]]:
    """Sentences of templates about scenes and kinds in an order of chance, one of a text."""
    pairs = [(name, kind) for name in scenes for kind in KINDS]
    for name, kind in rng.sample(pairs, len(pairs)):
        facts = Facts(scenes[name])
        for sample in make_texts(facts, kind, A_SCENE, seed + 1, Rejects(skip_bad=True)):
            tasks = sample_tasks(sample, scenes[name], (check,))
            tasks = [task for task in tasks if not faults(task.text[task.start : task.end], facts)]
            if tasks:
                yield rng.choice(tasks), facts


def _planted(task: Task, facts: Facts, rng: Random, other: Callable[[Span, Facts, Random], str | None]) -> Task | None:
    """A true task with one of its names, each of one thing, exchanged; None where that gives nothing that is surely false."""
    inside = [item for item in parse(task.text).spans if task.start <= item.start and item.end <= task.end]
    single = [item for item in inside if item.phrase and len(item.ids) == 1 and item.ids[0] in facts.by_id]
    if not single or (task.check == TRUTH and _NEGATIVE.search(task.text[task.start : task.end])):
        return None  # that a thing which is not there is not on another is true, if one likes
    item = rng.choice(single)
    new = other(item, facts, rng)
    if new is None:
        return None
    text = task.text[: item.start] + new + task.text[item.end :]
    end = task.end + len(text) - len(task.text)
    return replace(task, text=text, end=end, expected=FALSE) if faults(text[task.start : end], facts) else None


def _other_name(item: Span, facts: Facts, rng: Random) -> str | None:
    """The name of a thing that the room lacks."""
    presence = Presence(facts.scene, facts.scene)
    label = next((name for name in (presence.absent(rng) for _ in range(20)) if not facts.called(name)), None)
    the = "The" if item.phrase[:1].isupper() else "the"
    return None if label is None else span(f"{the} {label}", item.ids)


def _other_object(item: Span, facts: Facts, rng: Random) -> str | None:
    """The same name, tied to a thing of another kind."""
    category = facts.by_id[item.ids[0]].category
    rest = [o for o in facts.scene.objects if not same(o.category, category) and not same(category, o.category)]
    return span(item.phrase, (rng.choice(rest).object_id,)) if rest else None


def read_known(path: str | Path, data: Data, rules: Rules, rejects: Rejects) -> list[Task]:
    """Tasks of a file of known answers: JSON lines ``{sample_id, check, answer}``, with ``sentence``, from 1, of a longer text.

    Raises:
        GrandError: Naming the line, unless ``rejects`` collects it; if no line can be used.
    """
    samples = {sample.sample_id: sample for sample in data.samples}
    scenes = data.scenes if data.truth is None else data.truth
    seen: set[tuple[str, str, int]] = set()

    def read(row: Any) -> Task:
        task, key = _known_task(row, samples, scenes, rules)
        if key in seen:
            raise GrandError(f"sentence {key[2]} of sample {shown(key[0])} comes twice for {key[1]}, expected once", "twice")
        seen.add(key)
        return task

    tasks = list(read_jsonl(path, read, rejects))
    if not tasks:
        raise GrandError(f"{path}: no known answer in it can be used, expected at least one")
    return tasks


def _known_task(
    row: Any, samples: Mapping[str, Sample], scenes: Mapping[str, Scene], rules: Rules
) -> tuple[Task, tuple[str, str, int]]:
    if not isinstance(row, dict):
        raise GrandError(f"{shown(row)} is no known answer, expected a JSON object", "wrong type")
    refuse_unknown(row, ("sample_id", "check", "answer", "sentence"), "known answer")
    name, check, answer = (field(row, key, str, "known answer") for key in ("sample_id", "check", "answer"))
    number = field(row, "sentence", int, "known answer", 1)
    if check not in rules.checks:
        raise GrandError(f"the check is {shown(check)}, expected one of the study: {', '.join(rules.checks)}", "other check")
    if name not in samples:
        raise GrandError(f"no sample {shown(name)}, expected one of the {len(samples)} of the data", "unknown sample")
    tasks = sample_tasks(samples[name], scenes[samples[name].scene_id], (check,))
    if not 1 <= number <= len(tasks):
        raise GrandError(
            f"sample {shown(name)} has {len(tasks)} tasks of {check}, expected sentence 1 to that", "no such sentence"
        )
    task = replace(tasks[number - 1], expected=answer)
    if not valid_answer(task, answer):
        expected = "keep, drop or 'revise K'" if check == STEPS else f"{TRUE} or {FALSE}"
        raise GrandError(f"the known answer is {shown(answer)}, expected {expected}", "bad answer")
    return task, (name, check, number)


def with_roles(work: Sequence[Task], known: Sequence[Task], rules: Rules) -> list[Task]:
    """Work and known tasks together: of each check, the first known ones are qualifiers and the rest honeypots.

    What is known is no work: a sentence that is both leaves the work.

    Raises:
        GrandError: If a check has fewer known tasks than qualifiers.
    """
    taken = {(task.check, task.sample_id, task.text, task.start) for task in known}
    out = [task for task in work if (task.check, task.sample_id, task.text, task.start) not in taken]
    for check in rules.checks:
        own = [task for task in known if task.check == check]
        if own and len(own) < rules.qualifiers:
            raise GrandError(
                f"{len(own)} tasks of {check} with known answers, expected at least the {rules.qualifiers} qualifiers; "
                "ask for fewer (--qualifiers), or give more scenes or known answers (--known)"
            )
        out += [replace(task, role=QUALIFIER) for task in own[: rules.qualifiers]]
        out += [replace(task, role=HONEYPOT) for task in own[rules.qualifiers :]]
    return out


def number_known(rules: Rules, work: Sequence[Task], check: str) -> int:
    """Known tasks that a person who does all the work of a check needs."""
    if check not in (TRUTH, GROUNDING):
        return 0  # no template makes plans
    num_work = sum(task.check == check and task.role == WORK for task in work)
    honeypots = math.ceil(num_work / (rules.honeypot_every - 1)) if rules.honeypot_every else 0
    return rules.qualifiers + honeypots
