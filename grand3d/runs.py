"""Reports of several runs beside each other: the mean over seeds, and the table of many models."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
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
    for key in ("rows", "baselines", "paper", "headline"):
        if not isinstance(report.setdefault(key, []), list):
            raise GrandError(f"{place(path)}: {key} is {shown(report[key])}, {expected}", "wrong type")
    for key in ("rows", "baselines", "paper"):
        rows = report[key]
        if not all(isinstance(row, dict) for row in rows):
            raise GrandError(f"{place(path)}: {key} is {shown(rows)}, {expected}", "wrong type")
        figures = {name for row in rows for name in row if name + "_low" in row}
        for row in rows:
            numbers = [name for name in row if name in figures or name.endswith((*BOUNDS, SPREAD))]
            if any(not is_number(row[name]) and row[name] is not None for name in numbers):
                raise GrandError(f"{place(path)}: {key} has the row {shown(row)}, {expected}", "wrong type")
    if not all(isinstance(name, str) for name in report["headline"]):
        raise GrandError(f"{place(path)}: headline is {shown(report['headline'])}, {expected}", "wrong type")
    return report


def over_runs(reports: Sequence[Report], names: Sequence[str], uncommon: int = 0) -> dict[str, Any]:
    """The mean of each figure over runs that answered the same questions, such as seeds of one training, and its spread.

    Args:
        reports: Two or more of one benchmark.
        names: Of the runs, for the table that has each of them.
        uncommon: Samples left out since only some of the runs answered them.

    Returns:
        A report whose ``rows`` hold means, as ``<figure>_sd`` the standard deviation between the runs (n - 1), and as bounds
        the means of the runs' bounds: scenes are common to the runs, so that averaging them does not narrow the interval much.
        ``runs`` hold the first row of each run, ``errors`` what went wrong in each, ``samples`` the mean of each sample.
        ``counts``: ``n`` of each run, the others of all runs together.

    Raises:
        GrandError: If the runs are not of one benchmark, or were not scored on the same samples.
    """
    first = reports[0]
    if len(reports) < 2:
        raise GrandError("one run has no spread, expected two or more")
    for report, name in zip(reports, names, strict=True):
        if report["benchmark"] != first["benchmark"]:
            raise GrandError(f"{name} is a report of {report['benchmark']}, expected {first['benchmark']} as in {names[0]}")
        if report["counts"].get("n") != first["counts"].get("n") or sample_ids(report) != sample_ids(first):
            seen = f"{name} scored {report['counts'].get('n')} samples and {names[0]} {first['counts'].get('n')}"
            raise GrandError(f"{seen}, expected the same ones; with --missing=wrong those without a reply count as wrong")
    keys = list(dict.fromkeys(key for report in reports for key in map(row_name, report["rows"])))
    by_key = [{row_name(row): row for row in report["rows"]} for report in reports]
    counts = {"runs": len(reports), "n": first["counts"].get("n")}
    if uncommon:
        counts["not_in_every_run"] = uncommon
    counts |= {key: sum(report["counts"].get(key, 0) for report in reports) for key in first["counts"] if key != "n"}
    rules = {
        "sd": "standard deviation between the runs, n - 1",
        "bounds": "means of the runs' bounds",
        "counts": "n of each run, the others of all runs together",
    }
    return {key: first[key] for key in ("benchmark", "headline", "questions") if key in first} | {
        "counts": counts,
        "rules": {**first["rules"], **rules},
        "rows": [_mean_row([rows[key] for rows in by_key if key in rows]) for key in keys],
        "runs": [{"run": name} | _numbers(report["rows"][0]) for report, name in zip(reports, names, strict=True)],
        "errors": _errors(reports, names),
        "baselines": first.get("baselines", []),
        "paper": first.get("paper", []),
        "samples": _mean_samples([report.get("samples") or [] for report in reports]),
    }


def sample_ids(report: Report) -> set[str]:
    """The samples that a report was made of; none where it does not hold them."""
    return {row["sample_id"] for row in report.get("samples") or ()}


def question_set(samples: Sequence[Mapping[str, Any]]) -> str:
    """A short name of the samples scored: equal for equal ones in any order."""
    names = "\n".join(sorted(json.dumps(row["sample_id"]) for row in samples))
    return hashlib.sha256(names.encode()).hexdigest()[:8]


def _errors(reports: Sequence[Report], names: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each kind of error with its number in each run, the most frequent first."""
    found = [Counter(row["error"] for row in report.get("samples") or () if row.get("error")) for report in reports]
    total = sum(found, Counter())
    return [
        {"error": error} | {name: counts[error] for name, counts in zip(names, found, strict=True)}
        for error, _ in total.most_common()
    ]


def _mean_samples(runs: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Each sample of the first run with the means of its figures; their errors differ and are left out."""
    others = [{row["sample_id"]: row for row in rows} for rows in runs[1:]]
    out = []
    for row in runs[0]:
        same = [row, *(rows[row["sample_id"]] for rows in others)]
        figures = {key: _mean([one.get(key) for one in same]) for key, value in row.items() if isinstance(value, float)}
        out.append({key: value for key, value in row.items() if key != "error"} | figures)
    return out


def _mean(values: Sequence[Any]) -> float | None:
    return None if any(value is None for value in values) else float(np.mean(values))


def row_name(row: Mapping[str, Any]) -> str:
    """What tells a row from the others of its report."""
    return " · ".join(value for key, value in row.items() if isinstance(value, str) and key != "source" and value != "-")


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if not isinstance(value, str)}


def _mean_row(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in rows[0].items():
        if isinstance(value, bool) or not isinstance(value, float):
            out[key] = value
            continue
        values = [row[key] for row in rows if isinstance(row.get(key), float)]
        out[key] = float(np.mean(values))
        if len(values) > 1 and not key.endswith(BOUNDS):
            out[key + SPREAD] = float(np.std(values, ddof=1))
    return out


def headline(report: Report) -> list[str]:
    """The figures that a report is known by: those it names itself, else those that have an interval, in their order."""
    own = list(dict.fromkeys(key for row in report["rows"] for key in row if key + "_low" in row))
    return [key for key in report.get("headline", ()) if key in own] or own


def leaderboard(reports: Sequence[Report], names: Sequence[str]) -> dict[str, Any]:
    """Reports of several models as tables, best first by the first of their headline figures.

    The published rows and those without a model stand in them, told apart in ``from``. There is a table for each set of
    questions, so that only what answered the same is ranked together, and for each subset that published rows are by: for
    3D-POPE random, popular and adversarial, which is the form of its paper's table. Rules on which the reports differ are
    given run by run.

    Raises:
        GrandError: If the reports are not of one benchmark, or have no such figure.
    """
    first = reports[0]
    figure = next(iter(headline(first)), None)
    for report, name in zip(reports, names, strict=True):
        if report["benchmark"] != first["benchmark"]:
            raise GrandError(f"{name} is a report of {report['benchmark']}, expected {first['benchmark']} as {names[0]} is")
        if figure is None or not report["rows"]:
            raise GrandError(f"{name} has no figure with an interval, expected one to sort by")
    sets: dict[str, list[tuple[str, Report]]] = {}
    for report, name in zip(reports, names, strict=True):
        sets.setdefault(str(report.get("questions") or f"n {report['counts'].get('n')}"), []).append((name, report))
    tables: dict[str, list[dict[str, Any]]] = {}
    for known, members in sets.items():
        for subset, rows in _tables(members, str(figure)).items():
            size = members[0][1]["counts"].get("n")
            tables[subset if len(sets) == 1 else f"{subset} · {size} samples, questions {known}"] = rows
    apart = {"questions": f"{len(sets)} sets, a table each: their figures do not compare"} if len(sets) > 1 else {}
    return {
        "benchmark": first["benchmark"],
        "counts": {"runs": len(reports), "question_sets": len(sets)},
        "rules": {"sorted by": str(figure)} | apart | _common_rules(reports, names),
        "headline": [str(figure)],
        "rows": [],
        "tables": tables,
    }


def _tables(members: Sequence[tuple[str, Report]], figure: str) -> dict[str, list[dict[str, Any]]]:
    """Subset -> its rows, of runs that answered the same questions."""
    first = members[0][1]
    whole = _subset(_chosen(first["rows"])[0])
    others = [
        (origin, _subset(row, without=("name",)) or whole, row)
        for kind, origin in (("baselines", "without a model"), ("paper", "as published"))
        for row in _chosen(first.get(kind) or ())
        if is_number(row.get(figure))
    ]
    tables = {}
    for subset in dict.fromkeys((whole, *(where for _, where, _ in others))):
        found = [
            {"run": name, "from": "scored here"} | _numbers(row) | _open(report["counts"])
            for name, report in members
            for row in _chosen(report["rows"])
            if _subset(row) == subset
        ]
        if found:
            found += [
                {"run": str(row.get("name", "-")), "from": origin} | _numbers(row)
                for origin, where, row in others
                if where == subset
            ]
            tables[subset] = sorted(found, key=lambda row: -(row.get(figure) or 0.0))
    return tables


def _common_rules(reports: Sequence[Report], names: Sequence[str]) -> dict[str, str]:
    """The rules of all reports; where they differ, or only some have one, with the runs that each is of."""
    out = {}
    for key in dict.fromkeys(key for report in reports for key in report["rules"]):
        said: dict[str, list[str]] = {}
        for report, name in zip(reports, names, strict=True):
            if key in report["rules"]:
                said.setdefault(str(report["rules"][key]), []).append(name)
        whole = len(said) == 1 and len(next(iter(said.values()))) == len(reports)
        out[key] = next(iter(said)) if whole else "; ".join(f"{rule} ({', '.join(runs)})" for rule, runs in said.items())
    return out


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
