"""What annotations are like: how many of each kind, how long, how many words and things they name; as numbers and as a page."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from grand3d import charts
from grand3d.bench.nouns import words
from grand3d.charts import Mark
from grand3d.markup import parse, plain
from grand3d.page import document, html_table
from grand3d.sample import Sample

MOST_WORDS = 40


def statistics_of(samples: Sequence[Sample], rejected: Mapping[str, int]) -> dict[str, Any]:
    """Counts, lengths and vocabulary of samples, and what was left out, by cause.

    Lengths are in words without markup. ``grounded`` is the share of words inside of spans.
    """
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(str(sample.meta.get("kind", sample.task)), []).append(sample)
    rows, every = [], Counter[str]()
    named = Counter[str]()
    for kind, some in groups.items():
        asked, told, spans, inside, total = [], [], [], 0, 0
        own = Counter[str]()
        for sample in some:
            question = words(plain(sample.text))
            text = sample.answer or sample.text
            parsed = parse(text)
            answer = words(plain(text))
            asked.append(len(question))
            told.append(len(answer))
            spans.append(len(parsed.spans))
            total += len(answer)
            phrases = [words(span.phrase) for span in parsed.spans]
            inside += sum(map(len, phrases))
            named.update(" ".join(phrase[1:] if len(phrase) > 1 else phrase) for phrase in phrases if phrase)
            own.update(question if sample.answer else ())
            own.update(answer)
        every.update(own)
        rows.append(
            {
                "kind": kind,
                "n": len(some),
                "scenes": len({sample.scene_id for sample in some}),
                "question words": round(statistics.mean(asked), 1),
                "answer words": round(statistics.mean(told), 1),
                "longest": max(told),
                "spans": round(statistics.mean(spans), 1),
                "grounded": round(100 * inside / max(1, total), 1),
                "vocabulary": len(own),
                "different": round(100 * len({(s.text, s.answer) for s in some}) / len(some), 1),
            }
        )
    return {
        "samples": len(samples),
        "scenes": len({sample.scene_id for sample in samples}),
        "words": sum(every.values()),
        "vocabulary": len(every),
        "kinds": rows,
        "rejected": dict(rejected),
        "frequent_words": dict(every.most_common(MOST_WORDS)),
        "frequent_phrases": dict(named.most_common(MOST_WORDS)),
    }


def statistics_page(found: Mapping[str, Any]) -> str:
    """The statistics as a page that holds no script and loads nothing."""
    title = f"Annotations: {found['samples']} samples of {found['scenes']} scenes"
    counted = "".join(f"<li><b>{found[name]}</b> {name}</li>" for name in ("samples", "scenes", "words", "vocabulary"))
    plots = []
    for label, rows in (
        ("Samples of each kind", {row["kind"]: row["n"] for row in found["kinds"]}),
        ("Left out, by cause", found["rejected"]),
        ("Frequent phrases", dict(list(found["frequent_phrases"].items())[:20])),
        ("Frequent words", dict(list(found["frequent_words"].items())[:20])),
    ):
        if rows:
            plot = charts.dots([Mark(name, float(number)) for name, number in rows.items()], label, unit="")
            plots.append(f"<section><h2>{escape(label)}</h2>{plot}</section>")
    table = f"<section><h2>Kinds</h2>{html_table(found['kinds'], 'kinds')}</section>" if found["kinds"] else ""
    return document(
        title, [f"<h1>{escape(title)}</h1><ul class=counts>{counted}</ul>{table}<div class=plots>{''.join(plots)}</div>"]
    )
