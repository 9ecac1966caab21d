"""A benchmark's report as one HTML page: figures with their intervals drawn, what they depend on, and the worst scenes seen
from above. The page holds no script and loads nothing, so that it can be sent, archived and printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d import charts, markup
from grand3d.bench.common import LENGTHS, Answer, answer_boxes, read_reply, target_boxes
from grand3d.boxes import objects_bounds
from grand3d.charts import Mark
from grand3d.errors import GrandError
from grand3d.metrics import mean_interval
from grand3d.report import HIGH, LOW, TITLES, cell, columns
from grand3d.runs import row_name
from grand3d.sample import Data, Reply, Sample
from grand3d.scene import Object

NUM_ROWS = 24
"""Rows of a plot at most; what is left out is said."""
NUM_GROUPS = 15
NUM_WORST = 6
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
    size = "n" if "n" in report["counts"] else "runs"
    title = f"{report['benchmark']}: {report['counts'][size]} {'samples' if size == 'n' else size}"
    counted = "".join(
        f"<li><b>{escape(str(n))}</b> {escape(name.replace('_', ' '))}</li>" for name, n in report["counts"].items()
    )
    figures = _figures(report["rows"])
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
    plots = [*parts, *_dependence(samples, figures, data), *_errors(samples)]
    parts = [f"<h1>{escape(title)}</h1><ul class=counts>{counted}</ul><div class=plots>{''.join(plots)}</div>"]
    parts += _worst(samples, figures, data, answers)
    for key, name in TITLES.items():
        if report.get(key):
            parts.append(_part(name, html_table(report[key])))
    parts += [_part(name, html_table(rows)) for name, rows in report.get("tables", {}).items()]
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


def html_table(rows: Samples) -> str:
    """Rows of equal meaning as a table, as ``report.table``."""
    names = columns(rows)
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(f"<td{'' if isinstance(row.get(name), str) else ' class=num'}>{escape(cell(row, name))}</td>" for name in names)
        + "</tr>"
        for row in rows
    )
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _part(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _figures(rows: Samples) -> list[str]:
    """The figures that have an interval, in their order."""
    return list(dict.fromkeys(name for row in rows for name in row if name + LOW in row))


def _headline(report: Mapping[str, Any], figure: str) -> str:
    found = []
    for key, kind in (("rows", "ours"), ("baselines", "none"), ("paper", "paper")):
        for row in report.get(key) or ():
            if isinstance(row.get(figure), int | float):
                note = f"n {row['n']}" if "n" in row else ""
                mark = Mark(row_name(row), row[figure], row.get(figure + LOW), row.get(figure + HIGH), kind, note)
                found.append((mark, "mean" in row.values()))
    # benchmarks with a row for every template have one for their mean, and that is enough to see
    shown = [mark for mark, mean in found if mean or mark.kind == "paper"] if any(mean for _, mean in found) else []
    shown = shown or [mark for mark, _ in found]
    rest = len(found) - len(shown[:NUM_ROWS])
    more = f"<p class=small>{rest} more rows in the tables below.</p>" if rest else ""
    dot = "<span class={}>\N{BLACK CIRCLE}</span> {} "
    names = (("ours", "these replies"), ("none", "without a model"), ("paper", "as published"))
    key = f"<p class=key>{''.join(dot.format(*pair) for pair in names)}</p>"
    return charts.dots(shown[:NUM_ROWS], figure) + key + more


def _dependence(samples: Samples, figures: Sequence[str], data: Data | None) -> list[str]:
    """How a figure of single samples depends on what is asked."""
    figure = _main(samples, figures)
    if figure is None:
        return []
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
        order = list(group) if title == "category" else sorted(group, key=lambda name: (len(name), name))
        if len(group) > NUM_GROUPS or title == "category":
            order = sorted(group, key=lambda name: -len(group[name]))
        marks = [_mark(name, [row for row in group[name] if row.get(figure) is not None], figure) for name in order[:NUM_GROUPS]]
        rest = len(order) - len(marks)
        more = f"<p class=small>{rest} rarer ones are left out here.</p>" if rest else ""
        out.append(_part(f"{figure} by {title}", charts.dots([mark for mark in marks if mark is not None], title) + more))
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


def _targets(data: Data, sample: Sample | None) -> list[Object] | None:
    """The objects that a sample means; None where it means none by id, or they are not known."""
    scene = (data.scenes if data.truth is None else data.truth).get(sample.scene_id) if sample is not None else None
    if sample is None or scene is None or not sample.target_ids or not set(sample.target_ids) <= set(scene.object_ids):
        return None
    return [scene[item] for item in sample.target_ids]


def _category(data: Data, sample: Sample | None) -> str | None:
    targets = _targets(data, sample)
    return targets[0].category if targets else None


def _distractors(data: Data, sample: Sample | None) -> str | None:
    targets = _targets(data, sample)
    if not targets or sample is None:
        return None
    scene = (data.scenes if data.truth is None else data.truth)[sample.scene_id]
    alike = sum(item.category == targets[0].category and item not in targets for item in scene.objects)
    return _some(alike)


def _num_targets(data: Data, sample: Sample | None) -> str | None:
    return None if sample is None or sample.task != "object_reference" else _some(len(sample.target_ids))


_QUESTIONS: tuple[tuple[str, Callable[[Data, Sample | None], str | None]], ...] = (
    ("other objects of the target's category", _distractors),
    ("number of targets", _num_targets),
    ("category", _category),
)


def _errors(samples: Samples) -> list[str]:
    counts = Counter(row["error"] for row in samples if row.get("error"))
    if not counts:
        return []
    marks = [Mark(name, n, kind="bad", note=f"{100 * n / len(samples):.1f} %") for name, n in counts.most_common(NUM_GROUPS)]
    return [_part("What went wrong", charts.bars(marks, "errors by kind"))]


def _worst(samples: Samples, figures: Sequence[str], data: Data | None, answers: Iterable[Answer]) -> list[str]:
    """The scenes with the lowest figure, each with one sample that went wrong there."""
    figure = _main(samples, figures)
    if figure is None or data is None:
        return []
    by_id = {sample.sample_id: sample for sample in data.samples}
    given = {answer.sample_id: answer for answer in answers}
    scenes = _grouped(samples, lambda row: row["scene_id"])
    means = {name: float(np.mean([row.get(figure) or 0.0 for row in rows])) for name, rows in scenes.items()}
    cards = []
    for name in sorted(scenes, key=lambda name: (means[name], -len(scenes[name]), name)):
        wrong = [row for row in scenes[name] if not row.get(figure) and row["sample_id"] in by_id]
        wrong.sort(key=lambda row: row["sample_id"] not in given)
        if wrong and len(cards) < NUM_WORST:
            row = wrong[0]
            sample, answer = by_id[row["sample_id"]], given.get(row["sample_id"])
            told = [
                ("asked", markup.plain(sample.text)),
                ("wanted", _wanted(data, sample)),
                ("answered", _said(data, sample, answer)),
            ]
            told.append(("error", row.get("error", "")))
            lines = "".join(f"<dt>{key}</dt><dd>{escape(text[:300])}</dd>" for key, text in told if text)
            about = f"{figure} {100 * means[name]:.1f}, n {len(scenes[name])}; {sample.sample_id}"
            head = f"<h3>{escape(name)}</h3><p class=small>{escape(about)}</p>"
            cards.append(f"<article>{head}{_picture(data, sample, answer)}<dl>{lines}</dl></article>")
    if not cards:
        return []
    key = (
        "<p class=key><span class=target>■</span> target <span class=answer>■</span> answer <span class=both>■</span> both "
        "<span class=alike>□</span> shown under the same name</p>"
    )
    return [_part("Worst scenes, from above", f"{key}<div class=cards>{''.join(cards)}</div>")]


def _wanted(data: Data, sample: Sample) -> str:
    return markup.plain(sample.answer) or ", ".join(_called(item) for item in _targets(data, sample) or ())


def _said(data: Data, sample: Sample, answer: Answer | None) -> str:
    if answer is None:
        return "nothing"
    if sample.task != "object_reference":
        return markup.plain(answer.text)
    ids = read_reply(answer)[0] if isinstance(answer, Reply) else answer.object_ids
    scene = data.scenes.get(sample.scene_id)
    if ids is None:
        return markup.plain(answer.text) or "a box"
    known = {} if scene is None else {item.object_id: item for item in scene.objects}
    return ", ".join(_called(known[name]) if name in known else f"unknown {name}" for name in ids) or "nothing fits"


def _called(item: Object) -> str:
    return f"{item.category} {item.object_id}"


def _picture(data: Data, sample: Sample, answer: Answer | None) -> str:
    scene = data.scenes.get(sample.scene_id)
    if scene is None or not scene.objects:
        return ""
    try:
        targets = list(target_boxes(data, sample))
        answered = answer_boxes(answer, data) if answer is not None else None
    except (GrandError, KeyError):
        targets, answered = [], None
    marked = [] if answered is None else [box for box in answered if np.shape(box) == (2, 3)]
    names = {item.category for item in _targets(data, sample) or ()}
    drawn = []
    for item, box in zip(scene.objects, objects_bounds(scene.objects), strict=True):
        if not any(np.array_equal(box, other) for other in (*targets, *marked)):
            kind = "alike" if item.category in names else "other"
            drawn.append((kind == "alike", _footprint(item), kind, _called(item)))
    shapes = [(corners, kind, name) for _, corners, kind, name in sorted(drawn, key=lambda entry: entry[0])]
    label = ", ".join(sorted(names)) or "target"
    right = [any(np.array_equal(box, other) for other in marked) for box in targets]
    shapes += [(_corners(box), "both" if hit else "target", label) for box, hit in zip(targets, right, strict=True)]
    called = {
        np.asarray(box).tobytes(): item.category for item, box in zip(scene.objects, objects_bounds(scene.objects), strict=True)
    }
    for box in marked:
        if not any(np.array_equal(box, other) for other in targets):
            shapes.append((_corners(box), "answer", called.get(np.asarray(box).tobytes(), "answer")))
    return charts.room(shapes, f"{sample.scene_id} from above")


def _corners(bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    (x, y, _), (to_x, to_y, _) = bounds
    return np.array([(x, y), (to_x, y), (to_x, to_y), (x, to_y)])


def _footprint(item: Object) -> NDArray[np.float64]:
    """Corners of an object's box on the floor: its own where it turns about z alone, else those of its hull."""
    if item.rotation is None or abs(item.rotation[2][2]) < 1 - 1e-6:
        return _corners(objects_bounds([item])[0])
    turn, half = np.asarray(item.rotation)[:2, :2], np.asarray(item.extent[:2]) / 2
    return np.asarray(item.centroid[:2]) + (np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * half) @ turn.T


STYLE = """
:root{color-scheme:light dark;--ink:#1d2430;--dim:#667085;--line:#e3e7ee;--axis:#98a2b3;--page:#fff;--card:#f7f8fa;
--ours:#2563eb;--none:#8a94a6;--paper:#b45309;--bad:#c2410c;--target:#15803d;--answer:#dc2626}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--dim:#98a2b3;--line:#2c333f;--axis:#667085;--page:#12161d;--card:#1a2029;
--ours:#7aa2ff;--none:#98a2b3;--paper:#f0b35a;--bad:#f98a5c;--target:#4ade80;--answer:#f87171}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1240px;margin:0 auto;padding:24px 18px 60px}h1{font-size:26px;margin:0 0 8px}h2{font-size:18px;margin:34px 0 8px}
h3{font-size:15px;margin:0}.small{color:var(--dim);font-size:12px}p.small{margin:2px 0 6px}
.counts{display:flex;flex-wrap:wrap;gap:6px;padding:0;margin:0;list-style:none}
.counts li{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:1px 10px;font-size:13px}
svg{display:block;width:100%;height:auto}svg text{font:13px system-ui,sans-serif;fill:var(--ink)}
svg text.small,svg tspan.small{font-size:11px;fill:var(--dim)}svg .grid{stroke:var(--line)}svg .axis{stroke:var(--axis)}
svg .bar{stroke:currentColor;stroke-width:2.5}svg circle,svg g rect{fill:currentColor}svg circle{fill-opacity:.85}
.ours{color:var(--ours)}.none{color:var(--none)}.paper{color:var(--paper)}.bad{color:var(--bad)}.good{color:var(--target)}
.target{color:var(--target)}.answer{color:var(--answer)}.both{color:var(--target)}.alike{color:var(--ours)}
svg polygon{fill:currentColor;fill-opacity:.06;stroke:currentColor;stroke-width:1}svg polygon.other{color:var(--none)}
svg polygon.alike{stroke-dasharray:4 3}svg polygon.target,svg polygon.answer,svg polygon.both{fill-opacity:.35;stroke-width:2}
svg polygon.both{stroke:var(--answer)}svg text.over{paint-order:stroke;stroke:var(--page);stroke-width:3px;fill:var(--ink)}
.key{color:var(--dim);font-size:13px;margin:4px 0}.key span{margin-left:10px}
.plots{columns:500px 2;column-gap:28px}.plots section{break-inside:avoid;display:inline-block;width:100%}
.key .both{-webkit-text-stroke:1px var(--answer)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:16px}
article{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px;break-inside:avoid}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 12px;margin:8px 0 0;font-size:13px}dt{color:var(--dim)}
dd{margin:0;overflow-wrap:anywhere}.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}
th,td{padding:4px 10px;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}
.num{text-align:right;font-variant-numeric:tabular-nums}th{color:var(--dim);font-weight:600}
@media print{main{max-width:none}}
"""
