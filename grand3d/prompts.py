"""What is asked and what is learnt, one function a task. The wording is ours; every word costs tokens in every question.

Ids are ``obj_k`` here: the k-th object of the scene text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from grand3d.errors import GrandError
from grand3d.files import read_text
from grand3d.markup import EXPRESSION, PLACE, PLACE_END, map_ids, parse, plain, reference_reply, span
from grand3d.sample import Sample
from grand3d.schema import PromptConfig
from grand3d.serial import SceneText

SYSTEM = "You answer questions about a room, given as a list of its objects. Name objects as <p>words</p>[<obj_id>]."


SCENE_END = "\n"
"""Stands between the scene text and the first question; the last part of the shared prefix."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer; None where the model is to answer."""

    question: str
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation over one scene.

    The scene text stands at the start of the first user message, before its question, so that all questions about a scene
    share their beginning.
    """

    system: str
    scene: str
    turns: tuple[Turn, ...]


def messages(dialogue: Dialogue) -> list[dict[str, str]]:
    """A conversation as chat messages: the system prompt, then questions and answers; the scene opens the first question.

    A chat template makes of these the very text that training here learns.
    """
    out = [{"role": "system", "content": dialogue.system}] if dialogue.system else []
    for number, turn in enumerate(dialogue.turns):
        out.append({"role": "user", "content": dialogue.scene + SCENE_END + turn.question if number == 0 else turn.question})
        if turn.answer is not None:
            out.append({"role": "assistant", "content": turn.answer})
    return out


def dialogue(sample: Sample, scene_text: SceneText, prompt: PromptConfig, with_answer: bool) -> Dialogue:
    """The conversation of one sample.

    Args:
        sample: Its ids are those of the scene behind ``scene_text``; ids that are not in the text leave empty lists.
        with_answer: True for training: the turn carries the answer to be learnt.

    Raises:
        GrandError: With ``with_answer``, if a target is not in the scene text or there is no answer to learn; always, if the
            object to be described is not in the scene text, or the system prompt's file cannot be read.
    """
    mapping = prompt_ids(scene_text)
    if with_answer:
        _need_targets(sample, mapping)
    question, answer = _TASKS[sample.task](sample, scene_text, mapping, prompt, with_answer)
    return Dialogue(system_text(prompt), scene_text.text, (Turn(question, answer if with_answer else None),))


def chat_dialogue(history: Sequence[Turn], question: str, scene_text: SceneText, prompt: PromptConfig) -> Dialogue:
    """A conversation that goes on: the turns so far, then a question to be answered. Texts are used as they are."""
    return Dialogue(system_text(prompt), scene_text.text, (*history, Turn(question)))


def system_text(prompt: PromptConfig) -> str:
    """The built-in system prompt, or the text of the file that ``prompt.system`` names (an empty file: none).

    The file is read once: a run has one system prompt, even if the file is edited meanwhile.

    Raises:
        GrandError: If that file cannot be read.
    """
    return SYSTEM if prompt.system is None else _read_system(prompt.system)


@lru_cache(maxsize=8)
def _read_system(path: str) -> str:
    return read_text(path).strip()


def prompt_ids(scene_text: SceneText) -> dict[str, str]:
    """``{object id: obj_k}`` and ``{region id: region_k}``; a merged duplicate has the ``obj_k`` of what stands for it."""
    mapping = {item: f"region_{k}" for k, item in enumerate(scene_text.region_ids)}
    mapping.update((item, f"obj_{k}") for k, item in enumerate(scene_text.object_ids))
    mapping.update((item, mapping[kept]) for item, kept in scene_text.same.items() if kept in mapping)
    return mapping


def reference_question(expression: str, prompt: PromptConfig) -> str:
    """The question that asks what an expression refers to; markup in the expression is removed."""
    return f"Ground these sentences: {EXPRESSION}{plain(expression).strip()}{prompt.refer_close}"


def _need_targets(sample: Sample, mapping: Mapping[str, str]) -> None:
    absent = [item for item in sample.target_ids if item not in mapping]
    if absent:
        raise GrandError(
            f"sample {sample.sample_id!r}: the targets {absent[:5]} are not among the {len(mapping)} objects of the scene text; "
            "was it written without keep=target_ids, or do they belong to another id space?",
            "target not in the prompt",
        )


def _need_answer(sample: Sample) -> str:
    if not sample.answer.strip():
        raise GrandError(
            f"sample {sample.sample_id!r}: a {sample.task} sample without an answer cannot be learnt from, expected one",
            "no answer",
        )
    return sample.answer.strip()


def _ask_reference(
    sample: Sample, scene_text: SceneText, mapping: Mapping[str, str], prompt: PromptConfig, with_answer: bool
) -> tuple[str, str]:
    question = reference_question(sample.text, prompt)
    if not with_answer:
        return question, ""
    targets = _known(sample.target_ids, mapping)
    label = plain(_target_label(sample, scene_text, targets)).strip() or "object"
    spans = [item for item in parse(sample.text).spans if item.phrase.strip()]
    detailed = [(plain(item.phrase).strip(), _known(item.ids, mapping)) for item in spans] or [(label, targets)]
    return question, reference_reply(detailed, label, targets, prompt.grounding)


def _known(ids: Sequence[str], mapping: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted({mapping[item] for item in ids if item in mapping}, key=_number))


def _number(prompt_id: str) -> tuple[str, int]:
    """Ids of a list stand in the order of the scene text: one way to write a set is learnt, the one that grammars allow."""
    kind, _, number = prompt_id.rpartition("_")
    return kind, int(number)  # objects before regions, as it happens by the alphabet too


def _target_label(sample: Sample, scene_text: SceneText, targets: Sequence[str]) -> str:
    """What the answer block calls the target: ``meta["label"]``, its label in the scene text, or a phrase that carries it."""
    label = sample.meta.get("label")
    if isinstance(label, str) and label.strip():
        return label
    if targets and scene_text.labels:
        return scene_text.labels[int(targets[0].removeprefix("obj_"))]
    spans = [item for item in parse(sample.text).spans if item.phrase.strip()]
    for item in spans:
        if set(item.ids) & set(sample.target_ids):
            return item.phrase
    return spans[0].phrase if spans else plain(sample.text)


def _ask_description(
    sample: Sample, scene_text: SceneText, mapping: Mapping[str, str], prompt: PromptConfig, with_answer: bool
) -> tuple[str, str]:
    _need_targets(sample, mapping)
    named = _known(sample.target_ids, mapping)
    if not named:
        raise GrandError(f"sample {sample.sample_id!r}: a description needs a target to describe", "nothing to describe")
    question = f"Describe {span('', named)} so that no other object fits."
    return question, _mapped(_need_answer(sample), mapping) if with_answer else ""


def _ask_existence(
    sample: Sample, scene_text: SceneText, mapping: Mapping[str, str], prompt: PromptConfig, with_answer: bool
) -> tuple[str, str]:
    question = _mapped(sample.text.strip(), mapping)
    if not with_answer:
        return question, ""
    answer = plain(_need_answer(sample)).strip()
    word = answer.partition(" ")[0].strip(".,;:!").capitalize()
    if word not in ("Yes", "No"):
        raise GrandError(
            f"sample {sample.sample_id!r}: the answer to an existence question is {answer!r}, expected Yes or No", "no yes or no"
        )
    return question, word


def _ask_question(
    sample: Sample, scene_text: SceneText, mapping: Mapping[str, str], prompt: PromptConfig, with_answer: bool
) -> tuple[str, str]:
    return _mapped(sample.text.strip(), mapping), _mapped(_need_answer(sample), mapping) if with_answer else ""


def _ask_scene_description(
    sample: Sample, scene_text: SceneText, mapping: Mapping[str, str], prompt: PromptConfig, with_answer: bool
) -> tuple[str, str]:
    question = _mapped(sample.text.strip(), mapping) or "Describe this room."
    return question, _mapped(_need_answer(sample), mapping) if with_answer else ""


def _ask_plan(
    sample: Sample, scene_text: SceneText, mapping: Mapping[str, str], prompt: PromptConfig, with_answer: bool
) -> tuple[str, str]:
    todo, steps = plain(sample.text).strip(), sample.meta.get("steps", ())
    if sample.meta.get("given") and steps:
        listed = " ".join(f"{number}. {plain(str(step)).strip()}" for number, step in enumerate(steps, 1))
        question = f"Repeat the steps of this task and name the object of each: {todo} {listed}"
    else:
        question = f"Plan the steps of this task and name the object of each: {todo}"
    return question, _mapped(_need_answer(sample), mapping) if with_answer else ""


def _ask_placement(
    sample: Sample, scene_text: SceneText, mapping: Mapping[str, str], prompt: PromptConfig, with_answer: bool
) -> tuple[str, str]:
    seen = ""
    if sample.viewpoint is not None:
        (x, y, _), (to_x, to_y, _) = sample.viewpoint
        length = math.hypot(to_x - x, to_y - y) or 1.0
        seen = f"Seen along ({(to_x - x) / length:.2f}, {(to_y - y) / length:.2f}): "
    question = f"{seen}{_mapped(sample.text.strip(), mapping)} Give the place in metres as {PLACE}x, y, z{PLACE_END}."
    return question, _mapped(_need_answer(sample), mapping) if with_answer else ""


def _mapped(text: str, mapping: Mapping[str, str]) -> str:
    return map_ids(text, mapping.get, _number)[0]


_Ask = Callable[[Sample, SceneText, Mapping[str, str], PromptConfig, bool], tuple[str, str]]
_TASKS: dict[str, _Ask] = {
    "object_reference": _ask_reference,
    "object_description": _ask_description,
    "existence": _ask_existence,
    "counting": _ask_question,
    "question": _ask_question,
    "scene_description": _ask_scene_description,
    "plan": _ask_plan,
    "placement": _ask_placement,
}
