"""Words of grounded English text: what names a thing, what says how it looks, what says where it stands, what it is for."""

from __future__ import annotations

import re
from functools import lru_cache

from grand3d.bench.nouns import forms, words
from grand3d.synth.vocabulary import COLOURS, HYPERNYMS, KINDS, MATERIALS, RARE, SHAPES, SYNONYMS, alike

DETERMINERS = frozenset(words("a an the this that these those some any several many few no another other each every its their"))
NUMBERS = {
    word: number
    for number, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
}
GENERIC = frozenset(words("object item thing one piece furniture furnishing it they them both all other rest pair set group row"))
"""Heads that any object fits."""
FREE = frozenset(
    words(
        "room space area scene corner middle center centre wall floor ceiling side top bottom end edge surface left right "
        "front back colour color shade tone hue material shape size height width length style finish design look texture "
        "pattern use purpose function place way time people person someone kitchen bathroom bedroom office classroom lounge "
        "hallway"
    )
)
"""Nouns that need no id: places and properties, not things that stand in the room."""
GROUPS = frozenset(words("pair set group row piece kind type stack pile number collection"))
"""``a pair of shoes`` is about shoes."""
CUTS = frozenset(
    words(
        "with in on at that which who near by under underneath above below beside behind next from for to between against and "
        "or is are standing sitting hanging placed located closest nearest farthest furthest facing"
    )
)
"""Words that end the name of a thing."""

_CANON = {"grey": "gray", "wood": "wooden", "timber": "wooden", "metallic": "metal", "rounded": "round", "circular": "round"}
_CANON |= {"golden": "gold", "violet": "purple", "cylinder": "cylindrical", "colored": "", "coloured": ""}
_BROADER = {"steel": "metal", "chrome": "metal", "aluminum": "metal", "iron": "metal", "velvet": "fabric", "cotton": "fabric"}
_BROADER |= {"burgundy": "red", "maroon": "red", "navy": "blue", "teal": "green", "silver": "gray", "cushioned": "padded"}
_MORE = "gold bronze turquoise violet marble stone concrete wicker rattan cotton linen wool chrome aluminum iron oval triangular"
_MORE += (
    " hexagonal wooden metallic grey glass leather plastic transparent patterned golden colourful colorful crimson indigo magenta"
)
_MORE += " brass copper"
_SPLIT = {word for value in (*COLOURS, *SHAPES, *(v for vs in MATERIALS.values() for v in vs)) for word in words(value)}
LOOKS = frozenset({*_SPLIT, *_MORE.split(), *_CANON}) - {"l"}
"""Single words on colour, material and shape. Sizes are left out: what is large is a matter of opinion."""
FAINT = frozenset(words("light dark soft long square round clear orange cream gold silver glass"))
"""Looks that are other words too; in running text they count before another look, or after ``is``, only."""

NOUNS = frozenset(
    form
    for name in {*KINDS, *RARE, *SYNONYMS, *HYPERNYMS, *(w for t in (SYNONYMS, HYPERNYMS) for ws in t.values() for w in ws)}
    for form in forms(name)
)


def canonical(word: str) -> str:
    """One spelling of a look."""
    return _CANON.get(word, word)


@lru_cache(maxsize=10_000)
def looks_of(text: str) -> frozenset[str]:
    """The looks that a value or a description states, and the broader ones that go with them: a steel thing is of metal."""
    found = {canonical(word) for word in words(text)}
    return frozenset(found | {_BROADER[word] for word in found if word in _BROADER})


@lru_cache(maxsize=100_000)
def same(noun: str, category: str) -> bool:
    """Whether a noun, also in the plural, may name a thing of a category."""
    if noun in GENERIC:
        return True
    ours, theirs = forms(noun), forms(category)
    return bool(ours & theirs) or any(alike(a, b) for a in ours for b in theirs)


LIKE = (("colour", "colou?r"), ("material", "material"), ("shape", "shape"))
"""Attributes in which two things may be alike, and how a text writes them."""
RELATIONS: tuple[tuple[str, str], ...] = (
    ("between", r"(?:in )?between"),
    ("nearest", r"(?:closest|nearest)(?: to)?|closer to|nearer to"),
    ("farthest", r"(?:farthest|furthest)(?: away)?(?: from)?"),
    *((f"same_{what[0]}", rf"(?:of |in |has |have |with )*the same {what[1]} as") for what in LIKE),
    ("larger", r"(?:larger|bigger) than"),
    ("smaller", r"smaller than"),
    ("taller", r"taller than"),
    ("shorter", r"(?:shorter|lower) than"),
    ("left", r"(?:on|to)? ?the left(?: side)? of|left of"),
    ("right", r"(?:on|to)? ?the right(?: side)? of|right of"),
    ("front", r"in front of"),
    ("behind", r"behind|at the back of"),
    ("facing", r"(?:facing|faces?|looks? (?:at|towards?)|looking (?:at|towards?)|turned (?:to|towards?))"),
    ("supports", r"(?:supports?|supporting|holds?|holding|carries|carrying|bears)"),
    ("under", r"(?:under|underneath|beneath|below)"),
    ("above", r"(?:directly )?(?:above|over)"),
    ("on", r"(?:on|on top of|atop|upon)"),
    ("inside", r"(?:inside|inside of|within|in)"),
    (
        "near",
        r"(?:next to|beside|alongside|adjacent to|near|near to|nearby|close to|by|against|touching|surrounded by|surrounding)",
    ),
)
"""Relation and the words that say it, as they stand right before the name of the other thing. ``at``, ``from`` say nothing."""
PLACES = (
    ("corner", re.compile(r"\bin (?:the|a) corner\b")),
    ("middle", re.compile(r"\bin the (?:middle|cent(?:er|re)) of (?:the|this) (?:room|space)\b")),
    ("wall", re.compile(r"\bagainst (?:the|a) wall\b")),
)
RELATION = re.compile(
    r"(?:^|.*\s)(?:" + "|".join(f"(?P<{name}>{text})" for name, text in RELATIONS) + r")(?:\s+(?:the|a|an|both|all))*\s*$",
    re.DOTALL,
)
ASIDE = re.compile(r"\s*(?:,|and\b|but\b|which\b|that\b|is\b|are\b|stands?\b|sits?\b|lies?\b|hangs?\b|rests?\b|it\b|has\b)")
"""How a text begins that goes on about the thing the sentence is about, not about the thing named last."""
CLAUSE = re.compile(r"\s*(?:is|are|stands?|sits?|lies?|lie|hangs?|rests?|has|have)\b")
"""How a text begins behind the name that a clause is about: after ``and``, that name is not one more of a list."""
NEGATED = re.compile(r"\b(?:not|no|never|neither|nor|none|without|lacks?|cannot)\b|n't\b")
PRONOUN = re.compile(r"\s*(?:it|they|this|these|that one|this one)\b")

_USES = """
sit on: chair armchair stool seat couch sofa bench loveseat futon ottoman recliner pouf
put things on: table desk counter nightstand stand ledge countertop windowsill island
work at: desk workbench
sleep in: bed crib mattress
store things in: cabinet cupboard dresser wardrobe closet chest locker drawer credenza sideboard box crate bin basket hamper
keep things on: shelf bookshelf bookcase rack
throw rubbish into: can wastebasket
light the room: lamp chandelier light
look outside: window
go in and out: door doorway doorframe
cover the view: curtain blinds drape
watch films on: tv monitor screen television projector display
type on: keyboard
make calls: telephone phone
wash hands: sink
bathe in: bathtub tub
shower in: shower
keep food cold: refrigerator fridge
cook food: stove oven microwave
wash clothes: washer
dry clothes: dryer
carry things: bag backpack suitcase purse luggage cart
write on: whiteboard blackboard chalkboard
pin notes to: board
rest the head on: pillow cushion
keep warm: blanket quilt comforter radiator heater
tell the time: clock
drink from: cup mug bottle
look at oneself: mirror
decorate the room: picture painting poster plant vase figurine sculpture statue decoration
print on: printer copier photocopier
play music: piano guitar organ radio speaker stereo
walk on: rug carpet mat
use as a lavatory: toilet urinal
read: book magazine newspaper
dry oneself: towel
"""
USES = {name: use for use, _, names in (line.partition(": ") for line in _USES.strip().splitlines()) for name in names.split()}


@lru_cache(maxsize=10_000)
def use_of(category: str) -> str:
    """What things of a category are for, ``sit on``; empty where nothing is known."""
    if category in ("washing machine", "clothes dryer", "trash bin", "recycling bin", "waste bin"):
        return {"washing machine": "wash clothes", "clothes dryer": "dry clothes"}.get(category, "throw rubbish into")
    parts = words(category)
    found = {USES[form.split()[-1]] for form in forms(" ".join(parts)) if form.split()[-1] in USES}
    return min(found) if found else ""
