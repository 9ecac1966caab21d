"""The report of a benchmark as tables: for a terminal, or in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LOW, HIGH, SPREAD = "_low", "_high", "_sd"
TITLES = {
    "rows": "Replies",
    "runs": "Each run",
    "targets": "By what is meant",
    "abstention": "Saying that nothing fits",
    "against": "Against the other replies",
    "agreement": "Language model and people",
    "labels": "Labels against the true objects",
    "errors": "What went wrong",
    "pairs": "Two texts of one instruction",
    "places": "Where things are put",
    "confidence": "How sure, how right",
    "baselines": "Without a model",
    "paper": "As published",
}


def render(report: Mapping[str, Any], markdown: bool = False) -> str:
    """A report's counts, rules and tables as text; intervals stand behind their figures in brackets."""
    counts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in report["counts"].items())
    if report.get("ece") is not None:
        counts += f", expected calibration error {report['ece']:.1f}"
    parts = [f"{report['benchmark']}: {counts}"]
    for key, title in TITLES.items():
        if report.get(key):
            head = f"## {title}\n\n" if markdown else f"{title}\n"
            rows = report[key] if key != "confidence" else [row | {"reliability": _bar(row)} for row in report[key]]
            parts.append(head + table(rows, markdown))
    for title, rows in report.get("tables", {}).items():
        parts.append((f"## {title}\n\n" if markdown else f"{title}\n") + table(rows, markdown))
    parts.append("\n".join(f"{'- ' if markdown else ''}{name}: {value}" for name, value in report["rules"].items()))
    return "\n\n".join(parts)


def table(rows: Sequence[Mapping[str, Any]], markdown: bool = False) -> str:
    """Rows of equal meaning under the names of their keys, texts to the left, numbers to the right."""
    names = columns(rows)
    cells = [[cell(row, name) for name in names] for row in rows]
    text = [all(isinstance(row.get(name, ""), str) for row in rows) for name in names]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]

    def line(values: Sequence[str]) -> str:
        padded = [v.ljust(w) if t else v.rjust(w) for v, w, t in zip(values, widths, text, strict=True)]
        return "| " + " | ".join(padded) + " |" if markdown else "  ".join(padded).rstrip()

    rule = ["-" * w if t else "-" * (w - 1) + ":" for w, t in zip(widths, text, strict=True)]
    lines = [line(names), *([line(rule)] if markdown else []), *map(line, cells)]
    return "\n".join(lines)


def columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys of rows in their order, bounds of intervals left out."""
    return list(dict.fromkeys(name for row in rows for name in row if not _is_bound(name, row)))


def _bar(row: Mapping[str, Any]) -> str:
    """A line of a reliability diagram: as long as the accuracy, with a mark where the mean confidence is; 5 % a character."""
    bar = list(("=" * round(row["accuracy"] / 5)).ljust(21))
    bar[min(20, round(row["confidence"] / 5))] = "o"
    return "".join(bar)


def _is_bound(name: str, row: Mapping[str, Any]) -> bool:
    return any(name.endswith(end) and name.removesuffix(end) in row for end in (LOW, HIGH, SPREAD))


def cell(row: Mapping[str, Any], name: str) -> str:
    """A row's value as text, its interval in brackets behind it."""
    value = row.get(name)
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value).replace("|", "/")
    spread = row.get(name + SPREAD)
    text = f"{value:.2f}" if spread is None else f"{value:.2f} ± {spread:.2f}"
    low, high = row.get(name + LOW), row.get(name + HIGH)
    return text if low is None or high is None else f"{text} [{low:.1f}, {high:.1f}]"
