"""Existence and counting: questions that the labels of the proposals answer."""

from __future__ import annotations

from collections import Counter
from random import Random

from grand3d.sample import Sample
from grand3d.scene import Scene
from grand3d.synth.phrases import article
from grand3d.synth.plans import PLANS
from grand3d.synth.vocabulary import HYPERNYMS, KINDS, RARE, RELATED, SYNONYMS, plural

ASKED = (
    "Are there any {} in the room?",
    "Does the room contain any {}?",
    "Have you noticed any {} in the room?",
    "Can you see any {} in the room?",
)
ASKED_ALSO = (
    "Are there {} here?",
    "Is there any sign of {} in this room?",
    "Do you see any {}?",
    "Does this room have {}?",
    "Are any {} visible?",
    "Are there any {} around?",
    "Can any {} be found in the room?",
    "Do any {} appear in the scene?",
    "I am looking for {}. Are there any?",
    "Any {} in here?",
    "Does the scene contain any {}?",
    "Are there some {} in the scene?",
    "Could you tell me whether there are {} here?",
)
ASKED_ONE = (
    "Is there {} in the room?",
    "Does the room contain {}?",
    "Can you see {}?",
    "Do you see {} here?",
    "Is there {} in the scene?",
    "Does this room have {}?",
    "Is {} present in this room?",
)
COUNTED = (
    "How many {} are there in the room?",
    "How many {} are in the room?",
    "How many {} can you see?",
    "Count the {} in the room.",
    "What is the number of {} in this scene?",
    "How many {} does the room have?",
)
COMMON = (
    "chair",
    "table",
    "door",
    "window",
    "trash can",
    "pillow",
    "picture",
    "box",
    "cabinet",
    "shelf",
    "desk",
    "monitor",
    "doorframe",
    "office chair",
    "towel",
    "backpack",
    "lamp",
    "sink",
    "couch",
    "book",
    "bookshelf",
    "curtain",
    "plant",
    "whiteboard",
)
MOST_COUNTED = 6
SYNONYM_SHARE = 0.06


def _distinct(proposals: Scene) -> dict[str, list[str]]:
    """Label -> ids of its proposals; equal boxes of one label count once."""
    seen, out = set(), {}
    for item in proposals.objects:
        key = (item.category, item.centroid, item.extent)
        if key not in seen:
            seen.add(key)
            out.setdefault(item.category, []).append(item.object_id)
    return out


class Presence:
    """The labels of one scene's proposals, ready to be asked for."""

    def __init__(self, room: Scene, proposals: Scene) -> None:
        self.scene_id = proposals.scene_id
        self.ids = _distinct(proposals)
        self.labels = sorted(self.ids)
        close = {r for label in self.labels for r in (*RELATED.get(label, ()), *HYPERNYMS.get(label, ()))}
        close |= {name for name, coarse in HYPERNYMS.items() if set(coarse) & set(self.labels)}
        own = {o.category for o in room.objects}
        kin = {n for plan in PLANS for n in _members(plan.items) if len(own & _members(plan.items)) >= 5}
        missed = own - set(self.labels)
        synonyms = {s for label in self.labels for s in SYNONYMS.get(label, ())}
        lacking = lambda names: sorted({n for n in names if n in KINDS} - set(self.labels) - synonyms)  # noqa: E731
        self.close, self.kin, self.common = lacking(close), lacking(kin | missed), lacking(COMMON)
        self.other = lacking(KINDS)
        self.rare = [n for n in RARE if n not in synonyms and n not in self.ids]

    def absent(self, rng: Random) -> str:
        """A category that the room lacks: sooner a likely one."""
        share = rng.random()
        pool = (
            self.close
            if share < 0.2
            else self.kin
            if share < 0.45
            else self.common
            if share < 0.75
            else self.other
            if share < 0.95
            else self.rare
        )
        return rng.choice(pool or self.other)

    def existence(self, rng: Random, sample_id: str) -> Sample | None:
        """A yes/no question, either answer equally often, decided by the label itself."""
        truth = rng.random() < 0.5
        if truth:
            if not self.labels:
                return None
            label = rng.choice(self.labels)
            name = rng.choice(SYNONYMS[label]) if label in SYNONYMS and rng.random() < SYNONYM_SHARE else label
        else:
            label = name = self.absent(rng)
        share = rng.random()
        if share < 0.66:
            text = rng.choice(ASKED).format(plural(name))
        elif share < 0.85:
            text = rng.choice(ASKED_ALSO).format(plural(name))
        else:
            text = rng.choice(ASKED_ONE).format(name if plural(name) == name else f"{article(name)} {name}")
        meta = {"label": label, "name": name}
        return Sample(sample_id, self.scene_id, "existence", text, "Yes" if truth else "No", meta=meta)

    def counting(self, rng: Random, sample_id: str) -> Sample | None:
        """How many of a label there are among the proposals, then which."""
        sizes = Counter({label: len(ids) for label, ids in self.ids.items() if len(ids) <= MOST_COUNTED})
        if rng.random() < 0.12:
            label, ids = self.absent(rng), []
        else:
            numbers = sorted(set(sizes.values()))
            if not numbers:
                return None
            number = rng.choice(numbers)
            label = rng.choice([n for n in self.labels if sizes.get(n) == number])
            ids = self.ids[label]
        text = rng.choice(COUNTED).format(plural(label))
        words = plural(label) if len(ids) > 1 else label
        answer = f"{len(ids)} <p>{words}</p>[{', '.join(f'<{i}>' for i in ids)}]" if ids else "0"
        return Sample(sample_id, self.scene_id, "counting", text, answer, tuple(ids), meta={"label": label, "count": len(ids)})


def _members(items: tuple) -> set[str]:
    return {name for names, _ in items for name in names if name in KINDS}
