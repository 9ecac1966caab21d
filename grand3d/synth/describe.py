"""Questions about a room and its proposals, with answers that are true by construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from grand3d import relations as rel
from grand3d.sample import Sample
from grand3d.scene import Object, Scene
from grand3d.synth import counted, exact, presence, speech
from grand3d.synth.view import View

WEIGHTS = {"object_reference": 0.70, "existence": 0.20, "counting": 0.05, "object_description": 0.05}
STRICT = 0.3  # share of references that a relation of the proposals alone decides
REPEAT = ("ceiling", "doorframe", "ceiling light", "light switch", "power outlet", "object", "vent", "light", "fire alarm")


def _viewpoint(rng: Random, bounds: rel.Bounds) -> tuple[float, float]:
    """Where a speaker stands: people say left and right mostly as seen from within the room, facing the wall behind the thing."""
    x0, y0, x1, y1 = bounds
    if rng.random() < 0.8:
        return (x0 + x1) / 2 + rng.gauss(0, 0.3), (y0 + y1) / 2 + rng.gauss(0, 0.3)
    along = rng.uniform(0.3, 0.7)
    return rng.choice(
        (
            (x0 + along * (x1 - x0), y0 - 0.5),
            (x0 + along * (x1 - x0), y1 + 0.5),
            (x0 - 0.5, y0 + along * (y1 - y0)),
            (x1 + 0.5, y0 + along * (y1 - y0)),
        )
    )


def targets(room: Scene, match: Mapping[str, str | None]) -> list[Object]:
    """True objects that can be asked for: those with a proposal, the shell of the room seldom."""
    return [o for o in room.objects if match[o.object_id] is not None]


def make_samples(
    room: Scene,
    proposals: Scene,
    match: Mapping[str, str | None],
    seed: int,
    count: int = 32,
    weights: Mapping[str, float] = WEIGHTS,
    strict: float = STRICT,
    none_or_several: float = 0.0,
) -> list[Sample]:
    """Samples about one room; every id is one of the proposals'.

    Args:
        match: ``{true id: proposal id or None}`` as ``detect.detect`` gives it.
        weights: Share of each task; tasks not named are not asked.
        strict: Share of references with a referent that the proposals alone decide; ``meta["strict"]`` says which.
        none_or_several: Share of references that fit nothing or several things, half each. Above 0, ``meta["targets"]`` of every
            reference says ``none``, ``one`` or ``several``, and ``meta["why"]`` of those to nothing ``absent`` (no such category)
            or ``relation`` (such things, but none that stands so).

    A room in which nothing can be asked for in some task gets more of the others.
    """
    rng = Random(f"describe {seed} {room.scene_id}")
    bounds = rel.room_bounds(room.objects)
    able = targets(room, match)
    seen = {o.object_id: o.score or 0.0 for o in proposals.objects}
    # People speak of what is plain to see, and so does a detector.
    chances = [(0.12 if o.category in REPEAT else 1.0) * (0.25 + seen[match[o.object_id] or ""] ** 2) for o in able]
    clean = exact.Exact(proposals)
    asked = presence.Presence(room, proposals)
    tasks = list(weights)
    samples: list[Sample] = []
    said: set[tuple[str, str, str]] = set()
    for _ in range(4 * count):
        if len(samples) == count:
            break
        task = rng.choices(tasks, [weights[t] for t in tasks])[0]
        sample_id = f"{room.scene_id}_{len(samples)}"
        sample = None
        if task == "existence":
            sample = asked.existence(rng, sample_id)
        elif task == "counting":
            sample = asked.counting(rng, sample_id)
        elif task == "object_description":
            sample = clean.description(rng, sample_id)
        elif task == "object_reference" and none_or_several and rng.random() < none_or_several:
            if rng.random() < 0.5:
                sample = counted.none_fits(clean, asked, rng, sample_id)
            else:
                sample = counted.several_fit(clean, rng, sample_id)
        elif task == "object_reference" and rng.random() < strict:
            sample = clean.reference(rng, sample_id)
        elif task == "object_reference" and able:
            target = rng.choices(able, chances)[0]
            view = View(rng, room.objects, match, bounds, _viewpoint(rng, bounds))
            sample = speech.reference(view, target, proposals, sample_id)
        key = None if sample is None else (task, sample.text, sample.answer)
        if sample is not None and key not in said:
            if none_or_several and task == "object_reference":
                sample = replace(sample, meta={"targets": "one"} | sample.meta)
            said.add(key)
            samples.append(sample)
    return samples
