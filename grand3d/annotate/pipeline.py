"""Annotations of many scenes: made by templates or asked of a server, filtered, written as a data folder.

The folder holds, beside the data, ``annotate.json`` (what makes it), ``work.jsonl`` or ``answers.jsonl`` (what is done so far: a
run that was stopped goes on from there), ``statistics.json`` and ``statistics.html``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from grand3d.annotate import tasks
from grand3d.annotate.client import Answer, Asker, Request, ask_all
from grand3d.annotate.facts import Facts
from grand3d.annotate.filters import faults
from grand3d.annotate.hierarchy import with_regions
from grand3d.annotate.kinds import ALL_KINDS, KINDS, MMSCAN, Draft, as_sample, keep
from grand3d.annotate.make import make_texts
from grand3d.annotate.statistics import statistics_of, statistics_page
from grand3d.errors import GrandError, import_extra, place, shown
from grand3d.files import Rejects, field, read_json, write_json, write_text
from grand3d.journal import read_rows
from grand3d.replies import appending, cut_last_line
from grand3d.sample import Data, Sample, sample_from_dict, sample_to_dict, save_data
from grand3d.scene import Scene

NOTE, WORK, ANSWERS, LOOKS = "annotate.json", "work.jsonl", "answers.jsonl", "looks.jsonl"
CHUNK = 8
"""Scenes that one process, or one Ray task, takes at a time."""
MOST_RIVALS = 60


@dataclass(frozen=True, slots=True)
class Job:
    """What is wanted of every scene.

    Attributes:
        number: Texts of each kind.
    """

    kinds: tuple[str, ...] = tuple(KINDS)
    number: int = 8
    seed: int = 0


def read_kinds(text: str) -> tuple[str, ...]:
    """Kinds as a command line names them: by commas, ``grand3d`` the eight, ``mmscan`` those of the hierarchy, or ``all``.

    Raises:
        GrandError: For an unknown name.
    """
    sets = {"grand3d": tuple(KINDS), "mmscan": tuple(MMSCAN), "all": tuple(ALL_KINDS)}
    out = [kind for name in text.split(",") for kind in sets.get(name.strip(), (name.strip(),))]
    unknown = [kind for kind in out if kind not in ALL_KINDS]
    if unknown:
        raise GrandError(f"the kind is {shown(unknown[0])}, expected grand3d, mmscan, all, or some of {', '.join(ALL_KINDS)}")
    return tuple(dict.fromkeys(out))


def prepare(scene: Scene, kinds: Iterable[str]) -> Scene:
    """A scene as it is written about: with regions where kinds of the hierarchy are wanted."""
    return with_regions(scene) if any(kind in MMSCAN for kind in kinds) else scene


def template_rows(scenes: Sequence[Scene], job: Job) -> list[dict[str, Any]]:
    """For each scene, a row of what is made of it: ``{scene_id, samples, rejects}``."""
    rows = []
    for scene in scenes:
        rejects = Rejects(skip_bad=True)
        facts = Facts(scene)
        samples = [sample for kind in job.kinds for sample in make_texts(facts, kind, job.number, job.seed, rejects)]
        rows.append({"scene_id": scene.scene_id, "samples": list(map(sample_to_dict, samples)), "rejects": rejects.rows})
    return rows


Rows = list[dict[str, Any]]
Spread = Callable[[Callable[[Sequence[Scene], Job], Rows], Sequence[Sequence[Scene]], Job], Iterator[Rows]]
"""Runs a function over chunks of scenes, in whatever order."""


def in_processes(number: int) -> Spread:
    """Chunks in processes of this machine; 1 for this process alone."""

    def spread(function: Any, chunks: Sequence[Sequence[Scene]], job: Job) -> Iterator[Rows]:
        if number == 1:
            yield from (function(chunk, job) for chunk in chunks)
            return
        with ProcessPoolExecutor(number) as pool:
            yield from pool.map(function, chunks, [job] * len(chunks))

    return spread


def on_ray(address: str) -> Spread:
    """Chunks as tasks of a Ray cluster; ``local`` starts one on this machine.

    Raises:
        GrandError: If Ray is not installed or the cluster cannot be reached.
    """
    ray = import_extra("ray", "ray")

    def spread(function: Any, chunks: Sequence[Sequence[Scene]], job: Job) -> Iterator[Rows]:
        try:
            ray.init(address=None if address == "local" else address, ignore_reinit_error=True, log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise GrandError(f"no Ray cluster at {shown(address)}: {error}; expected its address, auto or local") from None
        waiting = [ray.remote(function).remote(chunk, job) for chunk in chunks]
        try:
            while waiting:
                done, waiting = ray.wait(waiting)
                yield from ray.get(done)
        finally:
            ray.shutdown()

    return spread


def by_templates(
    scenes: Mapping[str, Scene], job: Job, out: Path, spread: Spread, say: Callable[[int, int], None] = lambda done, of: None
) -> tuple[list[Sample], Rejects]:
    """Samples of all scenes from templates, in the order of the scenes; what an earlier run has done is taken from its file."""
    path = out / WORK
    if path.exists() and path.stat().st_size:
        cut_last_line(path)
    with appending(path) as write:
        rows = {row["scene_id"]: row for row in read_rows(path, lambda row: field(row, "scene_id", str, ""))[0]}
        left = [scene for scene in scenes.values() if scene.scene_id not in rows]
        chunks = [left[k : k + CHUNK] for k in range(0, len(left), CHUNK)]
        for found in spread(template_rows, chunks, job):
            for row in found:
                write(row)
                rows[row["scene_id"]] = row
            say(len(rows), len(scenes))
    rejects = Rejects(skip_bad=True)
    samples = []
    for scene_id in scenes:
        samples += [sample_from_dict(row) for row in rows[scene_id]["samples"]]
        rejects.rows += rows[scene_id]["rejects"]
    return samples, rejects


def text_requests(scenes: Mapping[str, Scene], job: Job) -> Iterator[Request]:
    """Everything that is asked of a server, scene by scene."""
    foreign = [kind for kind in job.kinds if kind not in tasks.ASKS]
    if foreign:
        kinds = ", ".join(tasks.ASKS)
        raise GrandError(f"a server is asked for {kinds}; expected none of {', '.join(foreign)}, which only templates make")
    for scene in scenes.values():
        facts = Facts(scene)
        for kind in job.kinds if facts.exact.items else ():
            for variant, start in enumerate(range(0, job.number, tasks.TEXTS_A_REQUEST)):
                yield tasks.text_request(facts, kind, min(tasks.TEXTS_A_REQUEST, job.number - start), variant)


def by_server(
    scenes: Mapping[str, Scene], job: Job, out: Path, asker: Asker, say: Callable[[int, int], None] = lambda done, of: None
) -> tuple[list[Sample], Rejects]:
    """Samples of all scenes from a language model, filtered, in the order of scenes and kinds; what cannot be used is counted."""
    number = sum(bool(scene.objects) for scene in scenes.values()) * len(job.kinds) * -(-job.number // tasks.TEXTS_A_REQUEST)
    found: dict[tuple[str, str, int], list[Sample]] = {}
    rejects = Rejects(skip_bad=True)
    facts: dict[str, Facts] = {}
    for done, (request, answer) in enumerate(ask_all(text_requests(scenes, job), asker, out / ANSWERS), 1):
        about: tasks.About = request.about
        if about.scene_id not in facts:
            if len(facts) >= 64:
                facts.clear()
            facts[about.scene_id] = Facts(scenes[about.scene_id])
        found[about.scene_id, about.kind, about.variant] = _used(request, answer, facts[about.scene_id], rejects)
        say(done, number)
    variants = range(-(-job.number // tasks.TEXTS_A_REQUEST))
    order = [(scene_id, kind, variant) for scene_id in scenes for kind in job.kinds for variant in variants]
    return [sample for key in order for sample in found.get(key, ())], rejects


def _used(request: Request, answer: Answer, facts: Facts, rejects: Rejects) -> list[Sample]:
    """The samples of one answer that hold."""
    about: tasks.About = request.about
    samples: list[Sample] = []
    try:
        for draft in tasks.read_texts(answer, about, facts):
            if isinstance(draft, GrandError):
                rejects.add(request.name, str(draft), answer.text, draft.cause)
                continue
            sample_id = f"{about.scene_id}_{about.kind}_{about.variant}_{len(samples)}"
            sample = as_sample(draft, ALL_KINDS[about.kind], about.scene_id, sample_id)
            if keep(draft, sample, facts, rejects) and not _ambiguous(draft, sample, facts, rejects):
                samples.append(sample)
    except GrandError as error:
        rejects.add(request.name, str(error), answer.text, error.cause)
    return samples


def _ambiguous(draft: Draft, sample: Sample, facts: Facts, rejects: Rejects) -> bool:
    """Whether a reference fits another object too: with the id of another of its kind for its own, is it still sound?"""
    if draft.kind != "object_reference":
        return False
    target = facts.by_id[draft.target_ids[0]]
    for rival in facts.called(target.category)[:MOST_RIVALS]:
        if rival is target or (rival.centroid, rival.extent) == (target.centroid, target.extent):
            continue
        if not faults(draft.question.replace(f"<{target.object_id}>", f"<{rival.object_id}>"), facts):
            reason = f"{rival.object_id!r} fits it as well as {target.object_id!r}"
            rejects.add(sample.scene_id, reason, sample_to_dict(sample), "ambiguous reference")
            return True
    return False


def with_seen_looks(scenes: Mapping[str, Scene], images: Path, asker: Asker, out: Path, rejects: Rejects) -> dict[str, Scene]:
    """Scenes whose objects look as a model sees them in pictures (``tasks.look_requests``); the rest stays as it is."""
    seen: dict[tuple[str, str], Any] = {}
    number = 0
    wanted = (request for scene in scenes.values() for request in tasks.look_requests(scene, images))
    for request, answer in ask_all(wanted, asker, out / LOOKS):
        number += 1
        scene_id, object_id = request.about
        try:
            seen[scene_id, object_id] = tasks.with_looks(scenes[scene_id][object_id], answer)
        except GrandError as error:
            rejects.add(request.name, str(error), answer.text, error.cause)
    if not number:
        raise GrandError(f"{place(images)}: holds no picture, expected SCENE_ID/OBJECT_ID.png (or .jpg, .webp) for some object")
    return {
        scene_id: replace(scene, objects=tuple(seen.get((scene_id, o.object_id), o) for o in scene.objects))
        for scene_id, scene in scenes.items()
    }


def begin(out: Path, about: dict[str, Any], force: bool = False) -> None:
    """Make the folder, or see that it is of the same run.

    Raises:
        GrandError: If it holds annotations of other scenes or settings, or something else.
    """
    note = out / NOTE
    about = json.loads(json.dumps(about))
    if note.exists() and not force:
        before = read_json(note)
        changed = [key for key in about if not isinstance(before, dict) or before.get(key) != about[key]]
        if changed:
            seen = ", ".join(f"{key} was {shown(before.get(key))}, is {shown(about[key])}" for key in changed)
            expected = "expected the same, another folder, or --force"
            raise GrandError(f"{place(out)}: holds annotations of another run ({seen}); {expected}")
        return
    if out.exists() and not force and any(out.iterdir()):
        raise GrandError(f"{place(out)}: holds something else; expected a new folder, one to go on with, or --force")
    for name in (WORK, ANSWERS, LOOKS) if force else ():
        (out / name).unlink(missing_ok=True)
    write_json(note, about)


def finish(out: Path, scenes: Mapping[str, Scene], samples: Sequence[Sample], rejects: Rejects) -> dict[str, Any]:
    """Write the data folder and its statistics; returns these."""
    save_data(out, Data(scenes, tuple(samples)))
    found = statistics_of(samples, rejects.counts())
    write_json(out / "statistics.json", found)
    write_text(out / "statistics.html", statistics_page(found))
    return found


def job_note(job: Job, **more: Any) -> dict[str, Any]:
    """What makes a folder, as its note keeps it."""
    return asdict(job) | more
