"""Data folders in the forms that other trainers read: chat messages, ShareGPT, and 3D-GRAND's conversations with graphs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from grand3d import markup
from grand3d.boxes import objects_bounds
from grand3d.errors import GrandError
from grand3d.files import Rejects, write_jsonl, write_text
from grand3d.prompts import Dialogue, dialogue, messages
from grand3d.sample import Data, Sample, sample_to_dict
from grand3d.scene import Object, Scene
from grand3d.schema import PromptConfig
from grand3d.serial import fit_scene


def dialogues(data: Data, prompt: PromptConfig, rejects: Rejects) -> Iterator[tuple[Sample, Dialogue]]:
    """The conversation that each sample is trained as; those that cannot be are refused, unless ``rejects`` collects them."""
    _refuse_truth(data)
    for sample in data.samples:
        try:
            keep = set(sample.target_ids)
            text = fit_scene(
                data.scenes[sample.scene_id], prompt.serializer, prompt.top_k, keep=keep, overlap=prompt.merge_overlap
            )
            said = dialogue(sample, text, prompt, with_answer=True)
        except GrandError as error:
            rejects.add(f"sample {sample.sample_id!r}", str(error), sample_to_dict(sample), error.cause)
            continue
        yield sample, said


def _refuse_truth(data: Data) -> None:
    if data.truth is not None:
        reason = "targets are among true objects and not among those shown, so that nothing can be learnt"
        raise GrandError(f"{reason}; expected data without truth.jsonl", "no targets")


def write_messages(path: Path, data: Data, prompt: PromptConfig, rejects: Rejects) -> int:
    """JSON lines ``{id, scene_id, messages: [{role, content}]}``: TRL, LLaMA-Factory, ``datasets``."""
    return write_jsonl(
        path,
        (
            {"id": sample.sample_id, "scene_id": sample.scene_id, "messages": messages(said)}
            for sample, said in dialogues(data, prompt, rejects)
        ),
    )


def write_sharegpt(path: Path, data: Data, prompt: PromptConfig, rejects: Rejects) -> int:
    """A JSON list ``[{id, scene_id, system, conversations: [{from: human | gpt, value}]}]``: LLaVA, FastChat, LLaMA-Factory."""
    speakers = {"user": "human", "assistant": "gpt"}

    def rows() -> Iterator[dict[str, Any]]:
        for sample, said in dialogues(data, prompt, rejects):
            turns = [
                {"from": speakers[entry["role"]], "value": entry["content"]}
                for entry in messages(said)
                if entry["role"] in speakers
            ]
            head = {"id": sample.sample_id, "scene_id": sample.scene_id}
            yield head | ({"system": said.system} if said.system else {}) | {"conversations": turns}

    return _write_list(path, rows())


def write_grand3d(path: Path, data: Data, prompt: PromptConfig, rejects: Rejects) -> int:
    """3D-GRAND's conversations, and beside them ``<name>.graphs.json`` with the scenes; ``convert grand3d`` reads both back.

    Ids are the objects' own (``12`` is ``obj_12``), so that ``prompt`` has no part in it.
    """

    _refuse_truth(data)

    def rows() -> Iterator[dict[str, Any]]:
        for sample in data.samples:
            try:
                question, answer = _grand3d_turns(sample, data.scenes[sample.scene_id])
            except GrandError as error:
                rejects.add(f"sample {sample.sample_id!r}", str(error), sample_to_dict(sample), error.cause)
                continue
            turns = [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]
            yield {"id": sample.sample_id, "scene_id": sample.scene_id, "conversations": turns}

    count = _write_list(path, rows())
    graphs = (f"{json.dumps(name)}: {json.dumps(_graph(scene), ensure_ascii=False)}" for name, scene in data.scenes.items())
    write_text(path.with_suffix(".graphs.json"), _between("{\n", graphs, "\n}\n"))
    return count


def _grand3d_turns(sample: Sample, scene: Scene) -> tuple[str, str]:
    text, answer = (markup.map_ids(words, _key)[0] for words in (sample.text, sample.answer))
    if sample.task == "object_description":
        raise GrandError("descriptions of an object have no question in 3D-GRAND's form, expected another task", "unknown task")
    if sample.task != "object_reference":
        if not answer.strip():
            raise GrandError("there is no answer to write, expected one", "no answer")
        return text, answer
    plain, keys = markup.plain(sample.text), [_key(item) for item in sample.target_ids]
    phrase = next((span.phrase for span in markup.parse(sample.text).spans if span.ids == sample.target_ids), None)
    if phrase is None:
        phrase = scene[sample.target_ids[0]].category if sample.target_ids else "it"
    detailed = markup.DETAILED + text + markup.DETAILED_END if text != plain else ""
    question = f"Ground these sentences: {markup.EXPRESSION}{plain}{markup.EXPRESSION_END}"
    return question, f"{detailed}{markup.ANSWER}{markup.span(phrase, keys)}{markup.ANSWER_END}"


def _key(object_id: str) -> str:
    return f"obj_{object_id}" if object_id.isdigit() else object_id


def _graph(scene: Scene) -> dict[str, dict[str, Any]]:
    return {_key(item.object_id): _entry(item) for item in scene.objects}


def _entry(item: Object) -> dict[str, Any]:
    low, high = objects_bounds([item])[0]  # of a rotated box, its hull: a graph knows no rotation
    centroid, extent = (item.centroid, item.extent) if item.rotation is None else ((low + high) / 2, high - low)
    entry: dict[str, Any] = {"category": item.category}
    entry |= {name: list(map(float, values)) for name, values in (("centroid", centroid), ("extent", extent))}
    if item.score is not None:
        entry["score"] = item.score
    if item.description is not None:
        entry["description"] = item.description
    return entry


def _write_list(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    count = 0

    def lines() -> Iterator[str]:
        nonlocal count
        for row in rows:
            count += 1
            yield json.dumps(row, ensure_ascii=False)

    write_text(path, _between("[\n", lines(), "\n]\n"))
    return count


def _between(head: str, parts: Iterable[str], tail: str) -> Iterator[str]:
    yield head
    for number, part in enumerate(parts):
        yield part if number == 0 else ",\n" + part
    yield tail


FORMS: dict[str, Callable[[Path, Data, PromptConfig, Rejects], int]] = {
    "messages": write_messages,
    "sharegpt": write_sharegpt,
    "grand3d": write_grand3d,
}
