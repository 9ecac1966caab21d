"""References and descriptions that the proposals alone decide: exactly one of them fits."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from grand3d import relations as rel
from grand3d.sample import Sample
from grand3d.scene import Object, Scene
from grand3d.synth.phrases import Part, finish, noun, render
from grand3d.synth.view import STRUCTURE
from grand3d.synth.vocabulary import COLOURS

STARTS = (
    "the {}",
    "the {}",
    "the {}",
    "choose the {}",
    "find the {}",
    "select the {}",
    "it is the {}",
    "pick the {}",
    "this is the {}",
    "the {}",
)
WORDS = {
    "only": ("", "in the room", "in this room", "here"),
    "nearest": ("closest to", "closest to", "nearest to", "nearest", "closer to"),
    "farthest": ("farthest from", "furthest from", "farthest away from", "furthest away from"),
    "on": ("on", "on top of", "sitting on", "placed on"),
    "under": ("under", "underneath", "below", "beneath"),
    "above": ("above", "over", "directly above"),
    "near": ("next to", "next to", "near", "beside", "by", "close to"),
    "between": ("between", "in between"),
    "supports": ("with", "that has", "which holds"),
    "taller": ("taller than",),
    "larger": ("larger than", "bigger than"),
    "corner": ("in the corner", "in the corner of the room"),
    "middle": ("in the middle of the room", "in the center of the room"),
}
SUPERLATIVES = {"largest": ("largest", "biggest"), "smallest": ("smallest",), "tallest": ("tallest",)}


def holds(name: str, target: Object, group: list[Object], others: list[Object], bounds: rel.Bounds) -> bool:
    """Whether the named relation to the anchors ``others`` picks ``target``, and nothing else, out of ``group``."""
    if name == "only":
        return group == [target]
    if name in ("largest", "smallest", "tallest"):
        return len(group) > 1 and getattr(rel, name)(group) is target
    if name in ("nearest", "farthest"):
        return len(group) > 1 and getattr(rel, name)(group, others[0]) is target
    if name == "supports":
        fits = [o for o in group if rel.supports(o, others[0])]
    elif name == "between":
        fits = [o for o in group if rel.between(o, *others)]
    elif name in ("corner", "middle"):
        test = rel.in_corner if name == "corner" else rel.in_middle
        fits = [o for o in group if test(o, bounds)]
    else:
        fits = [o for o in group if getattr(rel, name)(o, others[0])]
    return len(fits) == 1 and fits[0] is target


def without_doubles(scene: Scene) -> list[Object]:
    """The proposals, equal boxes once (the first, best scored)."""
    seen, out = set(), []
    for item in scene.objects:
        if (item.centroid, item.extent) not in seen:
            seen.add((item.centroid, item.extent))
            out.append(item)
    return out


class Exact:
    """Decides references within one scene's proposals; labels are what the proposals say, equal boxes are one thing.

    A box that carries several labels belongs to the group of each of them.
    """

    def __init__(self, proposals: Scene) -> None:
        self.scene_id = proposals.scene_id
        self.items = without_doubles(proposals)
        self.bounds = rel.room_bounds(self.items)
        boxes = {(o.centroid, o.extent): o for o in self.items}
        self.groups: dict[str, list[Object]] = {}
        for o in proposals.objects:
            group = self.groups.setdefault(o.category, [])
            if boxes[(o.centroid, o.extent)] not in group:
                group.append(boxes[(o.centroid, o.extent)])
        alone = [o for o in self.items if len(self.groups[o.category]) == 1 and o.category not in STRUCTURE]
        self.anchors = [o for o in alone if rel.volume(o) > 0.004]
        self.usable = [o for o in self.items if o.category not in STRUCTURE]

    def relations(self, rng: Random, target: Object) -> Iterator[tuple[str, list[Object]]]:
        """Relations that decide the target, in random order."""
        group = self.groups[target.category]
        tries: list[tuple[str, list[Object]]] = [("only", [])]
        if len(group) > 1:
            tries = [(n, []) for n in ("corner", "middle", "largest", "smallest", "tallest") if rng.random() < 0.3]
            near = sorted((o for o in self.anchors if o is not target), key=lambda o: rel.gap(o, target) * rng.uniform(0.5, 1.5))[
                :6
            ]
            for anchor in near:
                for name in ("nearest", "farthest", "on", "under", "above", "near", "supports"):
                    tries.append((name, [anchor]))
            tries += [("between", [a, b]) for i, a in enumerate(near[:4]) for b in near[i + 1 : 4]]
        rng.shuffle(tries)
        if len(group) == 1:
            tries += [
                (n, [a])
                for a in rng.sample(self.anchors, min(4, len(self.anchors)))
                for n in ("on", "under", "near")
                if a is not target
            ]
            rng.shuffle(tries)
        for name, others in tries:
            if holds(name, target, group, others, self.bounds):
                yield name, others

    def choose(self, rng: Random) -> tuple[Object, str, list[Object]] | None:
        """A target and a relation that decides it; sooner one of a large group, where deciding is a task."""
        for _ in range(8):
            if not self.usable:
                return None
            target = rng.choice(self.usable)
            if len(self.groups[target.category]) == 1 and rng.random() < 0.6:
                continue
            found = next(self.relations(rng, target), None)
            if found:
                return (target, *found)
        return None

    def parts(self, rng: Random, target: Object, name: str, others: list[Object], start: str) -> list[Part]:
        label = target.category
        if name in SUPERLATIVES:
            label = f"{rng.choice(SUPERLATIVES[name])} {label}"
        verb = start.partition("the {}")[0].strip()
        head_parts: list[Part] = [*([verb] if verb else []), (f"the {label}", (target.object_id,))]
        if name in SUPERLATIVES:
            return [*head_parts, rng.choice(("", "in the room"))]
        names = [(f"the {o.category}", (o.object_id,)) for o in others]
        tail: list[Part] = [rng.choice(WORDS[name])]
        if name == "between":
            tail += [names[0], "and", names[1]]
        elif name == "supports":
            tail += [names[0], rng.choice(("on it", "on top"))]
        else:
            tail += names
        return [*head_parts, *tail]

    def sentences(self, rng: Random, target: Object, name: str, others: list[Object]) -> list[Part]:
        """What it is, then the relation: "this is a black chair . it is the one closest to the door ." """
        looked = [rng.choice(COLOURS)] if rng.random() < 0.6 else []
        start = rng.choice(("this is", "this is", "there is", "it is", "the object is"))
        opening: list[Part] = [start, (noun(rng, target.category, looked, "a"), (target.object_id,)), "."]
        if name == "only":
            return opening
        subject = rng.choice(("it is", "it is", "it is", f"the {target.category} is"))
        said = self.parts(rng, target, name, others, "the {}")
        head, tail = (said[0][0], said[1:]) if not isinstance(said[0], str) else ("the one", said)
        if name in ("nearest", "farthest", "supports", *SUPERLATIVES):
            head = head.replace(target.category, "one") if rng.random() < 0.6 else head
            return [*opening, subject, head, *tail, "."]
        return [*opening, subject, *tail, "."]

    def reference(self, rng: Random, sample_id: str) -> Sample | None:
        found = self.choose(rng)
        if found is None:
            return None
        target, name, others = found
        if rng.random() < 0.5:
            text, _ = render(self.sentences(rng, target, name, others))
        else:
            text, _ = render([*self.parts(rng, target, name, others, rng.choice(STARTS)), rng.choice(("", "", "."))])
        text = finish(rng, text, rng.random() < 0.7)
        return Sample(sample_id, self.scene_id, "object_reference", text, "", (target.object_id,), meta=_meta(found))

    def description(self, rng: Random, sample_id: str) -> Sample | None:
        """The answer is the sentence, the object is the question."""
        found = self.choose(rng)
        if found is None:
            return None
        target, name, others = found
        text, _ = render(self.parts(rng, target, name, others, "the {}"))
        return Sample(sample_id, self.scene_id, "object_description", "", text, (target.object_id,), meta=_meta(found))


def _meta(found: tuple[Object, str, list[Object]]) -> dict[str, object]:
    target, name, others = found
    return {"strict": True, "label": target.category, "relation": name, "anchors": [o.object_id for o in others]}
