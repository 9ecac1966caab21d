"""``grand3d analyze``: what the language of expressions is like."""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from itertools import cycle
from pathlib import Path
from typing import Any

from grand3d import charts
from grand3d.bench.vigil3d import SUBGROUPS
from grand3d.charts import Mark
from grand3d.commands.common import keeping, say
from grand3d.errors import GrandError
from grand3d.expressions import Expression, load_expressions
from grand3d.files import Rejects, write_json, write_jsonl, write_text
from grand3d.language.measures import measure
from grand3d.language.parse import Parse
from grand3d.language.profile import LABELS, agreement, beside, profile, vocabulary
from grand3d.language.understand import understand
from grand3d.page import document, html_table
from grand3d.report import render

RULES = {
    "engine": "rules and word lists of grand3d, offline; the measures are ViGiL3D's (Wang et al., 2025)",
    "mark": "absent below 5 % of the expressions, some from 5 %, a lot from 20 %",
    "interval": "95 %, bootstrap over scenes; over expressions where no scene is named",
    "unique_bigrams": "different pairs of neighbouring words in percent of all; compare sets of about one size",
}


def analyze(options: argparse.Namespace) -> None:
    names = _names(options.texts)
    sources: dict[str, list[Expression]] = {}
    for name, path in zip(names, options.texts, strict=True):
        rejects = Rejects(options.skip_bad)
        with keeping(rejects, f"{path.rstrip('/')}.analyze"):
            sources[name] = load_expressions(path, options.task, rejects)
        if rejects.rows:
            say(f"{name}: {len(rejects.rows)} rows left out")
    parses = {name: [understand(row.text) for row in rows] for name, rows in sources.items()}
    measured = {name: [measure(parse) for parse in rows] for name, rows in parses.items()}
    report = _report(sources, measured, options.labels)
    if options.csv is not None:
        write_text(options.csv, _csv(sources, measured))
    if options.parses is not None:
        rows = [_structure(e, p) for name in sources for e, p in zip(sources[name], parses[name], strict=True)]
        write_jsonl(options.parses, rows)
    if options.shares is not None:
        if len(sources) > 1:
            raise GrandError(f"--shares is of one source, expected one; seen {len(sources)}")
        write_json(options.shares, shares(next(iter(measured.values()))))
    if options.html is not None:
        write_text(options.html, _page(report))
        say(f"page: {options.html}")
    print(json.dumps(report, ensure_ascii=False, indent=1) if options.json else render(report, options.markdown))


def shares(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The shares that the subgroups of ``score vigil3d --shares`` have among expressions."""
    return {name: sum(row[key] == value for row in rows) / len(rows) for name, (key, value) in SUBGROUPS.items()}


def _names(paths: Sequence[str]) -> list[str]:
    names = [Path(path).stem for path in paths]
    if len(set(names)) < len(names):
        names = list(paths)
    if len(set(names)) < len(names):
        raise GrandError(f"a source is named twice, expected different ones; seen {', '.join(paths)}")
    return names


def _report(sources: dict[str, list[Expression]], measured: dict[str, list[dict[str, Any]]], labels: bool) -> dict[str, Any]:
    profiles = {name: profile(measured[name], [row.scene_id for row in rows]) for name, rows in sources.items()}
    sizes = {name: len(rows) for name, rows in sources.items()}
    words = {name: vocabulary([row.text for row in rows]) for name, rows in sources.items()}
    report: dict[str, Any] = {
        "benchmark": "language",
        "counts": {"n": sum(sizes.values())} | (sizes if len(sizes) > 1 else {}),
        "rows": next(iter(profiles.values())) if len(profiles) == 1 else beside(profiles, sizes),
        "tables": {
            "Words": [
                {"name": name, "n": sizes[name]} | {k: v for k, v in row.items() if k != "growth"} for name, row in words.items()
            ],
            "Growth of the vocabulary": [{"name": name} | line for name, row in words.items() for line in row["growth"]],
        },
        "rules": dict(RULES),
    }
    if labels:
        report |= _against_labels(sources, measured)
        report["tables"]["Against the labels"] = [{"name": name} | row for name, row in report["metrics"].items()]
    return report


def _against_labels(sources: dict[str, list[Expression]], measured: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Precision, recall and errors of counts over all expressions that people labelled."""
    pairs = [
        (found, row.labels)
        for name in sources
        for row, found in zip(sources[name], measured[name], strict=True)
        if row.labels is not None
    ]
    if not pairs:
        raise GrandError("--labels: no source has labels of its language, expected ViGiL3D's CSV or a data folder made of it")
    return {"labelled": len(pairs)} | agreement([found for found, _ in pairs], [given for _, given in pairs])


def _csv(sources: dict[str, list[Expression]], measured: dict[str, list[dict[str, Any]]]) -> str:
    """A row an expression, with the columns of ViGiL3D's file."""
    out = io.StringIO()
    columns = list(next(iter(measured.values()))[0])
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["source", "prompt_id", "scene_id", "description", *columns])
    for name, rows in sources.items():
        for row, found in zip(rows, measured[name], strict=True):
            writer.writerow([name, row.expression_id, row.scene_id, row.text, *(found[key] for key in columns)])
    return out.getvalue()


def _structure(expression: Expression, parse: Parse) -> dict[str, Any]:
    """What was understood of an expression, with the characters that each part covers."""

    def span(start: int, end: int) -> list[int]:
        return [parse.tokens[start].start, parse.tokens[end - 1].end]

    things = [
        {key: value for key, value in asdict(thing).items() if key not in ("start", "end")}
        | {"span": span(thing.start, thing.end), "target": k in parse.same}
        for k, thing in enumerate(parse.things)
    ]
    relations = [
        {
            "kinds": sorted(relation.kinds),
            "text": relation.text,
            "span": span(relation.start, relation.end),
            "subject": relation.subject,
            "object": relation.object,
            "negated": relation.negated,
        }
        for relation in parse.relations
    ]
    about = {"expression_id": expression.expression_id, "scene_id": expression.scene_id, "text": expression.text}
    words = {key: getattr(parse, key) for key in ("coreferences", "negations", "viewpoints")}
    return about | {"target": parse.target, "things": things, "relations": relations} | words


_PLOTS = (("Attributes", 0, 10), ("Relations", 10, 18), ("Reference", 18, 23), ("Anchors and negation", 23, 28))
_KINDS = ("ours", "paper", "good", "none", "bad")
"""Classes of colour of the page, one a source; the sixth source has the first one again."""


def _page(report: dict[str, Any]) -> str:
    """A page of plots, a dot a source in the row of a pattern, and the tables."""
    rows = [row for row in report["rows"] if row["name"] in LABELS]
    names = ["share"] if "share" in rows[0] else [key for key in report["counts"] if key != "n"]
    colours = dict(zip(names, cycle(_KINDS), strict=False))
    dots = (f"<span class={colours[name]}>\N{BLACK CIRCLE}</span> {escape(name)} " for name in names)
    key = f"<p class=key>{''.join(dots)}</p>" if len(names) > 1 else ""
    parts = [f"<h1>Language of {report['counts']['n']:,} expressions</h1><div class=plots>"]
    for title, start, end in _PLOTS:
        marks = [
            Mark(_short(row["name"]) if k == 0 else "", row[name], row[f"{name}_low"], row[f"{name}_high"], colours[name])
            for row in rows[start:end]
            for k, name in enumerate(names)
        ]
        parts.append(f"<section><h2>{title}, % of the expressions</h2>{charts.dots(marks, title)}{key}</section>")
    parts.append("</div>")
    for title, table in ({"Measures": report["rows"]} | report["tables"]).items():
        parts.append(f"<section><h2>{escape(title)}</h2>{html_table(table, title)}</section>")
    return document("Language", parts)


def _short(label: str) -> str:
    """A pattern as a plot calls it: what its title says is left out."""
    return re.sub("^num_(attribute_type_|relationship_type_|anchor_type_)?|^granularity_", "", label).replace("_", " ")
