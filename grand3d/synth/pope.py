"""3D-POPE's questions over any scenes: is there such a thing in the room? Absent things are asked for by three samplings.

Construction as in the paper of 3D-GRAND: as many absent labels as present ones in each scene. ``random`` draws them,
``popular`` takes those that the most scenes hold, ``adversarial`` for each present label the absent one that most often stands
in a room with it. Each question is asked by four templates.

The published files call absent what is there under a longer name ("office chair" makes no "chair"): here a label that a reader
may take for one of the room's things is neither present nor absent, and is not asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from random import Random

from grand3d.errors import GrandError
from grand3d.sample import Sample
from grand3d.scene import Scene
from grand3d.synth.presence import ASKED
from grand3d.synth.vocabulary import alike, plural

TYPES = ("random", "popular", "adversarial")


def pope_samples(
    scenes: Mapping[str, Scene],
    labels: Iterable[str] | None = None,
    seed: int = 0,
    statistics: Iterable[Scene] | None = None,
) -> tuple[list[Sample], dict[str, int]]:
    """Questions about every scene, in the order of the scenes.

    Args:
        scenes: Whose categories say what is there; true objects, or what is taken for them.
        labels: What may be asked for; None takes all categories of the scenes.
        seed: The same seed gives the same questions, whichever other scenes there are (but for what is frequent among them).
        statistics: Scenes that say what is frequent and what stands together, such as a training split; None takes ``scenes``.

    Returns:
        Samples of the task ``existence`` with ``meta`` ``type`` and ``template``, and counts: ``questions``, ``scenes_without``
        (scenes that hold no label asked for, or lack none), ``positives_left_out`` (present labels that no absent one was left
        for), ``unclear`` (pairs of a scene and a label that a reader may take for one of its things).

    Raises:
        GrandError: If nothing can be asked.
    """
    known = {scene_id: {_named(item.category) for item in scene.objects} for scene_id, scene in scenes.items()}
    counted = known.values() if statistics is None else [{_named(o.category) for o in scene.objects} for scene in statistics]
    asked = sorted(set(map(_named, labels)) if labels is not None else set().union(*known.values()))
    frequency = Counter(label for held in counted for label in held)
    together = Counter(pair for held in counted for pair in permutations(held, 2))
    samples: list[Sample] = []
    counts = dict.fromkeys(("questions", "scenes_without", "positives_left_out", "unclear"), 0)
    for scene_id, held in known.items():
        present = [label for label in asked if label in held]
        absent = [label for label in asked if label not in held and not any(alike(label, other) for other in held)]
        counts["unclear"] += len(asked) - len(present) - len(absent)
        if not present or not absent:
            counts["scenes_without"] += 1
            continue
        rng = Random(f"pope {seed} {scene_id}")
        rng.shuffle(present)
        kept = present[: len(absent)]
        counts["positives_left_out"] += len(TYPES) * (len(present) - len(kept))
        drawn = {
            "random": rng.sample(absent, len(kept)),
            "popular": sorted(absent, key=lambda label: -frequency[label])[: len(kept)],
            "adversarial": _adversarial(kept, absent, together, frequency),
        }
        for kind in TYPES:
            chosen = [*((label, "Yes") for label in kept), *((label, "No") for label in drawn[kind])]
            rng.shuffle(chosen)
            for number, template in enumerate(ASKED, 1):
                for k, (label, answer) in enumerate(chosen):
                    name = f"{scene_id}${kind}_template_{number}${k}"
                    meta = {"type": kind, "template": f"template_{number}", "label": label}
                    samples.append(Sample(name, scene_id, "existence", template.format(plural(label)), answer, meta=meta))
    counts["questions"] = len(samples)
    if not samples:
        raise GrandError(
            f"none of the {len(scenes)} scenes holds one of the {len(asked)} labels and lacks another, expected at least one"
        )
    return samples, counts


def _named(category: str) -> str:
    return " ".join(category.lower().replace("_", " ").split())


def _adversarial(
    present: Sequence[str], absent: Sequence[str], together: Mapping[tuple[str, str], int], frequency: Mapping[str, int]
) -> list[str]:
    """For each present label the absent, unused one that stands with it in the most rooms; of equals the most frequent."""
    left, out = list(absent), []
    for label in present:
        best = max(left, key=lambda other: (together.get((label, other), 0), frequency.get(other, 0), other))
        left.remove(best)
        out.append(best)
    return out
