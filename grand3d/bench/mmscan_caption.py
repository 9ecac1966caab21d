"""MMScan captioning: what a language model finds right and wrong of six aspects, and likeness of texts.

An aspect gets +1 where a caption has it right, -1 where wrong, 0 where it leaves it out. The benchmark's code is not public and
how the paper's percentages come about is not said, so the shares stand here one by one; ``right`` is the share of +1 among
all captions judged, ``precision`` among those that name the aspect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from grand3d.bench.common import Answer, pair, percents
from grand3d.bench.texts import fault, meteor_rule, mmscan_tokens, read_texts, references, said, text_row, write_texts
from grand3d.errors import GrandError, place, shown
from grand3d.files import Rejects, read_json
from grand3d.metrics import bootstrap, mean_interval
from grand3d.sample import Data, Sample

TASK = "question"
TASKS = (TASK,)
SOURCE = ("mmscan", "questions")
ASPECTS = ("Type", "Color", "Shape", "Position", "Function", "Design")
OPTIONS = {"judge": f"a language model's judgements: {{id: {{{', '.join(ASPECTS)}: 1, -1 or 0}}}}"}
Judged = Mapping[str, Mapping[str, int]]

PAPER: tuple[dict[str, Any], ...] = (
    {"name": "LL3DA", "right": 33.6, "source": "MMScan, Table 7"},
    {"name": "LEO", "right": 51.3, "source": "MMScan, Table 7"},
)


def score(data: Data, replies: Sequence[Answer], missing: str | None = None, judge: Judged | None = None) -> dict[str, Any]:
    """Score captions of objects and regions.

    Args:
        missing: See ``common.pair``. A caption that is missing or empty leaves every aspect out.
        judge: See ``read_judge``. Captions without a judgement are left out of the aspects, and counted.

    Raises:
        GrandError: If answers and data do not fit together.
    """
    pairs, counts = pair(data, replies, TASK, missing)
    counts["empty"] = sum(answer is not None and not said(answer) for _, answer in pairs)
    samples: list[dict[str, Any]] = []
    values, judged = np.zeros((len(pairs), len(ASPECTS))), np.zeros(len(pairs), bool)
    rows = []
    texts, each = text_row(pairs, mmscan_tokens)
    for index, ((sample, answer), more) in enumerate(zip(pairs, each, strict=True)):
        found = None if judge is None else judge.get(sample.sample_id)
        if judge is not None and (answer is None or not said(answer)):
            found = {}
        if found is not None:
            judged[index], values[index] = True, [found.get(aspect, 0) for aspect in ASPECTS]
        about = {
            "sample_id": sample.sample_id,
            "scene_id": sample.scene_id,
            "of": "region" if "region_id" in sample.meta else "object",
        }
        right = {} if found is None else {f"right, {aspect}": float(found.get(aspect, 0) > 0) for aspect in ASPECTS}
        wrong = any(value < 0 for value in (found or {}).values())
        samples.append(about | more | right | {"error": fault(not wrong and answer is not None and bool(said(answer)), answer)})
    rows.append({"name": "all", "n": len(pairs)} | texts)
    scenes = np.array([sample.scene_id for sample, _ in pairs])
    if judged.any():
        rows[0] |= _shares(values[judged].ravel(), np.repeat(scenes[judged], len(ASPECTS)))
        for column, aspect in enumerate(ASPECTS):
            rows.append({"name": aspect, "n": int(judged.sum())} | _shares(values[judged, column], scenes[judged]))
    if judge is not None:
        counts["unjudged"] = int((~judged).sum())
    return {
        "benchmark": "mmscan_caption",
        "counts": counts,
        "rules": {
            "texts": "cleaned, 256 characters, PTB tokens; CIDEr's idf is that of these references",
            "meteor": meteor_rule(texts),
            "aspects": "not judged: needs --judge" if judge is None else "of captions judged: right, wrong, left out (absent)",
            "missing": missing or "none missing",
            "interval": "95 %, bootstrap over scenes",
        },
        "rows": rows,
        "baselines": [],
        "paper": list(PAPER),
        "samples": samples,
    }


def _shares(values: np.ndarray, scenes: np.ndarray) -> dict[str, Any]:
    """Shares of +1, -1 and 0, and of +1 among those that are not 0, in percent."""
    right, wrong = values > 0, values < 0
    low, high = mean_interval(right, scenes)
    out = {"right": right.mean(), "right_low": low, "right_high": high, "wrong": wrong.mean(), "absent": (values == 0).mean()}
    said = right | wrong
    if said.any():
        columns = np.stack([right, said], axis=-1).astype(float)
        low, high = bootstrap(columns, scenes, lambda sums: sums[:, 0] / np.where(sums[:, 1] > 0, sums[:, 1], np.nan))
        out |= {"precision": right.sum() / said.sum(), "precision_low": low, "precision_high": high}
    return percents({name: float(value) for name, value in out.items()})


def read_judge(path: str | Path, rejects: Rejects | None = None) -> Judged:
    """Judgements by caption, ``{id: {aspect: 1, -1 or 0}}``; an aspect that is not named is 0.

    Raises:
        GrandError: For another form, or a broken judgement, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    document = read_json(path)
    if not isinstance(document, dict):
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected an object of judgements by caption", "wrong type")
    out = {}
    for name, row in document.items():
        known = {aspect.lower(): aspect for aspect in ASPECTS}
        fits = isinstance(row, dict) and all(key.lower() in known and value in (1, -1, 0) for key, value in row.items())
        if not fits:
            reason = f"is {shown(row)}, expected 1, -1 or 0 for some of {', '.join(ASPECTS)}"
            rejects.add(f"{place(path)}: {shown(name)}", reason, row, "broken judgement")
            continue
        out[name] = {known[key.lower()]: int(value) for key, value in row.items()}
    return out


read_replies = partial(read_texts, key="ID")


def write_upload(path: str | Path, data: Data, answers: Sequence[Answer]) -> int:
    """Write the input of the devkit's evaluators, ``[{ID, pred, gt}]``; see ``texts.write_texts``."""

    def form(sample: Sample, answer: Answer) -> dict[str, Any]:
        return {"ID": sample.sample_id, "pred": [said(answer)], "gt": references(sample)}

    return write_texts(path, data, answers, form)
