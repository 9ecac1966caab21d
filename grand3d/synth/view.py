"""What a speaker sees and would name: the view of a room, and the anchors near a thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from grand3d import relations as rel
from grand3d.scene import Object
from grand3d.synth.phrases import Part, Phrase, looks, noun, spoken

SALIENT = (
    "table",
    "desk",
    "bed",
    "door",
    "window",
    "couch",
    "toilet",
    "sink",
    "whiteboard",
    "bookshelf",
    "cabinet",
    "counter",
    "tv",
    "monitor",
)
STRUCTURE = ("ceiling", "doorframe", "ceiling light", "light switch", "power outlet", "object", "vent", "mat", "rug", "carpet")


@dataclass(frozen=True, slots=True)
class Cue:
    """``parts`` follow "it is"; ``name`` is the predicate; ``rivals`` counts others of the category it also fits."""

    name: str
    parts: tuple[Part, ...]
    rivals: int


@dataclass(slots=True)
class View:
    """What a speaker sees: the objects, what stands for each in the prompt, the floor, and where the speaker stands."""

    rng: Random
    objects: Sequence[Object]
    stands: Mapping[str, str | None]
    bounds: rel.Bounds
    viewpoint: tuple[float, float]

    def ids(self, *items: Object) -> tuple[str, ...]:
        return tuple(dict.fromkeys(i for i in (self.stands[o.object_id] for o in items) if i is not None))

    def phrase(self, item: Object, bare: float = 0.75, kind: str | None = None) -> Phrase:
        """A noun phrase for an anchor."""
        rng = self.rng
        words = [] if rng.random() < bare else looks(rng, item)
        kind = kind or ("a" if rng.random() < 0.22 else "the")
        return noun(rng, spoken(rng, item.category, 0.88), words, kind), self.ids(item)

    def where(self, item: Object) -> str:
        """A place in the room said along with an anchor, "the table in the middle of the room", or nothing."""
        share = self.rng.random()
        if share < 0.13 and rel.in_middle(item, self.bounds):
            return self.rng.choice(("in the middle of the room", "in the center of the room"))
        if share < 0.08 and rel.in_corner(item, self.bounds):
            return self.rng.choice(("in the corner of the room", "in the corner"))
        if share < 0.04 and rel.against_wall(item, self.bounds):
            return self.rng.choice(("against the wall", "on the wall", "along the wall"))
        return ""


def anchors(view: View, target: Object, most: int = 7) -> list[Object]:
    """Things a speaker would name beside the target: near, large, of another category, and not part of the shell."""
    scored = []
    for item in view.objects:
        if item is target or item.category == target.category or item.category in STRUCTURE:
            continue
        size = rel.volume(item) ** (1 / 3) + (0.5 if item.category.endswith(SALIENT) else 0.0)
        scored.append(((0.35 + rel.gap(item, target)) / (0.25 + size) * view.rng.uniform(0.6, 1.6), item))
    scored.sort(key=lambda pair: pair[0])
    return [item for _, item in scored[:most]]
