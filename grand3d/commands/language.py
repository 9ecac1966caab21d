"""``grand3d analyze``: what the language of expressions is like."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
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
from grand3d.page import document
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


def _page(report: dict[str, Any]) -> str:
    """A page of plots: a row a pattern, and the table under it."""
    rows = [row for row in report["rows"] if row["name"] in LABELS]
    names = ["share"] if "share" in rows[0] else [key for key in report["counts"] if key != "n"]
    kinds = ("ours", "paper", "good", "none", "bad")
    parts = [f"<h1>Language of {report['counts']['n']} expressions</h1><div class=plots>"]
    for start, title in ((0, "Attributes"), (10, "Relations"), (18, "Reference"), (23, "Anchors and negation")):
        some = rows[start : {0: 10, 10: 18, 18: 23, 23: 28}[start]]
        marks = [
            Mark(row["name"].removeprefix("num_") + (f" ({name})" if len(names) > 1 else ""), row[name], row[f"{name}_low"],
                 row[f"{name}_high"], kinds[k % len(kinds)])
            for row in some
            for k, name in enumerate(names)
        ]  # fmt: skip
        parts.append(f"<section><h2>{title}, % of the expressions</h2>{charts.dots(marks, title)}</section>")
    parts.append("</div>")
    text = render(report, markdown=False).replace("&", "&amp;").replace("<", "&lt;")
    return document("Language", [*parts, f"<section><pre>{text}</pre></section>"])
