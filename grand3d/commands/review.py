"""The command review: people check made texts. ``make`` draws the tasks, ``serve`` shows them, ``tally`` counts."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections import Counter
from pathlib import Path

from grand3d.annotate.review import known
from grand3d.annotate.review.agreement import read_judge
from grand3d.annotate.review.checked import kept
from grand3d.annotate.review.desk import Desk, read_answers
from grand3d.annotate.review.serve import serving
from grand3d.annotate.review.study import GROUNDING, STEPS, TRUTH, WORK, Rules, Study, draw, load_study, named, save_study
from grand3d.annotate.review.tally import tally as count
from grand3d.commands.common import keeping, say
from grand3d.errors import GrandError, place
from grand3d.files import Rejects, write_jsonl
from grand3d.report import render
from grand3d.sample import load_data, save_data


def review(options: argparse.Namespace) -> None:
    {"make": make, "serve": serve, "tally": tally}[options.what](options)


def make(options: argparse.Namespace) -> None:
    """Draw the tasks of a study."""
    rejects = Rejects(options.skip_bad)
    with keeping(rejects, options.study):
        data = load_data(options.data, rejects)
        scenes = data.scenes if data.truth is None else data.truth
        plans = any(sample.task == "plan" for sample in data.samples)
        checks = (
            tuple(options.checks.split(",")) if options.checks else (TRUTH, GROUNDING, STEPS) if plans else (TRUTH, GROUNDING)
        )
        if options.number is not None and options.number < 1:
            raise GrandError(f"--number is {options.number}, expected 1 or more")
        rules = Rules(
            checks,
            options.votes,
            options.qualifiers,
            options.pass_mark,
            options.honeypot_every,
            options.honeypot_mark,
            options.lease * 60,
            options.seed,
        )
        samples, work = draw(data, rules, options.number, rejects)
        if not samples:
            raise GrandError(f"{place(options.data)}: no sample can be judged for {', '.join(checks)}, expected at least one")
        used = {sample.scene_id for sample in samples}
        if options.known:
            made = known.read_known(options.known, data, rules, rejects)
            used |= {task.scene_id for task in made}
        else:
            near = {name: scenes[name] for name in scenes if name in used}
            made = []
            for check in checks:
                made += known.made_tasks(near, check, known.number_known(rules, work, check), rules.seed)
        tasks = named(known.with_roles(work, made, rules), rules.seed)
        study = Study(rules, {name: scenes[name] for name in scenes if name in used}, samples, tasks)
        save_study(Path(options.study), study)
    for check in checks:
        roles = Counter(task.role for task in tasks if task.check == check)
        print(f"{check:10} {roles[WORK]:6} tasks, {roles['qualifier']:4} qualifiers, {roles['honeypot']:5} honeypots")
    say(f"{options.study}: {len(samples)} texts of {len(used)} scenes")
    say(f"next: grand3d review serve {options.study} --people NAME,NAME,NAME")


def serve(options: argparse.Namespace) -> None:
    """Show the pages until stopped."""
    folder = Path(options.study)
    study = load_study(folder)
    names = [name.strip() for name in (options.people or "").split(",") if name.strip()]
    with serving(study, folder, names, options.port) as (server, links):
        for who, link in links.items():
            print(f"{who}\t{link}", flush=True)
        say("each link is one person's own and works on this machine only; Ctrl-C ends it, the same command goes on")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.1)


def tally(options: argparse.Namespace) -> None:
    """Print what people said."""
    folder = Path(options.study)
    study = load_study(folder)
    rows, cut = read_answers(folder, study)
    desk = Desk(study, rows)
    rejects = Rejects(options.skip_bad)
    with keeping(rejects, f"{options.study.rstrip('/')}.tally"):
        judge = read_judge(options.judge, desk, rejects) if options.judge else None
        report = count(desk, judge, cut)
        if options.samples:
            write_jsonl(options.samples, report["samples"])
        if options.keep:
            data = kept(desk, rejects)
            save_data(options.keep, data, force=options.force)
            say(f"{options.keep}: {len(data.samples)} of {len(study.samples)} texts are kept")
    print(json.dumps(report, ensure_ascii=False, indent=1) if options.json else render(report, options.markdown))
