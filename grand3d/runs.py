"""Reports of several runs beside each other: the mean over seeds, and the table of many models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grand3d.errors import GrandError, place, shown
from grand3d.files import is_number, read_json

SPREAD, BOUNDS = "_sd", ("_low", "_high")

Report = Mapping[str, Any]


def read_report(path: str | Path) -> dict[str, Any]:
    """A report that ``score --json`` printed.

    Raises:
        GrandError: If the file is none.
    """
    report = read_json(path)
    expected = "expected what `grand3d score --json` prints"
    if not isinstance(report, dict) or not isinstance(report.get("benchmark"), str):
        raise GrandError(f"{place(path)}: holds {shown(report)}, {expected}", "wrong type")
    for key in ("counts", "rules"):
        if not isinstance(report.get(key), dict):
            raise GrandError(f"{place(path)}: {key} is {shown(report.get(key))}, {expected}", "wrong type")
    if not all(isinstance(value, int) for value in report["counts"].values()):
        raise GrandError(f"{place(path)}: counts is {shown(report['counts'])}, {expected}", "wrong type")
    for key in ("rows", "baselines", "paper"):
        rows = report.setdefault(key, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise GrandError(f"{place(path)}: {key} is {shown(rows)}, {expected}", "wrong type")
        for row in rows:
            bounded = [name for name in row if name + "_low" in row]
            if any(not is_number(row[name]) and row[name] is not None for name in bounded):
                raise GrandError(f"{place(path)}: {key} has the row {shown(row)}, {expected}", "wrong type")
    return report


def over_runs(reports: Sequence[Report], names: Sequence[str]) -> dict[str, Any]:
    """The mean of each figure over runs that answered the same questions, such as seeds of one training, and its spread.

    Args:
        reports: Two or more of one benchmark.
        names: Of the runs, for the table that has each of them.

    Returns:
        A report whose ``rows`` hold means and, as ``<figure>_sd``, the standard deviation between the runs (n - 1), and whose
        ``runs`` hold the first row of each run. ``counts`` are those of all runs together.

    Raises:
        GrandError: If the runs are not of one benchmark, or were not scored on the same number of samples.
    """
    first = reports[0]
    if len(reports) < 2:
        raise GrandError("one run has no spread, expected two or more")
    for report, name in zip(reports, names, strict=True):
        if report["benchmark"] != first["benchmark"]:
            raise GrandError(f"{name} is a report of {report['benchmark']}, expected {first['benchmark']} as in {names[0]}")
        if report["counts"].get("n") != first["counts"].get("n"):
            seen = f"{name} scored {report['counts'].get('n')} samples and {names[0]} {first['counts'].get('n')}"
            raise GrandError(f"{seen}, expected the same; with --missing=wrong those without a reply count as wrong")
    keys = list(dict.fromkeys(key for report in reports for key in map(row_name, report["rows"])))
    by_key = [{row_name(row): row for row in report["rows"]} for report in reports]
    rows = [_mean_row([rows[key] for rows in by_key if key in rows]) for key in keys]
    counts = {key: sum(report["counts"].get(key, 0) for report in reports) for key in first["counts"]}
    runs = [{"run": name} | _numbers(report["rows"][0]) for report, name in zip(reports, names, strict=True)]
    return {
        "benchmark": first["benchmark"],
        "counts": {"runs": len(reports)} | counts,
        "rules": {**first["rules"], "sd": "standard deviation between the runs, n - 1"},
        "rows": rows,
        "runs": runs,
        "baselines": first.get("baselines", []),
        "paper": first.get("paper", []),
    }


def row_name(row: Mapping[str, Any]) -> str:
    """What tells a row from the others of its report."""
    return " · ".join(value for key, value in row.items() if isinstance(value, str) and key != "source" and value != "-")


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if not isinstance(value, str)}


def _mean_row(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in rows[0].items():
        if key.endswith(BOUNDS):
            continue  # of one run alone
        if isinstance(value, bool) or not isinstance(value, float):
            out[key] = value
            continue
        values = [row[key] for row in rows if isinstance(row.get(key), float)]
        out[key] = float(np.mean(values))
        if len(values) > 1:
            out[key + SPREAD] = float(np.std(values, ddof=1))
    return out


def leaderboard(reports: Sequence[Report], names: Sequence[str]) -> dict[str, Any]:
    """Reports of several models as one table, best first by the first figure that has an interval.

    The published rows and those without a model stand in it, told apart in ``from``. A benchmark whose published rows are by
    subset has a table for each: for 3D-POPE random, popular and adversarial, which is the form of its paper's table.

    Raises:
        GrandError: If the reports are not of one benchmark, or have no such figure.
    """
    first = reports[0]
    figure = next((key for row in first["rows"] for key in row if key + "_low" in row), None)
    for report, name in zip(reports, names, strict=True):
        if report["benchmark"] != first["benchmark"]:
            raise GrandError(f"{name} is a report of {report['benchmark']}, expected {first['benchmark']} as {names[0]} is")
        if figure is None or not report["rows"]:
            raise GrandError(f"{name} has no figure with an interval, expected one to sort by")
    whole = _subset(_chosen(first["rows"])[0])
    others = [
        (origin, _subset(row, without=("name",)) or whole, row)
        for kind, origin in (("baselines", "without a model"), ("paper", "as published"))
        for row in _chosen(first.get(kind) or ())
        if isinstance(row.get(figure), int | float)
    ]
    tables: dict[str, list[dict[str, Any]]] = {}
    for subset in dict.fromkeys((whole, *(subset for _, subset, _ in others))):
        found = [
            {"run": name, "from": "scored here"} | _numbers(row) | _open(report["counts"])
            for report, name in zip(reports, names, strict=True)
            for row in _chosen(report["rows"])
            if _subset(row) == subset
        ]
        found += [
            {"run": str(row.get("name", "-")), "from": origin} | _numbers(row) for origin, where, row in others if where == subset
        ]
        tables[subset] = sorted(found, key=lambda row: -(row.get(figure) or 0.0))
    sizes = sorted({int(report["counts"].get("n", 0)) for report in reports})
    unlike = "" if len(sizes) == 1 else f"; the runs answered unlike numbers of samples, {sizes[0]} to {sizes[-1]}"
    rules = {"sorted by": f"{figure}{unlike}"} | dict(first["rules"])
    return {"benchmark": first["benchmark"], "counts": {"runs": len(reports)}, "rules": rules, "rows": [], "tables": tables}


def _open(counts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: counts[key] for key in ("missing", "unparsable") if key in counts}


def _chosen(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of rows by template and rule, the means by the first rule; all others as they are."""
    rule = next((row["rule"] for row in rows if "rule" in row), None)
    kept = [row for row in rows if row.get("rule", rule) == rule]
    return [row for row in kept if row.get("template", "mean") == "mean"] or kept


def _subset(row: Mapping[str, Any], without: Sequence[str] = ()) -> str:
    left_out = ("source", "rule", "template", *without)
    return " · ".join(value for key, value in row.items() if isinstance(value, str) and key not in left_out and value != "-")
