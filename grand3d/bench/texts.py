"""What benchmarks of questions share: the answers of a reply, and figures of texts with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grand3d import markup
from grand3d.bench.answers import RULES, clean, mmscan_text
from grand3d.bench.common import Answer, Prediction, percents
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, read_json, write_json
from grand3d.metrics import bootstrap, mean_interval
from grand3d.sample import Data, Sample, load_replies
from grand3d.textmetrics import bleu_counts, bleu_of, cider, meteor, ptb_tokens, rouge_l

Pairs = Sequence[tuple[Sample, Answer | None]]


def said(answer: Answer | None) -> str:
    """The text of an answer without its markup; nothing where there is none."""
    return "" if answer is None else markup.plain(answer.text).strip()


def references(sample: Sample) -> list[str]:
    """The right answers of a sample: ``meta["answers"]``, else its answer."""
    found = sample.meta.get("answers") or ([sample.answer] if sample.answer else [])
    if not found:
        raise GrandError(f"sample {shown(sample.sample_id)}: it has no answer, expected some in meta.answers", "no answer")
    return [markup.plain(text) for text in found]


def matches(pairs: Pairs) -> list[dict[str, float]]:
    """EM and EM-R of each pair by every rule of ``answers.RULES``."""
    out = []
    for sample, answer in pairs:
        row = {}
        for name, rule in RULES.items():
            exact, refined = (False, False) if answer is None else rule(said(answer), references(sample))
            row |= {f"em ({name})": float(exact), f"em_r ({name})": float(refined)}
        out.append(row)
    return out


def rows_of(samples: Sequence[Mapping[str, Any]], figures: Sequence[str], groups: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Means of figures over all samples and over groups ``{name: mask}``, in percent, with 95 % intervals clustered by scene."""
    scenes = np.array([row["scene_id"] for row in samples])
    out = []
    for name, mask in {"all": np.ones(len(samples), bool), **groups}.items():
        mask = np.asarray(mask, bool)
        if not mask.any():
            continue
        line: dict[str, Any] = {"name": name, "n": int(mask.sum())}
        for figure in figures:
            values = np.array([row[figure] for row in samples])[mask]
            low, high = mean_interval(values, scenes[mask])
            line |= percents({figure: values.mean(), f"{figure}_low": low, f"{figure}_high": high})
        out.append(line)
    return out


def text_row(pairs: Pairs, split: Callable[[str], list[str]] = ptb_tokens) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """``corpus_row`` of answers and their references.

    Args:
        split: A text to its tokens; LEO's script, for one, takes cleaned texts apart at blanks (``leo_tokens``).
    """
    answers = [split(said(answer)) for _, answer in pairs]
    known = [[split(text) for text in references(sample)] for sample, _ in pairs]
    return corpus_row(answers, known, [sample.scene_id for sample, _ in pairs])


def leo_tokens(text: str) -> list[str]:
    """Tokens as LEO's script has them for its metrics of texts: cleaned, taken apart at blanks."""
    return clean(text).split()


def mmscan_tokens(text: str) -> list[str]:
    """PTB tokens of a text that was cleaned as MMScan's devkit cleans it."""
    return ptb_tokens(mmscan_text(text))


def corpus_row(
    answers: Sequence[Sequence[str]], known: Sequence[Sequence[Sequence[str]]], scenes: Sequence[str]
) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """BLEU-1 to 4, ROUGE-L, CIDEr and METEOR of a corpus, times 100, with intervals; and what each answer scores.

    METEOR is None where its Java program cannot run. Its corpus figure is no mean over answers, so it has no interval.

    Args:
        answers: Tokens of each.
        known: Tokens of its references.
    """
    counts = np.array([bleu_counts(a, r) for a, r in zip(answers, known, strict=True)])
    row: dict[str, Any] = {}
    for k, value in enumerate(bleu_of(counts.sum(axis=0))):
        low, high = bootstrap(counts, scenes, lambda sums, k=k: bleu_of(sums)[..., k])
        row |= percents({f"bleu{k + 1}": float(value), f"bleu{k + 1}_low": low, f"bleu{k + 1}_high": high})
    each = {"rouge_l": np.array([rouge_l(a, r) for a, r in zip(answers, known, strict=True)]), "cider": cider(answers, known)}
    found = meteor(answers, known)
    for name, values in each.items():
        low, high = mean_interval(values, scenes)
        row |= percents({name: float(values.mean()), f"{name}_low": low, f"{name}_high": high})
    row["meteor"] = None if found is None else 100 * found[0]
    each |= {} if found is None else {"meteor": found[1]}
    return row, [{name: float(values[k]) for name, values in each.items()} for k in range(len(answers))]


def meteor_rule(row: Mapping[str, Any]) -> str:
    """What a report says of its METEOR."""
    return "by its Java program" if row["meteor"] is not None else "not available: needs Java and pycocoevalcap"


def fault(right: bool, answer: Answer | None) -> str:
    """The class of error of an answer that is a text."""
    return "" if right else "missing" if answer is None else "wrong" if said(answer) else "empty"


def write_texts(path: str | Path, data: Data, answers: Sequence[Answer], form: Callable[[Sample, Answer], dict[str, Any]]) -> int:
    """Write a JSON list of one row for each answered question, in their order; returns how many answers have no question."""
    by_id = {answer.sample_id: answer for answer in answers}
    rows = [form(sample, by_id[sample.sample_id]) for sample in data.samples if sample.sample_id in by_id]
    write_json(path, rows)
    return len(by_id) - len(rows)


def read_texts(path: str | Path, data: Data, rejects: Rejects | None = None, key: str = "question_id") -> list[Answer]:
    """Answers from our replies file; from one object ``{id: text}`` or ``{id: row}``; or from a list of rows
    with an id and a text.

    A row's text is its ``answer_top10`` (the first of them), ``response_pred``, ``answer``, ``pred`` or ``response``.

    Raises:
        GrandError: For another form, or a broken row, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    if Path(path).suffix == ".jsonl":
        return list(load_replies(path, rejects))
    document = read_json(path)
    scenes = {sample.sample_id: sample.scene_id for sample in data.samples}
    if isinstance(document, dict):
        listed: list[Any] = [
            {**value, key: name} if isinstance(value, dict) else {key: name, "answer": value} for name, value in document.items()
        ]
    elif isinstance(document, list):
        listed = document
    else:
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected a list of answers or an object of them", "wrong type")
    out: list[Answer] = []
    seen: set[str] = set()
    for index, row in enumerate(listed):
        where = f"{place(path)}: row {index}"
        name = str(row.get(key, "")) if isinstance(row, dict) else ""
        fields = ("answer_top10", "response_pred", "answer", "pred", "response")
        value = next((row[item] for item in fields if item in row), None) if name else None
        top = tuple(value) if isinstance(value, list) and value and all(isinstance(x, str) for x in value) else ()
        text = top[0] if top else value
        if not isinstance(text, str):
            rejects.add(where, f"is {shown(row)}, expected an object with {key} and the text of an answer", row, "broken row")
            continue
        if name in seen:
            rejects.add(where, f"a second answer to {shown(name)}, expected one; the first one counts", row, "second reply")
            continue
        seen.add(name)
        out.append(Prediction(name, scenes.get(name, str(row.get("scene_id", ""))), text=text, object_ids=top or None))
    return out
