"""Synthetic rooms with questions: a way to train and test without any data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grand3d.errors import GrandError
from grand3d.sample import Data, Sample
from grand3d.scene import Scene
from grand3d.synth.describe import STRICT, WEIGHTS, make_samples
from grand3d.synth.detect import detect
from grand3d.synth.rooms import make_room

__all__ = ["STRICT", "WEIGHTS", "detect", "iter_data", "make_data", "make_room", "make_samples", "make_scene"]

MAX_QUESTIONS = 10_000
"""A room. It has a few dozen things to ask for: more questions are no more than other words for them."""

MOST_PROPOSALS = 100
"""A room, where their number is asked for."""

SEED_STRIDE = 1_000_003  # so that neighbouring seeds share no room


def make_scene(
    seed: int,
    index: int,
    questions_per_scene: int = 32,
    weights: Mapping[str, float] = WEIGHTS,
    strict: float = STRICT,
    none_or_several: float = 0.0,
    num_objects: int | None = None,
) -> tuple[Scene, list[Sample]]:
    """Scene number ``index`` of the data of ``seed``: its proposals and samples (see ``iter_data``).

    Raises:
        GrandError: For more than ``MAX_QUESTIONS``, or ``num_objects`` that are not 1 to ``MOST_PROPOSALS``.
    """
    if questions_per_scene > MAX_QUESTIONS:
        reason = f"expected at most {MAX_QUESTIONS:,}; a room has a few dozen things to ask for, more rooms have more"
        raise GrandError(f"questions a room: {questions_per_scene:,}, {reason}", "too many questions")
    if num_objects is not None and not 1 <= num_objects <= MOST_PROPOSALS:
        raise GrandError(f"objects a room: {num_objects:,}, expected 1 to {MOST_PROPOSALS}", "too many objects")
    number = seed * SEED_STRIDE + index
    room = make_room(number)
    proposals, match = detect(room, number, num_objects)
    least = num_objects or 0
    while len(proposals.objects) < (num_objects or 0):  # the detector misses some, so more must stand there
        room = make_room(number, least)
        proposals, match = detect(room, number, num_objects)
        least += 1 + least // 10
    return proposals, make_samples(room, proposals, match, number, questions_per_scene, weights, strict, none_or_several)


def iter_data(
    num_scenes: int,
    seed: int,
    questions_per_scene: int = 32,
    weights: Mapping[str, float] = WEIGHTS,
    strict: float = STRICT,
    none_or_several: float = 0.0,
    num_objects: int | None = None,
) -> Iterator[tuple[Scene, list[Sample]]]:
    """Scenes of proposals, each with its samples, one at a time; the same arguments give the same data.

    Args:
        questions_per_scene: Samples a scene; a few less in a room with little to ask about.
        weights: Share of each task.
        strict: Share of the references that the proposals alone decide.
        none_or_several: Share of the references that fit nothing or several things.
        num_objects: Proposals of every room, exactly; None for as many as real rooms have, 5 to 36.
    """
    for index in range(num_scenes):
        yield make_scene(seed, index, questions_per_scene, weights, strict, none_or_several, num_objects)


def make_data(
    num_scenes: int,
    seed: int,
    questions_per_scene: int = 32,
    weights: Mapping[str, float] = WEIGHTS,
    strict: float = STRICT,
    none_or_several: float = 0.0,
    num_objects: int | None = None,
) -> Data:
    """The same as one ``Data``: scenes are the proposals, and targets are in their id space."""
    scenes, samples = {}, []
    for scene, rows in iter_data(num_scenes, seed, questions_per_scene, weights, strict, none_or_several, num_objects):
        scenes[scene.scene_id] = scene
        samples.extend(rows)
    return Data(scenes, tuple(samples))
