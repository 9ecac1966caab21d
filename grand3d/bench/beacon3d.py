"""Beacon3D: an object counts as understood when everything asked about it is right.

Grounding: an expression is right when the object named is among those it means. A *chain* goes from a coarse expression to a
fine one about the same object and is right when all of it is; an *object* when the finest expression of each of its chains is.

Questions are scored 1 to 5: 5 for an exact match, 5 for a question of yes or no with a refined match, else what a language
model said (``judge``). A case is (score - 1) / 4; an object is right when each of its questions has 4 or more. ``score`` follows
the released script, which takes any reference with the letters "no" in it (piano, north) for a question of yes or no, and then
gives an empty answer, or "I do not know", full marks. ``score, mended`` reads whole words.

Both together (data folders that hold both): ``R1``, of the answers that are wrong, how many are about an object that was
grounded, questions that need more than the object aside; ``R2``, of those that are right, how many are about one that was not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grand3d import boxes
from grand3d.bench.answers import clean, match, match_leo
from grand3d.bench.common import Answer, Prediction, answer_boxes, pair, percents, read_reply
from grand3d.bench.texts import references, rows_of, said
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, is_number, read_json, write_json
from grand3d.metrics import mean_interval
from grand3d.sample import Data, Reply, Sample, load_replies

GROUNDING, QUESTION = TASKS = ("object_reference", "question")
SEVERAL = True
SOURCE = ("beacon3d", "questions")
OPTIONS = {"judge": "scores 1 to 5 of a language model: {question id: score}, or the released script's output"}
TAGS = ("class", "appearance", "geometry", "spatial", "existence", "functionality")
OVERLAP = 0.5
GOOD = 4
"""The score from which on an answer counts as right."""
FIELDS = ("response_pred", "answer_pred", "text", "answer_top10", "pred_response", "pred", "answer")
Judged = Mapping[tuple[str, ...], float]

_QA = (
    ("PQ3D", 37.8, 45.8, 32.1, 19.2, 44.5, 35.9, 4.2),
    ("SceneVerse", 26.4, 40.4, 40.0, 35.0, 54.1, 40.5, 4.7),
    ("LEO", 16.4, 39.8, 47.6, 52.8, 54.3, 45.2, 7.5),
)
_REFER = (("PQ3D", 74.4, 75.5, 62.1, 76.8, 74.4, 60.0), ("SceneVerse", 73.4, 65.3, 61.6, 73.0, 73.4, 51.4))
PAPER: tuple[dict[str, Any], ...] = tuple(
    {
        "name": f"{name}, {part}",
        **dict(zip((*tags, "case", "object"), figures, strict=True)),
        "source": "Beacon3D, README",
    }
    for part, tags, table in (("questions", TAGS[:5], _QA), ("grounding", TAGS[:4], _REFER))
    for name, *figures in table
)


def score(data: Data, replies: Sequence[Answer], missing: str | None = None, judge: Judged | None = None) -> dict[str, Any]:
    """Score expressions, questions, or both, whichever the data hold.

    Args:
        missing: See ``common.pair``.
        judge: See ``read_judge``. An answer that it would be needed for and that it lacks gets 1, and is counted as ``unjudged``.

    Raises:
        GrandError: If answers and data do not fit together.
    """
    task_of = {sample.sample_id: sample.task for sample in data.samples}
    asked = [task for task in TASKS if task in task_of.values()] or [GROUNDING]
    counts: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    answered = {task_of.get(reply.sample_id) for reply in replies} & {*asked}
    if missing == "skip" and answered:
        counts["missing"] = sum(task in {*asked} - answered for task in task_of.values())
        asked = [task for task in asked if task in answered]
    strangers = [reply for reply in replies if task_of.get(reply.sample_id) not in TASKS]
    for task in asked:
        mine = [reply for reply in replies if task_of.get(reply.sample_id) == task]
        pairs, found = pair(data, [*mine, *strangers], task, missing)
        strangers = []
        counts.update(found)
        made, lines = _grounding(pairs, data, counts) if task == GROUNDING else _questions(pairs, judge or {}, counts)
        rows += lines
        samples += made
    if len(asked) == 2:
        rows += _together(samples)
    counts["other_tasks"] = len(data.samples) - sum(task in TASKS for task in task_of.values())
    return {
        "benchmark": "beacon3d",
        "counts": dict(counts),
        "rules": {
            "grounding": "the first object named (of a proposal, what it overlaps by half or more) is one of those meant",
            "score": "5 for EM, and for EM-R where a reference holds the letters of no or yes, else the judge",
            "score, mended": "over all references; yes and no as words; an empty answer is no match",
            "judge": "needs --judge; without it such answers get 1, a lower bound" if judge is None else "as given",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": rows,
        "baselines": [],
        "paper": list(PAPER),
        "samples": [{key: value for key, value in row.items() if key not in ("places", "tags")} for row in samples],
    }


def _grounding(pairs: Sequence[tuple[Sample, Answer | None]], data: Data, counts: Counter[str]) -> tuple[list[Any], list[Any]]:
    samples = []
    for sample, answer in pairs:
        ids = None if answer is None else _named(answer, data)
        right = bool(ids) and ids[0] in sample.target_ids
        counts["unparsable"] += answer is not None and ids is None
        counts["empty"] += ids == ()
        error = "missing" if answer is None else "unparsable" if ids is None else "wrong object" if ids else "empty"
        figures = {"accuracy": float(right), "all of them": float(ids is not None and {*ids} == {*sample.target_ids})}
        samples.append({**_about(sample), "part": "grounding", **figures, "error": "" if right else error})
    lines = rows_of(samples, ("accuracy", "all of them"), _tags(samples))
    chains, finest = _chains(samples)
    for name, found in (("chain", chains), ("object", finest)) if chains else ():  # data may not say what belongs together
        lines.append(_row(name, [all(flags) for flags in found.values()], [key[0] for key in found]))
    four = Counter((all(flags[1:]), bool(flags[0])) for flags in chains.values())
    for coarse, fine in ((1, 1), (1, 0), (0, 1), (0, 0)) if chains else ():
        share = four[bool(coarse), bool(fine)] / max(1, len(chains))
        name = f"chain, coarse {'right' if coarse else 'wrong'}, fine {'right' if fine else 'wrong'}"
        lines.append({"name": name, "n": len(chains), **percents({"accuracy": share})})
    return samples, [line | {"name": f"grounding: {line['name']}"} for line in lines]


def _named(answer: Answer, data: Data) -> tuple[str, ...] | None:
    """The true objects that an answer names: of a proposal the one that it overlaps most, by OVERLAP or more, or ``""``."""
    if isinstance(answer, Prediction) and answer.object_ids is not None:
        return answer.object_ids
    if isinstance(answer, Reply) and data.truth is None:
        return read_reply(answer)[0]
    found = answer_boxes(answer, data)
    true = (data.scenes if data.truth is None else data.truth)[answer.scene_id]
    if found is None or not len(found) or not true.objects:
        return None if found is None else ("",) * len(found)
    overlap = boxes.iou(found, boxes.objects_bounds(true.objects))
    return tuple(true.object_ids[row.argmax()] if row.max() >= OVERLAP else "" for row in overlap)


def _chains(samples: Sequence[dict[str, Any]]) -> tuple[dict[Any, list[float]], dict[Any, list[float]]]:
    """Whether each step of each chain is right, finest first, by (scene, object, chain); and the finest steps of each object."""
    steps: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in samples:
        for item, chain, step in row["places"]:
            steps.setdefault((row["scene_id"], item, chain), {})[step] = row["accuracy"]
    chains = {key: [flags[step] for step in sorted(flags)] for key, flags in steps.items()}
    finest: dict[tuple[str, str], list[float]] = {}
    for (scene, item, _), flags in chains.items():
        finest.setdefault((scene, item), []).append(flags[0])
    return chains, finest


def _questions(pairs: Sequence[tuple[Sample, Answer | None]], judge: Judged, counts: Counter[str]) -> tuple[list[Any], list[Any]]:
    samples, names = [], ("score", "score, mended")
    for sample, answer in pairs:
        known, text = references(sample), said(answer)
        judged = next((judge[key] for key in _keys(sample) if key in judge), None)
        official, refined = match_leo(text, known) if answer is not None else (False, False)
        exact = answer is not None and match(text, known)[0]
        sure = (official or (refined and _holds_no(known)), exact or (answer is not None and _yes_or_no(text, known)))
        counts["empty"] += answer is not None and not text
        counts["unjudged"] += judged is None and bool(text) and not all(sure)
        points = [5.0 if flag else judged if judged is not None and text else 1.0 for flag in sure]
        row = {name: (value - 1) / 4 for name, value in zip(names, points, strict=True)}
        row |= {"em": float(official), "em_r": float(refined), "em (all references)": float(exact)}
        error = "" if points[1] >= GOOD else "missing" if answer is None else "wrong" if text else "empty"
        extra = "more than the object" if sample.meta.get("extra") else "the object alone"
        samples.append(_about(sample) | {"part": "questions", "asks for": extra} | row | {"error": error})
    cases = [row for row in samples for _ in row["places"] or ("",)]  # one that stands under several objects is a case of each
    lines = rows_of(cases, (*names, "em", "em_r", "em (all references)"), _tags(cases))
    objects: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in samples:
        for item, _ in row["places"]:
            objects.setdefault((row["scene_id"], item), []).append(row)
    line: dict[str, Any] = {}
    for name in names if objects else ():  # data may not say which objects they are about
        right = [all(row[name] >= (GOOD - 1) / 4 for row in rows) for rows in objects.values()]
        line |= _row("object", right, [key[0] for key in objects], name)
    return samples, [line | {"name": f"questions: {line['name']}"} for line in (*lines, *([line] if line else ()))]


def _holds_no(known: Sequence[str]) -> bool:
    """The released script's test of a question of yes or no: the letters anywhere in a cleaned reference."""
    return any("yes" in text or "no" in text for text in (clean(item).lower() for item in known))


def _yes_or_no(text: str, known: Sequence[str]) -> bool:
    """Whether a reference is yes or no and the answer says just this one of the two, as a word."""
    words = set(re.findall("[a-z]+", text.lower())) & {"yes", "no"}
    return len(words) == 1 and clean(" ".join(words)) in {clean(item).strip(" ,") for item in known}


def _together(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """R1 and R2; questions about objects without an expression are left out."""
    finest = _chains([row for row in samples if row["part"] == "grounding"])[1]
    cases = []
    for row in samples:
        for item, *_ in row["places"] if row["part"] == "questions" else ():
            if (row["scene_id"], item) in finest:
                found = all(finest[row["scene_id"], item])
                cases.append((row["scene_id"], row["score"] >= (GOOD - 1) / 4, found, row["asks for"] == "the object alone"))
    wrong = [(scene, found) for scene, right, found, alone in cases if not right and alone]
    fine = [(scene, not found) for scene, right, found, _ in cases if right]
    found = {"R1: wrong answers about a grounded object": wrong, "R2: right answers about an object not grounded": fine}
    return [_row(name, [x for _, x in part], [scene for scene, _ in part]) for name, part in found.items() if part]


def _row(name: str, right: Sequence[bool], scenes: Sequence[str], figure: str = "accuracy") -> dict[str, Any]:
    values = np.array(right, float)
    low, high = mean_interval(values, scenes)
    return {"name": name, "n": len(values)} | percents({figure: values.mean(), f"{figure}_low": low, f"{figure}_high": high})


def _about(sample: Sample) -> dict[str, Any]:
    tags = [str(tag) for tag in sample.meta.get("tags", ())]
    about = {"sample_id": sample.sample_id, "scene_id": sample.scene_id, "tag": "-".join(tags)}
    return about | {"tags": tags, "places": sample.meta.get("places", [])}


def _tags(rows: Sequence[dict[str, Any]]) -> dict[str, list[bool]]:
    return {tag: [tag in row["tags"] for row in rows] for tag in TAGS}


def _keys(sample: Sample) -> list[tuple[str, ...]]:
    """What a judge's row may call a question: its id, or its object with its text."""
    objects = [(f"{sample.scene_id}-{item}", sample.text.lower()) for item, *_ in sample.meta.get("places", [])]
    return [(sample.sample_id,), *objects]


def read_judge(path: str | Path, rejects: Rejects | None = None) -> Judged:
    """Scores by question: ``{question id: score}``, or rows with ``score`` and ``question_id``, or ``obj_id`` and ``question``.

    Raises:
        GrandError: For another form, or a broken row, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    document = read_json(path)
    listed = [{"question_id": key, "score": value} for key, value in document.items()] if isinstance(document, dict) else document
    if not isinstance(listed, list):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected scores by question or a list of rows", "wrong type")
    out: dict[tuple[str, ...], float] = {}
    for index, row in enumerate(listed):
        row = row if isinstance(row, dict) else {}
        key = (row.get("question_id"),) if "question_id" in row else (row.get("obj_id"), str(row.get("question", "")).lower())
        value = row.get("score")
        if not is_number(value) or not 1 <= value <= 5 or not all(isinstance(part, str) and part for part in key):
            reason = f"is {shown(listed[index])}, expected a question and its score from 1 to 5"
            rejects.add(f"{place(path)}: row {index}", reason, listed[index], "broken row")
            continue
        out[key] = float(value)
    return out


def read_replies(path: str | Path, data: Data, rejects: Rejects | None = None) -> list[Answer]:
    """Answers from our replies file, or a list of rows as the released scripts take them.

    A row tells its sample by ``item_id`` or ``question_id``; where none does, rows are in the order of the questions, and as
    many. An expression is answered by ``correct``, whether its object was found, or by ``object_id``; a question by one of
    FIELDS, of a list the first.

    Raises:
        GrandError: For another form or number of rows, or a broken row, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    if Path(path).suffix == ".jsonl":
        return list(load_replies(path, rejects))
    document = read_json(path)
    if not isinstance(document, list):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected a list of rows", "wrong type")
    by_id = {sample.sample_id: sample for sample in data.samples}
    named = any(isinstance(row, dict) and _name(row) in by_id for row in document)
    if not named and len(document) != len(by_id):
        reason = f"{len(document)} rows without item_id or question_id, expected one for each of {len(by_id)} questions, in order"
        raise GrandError(f"{place(path)}: {reason}", "wrong number")
    out: list[Answer] = []
    seen: set[str] = set()
    for index, row in enumerate(document):
        where, kept = f"{place(path)}: row {index}", row if isinstance(row, dict) else {}
        name = _name(kept) if named else list(by_id)[index]
        sample = by_id.get(name)
        scene = str(kept.get("scene_id", kept.get("scan_id", sample.scene_id if sample else "")))
        value = next((kept[item] for item in FIELDS if item in kept), None)
        text = value[0] if isinstance(value, list) and value else value
        ids = _ids_of(kept, sample)
        if not name or (ids is None and not isinstance(text, str)):
            rejects.add(where, f"is {shown(row)}, expected an object that answers one question", row, "broken row")
            continue
        if name in seen:
            rejects.add(where, f"a second answer to {shown(name)}, expected one; the first one counts", row, "second reply")
            continue
        seen.add(name)
        out.append(Prediction(name, scene, object_ids=ids, text="" if ids is not None else text))
    return out


def _name(row: dict[str, Any]) -> str:
    return str(row.get("item_id", row.get("question_id", "")))


def _ids_of(row: dict[str, Any], sample: Sample | None) -> tuple[str, ...] | None:
    """The object that a row names; one of those meant where it says ``correct``, and none of them where it says not so."""
    if row.get("object_id") is not None:
        return (str(row["object_id"]),)
    if row.get("correct") not in (0, 1):  # False and True too
        return None
    return sample.target_ids[:1] if sample is not None and row["correct"] else ("",)


def write_upload(path: str | Path, data: Data, answers: Sequence[Answer]) -> int:
    """Write ``[{item_id, scan_id, object_id}]`` of expressions and ``[{question_id, scan_id, response_pred}]`` of questions, in
    their order; ``object_id`` is the first true object that is named, "" where none is.

    Returns:
        How many answers have no question, or name nothing that can be read.
    """
    by_id = {answer.sample_id: answer for answer in answers}
    rows: list[dict[str, str]] = []
    for sample in data.samples:
        answer = by_id.get(sample.sample_id) if sample.task in TASKS else None
        if answer is not None and sample.task == QUESTION:
            rows.append({"question_id": sample.sample_id, "scan_id": sample.scene_id, "response_pred": said(answer)})
        elif answer is not None and (ids := _named(answer, data)) is not None:
            rows.append({"item_id": sample.sample_id, "scan_id": sample.scene_id, "object_id": next(iter(ids), "")})
    write_json(path, rows)
    return len(by_id) - len(rows)
