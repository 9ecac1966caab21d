"""One report over all tasks of a data folder: how training runs and synthetic rooms are judged. No model, no torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grand3d import markup
from grand3d.bench import pope, scanrefer
from grand3d.bench.common import left_out, percents
from grand3d.errors import GrandError
from grand3d.metrics import mean_interval
from grand3d.sample import Data, Reply, Sample

_NUMBER = re.compile(r"[0-9]+")
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NONE = frozenset(("no", "none", "nothing"))


def score(data: Data, replies: Sequence[Reply], missing: str | None = None) -> dict[str, Any]:
    """Score replies to all tasks.

    ``object_reference``: accuracy is the share of descriptions whose object is picked (for data with true boxes there is
    none), acc25 and acc50 those whose box overlaps enough. ``existence``: yes or no, read by words. ``counting``: the first
    number of the reply. The other tasks have texts as answers: only whether the reply is grounded text without a fault.

    Args:
        missing: ``wrong`` counts a sample without a reply as wrong, ``skip`` leaves it out, None refuses.

    Returns:
        ``counts`` over all tasks, and a row a task: n, parsed (share of replies that could be read), and its figures with
        ``_low`` and ``_high``, the 95 % interval clustered by scene. Percent.

    Raises:
        GrandError: If replies and data do not fit together, or there is nothing to score.
    """
    by_task: dict[str, list[Sample]] = {}
    for sample in data.samples:
        by_task.setdefault(sample.task, []).append(sample)
    given = {reply.sample_id for reply in replies}
    asked = {sample.sample_id for sample in data.samples}
    absent = [sample.sample_id for sample in data.samples if sample.sample_id not in given]
    if absent and missing is None:
        first = f"(first: {absent[0]}). Pass --missing=wrong to count them as wrong, --missing=skip to leave them out."
        raise GrandError(f"{len(absent)} of {len(asked)} samples have no reply {first}", "missing reply")
    rows, baselines, tables = [], [], {}
    counts = {"n": 0, "missing": len(absent), "extra": len(given - asked), "parsed": 0, "unfinished": 0}
    for task, samples in by_task.items():
        part = replace(data, samples=tuple(samples))
        ids = {sample.sample_id for sample in samples}
        own = [reply for reply in replies if reply.sample_id in ids]
        if not own and missing == "skip":
            continue
        row, parsed, no_model, more = _TASKS.get(task, _text_row)(part, own, missing)
        tables |= more
        rows.append({"name": task, "n": row.pop("n"), "parsed": 100 * parsed / max(1, len(own))} | row)
        baselines += no_model
        counts["n"] += rows[-1]["n"]
        counts["parsed"] += parsed
        counts["unfinished"] += sum(not reply.finished for reply in own)
    if not rows:
        seen = f"{len(asked)} samples and {len(given)} replies, expected a reply to one of the samples"
        raise GrandError(f"nothing to score: {seen}", "nothing to score")
    by_id = {reply.sample_id: reply for reply in replies}
    return {
        "benchmark": "synth",
        "counts": counts | left_out(data, [(sample, by_id.get(sample.sample_id)) for sample in data.samples]),
        "rules": {
            "parsed": "percent of the replies given",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": rows,
        "baselines": baselines,
        "paper": [],
    } | tables


Row = tuple[dict[str, Any], int, list[dict[str, Any]], dict[str, Any]]
"""Figures of a task, replies that could be read, rows without a model, further tables."""


def _reference_row(data: Data, replies: Sequence[Reply], missing: str | None) -> Row:
    report = scanrefer.score(data, replies, missing)
    row = {key.replace("acc_id", "accuracy"): value for key, value in report["rows"][0].items() if key != "name"}
    if "ece" in report:
        row["ece"] = report["ece"]
    order = sorted(row, key=lambda key: not key.startswith("accuracy"))
    baselines = [{**line, "name": f"object_reference: {line['name']}"} for line in report["baselines"]]
    tables = {key: report[key] for key in ("targets", "abstention") if key in report}
    return {key: row[key] for key in order}, len(replies) - report["counts"]["unparsable"], baselines, tables


def _existence_row(data: Data, replies: Sequence[Reply], missing: str | None) -> Row:
    plain = replace(data, samples=tuple(replace(sample, meta={}) for sample in data.samples))  # one row, not one a type
    report = pope.score(plain, replies, missing)
    kept = ("n", "accuracy", "accuracy_low", "accuracy_high", "f1", "f1_low", "f1_high", "yes")
    row = next(row for row in report["rows"] if row["rule"] == "words")
    baselines = [
        {"name": f"existence: {line['name']}"} | {key: line[key] for key in kept if key in line} for line in report["baselines"]
    ]
    unread = sum(pope.read_words(reply.text) is None for reply in replies)
    figures = {key: row[key] for key in kept}
    if "ece" in report:
        figures["ece"] = report["ece"]
    return figures, len(replies) - unread, baselines, {}


def _counting_row(data: Data, replies: Sequence[Reply], missing: str | None) -> Row:
    said = {reply.sample_id: read_count(reply.text) for reply in replies}
    samples = [sample for sample in data.samples if missing != "skip" or sample.sample_id in said]
    hits = np.array([said.get(sample.sample_id) == _true_count(sample) for sample in samples], float)
    low, high = mean_interval(hits, [sample.scene_id for sample in samples])
    accuracy = {"accuracy": hits.mean(), "accuracy_low": low, "accuracy_high": high}
    return {"n": len(samples)} | percents(accuracy), len(said) - list(said.values()).count(None), [], {}


def _true_count(sample: Sample) -> int:
    count = read_count(sample.answer)
    if count is None:
        raise GrandError(f"sample {sample.sample_id!r}: answer is {sample.answer!r}, expected a number first")
    return count


def _text_row(data: Data, replies: Sequence[Reply], missing: str | None) -> Row:
    parsed = 0
    for reply in replies:
        known = {f"obj_{k}" for k in range(len(reply.object_ids))} | {f"region_{k}" for k in range(len(reply.region_ids))}
        parsed += bool(reply.text.strip()) and not markup.check(markup.parse(reply.text), known)
    return {"n": len(replies) if missing == "skip" else len(data.samples)}, parsed, [], {}


def read_count(text: str) -> int | None:
    """The first number of an answer, in digits or words up to twelve; 0 for a plain no; None when there is none."""
    for word in re.findall(r"[0-9]+|[a-z]+", markup.plain(text).lower()):
        if _NUMBER.fullmatch(word):
            return int(word[:9])
        if word in _WORDS:
            return _WORDS.index(word)
        if word in _NONE:
            return 0
    return None


_TASKS: dict[str, Callable[[Data, Sequence[Reply], str | None], Row]] = {
    "object_reference": _reference_row,
    "existence": _existence_row,
    "counting": _counting_row,
}
