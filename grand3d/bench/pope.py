"""3D-POPE: are there any such things in the room? Asked in three splits (types) of equally many yes and no, in four wordings.

Two rules read a reply, side by side. ``strict`` is the public script's: yes is the bare word "yes" (any case, full stop
allowed), everything else is no. ``words`` reads what the sentence says, and counts what says nothing as unknown: no yes, and
never right. Figures are in percent. Precision, recall and F1 are those of yes.

About a fifth of the popular and adversarial "no" labels of scannet200 name a thing that the scan holds, so no model can
reach 100 there.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d import markup
from grand3d.bench.common import pair, percents, reliability_of
from grand3d.bench.nouns import forms, words
from grand3d.errors import GrandError, place
from grand3d.files import Rejects, field, read_bytes, read_json, shown, write_json
from grand3d.jsons import decode
from grand3d.metrics import binary_rates, bootstrap, confusion
from grand3d.sample import Data, Reply, Sample, load_replies
from grand3d.scene import Object, Scene

TASK = "existence"
TASKS = (TASK,)
TYPES = ("random", "popular", "adversarial")
"""The published samplings of questions whose answer is no."""
SOURCE = ("pope", "questions")
Floats = NDArray[np.float64]

_PAPER = "3D-GRAND, Table 3"
PAPER: tuple[dict[str, Any], ...] = tuple(
    {"name": name, "type": kind, "precision": p, "recall": r, "f1": f1, "accuracy": acc, "yes": yes, "source": _PAPER}
    for name, kind, p, r, f1, acc, yes in (
        ("3D-GRAND 7B", "random", 93.34, 84.25, 88.56, 89.12, 45.13),
        ("3D-GRAND 7B", "popular", 73.05, 84.28, 78.26, 76.59, 57.69),
        ("3D-GRAND 7B", "adversarial", 69.86, 84.21, 76.37, 73.95, 60.26),
        ("LEO", "random", 51.95, 77.65, 62.25, 52.91, 74.73),
        ("LEO", "popular", 48.30, 77.65, 59.55, 47.27, 80.38),
        ("LEO", "adversarial", 48.47, 77.98, 59.78, 47.52, 80.45),
    )
)

_ASKED = re.compile(r"\b(?:any|an?|some)\s+(.+?)\s*(?:\b(?:in|inside|within)\s+(?:the|this)\s+(?:room|scene|scan)\s*)?\?*$", re.I)
_NEGATIONS = frozenset(("no", "not", "none", "nothing", "never", "neither", "nor", "without", "cannot"))
_UNSURE = re.compile(
    r"\b(?:not (?:sure|certain|clear|known)|un(?:sure|certain|clear|known)|maybe|perhaps|possibly|hard to (?:say|tell)"
    r"|(?:do not|don't|cannot|can't|could not|couldn't|unable to) (?:know|tell|say|determine|answer|be sure))\b"
)
_AFFIRMS = re.compile(
    r"\byes\b|\b(?:there (?:is|are|was|were)|there's|(?:can|do|could) (?:see|find|spot)"
    r"|(?:it|they|room|scene|i) (?:does|do|has|have|contains))\b(?!(?: (?:\w+ly|also|indeed))* (?:no|not|none|nothing|never)\b)"
)
_NO_NEGATIONS = re.compile(r"\b(?:no (?:doubt|question)|without (?:a |any )?doubt|not only|no (?:less|fewer) than)\b")
_CLAUSE_END = re.compile(r"[.,;:!?]|\b(?:and|but|while|whereas|although|though|because|that|which)\b")


def read_strict(text: str) -> bool | None:
    """True for the bare word yes, False for the bare word no, None for all else (which the public script counts as no)."""
    return {"yes": True, "no": False}.get(text.lower().strip().rstrip("."))


def read_words(text: str) -> bool | None:
    """What a reply says: True, False, or None when it says neither or both.

    In this order: ``yes`` and ``no`` side by side say nothing; a leading yes or no decides; doubt says nothing; then the
    first clause that has a cue: a word of negation says no; a yes or an affirming verb ("there are", "you can find") that no
    negation follows says yes; both say nothing. ``no doubt`` and the like are no negations.
    """
    plain = _NO_NEGATIONS.sub("", " ".join(markup.plain(text).lower().replace("\u2019", "'").split()))
    parts = words(plain)
    if not parts or re.search(r"\b(?:yes\W+(?:and|or|/)?\W*no|no\W+(?:and|or|/)?\W*yes)\b", plain):
        return None
    if parts[0] in ("yes", "yeah", "yep"):
        return True
    if parts[0] in ("no", "nope"):
        return False
    if _UNSURE.search(plain):
        return None
    for clause in _CLAUSE_END.split(plain):
        negates = any(word in _NEGATIONS or word.endswith("n't") for word in words(clause))
        affirms = _AFFIRMS.search(clause) is not None
        if negates or affirms:
            return None if negates and affirms else affirms
    return None


RULES: dict[str, Callable[[str], bool | None]] = {"strict": read_strict, "words": read_words}


def score(data: Data, replies: Sequence[Reply], missing: str | None = None) -> dict[str, Any]:
    """Score replies to existence questions.

    Args:
        data: Samples of the task ``existence`` with answers that start with yes or no; ``meta.type`` and ``meta.template``
            part the report (``all`` and ``-`` without them).
        missing: See :func:`grand3d.bench.common.pair`; ``skip`` is the public script's way.

    Returns:
        ``counts``, ``samples`` (each with its accuracy by ``words``, 0 or 1, and against true objects with what they say
        of its label: :func:`label_check`), and ``rows``: per type, template and rule:
        n, unknown, precision, recall, f1, accuracy, yes, accuracy_answered (unknown ones left out), each with its 95 % interval
        from a bootstrap over scenes. Where a type has several templates, a row ``mean`` holds the mean over them, and f1_min and
        f1_max their spread.

    Raises:
        GrandError: If replies and data do not fit together, or an answer is neither yes nor no.
    """
    pairs, counts = pair(data, replies, TASK, missing)
    samples = [sample for sample, _ in pairs]
    rows = []
    for rule, read in RULES.items():
        said = [read(reply.text) if reply is not None else None for _, reply in pairs]
        open_ones = [value is None and (reply is None or rule != "strict") for value, (_, reply) in zip(said, pairs, strict=True)]
        counts[f"unknown_{rule}"] = said.count(None)
        rows += [{"rule": rule} | row for row in _rows(samples, said, open_ones)]
    right = [reply is not None and read_words(reply.text) is _is_yes(sample) for sample, reply in pairs]
    return {
        "benchmark": "pope",
        "counts": counts,
        "rules": {
            "strict": "yes is the bare word 'yes'; everything else is no",
            "words": "what the sentence says; unknown is no yes, and never right",
            "f1": "of yes; mean over templates where there are several",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "headline": ["f1", "accuracy"],
        "rows": rows,
        "baselines": baselines(replace(data, samples=tuple(samples))),
        "labels": [] if data.truth is None else contradicted(samples, data.truth),
        "paper": list(PAPER),
        "samples": [
            {"sample_id": sample.sample_id, "scene_id": sample.scene_id, "accuracy": float(hit)}
            | {key: str(sample.meta[key]) for key in ("type", "template") if key in sample.meta}
            | {"label": "yes" if _is_yes(sample) else "no", "noun": asked_noun(sample.text) or "-"}
            | ({} if data.truth is None else {"check": label_check(sample, _objects(data.truth, sample))})
            | {"error": "" if hit else _error(sample, reply)}
            for (sample, reply), hit in zip(pairs, right, strict=True)
        ],
    } | reliability_of([reply for _, reply in pairs], right)


def _error(sample: Sample, reply: Reply | None) -> str:
    said = None if reply is None else read_words(reply.text)
    if said is None:
        return "missing" if reply is None else "neither yes nor no"
    return "yes, but it is not there" if said else "no, but it is there"


def _is_yes(sample: Sample) -> bool:
    first = words(sample.answer)[:1]
    if first not in (["yes"], ["no"]):
        raise GrandError(f"sample {shown(sample.sample_id)}: answer is {shown(sample.answer)}, expected Yes or No first")
    return first == ["yes"]


def _rows(samples: Sequence[Sample], said: Sequence[bool | None], unanswered: Sequence[bool]) -> list[dict[str, Any]]:
    """Rates per type and template, and their means over the templates of a type.

    ``unanswered`` marks what is never right, not even where no is; an unknown word of the strict rule is a no instead.
    """
    truth = np.array([_is_yes(sample) for sample in samples], bool)
    yes, unknown = (np.array([value is wanted for value in said], bool) for wanted in (True, None))
    kinds = np.array([str(sample.meta.get("type", "all")) for sample in samples])
    templates = np.array([str(sample.meta.get("template", "-")) for sample in samples])
    scenes = np.array([sample.scene_id for sample in samples])
    given_up = np.array(unanswered, bool)
    columns = np.column_stack([confusion(truth, yes), unknown, given_up, given_up & ~truth]).astype(np.float64)
    rows = []
    for kind in dict.fromkeys(kinds):
        names = list(dict.fromkeys(templates[kinds == kind]))
        masks = [(kinds == kind) & (templates == name) for name in names]
        for name, mask in zip(names, masks, strict=True):
            rows.append({"type": str(kind), "template": str(name)} | _row(columns, [mask], scenes))
        if len(names) > 1:
            each = [row["f1"] for row in rows[-len(names) :]]
            spread = {"f1_min": min(each), "f1_max": max(each)}
            rows.append({"type": str(kind), "template": "mean"} | _row(columns, masks, scenes) | spread)
    return rows


def _row(columns: Floats, masks: Sequence[NDArray[np.bool_]], scenes: NDArray[Any]) -> dict[str, Any]:
    """One report row: rates averaged over the given parts, each with the interval of its mean."""
    inside = np.any(masks, axis=0)
    blocks = np.concatenate([columns[inside] * mask[inside, None] for mask in masks], axis=1)

    def mean(sums: Floats, name: str) -> Floats:
        parts = sums.reshape(*sums.shape[:-1], len(masks), columns.shape[1])
        return _rates(parts)[name].mean(axis=-1)

    row: dict[str, Any] = {"n": int(inside.sum()), "unknown": int(columns[inside, 4].sum())}
    for name in _rates(columns[:0].sum(axis=0)):
        low, high = bootstrap(blocks, scenes[inside], lambda sums, name=name: mean(sums, name))
        row |= percents({name: float(mean(blocks.sum(axis=0), name)), f"{name}_low": low, f"{name}_high": high})
    return row


def _rates(sums: Floats) -> dict[str, Floats]:
    """Rates from column sums (..., 7)."""
    tp, fp, fn, tn, _, given_up, given_up_no = np.moveaxis(sums, -1, 0)
    total, right = tp + fp + fn + tn, tp + tn - given_up_no
    with np.errstate(divide="ignore", invalid="ignore"):  # a figure over nothing is NaN
        answered = right / (total - given_up)
        return binary_rates(sums[..., :4]) | {"accuracy": right / total, "accuracy_answered": answered}


def asked_noun(question: str) -> str | None:
    """What a question asks for: ``trash cans`` in ``Are there any trash cans in the room?``; None when it cannot be told."""
    match = _ASKED.search(markup.plain(question).strip())
    return match[1] if match else None


def holds(noun: str, objects: Iterable[Object]) -> bool:
    """Whether an object bears this category, in the singular or the plural."""
    wanted = forms(noun)
    return any(wanted & forms(item.category) for item in objects)


LABELS = ("sound", "no, but it is there", "no, but a kind of it is there", "yes, but it is absent", "not known")


def label_check(sample: Sample, objects: Sequence[Object]) -> str:
    """What true objects say of a question's label, one of LABELS; ``not known`` without objects or a noun that can be told.

    ``it is there``: an object bears the very label, in the singular or the plural. ``a kind of it``: a longer name of it, such
    as "office chair" for "chairs".
    """
    noun = asked_noun(sample.text)
    if noun is None or not objects:
        return LABELS[4]
    there = holds(noun, objects)
    if _is_yes(sample):
        return LABELS[0 if there else 3]
    ends = tuple(f" {form}" for form in forms(noun))
    longer = any(form.endswith(ends) for item in objects for form in forms(item.category))
    return LABELS[1 if there else 2 if longer else 0]


def contradicted(samples: Sequence[Sample], scenes: Mapping[str, Scene]) -> list[dict[str, Any]]:
    """How many labels "no" name what is there, and how many "yes" what is not, by type of question.

    Args:
        scenes: All true objects. Where some are not annotated, ``no_but_there`` is a lower bound and ``yes_but_absent`` an upper.

    Returns:
        Rows ``type``, ``no`` (questions so labelled, each of several templates once), ``no_but_there``, ``no_but_a_kind``,
        ``yes``, ``yes_but_absent`` (:func:`label_check`); and ``scenes`` that were looked at. What is not known is left out.
    """
    names = ("no", "no_but_there", "no_but_a_kind", "yes", "yes_but_absent")
    rows: dict[str, dict[str, Any]] = {}
    seen: set[tuple[str, str, str | None]] = set()
    where: dict[str, set[str]] = {}
    for sample in samples:
        kind = str(sample.meta.get("type", "all"))
        key = (kind, sample.scene_id, asked_noun(sample.text))
        found = label_check(sample, _objects(scenes, sample))
        if found == LABELS[4] or key in seen:
            continue
        seen.add(key)
        where.setdefault(kind, set()).add(sample.scene_id)
        row = rows.setdefault(kind, {"type": kind} | dict.fromkeys(names, 0))
        row["yes" if _is_yes(sample) else "no"] += 1
        for name, label in zip((names[1], names[2], names[4]), LABELS[1:4], strict=True):
            row[name] += found == label
    return [row | {"scenes": len(where[kind])} for kind, row in rows.items()]


def _objects(scenes: Mapping[str, Scene], sample: Sample) -> Sequence[Object]:
    return scenes[sample.scene_id].objects if sample.scene_id in scenes else ()


def look_up(sample: Sample, objects: Iterable[Object]) -> bool:
    """The answer without a model: is the asked noun among the categories of the scene's objects?"""
    noun = asked_noun(sample.text)
    return noun is not None and holds(noun, objects)


def baselines(data: Data) -> list[dict[str, Any]]:
    """Rows that need no model: ``look-up`` (:func:`look_up`) and ``always yes``, per type and template."""
    samples = [sample for sample in data.samples if sample.task == TASK]
    found = [look_up(sample, data.scenes[sample.scene_id].objects) for sample in samples]
    all_answered = [False] * len(samples)
    rows = []
    if any(data.scenes[sample.scene_id].objects for sample in samples):  # public files alone hold no objects to look up
        rows = [{"name": "look-up"} | row for row in _rows(samples, found, all_answered)]
    return rows + [{"name": "always yes"} | row for row in _rows(samples, [True] * len(samples), all_answered)]


def read_replies(path: str | Path, data: Data, rejects: Rejects | None = None) -> list[Reply]:
    """Read replies to these data: our own ``replies.jsonl``, or a result file as LEO and the public script use it, or a folder
    of such files.

    Result files are a list of ``{scene_id, instruction, response}``, or ``{model: list}`` with one model. A file that is named
    by one of the types answers questions of that type alone, others those of every type in the data: a question that several
    types ask is then answered by what was said to another of them, so give data of the file's own type. Rows for other
    questions count as extra; a row that repeats an earlier one is taken once, one that contradicts it is refused.

    Raises:
        GrandError: If the file is neither, or a row is broken, unless ``rejects`` collects such rows.
    """
    rejects = rejects if rejects is not None else Rejects()
    folder = Path(path).is_dir()
    if not folder and _are_lines(read_bytes(path).decode(errors="replace")):
        return load_replies(path, rejects)
    files = sorted(Path(path).glob("*.json")) if folder else [path]
    if not files:
        raise GrandError(f"{place(path)}: holds no file *.json, expected result files of one model", "no file")
    said: dict[str, dict[tuple[str, str], str]] = {}
    typed = any("type" in sample.meta for sample in data.samples)
    for file in files:
        named = [kind for kind in TYPES if typed and kind in Path(file).name]
        _read_results(file, said.setdefault(named[0] if len(named) == 1 else "", {}), rejects)
    replies, asked = [], set()
    for sample in (sample for sample in data.samples if sample.task == TASK):
        key = (sample.scene_id, sample.text)
        asked.add(key)
        of_type = said.get(str(sample.meta.get("type")), {})
        text = said.get("", {}).get(key, of_type.get(key))
        if text is not None:
            replies.append(Reply(sample.sample_id, sample.scene_id, text))
    strange = {key: text for answers in said.values() for key, text in answers.items() if key not in asked}
    return replies + [Reply(f"{key[0]}: {key[1]}", key[0], text) for key, text in strange.items()]


def _read_results(path: str | Path, said: dict[tuple[str, str], str], rejects: Rejects) -> None:
    """Note what a result file answers to each (scene, question)."""
    document = read_json(path)
    if isinstance(document, dict) and len(document) == 1:
        document = next(iter(document.values()))
    if not isinstance(document, list):
        raise GrandError(f"{path}: expected a list of results of one model, seen {shown(document)}", "wrong type")
    for index, row in enumerate(document):
        try:
            if not isinstance(row, dict):
                raise GrandError(f"expected a JSON object, seen {shown(row)}", "wrong type")
            question = field(row, "instruction", str, "").replace("<image>", "").strip()
            key, text = (field(row, "scene_id", str, ""), question), field(row, "response", str, "")
            if said.setdefault(key, text) != text:
                raise GrandError(
                    f"{shown(question)} in {key[0]} was answered {shown(said[key])} before, now {shown(text)}", "contradiction"
                )
        except GrandError as error:
            rejects.add(f"{path}: row {index}", str(error), row, error.cause)


def _are_lines(text: str) -> bool:
    """Whether a replies file holds lines of our own: one of them does, or it is empty, as a run leaves it that was stopped at
    once. Broken lines may stand before."""
    for line in text.lstrip("\ufeff").split("\n"):
        if re.match(r'\s*\{\s*"sample_id"', line):
            return True
        if '"sample_id"' in line:
            with contextlib.suppress(GrandError):
                row = decode(line)
                if isinstance(row, dict) and "sample_id" in row:
                    return True
    return not text.strip("\ufeff\r\n\t ")


def write_upload(path: str | Path, data: Data, answers: Sequence[Reply]) -> int:
    """Write LEO's result form, ``[{scene_id, instruction, response}]``; returns how many answers have no question.

    A question that several types ask is answered once, as the public script wants it.
    """
    samples = {sample.sample_id: sample for sample in data.samples if sample.task == TASK}
    rows: dict[tuple[str, str], dict[str, str]] = {}
    left = 0
    for answer in answers:
        sample = samples.get(answer.sample_id)
        left += sample is None
        if sample is not None:
            row = {"scene_id": sample.scene_id, "instruction": sample.text, "response": markup.plain(answer.text).strip()}
            rows.setdefault((sample.scene_id, sample.text), row)
    write_json(path, list(rows.values()))
    return left
