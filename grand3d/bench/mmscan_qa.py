"""MMScan question answering: exact match, likeness of texts, and the judgement of a language model.

Answers and references are cleaned as the devkit cleans them, 256 characters of each, before anything is counted. ``judge`` is the
share of key points that a language model found in an answer; the devkit leaves out questions whose judgement failed, ``judge,
all`` counts them as wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d.bench.answers import mmscan_text
from grand3d.bench.common import Answer, pair
from grand3d.bench.texts import (
    fault,
    matches,
    meteor_rule,
    mmscan_tokens,
    read_texts,
    references,
    rows_of,
    said,
    text_row,
    write_texts,
)
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, is_number, read_json
from grand3d.sample import Data, Sample

TASK = "question"
TASKS = (TASK,)
SOURCE = ("mmscan", "questions")
OPTIONS = {
    "judge": "a language model's judgements: {id: {Correct Number, Wrong/Missing Number}}, or the folder of such files that the "
    "devkit wrote",
    "human": "people's judgements of the same answers, to hold the language model's against: {id: share right}",
}
Embed = Callable[[Sequence[str]], NDArray[np.float64]]
CLASSES = (
    ("ST-attr", ("EQ", "Single_Attribute")), ("ST-space", ("Single_Space",)), ("OO-attr", ("Attribute_OO",)),
    ("OO-space", ("Space_OO",)), ("OR", ("OR",)), ("Advanced", ("Advanced",)),
)  # fmt: skip
_ORDER = ("OO-attr", "OO-space", "ST-attr", "OR", "ST-space", "Advanced")
"""In which the devkit tries them: the first that the name of a sub-class holds."""
PARTLY = ("wrong", "partly right", "right")

PAPER: tuple[dict[str, Any], ...] = (
    {
        **{"name": "LEO, fine-tuned", "judge": 47.8, "ST-attr": 55.5, "ST-space": 49.5, "OO-attr": 36.1, "OO-space": 45.6},
        **{"OR": 32.1, "Advanced": 38.4, "simcse": 71.2, "sbert": 72.2, "bleu1": 32.0, "bleu4": 12.5, "rouge_l": 52.1},
        **{"meteor": 17.7, "em (mmscan)": 36.6, "em_r (mmscan)": 44.5, "source": "MMScan, Table 4"},
    },
    {"name": "LL3DA, fine-tuned", "judge": 38.5, "source": "MMScan, Table 4"},
)


def paper_class(sub_class: str) -> str:
    """The paper's column of a question, by a part of the name of its sub-class or of its id."""
    parts = dict(CLASSES)
    return next((name for name in _ORDER if any(part in sub_class for part in parts[name])), "other")


def score(
    data: Data,
    replies: Sequence[Answer],
    missing: str | None = None,
    judge: Mapping[str, float] | None = None,
    human: Mapping[str, float] | None = None,
    embed: Embed | None = None,
) -> dict[str, Any]:
    """Score answers to questions.

    Args:
        missing: See ``common.pair``.
        judge: Share right by question id, see ``read_judge``.
        human: The same by people, see ``read_human``; adds how well the two agree.
        embed: Texts (n) to vectors (n, d), such as SimCSE's or Sentence-BERT's; adds ``cosine``, the likeness to the most alike
            reference.

    Raises:
        GrandError: If answers and data do not fit together.
    """
    if human is not None and judge is None:
        raise GrandError("people's judgements are held against a language model's, expected both; give --judge too")
    pairs, counts = pair(data, replies, TASK, missing)
    counts["empty"] = sum(answer is not None and not said(answer) for _, answer in pairs)
    texts, each = text_row(pairs, mmscan_tokens)
    close = cosines(pairs, embed) if embed is not None else None
    samples: list[dict[str, Any]] = []
    for index, ((sample, answer), row, more) in enumerate(zip(pairs, matches(pairs), each, strict=True)):
        kind = paper_class(str(sample.meta.get("sub_class") or sample.sample_id.split("__")[0]))
        about = {"sample_id": sample.sample_id, "scene_id": sample.scene_id, "class": kind}
        row = row if close is None else row | {"cosine": float(close[index])}
        if judge is not None:
            row |= {"judge, all": judge.get(sample.sample_id, 0.0) if answer is not None else 0.0}
        samples.append(about | row | more | {"error": fault(bool(row["em_r (mmscan)"]), answer)})
    names = [key for key, value in samples[0].items() if isinstance(value, float) and key not in each[0]]
    groups = {name: [row["class"] == name for row in samples] for name in (*dict(CLASSES), "other")}
    rows = rows_of(samples, names, groups)
    rows[0] |= texts
    if judge is not None:
        judged = [row | {"judge": row["judge, all"]} for row in samples if row["sample_id"] in judge]
        counts["unjudged"] = len(samples) - len(judged)
        rows = _beside(rows, judged)
    report: dict[str, Any] = {
        "benchmark": "mmscan_qa",
        "counts": counts,
        "rules": {
            "em": "(mmscan) is the devkit's: nothing said is wrong; as LEO's script has it, and over all references",
            "texts": "cleaned, 256 characters, PTB tokens; CIDEr's idf is that of these references",
            "meteor": meteor_rule(texts),
            "judge": "not given" if judge is None else "mean over questions that were judged, as the devkit has it; all: else 0",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": rows,
        "baselines": [],
        "paper": list(PAPER),
        "samples": samples,
    }
    if human is not None and judge is not None:
        report["agreement"] = [agreement(judge, human)]
    return report


def _beside(rows: Sequence[dict[str, Any]], judged: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the devkit's figure, over judged questions alone."""
    if not judged:
        return [row | {"judge": None} for row in rows]
    groups = {name: [row["class"] == name for row in judged] for name in (*dict(CLASSES), "other")}
    found = {row.pop("name"): row for row in rows_of(judged, ("judge",), groups)}
    keys = ("judge", "judge_low", "judge_high")
    made = ({key: found[row["name"]][key] if row["name"] in found else None for key in keys} for row in rows)
    return [{"name": row["name"], "n": row["n"]} | more | row for row, more in zip(rows, made, strict=True)]


def cosines(pairs: Sequence[tuple[Any, Answer | None]], embed: Embed) -> NDArray[np.float64]:
    """Cosine of each answer to the reference that is most alike, (n,); 0 where there is no answer."""
    answers = [mmscan_text(said(answer)) for _, answer in pairs]
    known = [[mmscan_text(text) for text in references(sample)] for sample, _ in pairs]
    flat = [text for group in known for text in group]
    vectors = np.asarray(embed([*answers, *flat]), np.float64)
    if vectors.ndim != 2 or len(vectors) != len(answers) + len(flat):
        raise GrandError(f"embed gave an array {vectors.shape} for {len(answers) + len(flat)} texts, expected one vector each")
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    own, others = vectors[: len(answers)], vectors[len(answers) :]
    starts = np.cumsum([0, *map(len, known)])[:-1]
    alike = np.maximum.reduceat((np.repeat(own, [len(g) for g in known], axis=0) * others).sum(axis=1), starts)
    return np.where([bool(text) for text in answers], alike, 0.0)


def agreement(judge: Mapping[str, float], human: Mapping[str, float]) -> dict[str, Any]:
    """How a language model's shares and people's agree over the answers that both judged.

    Returns:
        ``n``; ``same``, percent of answers that both call wrong, partly right or right alike; ``kappa`` (Cohen's) of these three;
        ``correlation`` (Pearson's) of the shares; and the mean of both, percent.

    Raises:
        GrandError: If they share no answer.
    """
    both = [key for key in judge if key in human]
    if not both:
        raise GrandError("the language model and people judged no answer in common, expected the same ids", "no answer")
    shares = np.array([[judge[key], human[key]] for key in both])
    kinds = np.where(shares <= 0, 0, np.where(shares >= 1, 2, 1))
    same = float((kinds[:, 0] == kinds[:, 1]).mean())
    chance = sum(float((kinds[:, 0] == k).mean() * (kinds[:, 1] == k).mean()) for k in range(3))
    spread = shares.std(axis=0).prod()
    means = shares.mean(axis=0)
    return {
        **{"n": len(both), "same": 100 * same, "kappa": (same - chance) / (1 - chance) if chance < 1 else None},
        "correlation": float((shares - means).prod(axis=1).mean() / spread) if spread > 0 else None,
        **{"judge": 100 * float(means[0]), "human": 100 * float(means[1])},
    }


def read_judge(path: str | Path, rejects: Rejects | None = None) -> dict[str, float]:
    """Share of key points found, by question id, from a file or all ``.json`` files of a folder.

    A judgement counts as the devkit has it: all its key points are correct or wrong, and there is one.

    Raises:
        GrandError: For another form, or a broken judgement, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    files = sorted(Path(path).glob("*.json")) if Path(path).is_dir() else [Path(path)]
    if not files:
        raise GrandError(f"{place(path)}: no .json file in it, expected the judgements that the devkit wrote", "no rows")
    out: dict[str, float] = {}
    for file in files:
        for name, row in _judgements(file).items():
            right, wrong, points = (
                row.get(key) if isinstance(row, dict) else None
                for key in ("Correct Number", "Wrong/Missing Number", "All key points")
            )
            numbers = [int(x) if isinstance(x, str) and x.isdecimal() else x for x in (right, wrong)]
            whole = all(is_number(x) and x >= 0 for x in numbers) and sum(numbers) > 0
            if not whole or (isinstance(points, list) and len(points) != sum(numbers)):
                reason = f"is {shown(row)}, expected Correct Number and Wrong/Missing Number that add up to its key points"
                rejects.add(f"{place(file)}: {shown(name)}", reason, row, "broken judgement")
                continue
            out[name] = numbers[0] / sum(numbers)
    return out


def read_human(path: str | Path, rejects: Rejects | None = None) -> dict[str, float]:
    """Share right by question id: a number from 0 to 1, or one of PARTLY.

    Raises:
        GrandError: For another form, or a broken judgement, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    out = {}
    for name, value in _judgements(Path(path)).items():
        found = PARTLY.index(value) / 2 if value in PARTLY else value
        if not is_number(found) or not 0 <= found <= 1:
            reason = f"is {shown(value)}, expected a number from 0 to 1, or {', '.join(PARTLY)}"
            rejects.add(f"{place(path)}: {shown(name)}", reason, value, "broken judgement")
            continue
        out[name] = float(found)
    return out


def _judgements(path: Path) -> dict[str, Any]:
    document = read_json(path)
    if not isinstance(document, dict):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected an object of judgements by question id", "wrong type")
    return document


read_replies = partial(read_texts, key="ID")


def write_upload(path: str | Path, data: Data, answers: Sequence[Answer]) -> int:
    """Write the input of the devkit's evaluators, ``[{ID, question, pred, gt}]``; see ``texts.write_texts``."""

    def form(sample: Sample, answer: Answer) -> dict[str, Any]:
        return {"ID": sample.sample_id, "question": sample.text, "pred": [said(answer)], "gt": references(sample)}

    return write_texts(path, data, answers, form)
