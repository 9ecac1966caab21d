"""The command annotate: texts about scenes, made by templates or by a language model behind a server."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from grand3d.annotate import pipeline, tasks
from grand3d.annotate.client import Asker, Terms, estimate, load_answers
from grand3d.annotate.statistics import statistics_of
from grand3d.chat import open_scenes
from grand3d.commands.common import keeping, say
from grand3d.errors import GrandError, shown
from grand3d.files import Rejects
from grand3d.sample import Sample
from grand3d.scene import Scene
from grand3d.server import PREFIX, Server, read_server

ROOMS = "rooms:"
PROGRESS = 5.0  # seconds between two lines of progress
SERVER_ONLY = ("images", "dry_run", "budget", "per_minute")


def annotate(options: argparse.Namespace) -> None:
    job = pipeline.Job(pipeline.read_kinds(options.kinds), options.number, options.seed)
    scenes = {name: pipeline.prepare(scene, job.kinds) for name, scene in _scenes(options).items()}
    out = Path(options.out)
    if options.server is None:
        _refuse(options, SERVER_ONLY, "belongs to --server")
        pipeline.begin(out, pipeline.job_note(job, scenes=options.scenes, by="templates"), options.force)
        spread = pipeline.on_ray(options.ray) if options.ray else pipeline.in_processes(options.processes)
        samples, rejects = pipeline.by_templates(scenes, job, out, spread, _progress("scenes"))
        _finish(out, scenes, samples, rejects)
        return
    if options.ray or options.processes > 1:
        raise GrandError("--ray and --processes share out templates; expected neither beside --server, which has --parallel")
    _by_server(options, job, scenes, out)


def _by_server(options: argparse.Namespace, job: pipeline.Job, scenes: dict[str, Scene], out: Path) -> None:
    server = read_server(PREFIX + options.server.removeprefix(PREFIX))
    terms = Terms(
        options.temperature,
        options.seed,
        options.max_tokens,
        options.parallel,
        options.per_minute,
        options.price,
        options.budget,
        float(options.patience),
    )
    if options.dry_run:
        print(json.dumps(_estimate(options, job, scenes, out, server, terms), indent=1))
        return
    about = {"scenes": options.scenes, "by": server.model, "temperature": terms.temperature, "max_tokens": terms.max_tokens}
    pipeline.begin(out, pipeline.job_note(job, **about, images=options.images), options.force)
    rejects = Rejects(skip_bad=True)
    if options.images:
        asker = Asker(server, terms, say)
        scenes = pipeline.with_seen_looks(scenes, Path(options.images), asker, out, rejects)
        _account(asker)
    asker = Asker(server, terms, say)
    try:
        samples, found = pipeline.by_server(scenes, job, out, asker, _progress("requests"))
    finally:
        _account(asker)
    rejects.rows += found.rows
    _finish(out, scenes, samples, rejects)


def _estimate(
    options: argparse.Namespace, job: pipeline.Job, scenes: Mapping[str, Scene], out: Path, server: Server, terms: Terms
) -> dict[str, object]:
    found: dict[str, object] = estimate(pipeline.text_requests(scenes, job), server, terms, load_answers(out / pipeline.ANSWERS))
    if options.images:
        looks = (request for scene in scenes.values() for request in tasks.look_requests(scene, Path(options.images)))
        found["looks"] = estimate(looks, server, terms, load_answers(out / pipeline.LOOKS))
    return found


def _finish(out: Path, scenes: Mapping[str, Scene], samples: list[Sample], rejects: Rejects) -> None:
    with keeping(rejects, str(out)):
        if not samples:
            causes = statistics_of(samples, rejects.counts())["rejected"]
            raise GrandError(f"{out}: no text holds, of {len(rejects.rows)} tried ({shown(causes)}); expected at least one")
        found = pipeline.finish(out, scenes, samples, rejects)
    for row in found["kinds"]:
        print(f"{row['kind']:18}{row['n']:8}  {row['answer words']:6.1f} words  {row['spans']:5.1f} spans")
    say(f"{out}: {found['samples']} samples of {found['scenes']} scenes, {len(rejects.rows)} texts left out; see statistics.html")


def _account(asker: Asker) -> None:
    spent = asker.spent
    waits = ", ".join(f"{number} x {cause}" for cause, number in spent.retries.most_common())
    tokens = f"tokens {spent.prompt_tokens} read, {spent.completion_tokens} written; {spent.dollars:.4f} dollars"
    say(f"asked {spent.asked}, answered before {spent.kept}; {tokens}" + (f"; sent again after {waits}" if waits else ""))


def _scenes(options: argparse.Namespace) -> dict[str, Scene]:
    if not options.scenes.startswith(ROOMS):
        return open_scenes(options.scenes)[0]
    from grand3d.synth import SEED_STRIDE, make_room

    number = options.scenes.removeprefix(ROOMS)
    if not number.isdigit() or not 1 <= int(number) <= 1_000_000:
        raise GrandError(f"scenes are {shown(options.scenes)}, expected rooms:N with N from 1 to 1,000,000")
    rooms = (make_room(options.seed * SEED_STRIDE + index) for index in range(int(number)))
    return {room.scene_id: room for room in rooms}


def _refuse(options: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if getattr(options, name):
            raise GrandError(f"--{name.replace('_', '-')} {why}, expected that beside it")


def _progress(what: str) -> Callable[[int, int], None]:
    last = time.monotonic()

    def show(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS:
            last = time.monotonic()
            say(f"{done} of {of} {what}")

    return show
