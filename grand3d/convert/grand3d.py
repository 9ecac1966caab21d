"""3D-GRAND's own files: scene graphs, and ``conversations`` with ids as ``[<dining chair-2>]`` (these from documentation)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from grand3d import markup
from grand3d.convert.graphs import absent_scene, object_id_of, object_of, refuse_none_left, rows_of, split_graphs
from grand3d.errors import GrandError, place
from grand3d.files import Rejects, field, shown
from grand3d.sample import TASKS, Data, Sample
from grand3d.scene import Scene

INPUTS = {
    "graphs": "scene graphs {scene: {key: {centroid, extent, category, score}}}",
    "conversations": "rows {id, scene_id, conversations: [{from, value}, ...]}",
    "task": "task of the answers that are no object references (default: question)",
}


def convert(
    *,
    graphs: str | Path,
    conversations: str | Path | None = None,
    task: str = "question",
    rejects: Rejects | None = None,
) -> Data:
    """Read scene graphs and, where given, conversations about them. All scenes are kept.

    Every question with its answer is one sample: ``sample_id`` is the row's id, with ``#1``, ``#2``, ... behind it for the
    later pairs of a row; a pair does not see the pairs before it. A question with ``<refer_expression>`` becomes an
    ``object_reference``: its text is the detailed grounding of the answer where there is one, its targets are the row's
    ``referred_object_id`` or else the ids of the answer block.

    Raises:
        GrandError: If a file is broken or the task unknown. Rows with unknown scenes, ids that are not in the graph, or
            turns that do not alternate raise too, unless ``rejects`` collects them.
    """
    if task not in TASKS:
        raise GrandError(f"task is {shown(task)}, expected one of {', '.join(TASKS)}", "unknown task")
    rejects = rejects if rejects is not None else Rejects()
    scenes, rejected = split_graphs(graphs, "grand3d", rejects=rejects)
    samples: dict[str, Sample] = {}
    if conversations is not None:
        for index, row in enumerate(rows_of(conversations)):
            try:
                new = list(_samples(object_of(row), scenes, rejected, task))
                if any(sample.sample_id in samples for sample in new):
                    raise GrandError(f"id {shown(row['id'])} occurs twice, expected once", "id twice")
            except GrandError as error:
                rejects.add(f"{place(conversations)}: row {index}", str(error), row, error.cause)
                continue
            samples.update((sample.sample_id, sample) for sample in new)
        refuse_none_left(conversations, samples, rejects)
    return Data(scenes, tuple(samples.values()))


def _samples(row: dict[str, Any], scenes: dict[str, Scene], rejected: Collection[str], task: str) -> Iterator[Sample]:
    row_id, scene_id = field(row, "id", str, ""), field(row, "scene_id", str, "")
    if scene_id not in scenes:
        raise absent_scene(scene_id, rejected, "is not among the graphs")
    ids = set(scenes[scene_id].object_ids)
    for number, (question, answer) in enumerate(_pairs(field(row, "conversations", list, ""))):
        sample_id = row_id if number == 0 else f"{row_id}#{number}"
        question, answer = _own_ids(question, ids), _own_ids(answer, ids)
        if markup.EXPRESSION in question:
            yield _reference(sample_id, row, question, answer, ids)
        else:
            yield Sample(sample_id, scene_id, task, question, answer)


def _pairs(turns: list[Any]) -> Iterator[tuple[str, str]]:
    speakers = [turn.get("from") if isinstance(turn, dict) else None for turn in turns]
    if not turns or speakers != ["human", "gpt"] * (len(turns) // 2):
        raise GrandError(f"turns are from {shown(speakers)}, expected human and gpt in turn", "wrong turns")
    values = [field(turn, "value", str, "a turn").replace("<image>", "").strip() for turn in turns]
    yield from zip(values[::2], values[1::2], strict=True)


def _own_ids(text: str, ids: set[str]) -> str:
    """Text with graph keys turned into object ids."""
    text, unknown = markup.map_ids(text, lambda key: object_id_of(key) if object_id_of(key) in ids else None)
    if unknown:
        raise GrandError(f"ids {shown(unknown)} are not in the scene's graph", "unknown id")
    return text


def _reference(sample_id: str, row: dict[str, Any], question: str, answer: str, ids: set[str]) -> Sample:
    # The released demo closes the expression with a second opening tag, so both tags end it.
    expression = question.split(markup.EXPRESSION, 1)[1].split(markup.EXPRESSION_END)[0].split(markup.EXPRESSION)[0].strip()
    targets = _named_target(row, ids)
    if targets is None:
        targets = markup.answer_ids(markup.parse(answer))
    if targets is None:
        raise GrandError(f"no target: the answer {shown(answer)} has no answer block with ids", "no target")
    if markup.DETAILED in answer:
        grounded = answer.split(markup.DETAILED, 1)[1].split(markup.DETAILED_END)[0].strip()
        if markup.plain(grounded).split() == markup.plain(expression).split():
            expression = grounded
    return Sample(sample_id, row["scene_id"], "object_reference", expression, "", targets)


def _named_target(row: dict[str, Any], ids: set[str]) -> tuple[str, ...] | None:
    """The object that the row's own fields name: by its number, or by label and number as in ``desk-0``."""
    number = row.get("referred_object_id")
    if number is None:
        return None
    for key in (f"{row.get('referred_object_text')}-{number}", str(number)):
        if key in ids:
            return (key,)
    raise GrandError(f"referred_object_id {shown(number)} is not in the scene's graph", "unknown target")
