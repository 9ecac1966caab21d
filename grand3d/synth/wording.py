"""Instructions to place a thing, in words: one fixed form of each, and the way people say it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from grand3d.placement import Program
from grand3d.programs import Node

SIDE_WORDS = {"left": "left of", "right": "right of", "front": "in front of", "behind": "behind"}
FROM_SIDE = {"left": "from the left", "right": "from the right", "front": "from the front", "behind": "from the back"}
COUNTS = ("first", "second", "third", "fourth", "fifth", "sixth")

TEMPLATES = {
    **{side: f"Place {{t}} {words} {{a}}." for side, words in SIDE_WORDS.items()},
    **{f"{side}_adjacent": f"Place {{t}} directly {words} {{a}}." for side, words in SIDE_WORDS.items()},
    "near": "Place {t} near {a}.",
    "aligned": "Place {t} so that it is in line with {a}.",
    "nearest": "Place {t} nearer to {a} than any other thing.",
    "farthest": "Place {t} farther from {a} than any other thing.",
    "between": "Place {t} between {a} and {b}.",
    "centre": "Place {t} in the centre of the table.",
    "edge": "Place {t} at an edge of the table.",
    "corner": "Place {t} in a corner of the table.",
}
"""The templated form of each family."""

_WHERE = {
    "left": ("to the left of {a}", "on {a}'s left", "somewhere left of {a}", "so that it is left of {a}"),
    "right": ("to the right of {a}", "on {a}'s right", "somewhere right of {a}", "so that it is right of {a}"),
    "front": ("in front of {a}", "before {a}", "closer to me than {a}, in front of it", "so that it is in front of {a}"),
    "behind": ("behind {a}", "at the back of {a}", "so that it is behind {a}", "somewhere behind {a}"),
    "left_adjacent": ("right next to {a}, on its left", "just left of {a}", "beside {a} on the left side"),
    "right_adjacent": ("right next to {a}, on its right", "just right of {a}", "beside {a} on the right side"),
    "front_adjacent": ("just in front of {a}", "right in front of {a}, close to it", "directly before {a}"),
    "behind_adjacent": ("just behind {a}", "right behind {a}, close to it", "directly behind {a}"),
    "near": ("close to {a}", "beside {a}", "next to {a}", "not far from {a}"),
    "aligned": ("in line with {a}", "so that it lines up with {a}", "in the same row or column as {a}"),
    "nearest": ("closer to {a} than everything else is", "so that nothing else is as close to {a}"),
    "farthest": (
        "as far from {a} as you can",
        "farther away from {a} than everything else",
        "so that it is the farthest from {a}",
    ),
    "between": ("between {a} and {b}", "in the middle of {a} and {b}", "in the gap between {a} and {b}"),
    "centre": ("in the middle of the table", "at the centre", "where the middle of the table is"),
    "edge": ("at the edge of the table", "close to the table's edge", "out by the rim of the table"),
    "corner": ("in one of the corners", "into a corner of the table", "in any corner"),
}
_FRAMES = (
    "Put {t} {where}.",
    "Move {t} {where}.",
    "Could you put {t} {where}?",
    "Please set {t} down {where}.",
    "I would like {t} {where}.",
    "Take {t} and put it {where}.",
    "Can you move {t} {where}, please?",
    "Let's have {t} {where}.",
    "Shift {t} {where}.",
)
_SYNONYMS = {
    "shape": {"cube": ("cube", "block", "box"), "sphere": ("sphere", "ball"), "cylinder": ("cylinder",)},
    "size": {"large": ("large", "big"), "small": ("small", "tiny", "little")},
    "material": {"metal": ("metal", "shiny", "metallic"), "rubber": ("rubber", "matte")},
}
_SIDE_ALSO = {
    "left": ("left of", "to the left of"),
    "right": ("right of", "to the right of"),
    "front": ("in front of",),
    "behind": ("behind", "in back of"),
}
_ORDER = ("size", "color", "material", "shape")


def templated(program: Program) -> str:
    """The instruction in its one fixed form."""
    target, anchors = phrase(program.target), [phrase(nodes) for nodes in program.anchors]
    return _filled(TEMPLATES[program.family], target, anchors)


def naturalised(program: Program, rng: Random) -> str:
    """The instruction as somebody may say it: other verbs, synonyms, other ways to name the relation."""
    target, anchors = phrase(program.target, rng), [phrase(nodes, rng) for nodes in program.anchors]
    where = rng.choice(_WHERE[program.family])
    if "{a}'s" in where and len(anchors[0].split()) > 4:  # "the cube that is behind the ball's left"
        where = _WHERE[program.family][0]
    return _filled(rng.choice(_FRAMES).replace("{where}", where), target, anchors)


def _filled(text: str, target: str, anchors: Sequence[str]) -> str:
    named = dict(zip("ab", anchors, strict=False)) | {"t": target}
    for key, words in named.items():
        text = text.replace(f"{{{key}}}", words)
    return text


def phrase(nodes: Sequence[Node], rng: Random | None = None) -> str:
    """A reference in words, such as "the small red cube that is left of the sphere"; with ``rng`` in any of several words."""
    looks: dict[str, str] = {}
    behind, count = "", ""
    for node in nodes:
        kind, sides = str(node["type"]), node.get("side_inputs", [])
        if kind.startswith("filter_"):
            key = kind.removeprefix("filter_")
            words = _SYNONYMS.get(key, {}).get(str(sides[0]), (str(sides[0]),))
            looks[key] = rng.choice(words) if rng is not None else words[0]
        elif kind == "relate":
            side = rng.choice(_SIDE_ALSO[sides[0]]) if rng is not None else SIDE_WORDS[sides[0]]
            behind, looks, count = f" that is {side} {_noun(looks, count)}{behind}", {}, ""
        elif kind == "ordinal":
            count = f"{COUNTS[int(sides[1]) - 1]} "
            behind = f" {FROM_SIDE[sides[0]]}"
    return _noun(looks, count) + behind


def _noun(looks: dict[str, str], count: str) -> str:
    words = [looks[key] for key in _ORDER if key in looks]
    return f"the {count}{' '.join(words if 'shape' in looks else [*words, 'thing'])}"
