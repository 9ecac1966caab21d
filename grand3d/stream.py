"""Which questions are learnt in which order, and their encoding: the deterministic stream of training packs.

A group is one scene with up to ``questions_per_scene`` of its questions. The stream is an endless list of groups; epochs follow
each other without a gap, so a step may take the end of one and the start of the next, no group is dropped, and all processes
have equally many. Group ``i`` depends on configuration and data only, never on what was read before.

Data folders and stores: every epoch shuffles the questions of each scene, cuts them into groups and shuffles the groups, by
``train.seed`` (``mixture.lay_out``). Samples and scenes are read when their group is.
Generated data: group ``i`` is scene ``i % num_scenes`` of ``data.synth.seed``, whatever ``train.seed`` is; every epoch repeats
the same groups in the same order.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.markup import parse
from grand3d.mixture import Epoch, Part, lay_out, split_of
from grand3d.places import redrawn
from grand3d.prompts import dialogue, prompt_ids
from grand3d.sample import Data, Sample, sample_to_dict
from grand3d.scene import Scene, scene_to_dict
from grand3d.schema import Config, PromptConfig, Source
from grand3d.serial import SceneText, fit_scene
from grand3d.store import fingerprint, open_data, scenes_and_tasks
from grand3d.synth import make_scene
from grand3d.tokens import Encoded, counter, encode, scene_budget

NUM_PROBED = 1000
"""Groups looked at for one that can be learnt from, before a run begins."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The groups of a run, by number.

    Attributes:
        group: Number -> scene and its questions; any number >= 0.
        num_groups: Groups of one epoch.
        num_samples: Samples of one epoch (at most, for generated data).
        fingerprint: Short hash of the data.
    """

    group: Callable[[int], tuple[Scene, Sequence[Sample]]]
    num_groups: int
    num_samples: int
    fingerprint: str


class Tally:
    """What was left out so far on this process.

    Attributes:
        rejects: Samples that cannot be learnt from; raises at the first unless it skips bad rows.
        num_dropped: Objects that top_k or the token budget kept out of the scene texts, summed over the groups.
        num_empty: Phrases of expressions whose objects are all not shown, so that they are learnt as ``[]``; summed likewise.
    """

    def __init__(self, rejects: Rejects | None = None) -> None:
        self.rejects = rejects if rejects is not None else Rejects()
        self.num_dropped = 0
        self.num_empty = 0
        self._refused: set[tuple[str, str]] = set()

    def refuse(self, sample: Sample, reason: str, cause: str = "") -> None:
        """Refuse a sample; one that comes again in a later epoch is counted once.

        Args:
            cause: What such samples are counted by; by default the reason up to its first colon.

        Raises:
            GrandError: Naming the sample, unless bad rows are skipped.
        """
        key = (sample.scene_id, sample.sample_id)
        if key not in self._refused:
            where = f"sample {sample.sample_id!r}"
            self.rejects.add(where, reason.removeprefix(f"{where}: "), sample_to_dict(sample), cause)
        self._refused.add(key)


def open_stream(config: Config, rejects: Rejects | None = None) -> Stream:
    """The stream of ``config.data``.

    Raises:
        GrandError: If no data is configured, or a folder cannot be read, holds no sample or has targets that its prompts do
            not show (``truth.jsonl``), or the weights leave an epoch without a sample.
    """
    if config.data.synth is not None:
        return _synth_stream(config)
    if not config.data.train:
        raise GrandError("data.train is empty and data.synth is not set: there is nothing to learn from")
    return _folder_stream(config, rejects)


def _synth_stream(config: Config) -> Stream:
    synth, questions = config.data.synth, config.data.questions_per_scene

    def group(number: int) -> tuple[Scene, list[Sample]]:
        return make_scene(synth.seed, number % synth.num_scenes, questions, none_or_several=synth.none_or_several)

    scene, samples = group(0)
    first = json.dumps([scene_to_dict(scene), [sample_to_dict(sample) for sample in samples]], sort_keys=True)
    return Stream(group, synth.num_scenes, synth.num_scenes * questions, _hash(first.encode()))


def _folder_stream(config: Config, rejects: Rejects | None) -> Stream:
    opened = [_open_source(source, rejects) for source in config.data.train]
    parts, names = zip(*(_part(source, data) for source, data in zip(config.data.train, opened, strict=True)), strict=True)
    sizes = None
    if config.data.curriculum:
        sizes = [np.array([len(data.scenes[name].objects) for name in ids]) for data, ids in zip(opened, names, strict=True)]

    @lru_cache(maxsize=2)
    def epoch(number: int) -> Epoch:
        seed = (config.train.seed, number)
        return lay_out(parts, config.data.questions_per_scene, seed, sizes if number == 0 else None)

    # an epoch's number of groups varies when weights take random parts, so epochs are laid end to end by counting
    starts = [0]

    def group(number: int) -> tuple[Scene, list[Sample]]:
        while starts[-1] <= number:
            starts.append(starts[-1] + len(epoch(len(starts) - 1)))
        last = next(i for i in range(len(starts) - 1, -1, -1) if starts[i] <= number)
        source, rows = epoch(last).group(number - starts[last])
        samples = [opened[source].samples[k] for k in rows.tolist()]
        if config.data.redraw_places:
            rng = random.Random(f"{config.train.seed} places {number}")
            samples = [redrawn(sample, rng) for sample in samples]
        return opened[source].scenes[samples[0].scene_id], samples

    size = len(epoch(0))
    mean = sum((part.scenes >= 0).sum() * part.weight for part in parts)
    if size == 0 or mean < 1:  # laying epochs end to end would find no group, or hardly ever one
        weights = ", ".join(f"{source.path}: {source.weight}" for source in config.data.train)
        raise GrandError(f"data.train: an epoch takes {mean:.3g} samples, none for most; raise the weights ({weights})")
    prints = "".join(fingerprint(source.path) for source in config.data.train)
    return Stream(group, size, len(epoch(0).rows), _hash(prints.encode()))


def _open_source(source: Source, rejects: Rejects | None) -> Data:
    data = open_data(source.path, rejects)
    if data.truth is not None:
        raise GrandError(
            f"{source.path}: holds truth.jsonl, so its target ids are those of the true objects while its prompts show a "
            "detector's proposals; the same id is another object there, and a run would learn wrong answers. Such a folder "
            "is for evaluation; to learn from it, write samples whose target_ids are ids of scenes.jsonl, without truth.jsonl"
        )
    if not len(data.samples):
        left_out = _named(rejects.counts() if rejects is not None else {})
        raise GrandError(f"{source.path}: holds no sample to learn from{left_out}")
    return data


def _part(source: Source, data: Data) -> tuple[Part, list[str]]:
    """A source as numbers, and the ids of its scenes by their number.

    Raises:
        GrandError: If its limits name a task that no sample is of, or its split holds no sample.
    """
    codes: dict[str, int] = {}
    tasks: dict[str, int] = {}
    rows = [(codes.setdefault(s, len(codes)), tasks.setdefault(t, len(tasks))) for s, t in scenes_and_tasks(data.samples)]
    scenes, kinds = np.array(rows, np.int64).reshape(-1, 2).T
    if source.split is not None:
        inside = np.array([split_of(name) == source.split for name in codes])
        scenes = np.where(inside[scenes], scenes, -1)
        if not inside.any():
            raise GrandError(
                f"{source.path}: none of its {len(codes)} scenes is in the split {source.split}, expected at least one"
            )
    unknown = [task for task in source.limits if task not in tasks]
    if unknown:
        raise GrandError(f"{source.path}: limits names {unknown[0]!r}, expected tasks that it holds: {', '.join(sorted(tasks))}")
    limits = {tasks[task]: limit for task, limit in source.limits.items()}
    return Part(scenes, source.weight, kinds, limits), list(codes)


def refuse_useless(stream: Stream, tokenizer: Any, prompt: PromptConfig, rejects: Rejects) -> None:
    """Refuse data of which nothing can be learnt: a run over them would go through all its steps with a loss of 0.

    Args:
        rejects: Rows left out so far; not added to.

    Raises:
        GrandError: If nothing of the first groups can be used, with counts by cause; without skipping, for a first bad sample.
    """
    tally, num = Tally(Rejects(rejects.skip_bad)), min(stream.num_groups, NUM_PROBED)
    for number in range(num):
        if encode_group(tokenizer, *stream.group(number), prompt, tally):
            return
    counts = Counter(rejects.counts()) + Counter(tally.rejects.counts())
    first = "".join(f"; the first: {row['where']}: {row['reason']}" for row in tally.rejects.rows[:1])
    raise GrandError(
        f"the training data hold nothing to learn from: no sample of the first {num} of {stream.num_groups} groups can be used"
        f"{_named(dict(counts.most_common()))}{first}"
    )


def _named(counts: dict[str, int]) -> str:
    return "; left out: " + ", ".join(f"{count} x {cause}" for cause, count in counts.items()) if counts else ""


def encode_group(tokenizer: Any, scene: Scene, samples: Sequence[Sample], prompt: PromptConfig, tally: Tally) -> list[Encoded]:
    """Encode the questions of a group behind one scene text.

    Proposals are dropped, lowest score first and never a target or an object an answer names, until every question fits
    ``prompt.max_tokens``.

    Args:
        tally: Counts what is left out, and takes samples that cannot be learnt from (also those whose answer names an object
            that the scene does not have) or do not fit even so.

    Raises:
        GrandError: Naming such a sample, unless bad rows are skipped.
    """
    known = set(scene.object_ids)
    rest, needed = [], {}
    for sample in samples:
        named = {item for span in parse(sample.answer).spans for item in span.ids}
        if absent := sorted(named - known):
            reason = f"unknown id in the answer: {absent[:3]} not among the {len(known)} ids of scene {scene.scene_id!r}"
            tally.refuse(sample, reason, "unknown id in the answer")
        else:
            rest.append(sample)
            needed[sample.sample_id] = named | (known & set(sample.target_ids))

    count = counter(tokenizer)

    def fit(budget: int | None) -> tuple[SceneText, list[Encoded]]:
        keep = {item for sample in rest for item in needed[sample.sample_id]}
        text = fit_scene(scene, prompt.serializer, prompt.top_k, budget, count, keep, prompt.merge_overlap)
        encoded = []
        for sample in list(rest):
            try:
                encoded.append(encode(tokenizer, dialogue(sample, text, prompt, with_answer=True)))
            except GrandError as error:
                tally.refuse(sample, str(error), error.cause)
                rest.remove(sample)
        return text, encoded

    while True:
        text, encoded = fit(None)
        longest = max(map(len, encoded), default=0)
        if longest > prompt.max_tokens:
            with contextlib.suppress(GrandError):  # even the targets alone exceed the budget
                text, encoded = fit(scene_budget(count, text.text, longest, prompt.max_tokens))
            longest = max(map(len, encoded), default=0)
        if longest <= prompt.max_tokens:
            tally.num_dropped += text.num_dropped
            tally.num_empty += _num_empty(rest, text)
            return encoded
        worst = rest.pop([len(item) for item in encoded].index(longest))
        reason = f"too long: {longest} tokens, prompt.max_tokens is {prompt.max_tokens}, and leaving out every object of scene "
        tally.refuse(worst, f"{reason}{scene.scene_id!r} that is no target does not help")


def _num_empty(samples: Sequence[Sample], text: SceneText) -> int:
    shown = prompt_ids(text)
    spans = [span for sample in samples for span in parse(sample.text).spans]
    return sum(bool(span.ids) and not any(item in shown for item in span.ids) for span in spans)


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]
