"""Samples (what is asked and what is right), replies (what a model wrote), and the folder that holds data."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grand3d.errors import GrandError, place, unusable
from grand3d.files import (
    Rejects,
    field,
    json_lines,
    numbers,
    read_bytes,
    read_jsonl,
    read_numbered,
    refuse_unfit,
    refuse_unknown,
    shown,
    texts,
    visible,
    write_jsonl,
    write_text,
)
from grand3d.scene import Scene, scene_to_dict, split_scenes

TASKS = (
    "object_reference",  # expression -> object(s)
    "object_description",  # object -> one grounded description that fits no other object
    "existence",  # "Are there any chairs in the room?" -> yes / no
    "counting",  # "How many chairs are there?"
    "question",  # any other question with a grounded answer
    "scene_description",
    "plan",  # what is to be done -> steps, each tied to an object
    "placement",  # where to put a thing -> a place
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One question about one scene with its right answer.

    Grounded text here names objects by their own ids, ``<p>desk</p>[<12>]`` (docs/markup.md); ``<obj_3>`` exists only in
    a prompt.

    Attributes:
        task: One of TASKS.
        text: What is asked: the expression of a reference, the question of a QA task; empty for descriptions.
            May itself be grounded.
        answer: The right answer as grounded text; empty for ``object_reference``, whose answer is ``target_ids``.
        target_ids: Ids of the objects meant, in the scene's ``id_space``; empty when nothing fits.
        viewpoint: Position and look-at point of the speaker, metres, when known.
        meta: Whatever a benchmark needs later (ann_id, template, ...). Plain JSON values.
    """

    sample_id: str
    scene_id: str
    task: str
    text: str
    answer: str = ""
    target_ids: tuple[str, ...] = ()
    viewpoint: tuple[tuple[float, float, float], tuple[float, float, float]] | None = None
    meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model wrote, and the order of the objects it saw, so that it can be scored without the model.

    Attributes:
        object_ids: ``object_ids[k]`` is the object that ``<obj_k>`` meant in the prompt.
        finished: False when the token limit cut the reply.
        num_dropped: Proposals the token budget left out of the prompt.
        chances: Probability of each answer that was weighed: of each of ``object_ids`` and, last, of none of them; or of yes
            and no. Empty where the answer was written instead.
        region_ids: ``region_ids[k]`` is the region that ``<region_k>`` meant.
    """

    sample_id: str
    scene_id: str
    text: str
    object_ids: tuple[str, ...] = ()
    finished: bool = True
    num_dropped: int = 0
    chances: tuple[float, ...] = ()
    region_ids: tuple[str, ...] = ()


def sample_to_dict(sample: Sample) -> dict[str, Any]:
    """The JSON form; empty fields are left out."""
    row: dict[str, Any] = {"sample_id": sample.sample_id, "scene_id": sample.scene_id, "task": sample.task, "text": sample.text}
    if sample.answer:
        row["answer"] = sample.answer
    if sample.target_ids or sample.task == "object_reference":
        row["target_ids"] = list(sample.target_ids)
    if sample.viewpoint is not None:
        row["viewpoint"] = [list(p) for p in sample.viewpoint]
    if sample.meta:
        row["meta"] = dict(sample.meta)
    return row


def sample_from_dict(row: Any) -> Sample:
    """Read and check the JSON form. An optional field may be absent or null; an unknown key is refused.

    Raises:
        GrandError: If a key is missing, unknown or of the wrong type, or the task is unknown.
    """
    if not isinstance(row, dict):
        raise GrandError(f"{shown(row)} is no sample, expected a JSON object", "wrong type")
    sample_id = field(row, "sample_id", str, "sample")
    where = f"sample {shown(sample_id)}"
    refuse_unknown(row, [f.name for f in dataclasses.fields(Sample)], where)
    if not visible(sample_id):
        raise GrandError(f"{where}: sample_id is blank, expected text with something to see in it", "bad id")
    task = field(row, "task", str, where)
    if task not in TASKS:
        raise GrandError(f"{where}: task is {shown(task)}, expected one of {', '.join(TASKS)}", "unknown task")
    if task == "object_reference" and row.get("target_ids") is None:
        reason = "target_ids is missing, expected the ids of the objects meant, or [] where nothing fits"
        raise GrandError(f"{where}: {reason}", "missing key")
    targets = texts(field(row, "target_ids", list, where, []), f"{where}: target_ids")
    if len(set(targets)) < len(targets):
        raise GrandError(f"{where}: target_ids {shown(list(targets))} names an object twice", "id twice")
    viewpoint = field(row, "viewpoint", list, where, None)
    if viewpoint is not None:
        if len(viewpoint) != 2:
            reason = f"viewpoint is {shown(viewpoint)}, expected 2 points: position and look-at point"
            raise GrandError(f"{where}: {reason}", "bad number")
        viewpoint = tuple(numbers(point, 3, f"{where}: a point of viewpoint") for point in viewpoint)
        if viewpoint[0] == viewpoint[1]:
            reason = f"viewpoint is {shown(list(viewpoint))}, expected a look-at point other than the position"
            raise GrandError(f"{where}: {reason}; nobody looks at the point where they stand", "bad number")
    refuse_unfit(row, where)
    return Sample(
        sample_id=sample_id,
        scene_id=field(row, "scene_id", str, where),
        task=task,
        text=field(row, "text", str, where),
        answer=field(row, "answer", str, where, ""),
        target_ids=targets,
        viewpoint=viewpoint,
        meta=field(row, "meta", dict, where, {}),
    )


def load_samples(path: str | Path, rejects: Rejects | None = None) -> list[Sample]:
    """Read a samples file (JSON lines).

    Raises:
        GrandError: Naming file and line; also for a sample_id that occurs twice.
    """
    return [sample for _, sample in _numbered_samples(path, rejects)]


def _numbered_samples(path: str | Path, rejects: Rejects | None) -> Iterator[tuple[str, Sample]]:
    """Samples with the file and line of each."""
    seen: set[str] = set()

    def new_sample(row: Any) -> Sample:
        sample = sample_from_dict(row)
        if sample.sample_id in seen:
            raise GrandError(f"sample {shown(sample.sample_id)} occurs twice, expected once; the first one counts", "id twice")
        seen.add(sample.sample_id)
        return sample

    return read_numbered(path, new_sample, rejects)


def save_samples(path: str | Path, samples: Iterable[Sample]) -> int:
    """Write a samples file at once; returns the number of samples."""
    return write_jsonl(path, (sample_to_dict(sample) for sample in samples))


def reply_to_dict(reply: Reply) -> dict[str, Any]:
    """The JSON form: one line of ``replies.jsonl``."""
    row: dict[str, Any] = {
        "sample_id": reply.sample_id,
        "scene_id": reply.scene_id,
        "text": reply.text,
        "object_ids": list(reply.object_ids),
    }
    if not reply.finished:
        row["finished"] = False
    if reply.num_dropped:
        row["num_dropped"] = reply.num_dropped
    if reply.chances:
        row["chances"] = [float(f"{chance:.6g}") for chance in reply.chances]
    if reply.region_ids:
        row["region_ids"] = list(reply.region_ids)
    return row


def reply_from_dict(row: Any) -> Reply:
    """Read the JSON form; keys of other programs are passed over.

    Raises:
        GrandError: If a key is missing or of the wrong type.
    """
    if not isinstance(row, dict):
        raise GrandError(f"{shown(row)} is no reply, expected a JSON object", "wrong type")
    sample_id = field(row, "sample_id", str, "reply")
    where = f"reply {shown(sample_id)}"
    if "task" in row and "target_ids" in row:
        reason = "has the keys task and target_ids, so it is a question; expected a reply to one, as predict writes it"
        raise GrandError(f"{where}: {reason}", "not a reply")
    num_dropped = field(row, "num_dropped", int, where, 0)
    if num_dropped < 0:
        raise GrandError(f"{where}: num_dropped is {shown(num_dropped)}, expected 0 or more", "bad number")
    object_ids = texts(field(row, "object_ids", list, where, []), f"{where}: object_ids")
    return Reply(
        sample_id=sample_id,
        scene_id=field(row, "scene_id", str, where),
        text=field(row, "text", str, where),
        object_ids=object_ids,
        finished=field(row, "finished", bool, where, True),
        num_dropped=num_dropped,
        chances=_chances(field(row, "chances", list, where, []), len(object_ids), where),
        region_ids=texts(field(row, "region_ids", list, where, []), f"{where}: region_ids"),
    )


def _chances(row: list[Any], num_objects: int, where: str) -> tuple[float, ...]:
    chances = numbers(row, len(row), f"{where}: chances")
    if row and (len(row) not in (2, num_objects + 1) or min(chances) < 0 or abs(sum(chances) - 1) > 1e-3):
        expected = f"one for each of its {num_objects} objects and one for none, or two, yes and no, which add up to 1"
        raise GrandError(f"{where}: chances are {shown(row)}, expected probabilities, {expected}", "bad number")
    return chances


def load_replies(path: str | Path, rejects: Rejects | None = None) -> list[Reply]:
    """Read a replies file (JSON lines).

    Raises:
        GrandError: Naming file and line; also for a second reply to a sample, unless ``rejects`` skips it: the first counts.
    """
    seen: set[str] = set()

    def new_reply(row: Any) -> Reply:
        reply = reply_from_dict(row)
        if reply.sample_id in seen:
            raise GrandError(
                f"a second reply to sample {shown(reply.sample_id)}, expected one; the first one counts", "second reply"
            )
        seen.add(reply.sample_id)
        return reply

    return list(read_jsonl(path, new_reply, rejects))


def save_replies(path: str | Path, replies: Iterable[Reply]) -> int:
    """Write a replies file at once; returns the number of replies."""
    return write_jsonl(path, (reply_to_dict(reply) for reply in replies))


@dataclass(frozen=True, slots=True)
class Data:
    """A data folder: ``scenes.jsonl`` (what the prompt shows), ``samples.jsonl``, and, where the prompt shows a
    detector's proposals, ``truth.jsonl`` (the true objects; ``target_ids`` are then in its id space)."""

    scenes: Mapping[str, Scene]
    samples: Sequence[Sample]
    truth: Mapping[str, Scene] | None = None


Inspect = Callable[[Sample, Scene, Scene | None], Iterable[tuple[str, str]]]
"""(sample, scene, its true objects) -> faults, each with its cause and what a message says."""

FILES = ("scenes.jsonl", "samples.jsonl", "truth.jsonl")


def load_data(
    folder: str | Path, rejects: Rejects | None = None, inspect: Inspect | None = None, all_faults: bool = False
) -> Data:
    """Read a data folder and check that samples, scenes and targets fit together.

    Args:
        inspect: What else may be wrong with a sample.
        all_faults: Collect every fault of a sample. By default the first one counts, so that rejects are rows.

    Raises:
        GrandError: If a file is missing or broken, a sample names an unknown scene, or a target is not in its scene, or for
            what ``inspect`` finds. With ``rejects`` such rows are left out and collected instead.
    """
    folder = Path(folder)
    if not os.path.isdir(folder):
        what = "is a file, no data folder" if os.path.exists(folder) else "no such data folder"
        raise GrandError(f"{place(folder)}: {what}, expected a data folder, which holds scenes.jsonl and samples.jsonl")
    rejects = rejects if rejects is not None else Rejects()
    scenes, lost = split_scenes(folder / "scenes.jsonl", rejects)
    truth = None
    if (folder / "truth.jsonl").exists():
        truth, lost_truth = split_scenes(folder / "truth.jsonl", rejects)
        lost |= lost_truth
    answers = scenes if truth is None else truth
    ids = {scene_id: set(scene.object_ids) for scene_id, scene in answers.items()}
    samples = []
    for where, sample in _numbered_samples(folder / "samples.jsonl", rejects):
        faults: list[tuple[str, str]] = []
        absent = [i for i in sample.target_ids if i not in ids.get(sample.scene_id, ())]
        if sample.scene_id in lost:
            faults.append(("its scene was rejected", f"scene {shown(sample.scene_id)} was rejected"))
        elif sample.scene_id not in scenes:
            faults.append(_unknown_scene(sample.scene_id, scenes, "scenes.jsonl"))
        elif sample.scene_id not in answers:
            reason = (
                f"scene {shown(sample.scene_id)} is not in truth.jsonl, expected there with the true objects that targets name"
            )
            faults.append(("scene without truth", f"{reason}; add it, or remove truth.jsonl if targets are ids of scenes.jsonl"))
        elif absent:
            known = f"the {len(ids[sample.scene_id])} {answers[sample.scene_id].id_space} ids of scene {shown(sample.scene_id)}"
            faults.append(("unknown target", f"unknown target: {absent[:3]} not among {known}"))
        elif answers[sample.scene_id].frame != scenes[sample.scene_id].frame:
            frames = f"scenes.jsonl has scene {shown(sample.scene_id)} in the frame {scenes[sample.scene_id].frame!r}"
            reason = f"{frames}, truth.jsonl in {answers[sample.scene_id].frame!r}, expected the same; convert both alike"
            faults.append(("frames differ", reason))
        if inspect is not None and sample.scene_id in scenes and sample.scene_id in answers:
            faults += inspect(sample, scenes[sample.scene_id], truth[sample.scene_id] if truth is not None else None)
        for cause, text in faults if all_faults else faults[:1]:
            rejects.add(where, f"sample {shown(sample.sample_id)}: {text}", sample_to_dict(sample), cause)
        if not faults:
            samples.append(sample)
    return Data(scenes, tuple(samples), truth)


def _unknown_scene(scene_id: str, scenes: Mapping[str, Scene], file: str) -> tuple[str, str]:
    return "unknown scene", f"unknown scene: {shown(scene_id)}, expected one of the {len(scenes)} that {file} holds whole"


def save_data(folder: str | Path, data: Data, force: bool = True) -> bool:
    """Write a data folder; a ``truth.jsonl`` of earlier data goes when these have none.

    Args:
        force: False leaves a folder alone that holds anything but (a part of) these very data.

    Returns:
        Whether something was written: False if all was there already.

    Raises:
        GrandError: If the folder cannot be written, or without ``force`` holds something else.
    """
    folder = Path(folder)
    content = {
        "scenes.jsonl": json_lines(map(scene_to_dict, data.scenes.values())),
        "samples.jsonl": json_lines(map(sample_to_dict, data.samples)),
    }
    if data.truth is not None:
        content["truth.jsonl"] = json_lines(map(scene_to_dict, data.truth.values()))
    there = set() if force else _same_files(folder, content)
    for name, text in content.items():
        if name not in there:
            write_text(folder / name, text)
    if data.truth is None and force:
        (folder / "truth.jsonl").unlink(missing_ok=True)
    return there != content.keys()


def _same_files(folder: Path, content: Mapping[str, str]) -> set[str]:
    """The files of a data folder that hold these texts already.

    Raises:
        GrandError: If one of its files holds another text, or the folder holds other files only.
    """
    try:
        names = os.listdir(folder) if os.path.lexists(folder) else []
    except OSError as error:
        raise unusable(folder, error, "written") from None
    there = [name for name in FILES if name in names]
    other = [name for name in there if name not in content or read_bytes(folder / name) != content[name].encode()]
    if other or (names and not there):
        seen = ", ".join(sorted(other or names)[:3])
        reason = f"holds something else ({seen}); name another folder, or write there all the same with --force"
        raise GrandError(f"{place(folder)}: {reason}")
    return set(there)
