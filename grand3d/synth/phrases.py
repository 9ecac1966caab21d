"""Wording: names, adjectives and the small changes that make template text look typed by people."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from grand3d.scene import Object
from grand3d.synth.vocabulary import COLOURS, HYPERNYMS, KINDS, MATERIALS, SHAPES, SIZES, SYNONYMS, plural

Phrase = tuple[str, tuple[str, ...]]  # words of a noun phrase and the ids they mean
Part = str | Phrase

PARTS: dict[str, tuple[str, ...]] = {
    "chair": (
        "four legs",
        "arm rests",
        "a curved back",
        "wheels",
        "five legs",
        "a square seat",
        "no arms",
        "a high back",
        "a padded seat",
    ),
    "table": ("four legs", "a glass top", "metal legs", "a square top", "a rounded edge", "a shiny surface"),
    "desk": ("drawers", "four legs", "a wooden top", "papers on it", "metal legs"),
    "cabinet": ("two doors", "drawers", "a handle", "silver handles", "glass doors", "a flat top"),
    "shelf": ("many books", "four shelves", "several rows", "boxes on it", "three levels"),
    "door": ("a handle", "a silver knob", "a window in it", "a metal frame", "a glass panel"),
    "window": ("two panes", "blinds", "a white frame", "four panels", "curtains around it"),
    "couch": ("three seats", "cushions", "wooden legs", "arm rests", "two pillows on it"),
    "monitor": ("a black screen", "a stand", "a thin frame", "a blank screen", "a silver base"),
    "bed": ("white sheets", "a wooden frame", "a dark blanket", "two pillows", "a head board"),
    "lamp": ("a white shade", "a thin pole", "a round base"),
    "can": ("a bag in it", "a lid", "a black bag", "an open top"),
    "pillow": ("stripes", "a floral pattern", "a zipper"),
}
ANY_PARTS = (
    "a smooth surface",
    "a dark frame",
    "a flat top",
    "sharp corners",
    "a handle",
    "black edges",
    "white trim",
    "stickers on it",
)
ROOMS = ("room", "room", "room", "room", "room", "office", "kitchen", "bathroom", "classroom", "bedroom", "area", "space")
STATES: dict[str, tuple[str, ...]] = {
    "chair": (
        "pushed in",
        "pulled out",
        "slightly pulled out",
        "pushed under the table",
        "empty",
        "facing the table",
        "facing the wall",
        "facing away from the wall",
        "turned to the side",
        "facing the front of the room",
        "facing the door",
        "facing the window",
    ),
    "door": ("open", "closed", "shut", "slightly open", "the entrance to the room"),
    "window": ("closed", "open", "covered", "above the ground"),
    "monitor": ("turned off", "facing the chair", "off", "facing the wall"),
    "couch": ("facing the table", "facing the tv", "against the wall", "facing the room"),
    "bed": ("made", "against the wall", "unmade"),
    "tv": ("on the wall", "turned off", "mounted on the wall"),
}
ENTRANCE = (
    "when you walk in",
    "when entering the room",
    "as you enter the room",
    "from the entrance",
    "when facing it",
    "if you are facing it",
    "from the door",
    "when looking at the wall",
    "when viewed from the front",
    "if you are looking at the wall",
)
GENERIC = ("object", "object", "object", "item", "thing", "piece of furniture", "object here")
TYPOS = (
    ("the ", "teh "),
    ("located", "loacted"),
    ("next to", "nex to"),
    ("rectangular", "rectanglar"),
    ("against", "aginst"),
    ("its ", "it's "),
    ("closest", "closet"),
    ("whiteboard", "white board"),
    ("monitor", "moniter"),
    ("left", "lef"),
    ("there", "their"),
    ("in front", "infront"),
    ("to the", "tot he"),
    ("corner", "coner"),
    ("beside", "besides"),
)


def spoken(rng: Random, label: str, plain: float = 0.84) -> str:
    """What a speaker may call a category: mostly its name, else a synonym or a coarser word."""
    share = rng.random()
    if share >= plain and label in SYNONYMS and (share < plain + (1 - plain) * 0.65 or label not in HYPERNYMS):
        return rng.choice(SYNONYMS[label])
    if share >= plain and label in HYPERNYMS:
        return rng.choice(HYPERNYMS[label])
    return label


def article(words: str) -> str:
    return "an" if words[:1] in "aeiou" and not words.startswith(("one", "uni", "use")) else "a"


def looks(rng: Random, item: Object) -> list[str]:
    """Up to two words on how a thing looks, from its attributes or, as people see things differently, made up."""
    share = rng.random()
    place = KINDS[item.category].place if item.category in KINDS else "floor"
    colour = item.attributes.get("colour", "black") if rng.random() < 0.8 else rng.choice(COLOURS)
    material = item.attributes.get("material", "wooden") if rng.random() < 0.6 else rng.choice(MATERIALS[place])
    shape = item.attributes.get("shape", "rectangular") if rng.random() < 0.6 else rng.choice(SHAPES)
    if share < 0.50:
        return [colour]
    if share < 0.60:
        return [colour, material]
    if share < 0.74:
        return [shape]
    if share < 0.81:
        return [shape, colour]
    if share < 0.90:
        return [rng.choice(SIZES)] if rng.random() < 0.5 else [rng.choice(SIZES), colour]
    return [material]


def part_of(rng: Random, name: str) -> str:
    for key, options in PARTS.items():
        if name.endswith(key) and rng.random() < 0.85:
            return rng.choice(options)
    return rng.choice(ANY_PARTS)


def state_of(rng: Random, name: str) -> str | None:
    """How a thing is at the moment; nothing in the prompt says so."""
    for key, options in STATES.items():
        if name.endswith(key):
            return rng.choice(options)
    return None


def noun(rng: Random, name: str, adjectives: Sequence[str], kind: str = "the") -> str:
    words = " ".join([*adjectives, name])
    if kind == "a":
        kind = "some" if name.endswith("s") and plural(name) == name else article(words)
    return f"{kind} {words}".strip()


def indefinite(phrase: str) -> str:
    """The phrase with "a", "an" in place of its first word when that is "the"."""
    head, _, rest = phrase.partition(" ")
    return f"{article(rest)} {rest}" if head == "the" else phrase


def many(rng: Random, name: str, number: int) -> str:
    word = {2: "two", 3: "three", 4: "four", 5: "five"}.get(number, "several")
    return f"{word} {plural(name)}"


def render(parts: Sequence[Part]) -> tuple[str, list[Phrase]]:
    """Grounded text of parts, each object marked at its first mention only, and the phrases that were marked."""
    out, seen, phrases = [], set(), []
    for part in parts:
        if isinstance(part, str):
            out.append(part)
            continue
        words, ids = part
        if ids and ids in seen:
            out.append(words)
            continue
        seen.add(ids)
        phrases.append(part)
        out.append(f"<p>{words}</p>[{', '.join(f'<{i}>' for i in ids)}]")
    return " ".join(p for p in out if p), phrases


def finish(rng: Random, text: str, spaced: bool) -> str:
    """Spacing before full stops and commas as in tokenised text, or none; sometimes a capital letter, a typo, no full stop."""
    if not spaced:
        for mark in (" .", " ,", " 's"):
            text = text.replace(mark, mark[1:])
        if rng.random() < 0.5:
            text = text[:1].upper() + text[1:]
    if rng.random() < 0.06:
        old, new = rng.choice(TYPOS)
        if old in text:
            text = text.replace(old, new, 1)
    if rng.random() < 0.05 and text.endswith("."):
        text = text[:-1].rstrip()
    return text
