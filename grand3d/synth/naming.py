"""Ways to name one thing on a table: programs that fit it alone, by what it is, by counting, or by other things."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from grand3d.programs import ATTRIBUTES, SIDES, Node, Table, attribute, ordinal, related
from grand3d.scene import Object

DIRECT, ORDINAL, ONE_HOP, TWO_HOP = KINDS = ("direct", "ordinal", "one-hop", "two-hop")
ORDER = ("size", "color", "material", "shape")  # of adjectives
SUBSETS = tuple(keys for number in range(5) for keys in itertools.combinations(ORDER, number))
"""Sets of attributes, smaller ones first."""

assert set(ORDER) == set(ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class Naming:
    """A program that names one object, and the ids of the other objects that it goes through."""

    nodes: tuple[Node, ...]
    through: frozenset[str] = frozenset()


def namings(table: Table) -> dict[str, dict[str, list[Naming]]]:
    """By kind and object id, the programs that name it.

    Each says no more than it needs: without one of its attributes it would fit several things. No relation is idle
    (``programs.is_degenerate``): without it the rest would fit several things too. Nothing is named through itself.
    """
    out: dict[str, dict[str, list[Naming]]] = {kind: {item.object_id: [] for item in table.objects} for kind in KINDS}
    for item in table.objects:
        out[DIRECT][item.object_id] = [
            Naming((_node("scene"), *_filters(item, keys), _node("unique"))) for keys in _telling(item, table.objects)
        ]
    for item, naming in _ordinals(table):
        out[ORDINAL][item.object_id].append(naming)
    hops = _hops(table)
    for base, item, more in hops:
        for naming in out[DIRECT][base.object_id][:1]:
            out[ONE_HOP][item.object_id].append(Naming((*naming.nodes, *more), frozenset({base.object_id})))
    for middle, item, more in hops:
        for naming in out[ONE_HOP][middle.object_id]:
            if item.object_id not in naming.through:
                out[TWO_HOP][item.object_id].append(Naming((*naming.nodes, *more), naming.through | {middle.object_id}))
    return out


def _node(kind: str, *sides: str | int) -> Node:
    return {"type": kind, "side_inputs": list(sides)} if sides else {"type": kind}


def _filters(item: Object, keys: Sequence[str]) -> list[Node]:
    return [_node(f"filter_{key}", attribute(item, key)) for key in keys]


def _telling(item: Object, among: Sequence[Object]) -> list[tuple[str, ...]]:
    """The smallest sets of attributes that only this one of some objects has."""
    found: list[tuple[str, ...]] = []
    for keys in SUBSETS:
        if not any(set(less) <= set(keys) for less in found) and _fitting(item, keys, among) == 1:
            found.append(keys)
    return found


def _fitting(item: Object, keys: Sequence[str], among: Sequence[Object]) -> int:
    return sum(all(attribute(other, key) == attribute(item, key) for key in keys) for other in among)


def _hops(table: Table) -> list[tuple[Object, Object, list[Node]]]:
    """(from, to, nodes): the relations that lead from one object to another and are needed to find it."""
    out = []
    for base, side in itertools.product(table.objects, SIDES):
        group = related(base, table, side)
        for item in group:
            for keys in _telling(item, group):
                if _fitting(item, keys, table.objects) > 1:
                    out.append((base, item, [_node("relate", side), *_filters(item, keys), _node("unique")]))
    return out


def _ordinals(table: Table) -> list[tuple[Object, Naming]]:
    """Objects counted from a side among those of their shape, or of their shape and another attribute."""
    out = []
    for keys in (("shape",), ("size", "shape"), ("color", "shape"), ("material", "shape")):
        groups = Counter(tuple(attribute(item, key) for key in keys) for item in table.objects)
        for values, number in groups.items():
            items = [item for item in table.objects if tuple(attribute(item, key) for key in keys) == values]
            for side, count in itertools.product(SIDES, range(1, min(number, 4) + 1)):
                found = ordinal(items, table, side, count) if number > 1 else None
                if isinstance(found, Object):
                    nodes = (_node("scene"), *_filters(found, keys), _node("ordinal", side, count))
                    out.append((found, Naming(nodes)))
    return out
