"""Checked samples of every kind about a scene, from templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from grand3d.annotate import hierarchy, templates
from grand3d.annotate.facts import Facts
from grand3d.annotate.kinds import ALL_KINDS, Draft, as_sample, keep
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.sample import Sample

TRIES = 6  # drafts of a kind for one sample, before there is none
MAKERS: Mapping[str, Callable[[Facts, Random], Draft | None]] = {**templates.MAKERS, **hierarchy.MAKERS}


def make_texts(facts: Facts, kind: str, number: int, seed: int = 0, rejects: Rejects | None = None) -> list[Sample]:
    """Checked samples of one kind about a scene, no two alike; fewer where there is little to say.

    Args:
        kind: One of ALL_KINDS.
        rejects: Where drafts go that the filter does not let through; None raises at the first.

    Raises:
        GrandError: For another kind.
    """
    if kind not in MAKERS:
        raise GrandError(f"the kind is {kind!r}, expected one of {', '.join(MAKERS)}")
    rng = Random(f"annotate {seed} {facts.scene.scene_id} {kind}")
    rejects = rejects if rejects is not None else Rejects()
    samples: list[Sample] = []
    said: set[tuple[str, str]] = set()
    for _ in range(TRIES * number):
        if len(samples) == number:
            break
        draft = MAKERS[kind](facts, rng)
        if draft is None or (draft.question, draft.answer) in said:
            continue
        said.add((draft.question, draft.answer))
        sample = as_sample(draft, ALL_KINDS[kind], facts.scene.scene_id, f"{facts.scene.scene_id}_{kind}_{len(samples)}")
        if keep(draft, sample, facts, rejects):
            samples.append(sample)
    return samples
