"""The texts that people let through: of a data folder, what may be kept, and plans with their one wrong step put right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from grand3d.annotate.review.agreement import NO_VERDICT
from grand3d.annotate.review.desk import Desk, Vote
from grand3d.annotate.review.pages import step_words
from grand3d.annotate.review.study import KEEP, REVISE, STEPS, TRUE, WORK, Task
from grand3d.annotate.review.tally import judged, verdict
from grand3d.files import Rejects
from grand3d.markup import STEP, STEP_END, parse, plain, span
from grand3d.sample import Data, Sample, sample_to_dict
from grand3d.scene import Scene


def kept(desk: Desk, rejects: Rejects) -> Data:
    """The samples of a study of which every task has the verdict true, or keep; a plan with one wrong step as people revised it.

    Args:
        rejects: Where the others are noted, each by its first reason.
    """
    votes = judged(desk)
    tasks: dict[str, list[Task]] = {}
    for task in desk.study.tasks:
        if task.role == WORK:
            tasks.setdefault(task.sample_id, []).append(task)
    out = []
    for sample in desk.study.samples:
        own = tasks.get(sample.sample_id, [])
        found, reason = _decide(sample, own, votes, desk.study.scenes[sample.scene_id])
        if found is None:
            rejects.note(f"sample {sample.sample_id!r}", reason, sample_to_dict(sample), reason)
        else:
            out.append(found)
    return Data(desk.study.scenes, out)


def _decide(
    sample: Sample, tasks: Sequence[Task], votes: Mapping[str, Sequence[Vote]], scene: Scene
) -> tuple[Sample | None, str]:
    """A sample as it may be kept, or None and why not."""
    if not tasks:
        return None, "all its sentences have known answers"
    if any(task.task_id not in votes for task in tasks):
        return None, "not finished"
    for task in tasks:
        said = verdict(votes[task.task_id])
        match = REVISE.fullmatch(said)
        if match is not None:
            note = next((v for v in votes[task.task_id] if v.answer == said and (v.text or v.object_id)), None)
            revised = None if note is None else revise(sample, int(match[1]), note.text, note.object_id, scene)
            return (revised, "") if revised is not None else (None, "one step is wrong, and nobody put it right")
        if said not in (TRUE, KEEP):
            return None, said if said == NO_VERDICT else f"people say: {said}" + (
                f" ({task.check})" if task.check != STEPS else ""
            )
    return sample, ""


def revise(sample: Sample, number: int, text: str, object_id: str, scene: Scene) -> Sample | None:
    """A plan with one step put right; None where nothing is changed.

    A new object takes the place of the last one that the step names; a new text is followed by its object, as in SG3D.
    """
    steps = parse(sample.answer).steps
    step = steps[number - 1]
    last = step.spans[-1] if step.spans else None
    said = " ".join(plain(text).split())
    new_words = bool(said) and said != step_words(step.text)
    ids = (object_id,) if object_id else last.ids if last is not None else ()
    if not new_words and (not object_id or (last is not None and ids == last.ids)):
        return None
    names = {item.object_id: item.category for item in scene.objects}
    phrase = names.get(ids[0], "") if ids else ""
    if new_words or last is None:
        words = said if new_words else step_words(step.text)
        inner = f"{number}. {words} {span(phrase, ids) if ids else ''}".rstrip()
    else:
        start = step.start + len(STEP)
        inner = sample.answer[start : last.start] + span(phrase, ids) + sample.answer[last.end : step.end - len(STEP_END)]
    answer = f"{sample.answer[: step.start]}{STEP}{inner}{STEP_END}{sample.answer[step.end :]}"
    meta = dict(sample.meta)
    if isinstance(meta.get("steps"), list) and len(meta["steps"]) == len(steps) and new_words:
        meta["steps"] = [said if k == number else old for k, old in enumerate(meta["steps"], 1)]
    if isinstance(meta.get("step_ids"), list) and len(meta["step_ids"]) == len(steps) and object_id:
        meta["step_ids"] = [object_id if k == number else old for k, old in enumerate(meta["step_ids"], 1)]
    meta["revised_step"] = number
    targets = tuple(dict.fromkeys(i for item in parse(answer).spans for i in item.ids))
    return replace(sample, answer=answer, target_ids=targets if sample.target_ids else (), meta=meta)
