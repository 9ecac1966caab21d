"""Phrases that relate a thing to another, by ViGiL3D's types; the longest that fits counts."""

from __future__ import annotations

from grand3d.language.words import Token

_TABLE = {
    "near": (
        "abutting | accompanying | adjacent to | affixed to | against | along | alongside | around | at | attached to | "
        "beside | besides | bordering | by | close by | close to | connected to | covered by | covered in | covered with "
        "| fastened to | fixed to | hanging from | hanging on | hangs from | hangs on | hugging | hung on | "
        "in contact with | in front | in proximity to | in the vicinity of | joined to | leaning against | leaning on | "
        "leaning up against | leans against | mounted on | mounted to | near | nearby | nearby to | neighboring | "
        "neighbouring | next to | outside | outside of | plugged into | pressed against | propped against | "
        "pushed against | pushed up against | stuck to | touching | tucked under | up against | within reach of"
    ),
    "far": (
        "across | across from | across the room from | at the far end of | at the other end of | away from | distant from "
        "| far away | far away from | far from | far off | further away from | further from | on the far end of | "
        "on the far side of | on the opposite side of | on the other side of | opposite | opposite from | opposite of | "
        "opposite to"
    ),
    "viewpoint_dependent": (
        "ahead of | at left | at right | at the back | at the back of | at the front of | at their feet | behind | "
        "behind you | clockwise from | counterclockwise from | faces | facing | from left to right | from right to left | "
        "from the back | from the front | from the left | from the right | from your left | from your right | in back of "
        "| in front | in front and to the left of | in front of | in the back | in the back of | in the background | "
        "in the foreground | in the front of | left of | left side of | leftmost | on its left | on its right | "
        "on the back | on the back of | on the front | on the front of | on the left | on the left hand side | "
        "on the left of | on the left side | on the left side of | on the left-hand side | on the left-hand side of | "
        "on the leftmost side | on the right | on the right hand side | on the right of | on the right side | "
        "on the right side of | on the right-hand side | on the right-hand side of | on the rightmost side | on your left "
        "| on your right | right of | right side of | rightmost | starting from the left of | starting from the right of "
        "| the left | the right | to its left | to its right | to the back of | to the immediate left of | "
        "to the immediate right of | to the left | to the left of | to the left side of | to the right | to the right of "
        "| to the right side of | to your immediate left | to your immediate right | to your left | to your right | "
        "toward the left | toward the right | towards the left | towards the right"
    ),
    "vertical": (
        "above | at the bottom | at the bottom of | at the top | at the top of | atop | below | beneath | covering | "
        "directly beneath | down below | draped over | from the bottom | from the top | hanging above | hanging over | "
        "high up | higher than | higher up | lower down | lower than | off the | on | on the bottom | on the bottom of | "
        "on the top of | on top | on top of | onto | over | overhead | resting atop | resting on | rests on | stacked on "
        "| stacked on top of | stacked with | supporting | supports | suspended from | topped by | topped with | under | "
        "underneath | underside of | upon"
    ),
    "contain": (
        "at one end of | at the center of | at the end of | belonging to | carrying | consisting of | contain | "
        "containing | contains | displaying | displays | enclosed in | enclosing | equipped with | featuring | "
        "filled with | fitted with | full of | had | has | have | having | holding | holding up | holds | housed in | "
        "housing | in | in the center | in the center of | in the corner | in the corner of | in the middle | "
        "in the middle of | include | includes | including | inside | inside of | inside the | into | lacking | lacks | "
        "made up of | on the inside of | part of | stored in | stuffed with | with | within | without"
    ),
    "arrangement": (
        "face each other | "
        "across each other | against each other | aligned with | amid | amidst | among | among the | amongst | around | "
        "arranged | arranged in a row | at right angles to | back to back | between | centered between | diagonal from | "
        "diagonal to | diagonally across from | diagonally from | encircled by | encircling | facing each other | "
        "flanked by | flanking | grouped with | in a circle | in a cluster | in a column | in a grid | in a line | "
        "in a pile | in a row | in a row of | in a stack | in between | in line with | in the line of | "
        "in the middle of two | in the midst of | in the pile of | in the row of | in the same row as | in the stack | "
        "in the stack of | lined up | lined up with | lining | nestled between | next to each other | on both sides of | "
        "on each side of | on either side of | on opposite sides of | parallel to | perpendicular to | placed between | "
        "positioned between | sandwiched between | sandwiched by | side by side | stacked | stacked on | "
        "stacked on top of | stacked with | surrounded by | surrounding | wedged between"
    ),
    "ordinal": (
        "at the end of a row | at the end of the row | end of the row | in the middle of the row | next to last | second to last"
    ),
    "comparison": (
        "as big as | closer to | closest | closest to | compared to | different from | farther from | farthest | "
        "farthest away | farthest away from | farthest from | farthest to | further from | furthest | furthest away | "
        "furthest away from | furthest from | furthest to | higher than | higher up | identical to | less than | "
        "lower down | lower than | more than | nearer to | nearest | nearest to | same | similar to | than | the only one "
        "| the same as | unlike"
    ),
}
_CLOSE = ("closest", "nearest", "closer", "nearer", "closest to", "nearest to", "closer to", "nearer to", "nearest")
_FAR = ("farthest", "furthest", "farther from", "further from", "farthest from", "furthest from", "farthest away from")
_SURFACE = ("on", "onto", "upon", "atop", "on top of", "on top", "resting on", "rests on", "stacked on", "stacked on top of")

RELATIONS: dict[tuple[str, ...], set[str]] = {}
"""Words of a phrase -> the types of relation that it states."""
for _kind, _text in _TABLE.items():
    for _phrase in _text.split("|"):
        RELATIONS.setdefault(tuple(_phrase.split()), set()).add(_kind)
for _phrase in _CLOSE:
    RELATIONS.setdefault(tuple(_phrase.split()), {"comparison"}).add("near")
for _phrase in (*_FAR, "furthest away from", "farthest away", "furthest away"):
    RELATIONS.setdefault(tuple(_phrase.split()), {"comparison"}).add("far")
for _phrase in _SURFACE:
    RELATIONS.setdefault(tuple(_phrase.split()), {"vertical"}).add("near")
del RELATIONS["in", "front"], RELATIONS["stacked",]
RELATIONS["stacked",] = {"vertical", "arrangement"}
_LONGEST = max(map(len, RELATIONS))


def relation_at(row: list[Token], k: int) -> tuple[int, frozenset[str]] | None:
    """The end of the longest relating phrase that starts at token ``k``, and its types; None where none does."""
    for length in range(min(_LONGEST, len(row) - k), 0, -1):
        found = RELATIONS.get(tuple(token.lower for token in row[k : k + length]))
        if found is not None:
            return k + length, frozenset(found)
    return None
