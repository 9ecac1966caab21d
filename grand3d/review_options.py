"""What ``grand3d review`` takes. Limits of numbers are those of the study's rules, which say so themselves."""

from __future__ import annotations

import argparse


def add_review(sub: argparse.ArgumentParser, skip_bad: str) -> tuple[argparse.ArgumentParser, ...]:
    """Add the steps ``make``, ``serve`` and ``tally``.

    Args:
        skip_bad: Help of that option.

    Returns:
        The parsers of the steps.
    """
    steps = sub.add_subparsers(dest="what", metavar="make|serve|tally", required=True)
    make = steps.add_parser("make", help="draw the tasks of a study", allow_abbrev=False)
    make.add_argument("data", help="data folder with the texts")
    make.add_argument("study", help="folder to write; it must not be there yet")
    make.add_argument("--number", type=int, metavar="N", help="texts drawn at random (default: all)")
    shown = "by commas: truth (of sentences), grounding (of their phrases), steps (of plans) (default: those that the texts have)"
    make.add_argument("--checks", help=shown)
    shown = "people on a task, an odd number; more than half must agree (default: 3)"
    make.add_argument("--votes", type=int, default=3, metavar="N", help=shown)
    make.add_argument("--qualifiers", type=int, default=8, metavar="N", help="known tasks that come first (default: 8)")
    make.add_argument("--pass-mark", type=float, default=0.75, metavar="SHARE", help="of them that lets in (default: 0.75)")
    shown = "one task in N has a known answer, 0 for none (default: 10)"
    make.add_argument("--honeypot-every", type=int, default=10, metavar="N", help=shown)
    make.add_argument(
        "--honeypot-mark", type=float, default=0.89, metavar="SHARE", help="below it a person is out (default: 0.89)"
    )
    shown = "known answers of your own in place of made ones: JSON lines {sample_id, check, answer, sentence}"
    make.add_argument("--known", metavar="FILE", help=shown)
    shown = "after which a task left lying goes to another (default: 30)"
    make.add_argument("--lease", type=int, default=30, metavar="MINUTES", help=shown)
    make.add_argument("--seed", type=int, default=0, help="the same seed draws the same tasks (default: 0)")
    make.add_argument("--skip-bad", action="store_true", help=skip_bad)
    serve = steps.add_parser("serve", help="show the pages, on this machine only", allow_abbrev=False)
    serve.add_argument("study", help="folder of the study")
    shown = "names by commas; each gets a link, which stays the same (default: those named before)"
    serve.add_argument("--people", metavar="NAMES", help=shown)
    serve.add_argument("--port", type=int, default=8642, help="0 for any free one (default: 8642)")
    tally = steps.add_parser("tally", help="print what people said", allow_abbrev=False)
    tally.add_argument("study", help="folder of the study, while it is served too")
    shown = "a language model's answers, to hold against people's: JSON lines {task_id, answer}"
    tally.add_argument("--judge", metavar="FILE", help=shown)
    tally.add_argument("--samples", metavar="FILE", help="also write votes and verdict of every task, as JSON lines")
    tally.add_argument("--keep", metavar="FOLDER", help="also write the texts that people let through, as a data folder")
    tally.add_argument("--force", action="store_true", help="keep: write into a folder that holds something else")
    tally.add_argument("--skip-bad", action="store_true", help=skip_bad.replace("<output>", "<study>.tally"))
    form = tally.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the whole report as JSON")
    form.add_argument("--markdown", action="store_true", help="tables in Markdown")
    return make, serve, tally
