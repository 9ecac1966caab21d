"""CLEVR's functional programs: what a question asks of a table of things, as a chain of filters and relations.

Johnson et al., CLEVR (2017). A program is a list of nodes ``{"type": "filter_color", "inputs": [0], "side_inputs": ["red"]}``;
the published question files say ``function`` and ``value_inputs`` for the same, which is read as well, and a node without
``inputs`` takes what the node before it gives. The last node's value is the answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grand3d import relations as rel
from grand3d.errors import GrandError, shown
from grand3d.scene import Object, Scene

INVALID = "__INVALID__"
"""What a program gives whose ``unique`` does not have exactly one object."""
RELATE_EPS = 0.2
"""Units by which CLEVR wants a thing beyond another for it to be left, right, in front or behind; more than, not as much as."""
ATTRIBUTES = ("shape", "size", "material", "color")
SIDES = ("left", "right", "front", "behind")
MAX_NODES = 100

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """Things on a plane and how they are looked at.

    Attributes:
        objects: Footprints are discs, ``relations.radius``.
        forward: Where the viewer looks, as a direction (x, y) of the plane: what lies further that way is behind.
    """

    objects: tuple[Object, ...]
    forward: rel.Point


def table_of(scene: Scene, viewpoint: Sequence[Sequence[float]] | None) -> Table:
    """The table that somebody sees who looks from the first point of a viewpoint at the second.

    Raises:
        GrandError: Without a viewpoint, or for one that looks straight down: left and right then mean nothing.
    """
    if viewpoint is None:
        raise GrandError("viewpoint is missing, expected from where the table is seen: left and right need it", "no viewpoint")
    forward = (viewpoint[1][0] - viewpoint[0][0], viewpoint[1][1] - viewpoint[0][1])
    if abs(forward[0]) + abs(forward[1]) < 1e-9:
        raise GrandError(f"viewpoint {shown(viewpoint)} looks along z, expected one that has a left and a right", "no viewpoint")
    return Table(scene.objects, forward)


def attribute(item: Object, name: str) -> str:
    """Shape, size, material or color of an object; its category where the shape is not told apart."""
    return item.attributes.get(name, item.category if name == "shape" else "")


def related(item: Object, table: Table, side: str, eps: float = RELATE_EPS) -> tuple[Object, ...]:
    """The objects that lie on a side of one: beyond it that way by more than ``eps``, however far aside."""
    direction = rel.directions(table.forward)[side]
    return tuple(other for other in table.objects if other is not item and rel.beyond(other, item, direction) > eps)


def ordinal(items: Sequence[Object], table: Table, side: str, number: int, eps: float = RELATE_EPS) -> Object | str:
    """The ``number``-th of some objects counted from a side, 1 being the outermost.

    INVALID where there are fewer, or where it is not more than ``eps`` from its neighbours in that order.
    """
    direction = rel.directions(table.forward)[side]

    def reach(item: Object) -> float:
        return item.centroid[0] * direction[0] + item.centroid[1] * direction[1]

    order = sorted(items, key=reach, reverse=True)
    if not 1 <= number <= len(order):
        return INVALID
    near = order[max(0, number - 2) : number + 1]
    clear = all(reach(a) - reach(b) > eps for a, b in itertools.pairwise(near))
    return order[number - 1] if clear else INVALID


def run(nodes: Sequence[Node], table: Table, eps: float = RELATE_EPS) -> Any:
    """The value of a program's last node: an Object, a tuple of them, a text, number or truth, or INVALID.

    ``filter_*`` asks for equal values; CLEVR's own code also takes a value that is a part of another, which its words never are.
    ``ordinal`` with the side inputs side and number is ours (``ordinal``).

    Raises:
        GrandError: If the program is not well formed.
    """
    if not isinstance(nodes, list | tuple) or not 0 < len(nodes) <= MAX_NODES:
        raise GrandError(f"a program is {shown(nodes)}, expected a list of 1 to {MAX_NODES} nodes", "bad program")
    values: list[Any] = []
    for number, node in enumerate(nodes):
        if not isinstance(node, Mapping):
            raise GrandError(f"node {number} is {shown(node)}, expected an object with type", "bad program")
        name, sides = _name(node), node.get("side_inputs", node.get("value_inputs", []))
        operation, kinds, num_sides = _operation(name, number)
        inputs = node.get("inputs", [number - 1] if kinds else [])
        if not isinstance(inputs, list | tuple) or len(inputs) != len(kinds) or not all(_before(i, number) for i in inputs):
            reason = f"expected {len(kinds)} numbers of nodes before it"
            raise GrandError(f"node {number} ({name}) has the inputs {shown(inputs)}, {reason}", "bad program")
        if not isinstance(sides, list | tuple) or len(sides) != num_sides:
            raise GrandError(f"node {number} ({name}) has side inputs {shown(sides)}, expected {num_sides}", "bad program")
        given = [values[i] for i in inputs]
        if INVALID in [value for value in given if isinstance(value, str)]:
            values.append(INVALID)
            continue
        wrong = next((k for k, (value, kind) in enumerate(zip(given, kinds, strict=True)) if type(value) is not kind), None)
        if wrong is not None:
            seen = f"node {number} ({name}) is given a {_WORDS[type(given[wrong])]}"
            raise GrandError(f"{seen}, expected a {_WORDS[kinds[wrong]]}", "bad program")
        values.append(operation(table, eps, given, list(sides)))
    return values[-1]


def num_hops(nodes: Sequence[Node]) -> int:
    """How many relations one after the other lead to a program's answer: 0 where things are named by what they are."""
    depths: list[int] = []
    for number, node in enumerate(nodes):
        inputs = node.get("inputs", [] if _name(node) == "scene" else [number - 1])
        depths.append(max((depths[i] for i in inputs), default=0) + (_name(node) == "relate"))
    return depths[-1]


def is_degenerate(nodes: Sequence[Node], table: Table, eps: float = RELATE_EPS) -> bool:
    """Whether a relation says nothing: the answer stays when one ``relate`` gives the whole scene."""
    answer = run(nodes, table, eps)
    for number, node in enumerate(nodes):
        if _name(node) == "relate":
            loose = [*nodes[:number], {"type": "scene", "inputs": []}, *nodes[number + 1 :]]
            if run(loose, table, eps) == answer:
                return True
    return False


def _name(node: Node) -> str:
    name = node.get("type", node.get("function"))
    return name if isinstance(name, str) else ""


def _before(index: Any, number: int) -> bool:
    return isinstance(index, int) and not isinstance(index, bool) and 0 <= index < number


def _side(value: Any) -> str:
    if value not in SIDES:
        raise GrandError(f"a side is {shown(value)}, expected one of {', '.join(SIDES)}", "bad program")
    return str(value)


def _ordinal(table: Table, eps: float, given: list[Any], sides: list[Any]) -> Object | str:
    number = sides[1]
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise GrandError(f"ordinal counts to {shown(number)}, expected 1 or more", "bad program")
    return ordinal(given[0], table, _side(sides[0]), number, eps)


_Do = Callable[[Table, float, list[Any], list[Any]], Any]
_Operation = tuple[_Do, tuple[type, ...], int]
"""What is done, the kinds of its inputs, and how many side inputs it has."""

_WORDS = {Object: "single object", tuple: "set of objects", int: "number", bool: "truth", str: "text"}
_OPERATIONS: dict[str, _Operation] = {
    "scene": (lambda table, eps, given, sides: table.objects, (), 0),
    "unique": (lambda table, eps, given, sides: given[0][0] if len(given[0]) == 1 else INVALID, (tuple,), 0),
    "relate": (lambda table, eps, given, sides: related(given[0], table, _side(sides[0]), eps), (Object,), 1),
    "ordinal": (_ordinal, (tuple,), 2),
    "union": (lambda t, e, given, s: (*given[0], *(o for o in given[1] if o not in given[0])), (tuple, tuple), 0),
    "intersect": (lambda t, e, given, s: tuple(o for o in given[0] if o in given[1]), (tuple, tuple), 0),
    "count": (lambda table, eps, given, sides: len(given[0]), (tuple,), 0),
    "exist": (lambda table, eps, given, sides: len(given[0]) > 0, (tuple,), 0),
    "equal_object": (lambda table, eps, given, sides: given[0] is given[1], (Object, Object), 0),
    "equal_integer": (lambda table, eps, given, sides: given[0] == given[1], (int, int), 0),
    "less_than": (lambda table, eps, given, sides: given[0] < given[1], (int, int), 0),
    "greater_than": (lambda table, eps, given, sides: given[0] > given[1], (int, int), 0),
}


def _operation(name: str, number: int) -> _Operation:
    if name in _OPERATIONS:
        return _OPERATIONS[name]
    verb, _, key = name.partition("_")
    if key not in ATTRIBUTES or verb not in ("filter", "same", "query", "equal"):
        expected = f"expected {', '.join(_OPERATIONS)}, or filter_, same_, query_, equal_ with one of {', '.join(ATTRIBUTES)}"
        raise GrandError(f"node {number} is of the type {shown(name)}, {expected}", "bad program")
    if verb == "filter":
        return (lambda t, e, given, sides: tuple(o for o in given[0] if attribute(o, key) == sides[0])), (tuple,), 1
    if verb == "query":
        return (lambda t, e, given, sides: attribute(given[0], key)), (Object,), 0
    if verb == "equal":
        return (lambda t, e, given, sides: given[0] == given[1]), (str, str), 0
    same: _Do = lambda table, e, given, s: tuple(  # noqa: E731
        o for o in table.objects if o is not given[0] and attribute(o, key) == attribute(given[0], key)
    )
    return same, (Object,), 0
