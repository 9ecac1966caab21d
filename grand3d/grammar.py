"""What a reply may be, written as a grammar for the constrained decoder (the Lark dialect of llguidance).

Every text that a grammar here allows is read by ``markup.parse`` without a fault and names ids of its scene only. The
grammars are narrower than docs/markup.md where two spellings mean the same: the ids of a list stand in the order of the
scene text, so that none comes twice, and ``<`` and ``[`` occur in markup only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from grand3d.errors import GrandError, shown
from grand3d.markup import (
    ANSWER,
    ANSWER_END,
    DETAILED,
    DETAILED_END,
    GROUNDINGS,
    PHRASE,
    PHRASE_END,
    PLACE,
    PLACE_END,
    STEP,
    STEP_END,
)

KINDS = {
    "object_reference": "reference",
    "object_description": "text",
    "existence": "existence",
    "counting": "counting",
    "question": "text",
    "scene_description": "text",
    "plan": "plan",
    "placement": "place",
}
"""Task of a sample -> kind of reply."""

FARTHEST = 1000
"""Metres from the origin that a place may lie at."""

Bounds = tuple[Sequence[float], Sequence[float]]

ANYWHERE: Bounds = ((-20.0, -20.0, -2.0), (20.0, 20.0, 5.0))
"""Lowest and highest x, y, z of a place in a room or on a table that is not looked at more closely, metres."""

_PARTS = rf"""
CHAR: /[^<\[]/
SOLID: /[^<\[\s]/
MENTION: "{PHRASE}" /[^<\[\s][^<\[\r\n]*/ "{PHRASE_END}[" LIST? "]"
GROUNDED: "{PHRASE}" /[^<\[\s][^<\[\r\n]*/ "{PHRASE_END}[" LIST "]"
TEXT: (CHAR | MENTION)*
"""


Columns = Sequence[tuple[float, Sequence[tuple[float, float]]]]
"""For each x, intervals of y; metres."""


def reply_grammar(
    kind: str,
    ids: Sequence[str],
    grounding: str = "first",
    bounds: Bounds = ANYWHERE,
    max_steps: int = 10,
    free: Mapping[str, tuple[Columns, float]] | None = None,
) -> str:
    """The grammar of a reply.

    ``reference``: the detailed and the answer block in the order of ``grounding``. ``existence``: begins with yes or no.
    ``counting``: begins with a number. ``text``: grounded text. ``any``: a reference or a text. ``plan``: steps 1, 2, 3, ...
    that each name an object. ``place``: grounded text that ends in one place.

    Args:
        kind: One of the above (KINDS gives that of a task).
        ids: Ids of the scene in the order of its text, such as ``obj_0``.
        grounding: ``first``, ``later`` or ``none``.
        bounds: For ``place``: lowest and highest x, y, z in metres, inclusive.
        max_steps: For ``plan``.
        free: For ``place``: where each thing may stand, by its id, and at what height. The reply then begins with the thing that
            is moved, and its place is one of that thing's. Things without room are not moved.

    Raises:
        GrandError: For an unknown kind or grounding, a plan over no object, or bounds that hold no whole centimetre.
    """
    if grounding not in GROUNDINGS:
        raise GrandError(f"grounding is {grounding!r}, expected one of {', '.join(GROUNDINGS)}")
    if kind == "plan" and max_steps < 1:
        raise GrandError(f"max_steps is {max_steps}, expected 1 or more")
    if kind == "plan" and not ids:
        raise GrandError("a plan names an object in each step, expected a scene with at least one object")
    makers = {
        "reference": lambda: _reference(grounding),
        "existence": lambda: r"/[Yy]es|[Nn]o/ (/[^<\[\w]/ TEXT)?",
        "counting": lambda: r"/[0-9]{1,4}/ (/[^<\[\w]/ TEXT)?",
        "text": lambda: "(SOLID | MENTION) TEXT",
        "any": lambda: f"{_reference(grounding)} | (SOLID | MENTION) TEXT",
        "plan": lambda: _plan(max_steps),
        "place": lambda: _moved(free) if free else f"TEXT {_place(bounds)}",
    }
    if kind not in makers:
        raise GrandError(f"the kind of reply is {kind!r}, expected one of {', '.join(makers)}")
    return f"start: REPLY\nREPLY: {makers[kind]()}\n" + _PARTS + _lists(ids)


def _reference(grounding: str) -> str:
    detailed = f'"{DETAILED}" TEXT "{DETAILED_END}"'
    answer = f'"{ANSWER}" MENTION "{ANSWER_END}"'
    return {"first": f"{detailed} {answer}", "later": f"{answer} {detailed}", "none": answer}[grounding]


def _lists(ids: Sequence[str]) -> str:
    """Terminals for id lists: ``FROM_k`` holds ids from the k-th on, at least one, in their order."""
    if not ids:
        return 'LIST: "<>" /[^\\x00-\\U0010ffff]/\n'  # matches nothing: no id exists
    last = len(ids) - 1
    lines = [f'FROM_{k}: "<{name}>" (", " FROM_{k + 1})? | FROM_{k + 1}' for k, name in enumerate(ids[:-1])]
    return "\n".join([*lines, f'FROM_{last}: "<{ids[last]}>"', "LIST: FROM_0", ""])


def _plan(max_steps: int) -> str:
    steps = ""
    for number in range(max_steps, 0, -1):
        step = f'"{STEP}{number}. " CHAR* GROUNDED TEXT "{STEP_END}"'
        steps = f"{step} ({steps})?" if steps else step
    return steps


def _place(bounds: Bounds) -> str:
    if [len(corner) for corner in bounds] != [3, 3] or not all(abs(x) <= FARTHEST for corner in bounds for x in corner):
        raise GrandError(f"bounds are {shown(bounds)}, expected two points (x, y, z) in metres, at most {FARTHEST} from 0")
    numbers = [_between(low, high) for low, high in zip(*bounds, strict=True)]
    return f'"{PLACE}" ' + ' ", " '.join(f"/{number}/" for number in numbers) + f' "{PLACE_END}"'


def _moved(free: Mapping[str, tuple[Columns, float]]) -> str:
    ways = [(name, _column_texts(columns), height) for name, (columns, height) in free.items()]
    texts = [
        f'"{PHRASE}" /[^<\\[\\s][^<\\[\\r\\n]*/ "{PHRASE_END}[<{name}>]" TEXT "{PLACE}" /{columns}/ ", {height:.2f}{PLACE_END}"'
        for name, columns, height in ways
        if columns
    ]
    if not texts:
        raise GrandError("no thing has room to be placed, expected free space for one at least")
    return " | ".join(texts)


def _column_texts(columns: Columns) -> str:
    """A regular expression of "x, y" over columns; empty where none holds a whole centimetre."""
    found = []
    for x, intervals in columns:
        whole = [(low, high) for low, high in intervals if math.ceil(round(100 * low, 6)) <= math.floor(round(100 * high, 6))]
        if whole:
            rows = "|".join(_between(low, high) for low, high in whole)
            found.append(f"{x:.2f}".replace(".", r"\.") + f", ({rows})")
    return "(" + "|".join(found) + ")" if found else ""


def _between(low: float, high: float) -> str:
    """A regular expression of the numbers with two decimals from low to high."""
    first, last = math.ceil(round(100 * low, 6)), math.floor(round(100 * high, 6))
    if first > last:
        raise GrandError(f"bounds {low} to {high} m hold no whole centimetre, expected the lowest and the highest of the room")
    parts = []
    if first < 0:
        parts += ["-" + part for part in _decimals(max(1, -last), -first)]
    if last >= 0:
        parts += _decimals(max(0, first), last)
    return "(" + "|".join(parts) + ")"


def _decimals(first: int, last: int) -> list[str]:
    """Expressions for first / 100 to last / 100, both not negative; one for each metre."""
    return [
        rf"{metre}\.{_two_digits(max(first - 100 * metre, 0), min(last - 100 * metre, 99))}"
        for metre in range(first // 100, last // 100 + 1)
    ]


def _two_digits(first: int, last: int) -> str:
    if (first, last) == (0, 99):
        return "[0-9][0-9]"
    tens = []
    for ten in range(first // 10, last // 10 + 1):
        tens.append(f"{ten}[{max(first - 10 * ten, 0)}-{min(last - 10 * ten, 9)}]")
    return "(" + "|".join(tens) + ")"
