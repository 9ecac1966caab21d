"""A benchmark's report as one HTML page: figures with their intervals drawn, what they depend on, and the worst scenes seen
from above. The page holds no script and loads nothing, so that it can be sent, archived and printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from grand3d import charts
from grand3d.bench.common import LENGTHS, Answer
from grand3d.charts import Mark
from grand3d.metrics import mean_interval
from grand3d.pictures import targets_of, worst
from grand3d.report import HIGH, LOW, TITLES, cell, columns
from grand3d.runs import headline, row_name
from grand3d.sample import Data, Sample

NUM_ROWS = 24
"""Rows of a plot at most; what is left out is said."""
NUM_GROUPS = 15
MANY = 5
"""So many distractors or targets and more are one row."""

Samples = Sequence[Mapping[str, Any]]


def page(report: Mapping[str, Any], samples: Samples = (), data: Data | None = None, answers: Iterable[Answer] = ()) -> str:
    """The page of a report.

    Args:
        samples: What each sample scored (``report["samples"]``), for the plots of what a figure depends on.
        data: The questions, for categories, distractors and the pictures of the worst scenes.
        answers: What was answered, for the same pictures.
    """
    counts = report["counts"]
    title = f"{report['benchmark']}: {counts.get('n', 0)} samples" + (f", {counts['runs']} runs" if "runs" in counts else "")
    figures = headline(report)
    parts = [_part(figure, _headline(report, figure)) for figure in figures[:2]]
    if report.get("against"):
        marks = [
            Mark(row["name"], row["difference"], row.get("difference" + LOW), row.get("difference" + HIGH), note=f"n {row['n']}")
            for row in report["against"]
        ]
        parts.append(_part("Difference to the other replies, points", charts.dots(marks, "paired differences", True, " points")))
    if report.get("confidence"):
        rows = [(row["confidence"], row["accuracy"], row["n"]) for row in report["confidence"] if row["n"]]
        said = "" if report.get("ece") is None else f"<p>Expected calibration error {report['ece']:.1f}.</p>"
        parts.append(_part("How sure, how right", charts.reliability(rows, "reliability diagram") + said))
    main = _main(samples, figures)
    if main is not None:
        parts += _dependence(samples, main, data)
    parts += _errors(samples)
    body = [f"<div class=plots>{''.join(parts)}</div>"]
    if main is not None and data is not None and (cards := worst(samples, main, data, answers)):
        note = f"<p>The answers are those of {escape(report['runs'][0]['run'])}.</p>" if "runs" in report else ""
        body.append(_part("Worst scenes, from above" if "<svg" in cards else "Worst scenes", note + cards))
    return _whole(title, report, body)


def board(report: Mapping[str, Any]) -> str:
    """The page of a leaderboard (``runs.leaderboard``): each of its tables drawn and written."""
    figure, kinds, body = report["headline"][0], {name: kind for kind, name in KINDS.items()}, []
    for name, rows in report["tables"].items():
        marks = [
            Mark(row["run"], row[figure], row.get(figure + LOW), row.get(figure + HIGH), kinds[row["from"]], _n(row))
            for row in rows
            if row.get(figure) is not None
        ]
        drawn = f"<div class=plots>{charts.dots(marks, f'{figure}, {name}')}</div>{_key(marks)}"
        body.append(_part(name, drawn + html_table(rows, name)))
    return _whole(f"{report['benchmark']}: {report['counts']['runs']} runs by {figure}", {**report, "tables": {}}, body)


def _whole(title: str, report: Mapping[str, Any], body: Iterable[str]) -> str:
    """A page with the counts, the body, and all tables and rules of a report."""
    counted = "".join(
        f"<li{'' if n else ' class=zero'}><b>{escape(str(n))}</b> {escape(name.replace('_', ' '))}</li>"
        for name, n in report["counts"].items()
    )
    parts = [f"<h1>{escape(title)}</h1><ul class=counts>{counted}</ul>", *body]
    tables = {name: report[key] for key, name in TITLES.items() if report.get(key)} | report.get("tables", {})
    parts += [_part(name, html_table(rows, name)) for name, rows in tables.items()]
    rules = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(rule))}</dd>" for name, rule in report["rules"].items())
    return document(title, [*parts, _part("Rules", f"<dl>{rules}</dl>")])


def document(title: str, parts: Iterable[str]) -> str:
    """A page of our own style around its parts."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><link rel="icon" href="data:,"><style>{STYLE}</style>'
    )
    return f'<!doctype html><html lang="en"><head>{head}</head><body><main>{"".join(parts)}</main></body></html>\n'


def html_table(rows: Samples, label: str) -> str:
    """Rows of equal meaning as a table, as ``report.table``; where it is wider than the page, arrow keys move it."""
    names = columns(rows)
    kinds = {name: "" if all(isinstance(row.get(name, ""), str) for row in rows) else " class=num" for name in names}
    head = "".join(f"<th scope=col{kinds[name]}>{escape(name.replace('_', ' '))}</th>" for name in names)
    lines = ("".join(f"<td{kinds[name]}>{escape(cell(row, name))}</td>" for name in names) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    about = f'class=wide tabindex=0 role=region aria-label="{escape(label)}"'
    return f"<div {about}><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _part(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


KINDS = {"ours": "scored here", "none": "without a model", "paper": "as published"}


def _key(marks: Sequence[Mark]) -> str:
    there = {mark.kind for mark in marks}
    dots = " ".join(f"<span class={kind}>\N{BLACK CIRCLE}</span> {name}" for kind, name in KINDS.items() if kind in there)
    return f"<p class=key>{dots}</p>"


def _n(row: Mapping[str, Any]) -> str:
    return f"n {row['n']}" if "n" in row else ""


def _headline(report: Mapping[str, Any], figure: str) -> str:
    found = []
    for key, kind in (("rows", "ours"), ("runs", "ours"), ("baselines", "none"), ("paper", "paper")):
        for row in report.get(key) or ():
            if isinstance(row.get(figure), int | float):
                mark = Mark(row_name(row) or "-", row[figure], row.get(figure + LOW), row.get(figure + HIGH), kind, _n(row))
                found.append((mark, "mean" in row.values()))
    # benchmarks with a row for every template have one for their mean, and that is enough to see
    shown = [mark for mark, mean in found if mean or mark.kind == "paper"] if any(mean for _, mean in found) else []
    shown = shown or [mark for mark, _ in found]
    rest = len(found) - len(shown[:NUM_ROWS])
    more = f"<p class=small>{rest} more rows in the tables below.</p>" if rest else ""
    return charts.dots(shown[:NUM_ROWS], figure) + _key(shown[:NUM_ROWS]) + more


def _dependence(samples: Samples, figure: str, data: Data | None) -> list[str]:
    """How a figure of single samples depends on what is asked."""
    by_id = {sample.sample_id: sample for sample in data.samples} if data is not None else {}
    groups: list[tuple[str, dict[str, list[Mapping[str, Any]]]]] = []
    if data is not None:
        for title, name_of in _QUESTIONS:
            groups.append((title, _grouped(samples, lambda row, name_of=name_of: name_of(data, by_id.get(row["sample_id"])))))
    texts = [key for key, value in samples[0].items() if isinstance(value, str) and key not in ("sample_id", "scene_id", "error")]
    for key in texts:
        groups.append((key.replace("_", " "), _grouped(samples, lambda row, key=key: row.get(key))))
    out = []
    for title, group in groups:
        if len(group) < 2 or len(group) > len(samples) / 2:
            continue
        numbers = all(name[:1].isdigit() for name in group) and title not in ("category", "noun")
        order = sorted(group, key=lambda name: (0 if numbers else -len(group[name]), len(name), name))
        marks = [_mark(name, [row for row in group[name] if row.get(figure) is not None], figure) for name in order[:NUM_GROUPS]]
        rest = len(order) - len(marks)
        more = f"<p class=small>{rest} rarer ones are left out here.</p>" if rest else ""
        if title == "number of distractors":
            more += "<p class=small>Others of the target's category among the scene's annotated objects.</p>"
        name = f"{figure} by {title}"
        shown = [mark for mark in marks if mark is not None]
        if shown:
            out.append(_part(name, charts.dots(shown, name) + more))
    return out


def _grouped(samples: Samples, name_of: Callable[[Mapping[str, Any]], str | None]) -> dict[str, list[Mapping[str, Any]]]:
    out: dict[str, list[Mapping[str, Any]]] = {}
    for row in samples:
        name = name_of(row)
        if name is not None:
            out.setdefault(name, []).append(row)
    return out


def _mark(name: str, rows: Samples, figure: str) -> Mark | None:
    if not rows:
        return None
    values = [row[figure] for row in rows]
    low, high = mean_interval(values, [row["scene_id"] for row in rows])
    bounds = (None, None) if np.isnan(low) else (100 * low, 100 * high)
    return Mark(name, 100 * float(np.mean(values)), *bounds, note=f"n {len(rows)}")


def _main(samples: Samples, figures: Sequence[str]) -> str | None:
    """The figure of single samples that stands for the benchmark."""
    known = [key for key, value in samples[0].items() if isinstance(value, float) and key not in LENGTHS] if samples else []
    return next((figure for figure in figures if figure in known), known[0] if known else None)


def _some(number: int) -> str:
    return str(number) if number < MANY else f"{MANY} or more"


def _category(data: Data, sample: Sample | None) -> str | None:
    targets = targets_of(data, sample)
    return targets[0].category if targets else None


def _distractors(data: Data, sample: Sample | None) -> str | None:
    targets = targets_of(data, sample)
    if not targets or sample is None:
        return None
    scene = (data.scenes if data.truth is None else data.truth)[sample.scene_id]
    alike = sum(item.category == targets[0].category and item not in targets for item in scene.objects)
    return _some(alike)


def _num_targets(data: Data, sample: Sample | None) -> str | None:
    return None if sample is None or sample.task != "object_reference" else _some(len(sample.target_ids))


_QUESTIONS: tuple[tuple[str, Callable[[Data, Sample | None], str | None]], ...] = (
    ("number of distractors", _distractors),
    ("number of targets", _num_targets),
    ("category", _category),
)


def _errors(samples: Samples) -> list[str]:
    counts = Counter(row["error"] for row in samples if row.get("error"))
    if not counts:
        return []
    marks = [Mark(name, n, kind="bad", note=f"{100 * n / len(samples):.1f} %") for name, n in counts.most_common(NUM_GROUPS)]
    return [_part("What went wrong", charts.bars(marks, "errors by kind"))]


STYLE = """
:root{color-scheme:light dark;--ink:#1d2430;--dim:#667085;--line:#e3e7ee;--axis:#98a2b3;--page:#fff;--card:#f7f8fa;
--ours:#2563eb;--none:#8a94a6;--paper:#b45309;--bad:#c2410c;--target:#007a5a;--answer:#d1480c}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--dim:#98a2b3;--line:#2c333f;--axis:#667085;--page:#12161d;--card:#1a2029;
--ours:#7aa2ff;--none:#98a2b3;--paper:#f0b35a;--bad:#f98a5c;--target:#34d399;--answer:#ff9b5e}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1240px;margin:0 auto;padding:24px 18px 60px}h1{font-size:26px;margin:0 0 8px}h2{font-size:18px;margin:34px 0 8px}
h3{font-size:15px;margin:0}.small{color:var(--dim);font-size:12px}p.small{margin:2px 0 6px}
.counts{display:flex;flex-wrap:wrap;gap:6px;padding:0;margin:0;list-style:none}
.counts .zero{opacity:.6}
.counts li{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:1px 10px;font-size:13px}
svg{display:block;width:100%;height:auto;overflow:visible}svg text{font:13px system-ui,sans-serif;fill:var(--ink)}
svg text.small,svg tspan.small{font-size:11px;fill:var(--dim)}svg .grid{stroke:var(--line)}svg .axis{stroke:var(--axis)}
svg .bar{stroke:currentColor;stroke-width:2.5}svg circle,svg g rect{fill:currentColor}svg circle{fill-opacity:.85}
.ours{color:var(--ours)}.none{color:var(--none)}.paper{color:var(--paper)}.bad{color:var(--bad)}.good{color:var(--target)}
.target{color:var(--target)}.answer{color:var(--answer)}.both{color:var(--target)}.alike{color:var(--ours)}.other{color:var(--none)}
svg polygon{fill:currentColor;fill-opacity:.06;stroke:currentColor;stroke-width:1}svg polygon.other{color:var(--none)}
svg polygon.alike{stroke-dasharray:4 3}svg polygon.target,svg polygon.answer,svg polygon.both{fill-opacity:.35;stroke-width:2}
svg polygon.both{stroke:var(--answer)}
svg text.over{paint-order:stroke;stroke:var(--page);stroke-width:3px;fill:currentColor;font-weight:600}
.key{color:var(--dim);font-size:13px;margin:4px 0}.key span{margin-left:10px}
.plots{columns:500px 2;column-gap:28px}.plots section{break-inside:avoid;display:inline-block;width:100%}
.key .both{-webkit-text-stroke:1px var(--answer)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:16px}
article{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px;break-inside:avoid}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 12px;margin:8px 0 0;font-size:13px}dt{color:var(--dim)}
dd{margin:0;overflow-wrap:anywhere}.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}
th,td{padding:4px 10px;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}
td.num,th.num{text-align:right;font-variant-numeric:tabular-nums}th{color:var(--dim);font-weight:600}
@media print{main{max-width:none}}
"""
