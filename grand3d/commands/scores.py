"""Commands over replies: score, leaderboard, upload, calibrate."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from grand3d import calibration, markup, runs
from grand3d.bench.common import Answer
from grand3d.checks import own_replies
from grand3d.commands.common import keeping, say
from grand3d.errors import GrandError
from grand3d.files import Rejects, write_jsonl, write_text
from grand3d.language.measures import measure
from grand3d.language.profile import groups
from grand3d.page import board, page
from grand3d.report import render
from grand3d.sample import Data, load_replies
from grand3d.store import open_data


def score(options: argparse.Namespace) -> None:
    from grand3d import scoring

    several = len(options.replies) > 1
    for name in ("samples", "against", "language") if several else ():
        if getattr(options, name):
            raise GrandError(f"--{name} with {len(options.replies)} replies files, expected one")
    names = (*scoring.FILES, *scoring.SETTINGS)
    more = {name: getattr(options, name) for name in names if getattr(options, name, None) is not None}

    def scored(path: str, only: Collection[str] | None = None) -> tuple[dict[str, Any], Data | None, list[Answer]]:
        rejects = Rejects(options.skip_bad)
        with keeping(rejects, f"{path}.score"):
            return scoring.scored(
                options.bench,
                options.questions,
                path,
                options.missing,
                rejects,
                options.calibration,
                options.against,
                more,
                only,
            )

    report, data, answers = scored(options.replies[0])
    if several:
        reports = [report, *(scored(path)[0] for path in options.replies[1:])]
        answered = [runs.sample_ids(one) for one in reports]
        common, uncommon = set.intersection(*answered), len(set.union(*answered)) - len(set.intersection(*answered))
        if uncommon and common:  # --missing skip: only what every run answered can be averaged
            reports = [scored(path, common)[0] for path in options.replies]
        report = runs.over_runs(reports, _run_names(options.replies), uncommon)
    samples = report.pop("samples", [])  # thousands of rows: for comparing, not for reading
    if options.language:
        _by_language(options.bench, report, samples, data)
    if options.samples is not None:
        if not samples:
            raise GrandError(f"score {options.bench} gives no figures of single samples, expected no --samples here")
        write_jsonl(options.samples, samples)
    _show(options, report, lambda: page(report, samples, data, answers))


def _by_language(bench: str, report: dict[str, Any], samples: Sequence[dict[str, Any]], data: Data | None) -> None:
    """Add rows by the patterns of the questions' language to a report."""
    texts = {sample.sample_id: sample.text for sample in data.samples} if data is not None else {}
    measured = {row["sample_id"]: measure(markup.plain(texts[row["sample_id"]])) for row in samples if row["sample_id"] in texts}
    rows = groups(samples, measured)
    if not rows:
        raise GrandError(f"score {bench} gives no figures of single samples, expected no --language here")
    report.setdefault("tables", {})["By the language of the question"] = rows
    report["rules"]["language"] = "patterns as grand3d analyze finds them; p: two-proportion z-test against the samples without"


def leaderboard(options: argparse.Namespace) -> None:
    reports = [runs.read_report(path) for path in options.reports]
    made = runs.leaderboard(reports, _run_names(options.reports))
    _show(options, made, lambda: board(made))


def _run_names(paths: Sequence[str]) -> list[str]:
    names = [Path(path).stem for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


def _show(options: argparse.Namespace, report: dict[str, Any], make_page: Callable[[], str]) -> None:
    if options.html is not None:
        write_text(options.html, make_page())
        say(f"page: {options.html}")
    print(json.dumps(report, ensure_ascii=False, indent=1) if options.json else render(report, options.markdown))


def upload(options: argparse.Namespace) -> None:
    from grand3d import scoring

    names = (*scoring.FILES, *scoring.SETTINGS)
    more = {name: getattr(options, name) for name in names if getattr(options, name, None) is not None}
    rejects = Rejects(options.skip_bad)
    with keeping(rejects, options.out):
        count, left = scoring.upload(options.bench, options.questions, options.replies, options.out, rejects, more)
    say(f"{options.out}: {count} answers" + (f", {left} left out that have no question or cannot be read" if left else ""))


def calibrate(options: argparse.Namespace) -> None:
    data = open_data(options.data)
    replies = own_replies(options.replies, data, load_replies(options.replies), Rejects())
    found = calibration.fit(data, replies, options.score_weight)
    calibration.save_calibration(options.out, found)
    temperatures = ", ".join(f"{task} {value:.2f}" for task, value in found.temperature.items())
    say(f"{options.out}: temperature {temperatures}; none below {found.none_below}, also above {found.also_above}")
