"""Samples to replies: prompts that fit the context, asked scene by scene."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from grand3d.decoding import Decoding
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.generate.agree import agree
from grand3d.generate.decode import Contrast, Times, choose, generate, prompt_limit
from grand3d.generate.growing import Ids
from grand3d.generate.guide import Grammar
from grand3d.generate.weigh import Choice
from grand3d.grammar import KINDS, Columns, reply_grammar
from grand3d.marks import ANSWER, ANSWER_END, PHRASE_END
from grand3d.placement import free_columns
from grand3d.prompts import dialogue
from grand3d.sample import Data, Reply, Sample, sample_to_dict
from grand3d.scene import Scene
from grand3d.schema import PromptConfig
from grand3d.serial import SceneText, fit_scene, swap_boxes
from grand3d.tokens import Encoded, counter, encode, scene_budget, stop_ids

Row = tuple[Sample, SceneText, Encoded]
Free = dict[str, tuple[Columns, float]]
DECODING = Decoding()


def ask(
    model: Any,
    tokenizer: Any,
    prompt: PromptConfig,
    data: Data,
    samples: Sequence[Sample],
    decoding: Decoding = DECODING,
    rejects: Rejects | None = None,
    times: Times | None = None,
) -> Iterator[Reply]:
    """Replies to samples, scene by scene, in the order they are done.

    Raises:
        GrandError: If a sample does not fit the context, unless ``rejects`` collects it; if no prompt fits beside the reply.
    """
    limit = prompt_limit(model, prompt.max_tokens, decoding.max_new_tokens)
    by_scene: dict[str, list[Sample]] = {}
    for sample in samples:
        by_scene.setdefault(sample.scene_id, []).append(sample)
    for scene_id, questions in by_scene.items():
        given: dict[str, list[Reply]] = {}
        for order in range(decoding.orders):
            # a question that cannot be asked is refused once, over the first order
            collected = rejects if order == 0 else Rejects(skip_bad=True)
            asked = [sample for sample in questions if order == 0 or sample.sample_id in given]
            rows = encode_questions(tokenizer, data.scenes[scene_id], asked, prompt, limit, collected, order)
            for index, text, finished, chances in _answers(
                model, tokenizer, data.scenes[scene_id], rows, prompt, decoding, times
            ):
                sample, shown, _ = rows[index]
                given_by = (shown.object_ids, finished, shown.num_dropped, tuple(chances), shown.region_ids)
                reply = Reply(sample.sample_id, scene_id, text, *given_by)
                if decoding.orders == 1:
                    yield reply
                given.setdefault(sample.sample_id, []).append(reply)
        if decoding.orders > 1:
            for sample in questions:
                if sample.sample_id in given:
                    yield agree(sample.task, given[sample.sample_id])


def _answers(
    model: Any, tokenizer: Any, scene: Scene, rows: Sequence[Row], prompt: PromptConfig, decoding: Decoding, times: Times | None
) -> Iterator[tuple[int, str, bool, list[float]]]:
    requests = [encoded for _, _, encoded in rows]
    tokens, batch = decoding.max_new_tokens, decoding.batch_size
    grammars, contrast = None, None
    if decoding.constrained:
        free = _free(scene, rows) if decoding.free_places else None
        grammars = [
            task_grammar(sample.task, len(text.object_ids), prompt, len(text.region_ids), free) for sample, text, _ in rows
        ]
    if decoding.contrast:
        contrast = Contrast(_without_places(tokenizer, rows, prompt), decoding.contrast)
    if decoding.candidates:
        choices = [candidates(sample.task, len(text.object_ids), prompt.grounding) for sample, text, _ in rows]
        yield from choose(model, tokenizer, requests, choices, grammars, tokens, batch, times, contrast)
        return
    sampling = decoding.sampling
    for reply in generate(model, tokenizer, requests, tokens, batch, sampling, grammars=grammars, times=times, contrast=contrast):
        yield *reply, []


def _without_places(tokenizer: Any, rows: Sequence[Row], prompt: PromptConfig) -> dict[Ids, Ids]:
    """For each prefix the one in which the boxes are dealt out anew among the objects."""
    out: dict[Ids, Ids] = {}
    for sample, text, encoded in rows:
        prefix = tuple(encoded.prefix)
        if prefix not in out:
            swapped = replace(text, text=swap_boxes(text.text, prompt.serializer, sample.scene_id))
            out[prefix] = tuple(encode(tokenizer, dialogue(sample, swapped, prompt, with_answer=False)).prefix)
    return out


def _free(scene: Scene, rows: Sequence[Row]) -> Free | None:
    """Where each thing that is shown has room among the others, by its id in the prompt; None where nothing is to be placed."""
    shown = next((text.object_ids for sample, text, _ in rows if sample.task == "placement"), ())
    found = {}
    for k, name in enumerate(shown):
        thing = scene[name]
        found[f"obj_{k}"] = free_columns(thing, [item for item in scene.objects if item is not thing]), thing.centroid[2]
    return found or None


def task_grammar(task: str, num_objects: int, prompt: PromptConfig, num_regions: int = 0, free: Free | None = None) -> str:
    """The grammar of a reply to a task over so many objects and regions. References, steps and places name objects alone."""
    ids = [f"obj_{k}" for k in range(num_objects)]
    if KINDS[task] in ("text", "existence", "counting"):
        ids += [f"region_{k}" for k in range(num_regions)]
    return reply_grammar(KINDS[task], ids, prompt.grounding, free=free if task == "placement" else None)


def check_limits(model: Any, tokenizer: Any, prompt: PromptConfig, tasks: Collection[str], decoding: Decoding) -> None:
    """See that prompts and replies of these tasks have room, before any is made.

    Raises:
        GrandError: If they have not.
    """
    prompt_limit(model, prompt.max_tokens, decoding.max_new_tokens)
    for task in sorted(tasks) if decoding.constrained else ():
        num_words = model.get_output_embeddings().weight.shape[0]
        shortest = Grammar(task_grammar(task, 1, prompt), tokenizer, num_words, stop_ids(tokenizer)).shortest
        if shortest > decoding.max_new_tokens:
            raise GrandError(
                f"a reply to {task} takes {shortest} tokens at least, expected max_new_tokens of so many or more, seen "
                f"{decoding.max_new_tokens}; or ask without a grammar (--unconstrained)"
            )


def candidates(task: str, num_objects: int, grounding: str = "first") -> Choice | None:
    """What the answer of a task is chosen among: the objects and, last, none of them; yes and no; None for other tasks."""
    if task == "object_reference":
        ways = (*(f"<obj_{k}>]" for k in range(num_objects)), "]")
        return Choice((ANSWER, f"{PHRASE_END}["), ways, ANSWER_END, traced=grounding == "first")
    return Choice((), ("Yes", "No"), "") if task == "existence" else None


def encode_questions(
    tokenizer: Any,
    scene: Scene,
    samples: Sequence[Sample],
    prompt: PromptConfig,
    limit: int,
    rejects: Rejects | None = None,
    order: int = 0,
) -> list[Row]:
    """Questions about one scene, encoded in at most ``limit`` tokens each.

    All see the same scene text, but one that is too long for it: that one sees fewer proposals, those of highest score.
    ``order`` is that of ``fit_scene``.

    Raises:
        GrandError: If a sample cannot be asked or is too long even without proposals, unless ``rejects`` collects it.
    """
    rejects = rejects if rejects is not None else Rejects()
    described = {i for sample in samples if sample.task == "object_description" for i in sample.target_ids}
    keep = described & set(scene.object_ids)

    def fit(budget: int | None = None, count: Callable[[str], int] | None = None) -> SceneText:
        return fit_scene(scene, prompt.serializer, prompt.top_k, budget, count, keep, prompt.merge_overlap, order)

    whole = fit()
    rows = []
    for sample in samples:
        try:
            rows.append((sample, *_encode_one(tokenizer, sample, prompt, limit, whole, fit)))
        except GrandError as error:
            rejects.add(f"sample {sample.sample_id!r}", str(error), sample_to_dict(sample), error.cause)
    return rows


def _encode_one(
    tokenizer: Any, sample: Sample, prompt: PromptConfig, limit: int, whole: SceneText, fit: Callable[..., SceneText]
) -> tuple[SceneText, Encoded]:
    encoded = encode(tokenizer, dialogue(sample, whole, prompt, with_answer=False))
    if len(encoded) <= limit:
        return whole, encoded
    count = counter(tokenizer)
    beside = len(encoded) - count(whole.text)
    reason = (
        f"too long for the context: {beside} tokens of question and instructions, {len(encoded) - beside} of scene, and {limit} "
        "fit beside the reply; shorten the question or ask for a shorter reply"
    )
    if beside >= limit:
        raise GrandError(reason, "too long for the context")
    budget = scene_budget(count, whole.text, len(encoded), limit)
    text = fit(budget, count)
    encoded = encode(tokenizer, dialogue(sample, text, prompt, with_answer=False))
    if len(encoded) > limit:
        raise GrandError(reason, "too long for the context")
    return text, encoded
