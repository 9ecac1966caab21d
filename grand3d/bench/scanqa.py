"""ScanQA: a short answer among several right ones, and its likeness to them.

``em1`` and ``em10`` are the official figures: the answer, or one of the first ten, among the references as they are, letter by
letter. ``f_value`` is what it has in common with the best reference; it needs nltk and its WordNet, by which the official
script takes words to their lemmas. ``f_value (words)`` takes them as they stand and is never above it. EM and EM-R by the rules
that papers on language models use stand beside them (``answers``), and BLEU, ROUGE-L, CIDEr and METEOR on PTB tokens, as the
official script has them, and on cleaned texts, as LEO's has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grand3d.bench.answers import match_scanqa
from grand3d.bench.common import Answer, Prediction, pair
from grand3d.bench.texts import (
    fault,
    leo_tokens,
    matches,
    meteor_rule,
    read_texts,
    references,
    rows_of,
    said,
    text_row,
    write_texts,
)
from grand3d.sample import Data, Sample

TASK = "question"
TASKS = (TASK,)
SOURCE = ("scanqa", "questions")
OPTIONS: dict[str, str] = {}
read_replies = read_texts
KINDS = (
    ("Where", "Place"),
    ("How many", "Number"),
    ("What color", "Color"),
    ("What is the color", "Color"),
    ("What shape", "Object nature"),
    ("What type", "Object nature"),
    ("What kind", "Object nature"),
    ("What is", "Object"),
)

PAPER: tuple[dict[str, Any], ...] = (
    {
        **{"name": "baseline of MMScan", "bleu4": 10.5, "rouge_l": 39.2, "meteor": 15.1, "em (leo)": 23.1, "em_r (leo)": 39.0},
        "source": "MMScan, Table 6",
    },
    {"name": "Chat-Scene", "cider": 87.7, "source": "3DGraphLLM, Table 2"},
    {"name": "3DGraphLLM, Llama 3 8B", "cider": 88.8, "source": "3DGraphLLM, Table 2"},
)


def question_class(question: str) -> str:
    """ScanQA's class of a question, by a part of its text."""
    return next((name for part, name in KINDS if part in question), "Other")


def top_ten(answer: Answer | None) -> tuple[str, ...]:
    """The answers of a row, the surest first; a reply has one."""
    more = answer.object_ids if isinstance(answer, Prediction) else None
    return (more or (said(answer),))[:10]


def f_value(text: str, known: Sequence[str], lemma: Callable[[str], str] = str) -> float:
    """The official F-value of an answer, in [0, 1]: 1 for a reference letter by letter, else of what words (split at blanks) each
    side has in the other, with repetitions, the harmonic mean; the best over references.

    Args:
        lemma: From a word to what is compared.
    """
    if text in known:
        return 1.0
    ours, best = [lemma(word) for word in text.split()], 0.0
    for reference in known:
        theirs = [lemma(word) for word in reference.split()]
        if {*ours} & {*theirs}:
            precision = sum(word in theirs for word in ours) / len(ours)
            recall = sum(word in ours for word in theirs) / len(theirs)
            best = max(best, 2 * precision * recall / (precision + recall))
    return best


def wordnet() -> Callable[[str], str] | None:
    """WordNet's lemma of a word, by nltk; None where nltk or its data are not there."""
    try:
        from nltk.stem import WordNetLemmatizer

        lemma: Callable[[str], str] = WordNetLemmatizer().lemmatize
        lemma("chairs")
    except (ImportError, LookupError):
        return None
    return lemma


def write_upload(path: str | Path, data: Data, answers: Sequence[Answer]) -> int:
    """Write ``[{scene_id, question_id, answer_top10}]``, a reply as its only answer; see ``texts.write_texts``."""

    def form(sample: Sample, answer: Answer) -> dict[str, Any]:
        return {"scene_id": sample.scene_id, "question_id": sample.sample_id, "answer_top10": list(top_ten(answer))}

    return write_texts(path, data, answers, form)


def score(data: Data, replies: Sequence[Answer], missing: str | None = None) -> dict[str, Any]:
    """Score answers to questions.

    Args:
        missing: See ``common.pair``; the official script stops at a missing question.

    Raises:
        GrandError: If answers and data do not fit together.
    """
    pairs, counts = pair(data, replies, TASK, missing)
    counts["empty"] = sum(answer is not None and not said(answer) for _, answer in pairs)
    (texts, each), (leo, _) = text_row(pairs), text_row(pairs, leo_tokens)
    samples: list[dict[str, Any]] = []
    lemma = wordnet()
    for (sample, answer), row, more in zip(pairs, matches(pairs), each, strict=True):
        known = references(sample)
        figures = {
            "em1": float(answer is not None and match_scanqa(said(answer), known)),
            "em10": float(answer is not None and any(match_scanqa(text, known) for text in top_ten(answer))),
            "f_value (words)": f_value(said(answer), known),
        }
        figures |= {"f_value": f_value(said(answer), known, lemma)} if lemma is not None else {}
        about = {"sample_id": sample.sample_id, "scene_id": sample.scene_id, "class": question_class(sample.text)}
        error = fault(bool(row["em (all references)"]), answer)
        samples.append(about | figures | row | more | {"error": error})
    names = [key for key, value in samples[0].items() if isinstance(value, float) and key not in each[0]]
    classes = dict.fromkeys([*(name for _, name in KINDS), "Other"])
    rows = rows_of(samples, names, {name: [row["class"] == name for row in samples] for name in classes})
    rows[0] |= texts
    rows.append({"name": "all, texts as LEO's script", "n": len(samples)} | leo)
    return {
        "benchmark": "scanqa",
        "counts": counts,
        "rules": {
            "em1, em10": "the official rule: letter by letter, one of the references",
            "em": "as LEO's script has it, MMScan's, and over all references",
            "texts": "PTB tokens, and as LEO's script has them: cleaned, taken apart at blanks",
            "cider": "idf of these very references: figures of other sets of questions do not compare",
            "meteor": meteor_rule(texts),
            "f_value": "over WordNet's lemmas"
            if lemma
            else "not available: needs nltk and its WordNet; (words) is a lower bound",
            "spice": "not computed: needs a Java parser with its models",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": rows,
        "baselines": [],
        "paper": list(PAPER),
        "samples": samples,
    }
