"""``grand3d score``: figures of replies, from data folders or from a benchmark's own files."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grand3d import calibration, evaluate
from grand3d.bench import BENCHMARKS
from grand3d.bench.common import Answer, against
from grand3d.checks import own_replies, unscorable
from grand3d.convert import CONVERTERS
from grand3d.errors import GrandError, shown
from grand3d.files import Rejects
from grand3d.replies import refuse_stale
from grand3d.runs import question_set
from grand3d.sample import TASKS, Data, Reply, load_replies
from grand3d.store import is_store, open_data

FILES = ("truth", "proposals", "ids", "annotations", "split", "scenes")
"""Further files of the questions, where they are a published file (``convert.<source>.INPUTS``)."""
READ = ("labels", "shares", "judge", "human", "poses")
"""Further arguments of a benchmark's ``score`` that are files; its ``read_<name>`` reads them."""
SETTINGS = (*READ, "rows", "rule", "form")
"""Further arguments of a benchmark's ``score``."""


def report(
    bench: str,
    questions: str | Path,
    replies: str | Path,
    missing: str | None = None,
    rejects: Rejects | None = None,
    fitted: str | Path | None = None,
    other: str | Path | None = None,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The report of a benchmark on a replies file: ``scored`` without what it was made of."""
    return scored(bench, questions, replies, missing, rejects, fitted, other, more)[0]


def scored(
    bench: str,
    questions: str | Path,
    replies: str | Path,
    missing: str | None = None,
    rejects: Rejects | None = None,
    fitted: str | Path | None = None,
    other: str | Path | None = None,
    more: Mapping[str, Any] | None = None,
    only: Collection[str] | None = None,
) -> tuple[dict[str, Any], Data | None, list[Answer]]:
    """The report of a benchmark on a replies file, the questions (None where they are too many to be held) and the answers.

    Args:
        bench: ``synth`` (every task of a data folder) or one of ``bench.BENCHMARKS``.
        questions: A data folder, or the benchmark's published file of questions.
        replies: Ours, or a file in the benchmark's published form.
        fitted: What ``calibrate`` wrote, to decide again by.
        other: Replies to compare with, sample by sample.
        more: Of FILES and SETTINGS, those that are given.
        only: The samples to score; None scores all.

    Raises:
        GrandError: If something is broken, does not belong to the benchmark, or does not fit together.
    """
    rejects = rejects if rejects is not None else Rejects()
    module = importlib.import_module(BENCHMARKS[bench]) if bench in BENCHMARKS else None
    if bench != "synth" and module is None:
        raise GrandError(f"benchmark {shown(bench)} is unknown, expected one of synth, {', '.join(BENCHMARKS)}")
    more = dict(more or {})
    if hasattr(module, "score_files"):  # files too large to be held
        if more or fitted is not None or other is not None:
            raise GrandError(f"score {bench} takes questions, predictions and --missing alone, expected no other option")
        return _with_rejects(module.score_files(questions, replies, missing, rejects), rejects), None, []
    data, asked = _questions(bench, module, questions, rejects, more)
    settings = _settings(bench, module, questions, rejects, more)
    if only is not None:
        data = replace(data, samples=tuple(sample for sample in data.samples if sample.sample_id in only))

    def on(path: str | Path) -> tuple[dict[str, Any], list[Answer]]:
        given = _answers(module, path, data, asked, rejects, fitted)
        return evaluate.score(bench, data, given, missing, **settings), given

    made, given = on(replies)
    if other is not None:
        if not made.get("samples"):
            raise GrandError(f"--against compares single samples, which {bench!r} does not; expected a benchmark, not synth")
        made["against"] = against(made["samples"], on(other)[0]["samples"])
    if made.get("samples"):
        made["questions"] = question_set(made["samples"])
    return _with_rejects(made, rejects), data, given


def _with_rejects(made: dict[str, Any], rejects: Rejects) -> dict[str, Any]:
    more = {"rejected_rows": len(rejects.rows)} if rejects.rows else {}
    return made | {"counts": made["counts"] | more}


def upload(
    bench: str,
    questions: str | Path,
    replies: str | Path,
    out: str | Path,
    rejects: Rejects | None = None,
    more: Mapping[str, Any] | None = None,
) -> tuple[int, int]:
    """Write answers in the form that a benchmark's own evaluator or server takes.

    Args:
        more: As for ``scored``.

    Returns:
        How many answers were written, and how many there are that cannot be: they answer nothing of the questions, or cannot
        be read.

    Raises:
        GrandError: If something is broken.
    """
    rejects = rejects if rejects is not None else Rejects()
    module = importlib.import_module(BENCHMARKS[bench])
    more = dict(more or {})
    data, asked = _questions(bench, module, questions, rejects, more)
    settings = _settings(bench, module, questions, rejects, more, "write_upload")
    answers = _answers(module, replies, data, asked, rejects, None)
    needed = inspect.signature(module.write_upload).parameters
    open_ones = [name for name in SETTINGS if name in needed and name not in settings]
    absent = [name for name in open_ones if needed[name].default is inspect.Parameter.empty]
    if absent:
        raise GrandError(f"the upload of {bench} holds what --{absent[0]} tells, expected that option")
    left = module.write_upload(Path(out), data, answers, **settings)
    return len(answers) - left, left


def _settings(
    bench: str, module: Any, questions: str | Path, rejects: Rejects, more: dict[str, Any], function: str = "score"
) -> dict[str, Any]:
    """The further arguments of a benchmark's function, files read; ``more`` must hold no other."""
    settings = {name: more.pop(name) for name in SETTINGS if name in more and _takes(module, function, name)}
    if more:
        what = f"{function.removeprefix('write_')} {bench} over {_kind(questions)}"
        raise GrandError(f"--{next(iter(more))} does not belong to {what}, expected no such option")
    for name in READ:
        if name in settings:
            told = {"rejects": rejects} if _takes(module, f"read_{name}", "rejects") else {}
            settings[name] = getattr(module, f"read_{name}")(settings[name], **told)
    return settings


def _answers(module: Any, path: str | Path, data: Data, asked: Data, rejects: Rejects, fitted: str | Path | None) -> list[Answer]:
    refuse_stale(path, asked)
    answers: Sequence[Answer] = (getattr(module, "read_replies", None) or _own)(path, data, rejects)
    ours = own_replies(path, data, [answer for answer in answers if isinstance(answer, Reply)], rejects)
    if fitted is not None:
        found = calibration.load_calibration(fitted)
        tasks = {sample.sample_id: sample.task for sample in data.samples}
        ours = [
            calibration.apply(reply, tasks[reply.sample_id], found, data.scenes[reply.scene_id])
            if reply.sample_id in tasks
            else reply
            for reply in ours
        ]
    return [*ours, *(answer for answer in answers if not isinstance(answer, Reply))]


def _own(path: str | Path, data: Data, rejects: Rejects) -> list[Reply]:
    return load_replies(path, rejects)


def _kind(questions: str | Path) -> str:
    return "a data folder" if _is_data_folder(questions) else "a file of questions"


def _is_data_folder(path: str | Path) -> bool:
    """Whether a folder is one of ours, and not one of published files such as 3D-POPE's."""
    if not os.path.isdir(path):
        return False
    names = os.listdir(path)
    return (
        is_store(path) or "samples.jsonl" in names or "scenes.jsonl" in names or not any(name.endswith(".json") for name in names)
    )


def _takes(module: Any, function: str, name: str) -> bool:
    return module is not None and name in inspect.signature(getattr(module, function)).parameters


def _questions(bench: str, module: Any, path: str | Path, rejects: Rejects, more: dict[str, Any]) -> tuple[Data, Data]:
    """The data to score on, and those that replies were asked for; takes from ``more`` what the questions need."""
    if module is None or _is_data_folder(path) or not os.path.exists(path):
        tasks = TASKS if module is None else module.TASKS
        data = open_data(path, rejects, inspect=unscorable(tasks, getattr(module, "SEVERAL", False)))
        # what only a score leaves out was asked all the same
        return data, open_data(path, Rejects(skip_bad=True)) if rejects.rows else data
    if not hasattr(module, "SOURCE"):
        raise GrandError(
            f"{shown(str(path))} is a file of questions; upload {bench} reads none, expected the data folder that was asked"
        )
    source, keyword = module.SOURCE
    convert: Callable[..., Data] = importlib.import_module(CONVERTERS[source]).convert
    known = inspect.signature(convert).parameters
    given = {name: more.pop(name) for name in FILES if name in more and name in known}
    needed = [
        name
        for name, parameter in known.items()
        if parameter.default is inspect.Parameter.empty and name != keyword and name not in given
    ]
    if needed:
        raise GrandError(f"score {bench} over a file of questions needs --{needed[0]}, expected {'; '.join(needed)}")
    data = convert(**{keyword: path}, **given, rejects=rejects)
    return data, data
