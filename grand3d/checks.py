"""What may be wrong with a data folder although every row can be read: ids and markup in texts, answers that say nothing,
replies to other data. ``check`` lists all of it; ``score`` needs to know what it cannot score."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from grand3d.bench.nouns import words
from grand3d.errors import GrandError, place, shown
from grand3d.figures import read_count
from grand3d.files import Rejects, visible
from grand3d.markup import parse
from grand3d.sample import TASKS, Data, Inspect, Reply, Sample, load_data, reply_to_dict, sample_to_dict
from grand3d.scene import Scene, load_scenes
from grand3d.store import open_data, open_store, verify

NEED_NO_TEXT = ("object_description", "scene_description")
NUM_EXAMPLES = 3

Fault = tuple[str, str]
"""(what it is counted by, what a message says)"""


def check_data(folder: str | Path, rejects: Rejects) -> Data:
    """Read a data folder and collect every fault of it."""
    data = load_data(folder, rejects, faults_of, all_faults=True)
    for name, rows in (("scenes", data.scenes), ("samples", data.samples)):
        _refuse_empty(Path(folder) / f"{name}.jsonl", name, rows, rejects)
    return data


def check_store(folder: str | Path, rejects: Rejects) -> Data:
    """Look through a store for every fault of it; ids, scenes and targets were checked when it was made.

    Raises:
        GrandError: If it cannot be opened.
    """
    data = open_store(folder)
    for name, seen in verify(folder).items():
        reason = f"its content is not what the manifest says (sha256 {seen[:12] or 'of nothing'}), expected it unchanged"
        rejects.add(place(Path(folder) / name), reason, None, "changed file")
    for sample in data.samples:
        truth = None if data.truth is None else data.truth[sample.scene_id]
        for cause, text in faults_of(sample, data.scenes[sample.scene_id], truth):
            where = f"{place(folder)}: sample {shown(sample.sample_id)}"
            rejects.add(where, text, sample_to_dict(sample), cause)
    return data


def check_scenes(path: str | Path, rejects: Rejects) -> dict[str, Scene]:
    """Read a scenes file and collect every fault of it."""
    scenes = load_scenes(path, rejects)
    _refuse_empty(Path(path), "scenes", scenes, rejects)
    return scenes


def _refuse_empty(path: Path, name: str, rows: Collection[Any], rejects: Rejects) -> None:
    if not rows and not any(row["where"].startswith(place(path)) for row in rejects.rows):
        rejects.add(place(path), f"holds no {name}, expected at least one", None, f"no {name}")


def faults_of(sample: Sample, scene: Scene, truth: Scene | None) -> Iterator[Fault]:
    """Everything that may be wrong with a sample beside its fields, scene and targets."""
    known = {i for one in (scene, truth) if one is not None for i in (*one.object_ids, *(r.region_id for r in one.regions))}
    for name, text in (("text", sample.text), ("answer", sample.answer)):
        parsed = parse(text)
        if parsed.faults:
            more = f" (and {len(parsed.faults) - 1} more)" if len(parsed.faults) > 1 else ""
            first = parsed.faults[0]
            yield f"malformed markup in the {name}", f"{name}, character {first.position}: {first.reason}{more} (docs/markup.md)"
        unknown = list(dict.fromkeys(i for span in parsed.spans for i in span.ids if i not in known))
        if unknown:
            where = f"{shown(unknown)} not among the {len(known)} ids of scene {shown(scene.scene_id)}"
            yield f"unknown id in the {name}", f"unknown id in the {name}: {where}"
    if not visible(sample.text) and sample.task not in NEED_NO_TEXT:
        yield "blank text", f"text is {shown(sample.text)}, expected what is asked"
    if sample.task == "object_description" and not sample.target_ids:
        yield "nothing to describe", "target_ids is empty, expected the object to describe"
    if sample.task == "object_reference" and sample.answer:
        yield "answer to a reference", f"answer is {shown(sample.answer)}, expected none; target_ids is what is right"
    # several targets or none are no fault of the data: some benchmarks ask so, and others refuse them when they score
    yield from unscorable(TASKS, several=True)(sample, scene, truth)


def unscorable(tasks: Iterable[str], several: bool = False) -> Inspect:
    """Finds samples of these tasks whose answer replies cannot be held against.

    Args:
        several: References may mean none or several true objects, as in some benchmarks.
    """

    def inspect(sample: Sample, scene: Scene, truth: Scene | None) -> Iterator[Fault]:
        if sample.task not in tasks:
            return
        if sample.task == "existence" and words(sample.answer)[:1] not in (["yes"], ["no"]):
            yield "bad answer", f"answer is {shown(sample.answer)}, expected Yes or No first"
        if sample.task == "counting" and read_count(sample.answer) is None:
            yield "bad answer", f"answer is {shown(sample.answer)}, expected a number first"
        if sample.task == "object_reference" and truth is not None and len(sample.target_ids) != 1 and not several:
            found = f"target_ids names {len(sample.target_ids)} objects"
            yield "not one target", f"{found}; against true boxes (truth.jsonl) a description has exactly one"

    return inspect


def load_heldout(folder: str | Path, rejects: Rejects) -> Data:
    """Held-out data as training takes its figures from them.

    Raises:
        GrandError: As ``load_data``, for a sample that cannot be scored, or if none is left.
    """
    data = open_data(folder, rejects, inspect=unscorable(TASKS))
    if not data.samples:
        counts = "".join(f"; left out: {number} x {cause}" for cause, number in rejects.counts().items())
        raise GrandError(f"data.heldout: {folder} holds no sample that can be scored{counts}")
    return data


def own_replies(path: str | Path, data: Data, replies: Iterable[Reply], rejects: Rejects) -> list[Reply]:
    """Replies without those that speak of another scene, or of other objects, than the data.

    Raises:
        GrandError: At the first of them, unless ``rejects`` collects them.
    """
    samples = {sample.sample_id: sample for sample in data.samples}
    ids = {scene_id: set(scene.object_ids) for scene_id, scene in data.scenes.items()}
    kept = []
    for reply in replies:
        sample = samples.get(reply.sample_id)
        strangers = [i for i in reply.object_ids if sample is not None and i not in ids[sample.scene_id]]
        reason = cause = ""
        if sample is not None and reply.scene_id != sample.scene_id:
            reason = f"is about scene {shown(reply.scene_id)}, the sample about {shown(sample.scene_id)}"
            cause = "reply about another scene"
        elif sample is not None and strangers:
            reason = f"object_ids names {shown(strangers)}, which scene {shown(reply.scene_id)} does not have"
            cause = "reply made from other scenes"
        if reason:
            where = f"{place(path)}: reply to {shown(reply.sample_id)}"
            rejects.add(where, f"{reason}; was it made from other data?", reply_to_dict(reply), cause)
        else:
            kept.append(reply)
    return kept


def listing(rejects: Rejects, all_of_them: bool = False) -> str:
    """Faults counted by cause, most frequent first, each with its first examples or with all of them."""
    groups: dict[str, list[str]] = defaultdict(list)
    for row in rejects.rows:
        groups[row["cause"]].append(f"  {row['where']}: {row['reason']}")
    lines = []
    for cause, number in rejects.counts().items():
        some = groups[cause] if all_of_them else groups[cause][:NUM_EXAMPLES]
        lines += [f"{number} x {cause}", *some]
        lines += [f"  ... and {number - len(some)} more; --all lists them"] if len(some) < number else []
    return "\n".join(lines)
