"""How templates name things so that a reader finds them, and the words of relations."""

from __future__ import annotations

from random import Random

from grand3d import relations as rel
from grand3d.annotate.facts import Facts
from grand3d.annotate.lexicon import LOOKS
from grand3d.bench.nouns import words
from grand3d.scene import Object
from grand3d.synth.phrases import Part, article
from grand3d.synth.view import STRUCTURE
from grand3d.synth.vocabulary import plural

WAYS = {
    "on": ("on", "on top of", "resting on"),
    "under": ("under", "underneath", "below"),
    "above": ("above", "over"),
    "near": ("next to", "near", "close to", "beside"),
    "nearest": ("closest to", "nearest to"),
    "farthest": ("farthest from", "furthest from"),
    "between": ("between",),
    "taller": ("taller than",),
    "larger": ("larger than", "bigger than"),
}
UNARY = {"corner": "in the corner", "middle": "in the middle of the room"}
NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SUPERLATIVES = ("largest", "smallest", "tallest")
MOST_NAMED = 8  # things of one kind that a text lists


def plain_group(facts: Facts, item: Object) -> bool:
    """Whether its category names this object and others of the same category only, so that a reader knows which are meant."""
    return len(facts.called(item.category)) == len(facts.groups[item.category]) == len(facts.exact.groups[item.category])


def usable(facts: Facts) -> list[Object]:
    """Objects that are spoken of: no shell of the room, nothing with a name that other things could be called by too."""
    key = "usable"
    if key not in facts._kept:
        found = [item for item in facts.exact.items if item.category not in STRUCTURE and plain_group(facts, item)]
        facts._kept[key] = found
    return facts._kept[key]


def looks_before(rng: Random, item: Object, share: float = 0.4) -> str:
    """A look or two to put before the name of an object, or nothing."""
    if rng.random() >= share:
        return ""
    values = [item.attributes[key] for key in ("shape", "colour", "color", "material") if key in item.attributes]
    values = [value for value in values if set(words(value)) <= LOOKS]
    chosen = [value for value in values if rng.random() < 0.6]
    return " ".join(chosen)


def thing(rng: Random, item: Object, kind: str = "the", share: float = 0.4) -> Part:
    """An object by its look and category."""
    name = f"{looks_before(rng, item, share)} {item.category}".strip()
    return f"{article(name) if kind == 'a' else kind} {name}", (item.object_id,)


def several(items: list[Object], kind: str = "") -> Part:
    """Objects of one category by their number; at most ten have a word for it."""
    number = len(items)
    name = items[0].category
    count = NUMBER_WORDS[number] if number < len(NUMBER_WORDS) else str(number)
    words_of = f"{article(name)} {name}" if number == 1 else f"{count} {plural(name)}"
    return f"{kind} {words_of}".strip(), tuple(item.object_id for item in items)


def way(facts: Facts, rng: Random, item: Object) -> tuple[str, list[Object]] | None:
    """A relation that fits this object alone among those of its category; worked out once an object, in a few variants."""
    key = ("ways", item.object_id)
    if key not in facts._kept:
        found = facts.exact.relations(Random(f"{facts.scene.scene_id} {item.object_id}"), item)
        facts._kept[key] = [row for _, row in zip(range(4), found, strict=False)]
    ways = facts._kept[key]
    return rng.choice(ways) if ways else None


def best_of(facts: Facts, item: Object) -> str:
    """``largest``, ``smallest`` or ``tallest``, where an object is that of its category and nothing near it is."""
    key = ("best", item.category)
    if key not in facts._kept:
        best = [(name, getattr(rel, name)(facts.groups[item.category])) for name in SUPERLATIVES]
        facts._kept[key] = {one.object_id: name for name, one in reversed(best) if one is not None}
    return facts._kept[key].get(item.object_id, "")


def single(facts: Facts) -> list[Object]:
    """Usable objects that have a name of their own: the only one of their category, or the largest, smallest or tallest."""
    if "single" not in facts._kept:
        found = [item for item in usable(facts) if len(facts.groups[item.category]) == 1 or best_of(facts, item)]
        facts._kept["single"] = found
        facts._kept["single ids"] = {item.object_id for item in found}
    return facts._kept["single"]


def alone(facts: Facts, rng: Random, item: Object) -> Part:
    """The name of one of ``single``."""
    if len(facts.groups[item.category]) == 1:
        return thing(rng, item)
    return f"the {best_of(facts, item)} {item.category}", (item.object_id,)


def sided(facts: Facts, item: Object) -> list[tuple[str, Object]]:
    """Relations of an object to neighbours that have a name of their own."""
    key = ("sided", item.object_id)
    if key not in facts._kept:
        single(facts)
        ids = facts._kept["single ids"]
        facts._kept[key] = [row for row in facts.around(item) if row[1].object_id in ids]
    return facts._kept[key]
