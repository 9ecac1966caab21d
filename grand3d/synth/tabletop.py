"""Instructions to place things on tables, after ReRef-3D: 16 families of places, named directly, by counting, over one relation
or two. Every instruction names each of its things uniquely, does not hold before it is followed, and has a goal that does as it
says; its feasible region, which the paper leaves to future work, is kept with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

from grand3d.errors import GrandError
from grand3d.mixture import split_of
from grand3d.placement import (
    FAMILIES,
    NUM_ANCHORS,
    RELAXED,
    STRICT,
    PlacementRules,
    Placing,
    Program,
    answer,
    feasible,
    program_to_dict,
    satisfied,
)
from grand3d.places import region_of
from grand3d.programs import Table, table_of
from grand3d.sample import Sample
from grand3d.scene import Object, Scene
from grand3d.synth.naming import DIRECT, KINDS, Naming, namings
from grand3d.synth.tables import RULES, TableRules, Viewpoint, make_table, spread
from grand3d.synth.wording import naturalised, templated

STYLES = ("templated", "naturalised")
TRIES = 60
"""Draws of things and names for one instruction, before another family is tried."""
RELATIVE = 0.02
"""Least share of the table's points that a place must leave free: a region of a few points cannot be hit."""


def iter_tables(
    num_scenes: int, num_instructions: int, seed: int = 0, tables: TableRules = RULES, rules: PlacementRules = STRICT
) -> Iterator[tuple[Scene, list[Sample]]]:
    """Tables with their instructions, in the order of their numbers.

    Args:
        num_instructions: Texts over all tables; each program has two, templated and naturalised, joined by ``meta["pair_id"]``.
        rules: What places fit.

    Yields:
        A scene, and samples of the task ``placement`` with ``meta`` ``program``, ``goal``, ``region`` (``places.region_of``),
        ``pair_id``, ``style``, ``naming`` (one of ``naming.KINDS``) and ``split`` (by scene).

    Raises:
        GrandError: If the number of instructions is odd, or less than two a table.
    """
    if num_instructions % 2 or num_instructions < 2 * num_scenes:
        seen = f"{num_instructions} instructions over {num_scenes} tables"
        raise GrandError(f"{seen}, expected an even number, two a table or more: a templated and a naturalised text of each")
    done: Counter[tuple[str, str]] = Counter()
    for index, number in enumerate(spread(num_instructions // 2, num_scenes)):
        yield _table(seed, index, number, done, tables, rules)


def _table(
    seed: int, index: int, number: int, done: Counter[tuple[str, str]], tables: TableRules, rules: PlacementRules
) -> tuple[Scene, list[Sample]]:
    attempt = 0
    while True:
        scene, viewpoint = make_table(seed, index + attempt * 1_000_003, tables)
        made = _instructions(scene, viewpoint, number, Random(f"instructions {seed} {index} {attempt}"), done, rules)
        if made is not None:
            name = f"table_{seed}_{index:05d}"
            samples, counted = made
            done.update(counted)
            return Scene(name, scene.objects, id_space=scene.id_space), _samples(name, viewpoint, samples, seed, index)
        attempt += 1


Made = tuple[Program, Placing, tuple[float, float], dict[str, Any], str]


def _instructions(
    scene: Scene, viewpoint: Viewpoint, number: int, rng: Random, done: Counter[tuple[str, str]], rules: PlacementRules
) -> tuple[list[Made], Counter[tuple[str, str]]] | None:
    """So many instructions about one table, those families and namings first that are rarest so far; None if it has too few."""
    table = table_of(scene, viewpoint)
    named = namings(table)
    made: list[Made] = []
    counted: Counter[tuple[str, str]] = Counter()
    used: Counter[str] = Counter()
    seen: set[str] = set()
    cells = [(family, kind) for family in FAMILIES for kind in KINDS]
    while len(made) < number:
        order = sorted(cells, key=lambda cell: (done[cell] + counted[cell], rng.random()))
        for cell in order:
            found = _one(table, named, cell, rng, used, seen, rules)
            if found is not None:
                made.append(found)
                counted[cell] += 1
                used[found[1].thing.object_id] += 1
                break
            cells = [other for other in cells if other != cell]
        else:
            return None
    return made, counted


def _one(
    table: Table,
    named: dict[str, dict[str, list[Naming]]],
    cell: tuple[str, str],
    rng: Random,
    used: Counter[str],
    seen: set[str],
    rules: PlacementRules,
) -> Made | None:
    family, kind = cell
    for _ in range(TRIES):
        things = _drawn(table, named, family, kind, rng, used)
        if things is None:
            return None
        thing, target, anchors = things
        program = Program(family, target.nodes, tuple(naming.nodes for _, naming in anchors))
        if str(program) in seen:
            continue
        others = tuple(item for item in table.objects if item is not thing)
        placing = Placing(family, thing, tuple(item for item, _ in anchors), others, table.forward)
        if satisfied(placing, thing.centroid, RELAXED):
            continue  # nothing would have to be moved
        points = feasible(placing, rules)
        if len(points) < RELATIVE * (2 * rules.half_side / 0.1 + 1) ** 2:
            continue
        x, y = points[rng.randrange(len(points))]
        seen.add(str(program))
        return program, placing, (float(x), float(y)), region_of(np.asarray(points), rules.half_side), kind
    return None


Drawn = tuple[Object, Naming, list[tuple[Object, Naming]]]


def _drawn(
    table: Table, named: dict[str, dict[str, list[Naming]]], family: str, kind: str, rng: Random, used: Counter[str]
) -> Drawn | None:
    """A thing to move and what it is placed by; of these the first, or else the thing itself, is named as ``kind`` says."""
    number = NUM_ANCHORS[family]
    kinds = [kind, *[DIRECT] * (number - 1)] if number else []
    own = DIRECT if number else kind
    movable = [item for item in table.objects if named[own][item.object_id]]
    if not movable:
        return None
    thing = min(rng.sample(movable, len(movable)), key=lambda item: used[item.object_id])
    if rng.random() < 0.5:  # the rarest first would never meet some pairs
        thing = rng.choice(movable)
    anchors: list[tuple[Object, Naming]] = []
    for wanted in kinds:
        fits = [
            (item, naming)
            for item in table.objects
            if item is not thing and all(item is not other for other, _ in anchors)
            for naming in named[wanted][item.object_id]
            if thing.object_id not in naming.through
        ]
        if not fits:
            return None if len(movable) == 1 else _again(table, named, family, kind, rng, thing)
        item = rng.choice([item for item, _ in {id(item): (item, naming) for item, naming in fits}.values()])
        anchors.append((item, rng.choice([naming for other, naming in fits if other is item])))
    return thing, rng.choice(named[own][thing.object_id]), anchors


def _again(
    table: Table, named: dict[str, dict[str, list[Naming]]], family: str, kind: str, rng: Random, without: Object
) -> Drawn | None:
    """Another draw that leaves one thing where it is."""
    rest = {**named[DIRECT], without.object_id: []}
    return _drawn(table, {**named, DIRECT: rest}, family, kind, rng, Counter()) if any(rest.values()) else None


def _samples(name: str, viewpoint: Viewpoint, made: list[Made], seed: int, index: int) -> list[Sample]:
    out = []
    for number, (program, placing, goal, region, kind) in enumerate(made):
        pair_id = f"{name}_{number:03d}"
        texts = templated(program), naturalised(program, Random(f"words {seed} {index} {number}"))
        point = (*goal, placing.thing.centroid[2])
        meta = {"program": program_to_dict(program), "goal": list(point), "region": region, "pair_id": pair_id}
        meta |= {"naming": kind, "split": split_of(name)}
        for style, text in zip(STYLES, texts, strict=True):
            told = meta | {"style": style}
            targets = (placing.thing.object_id,)
            out.append(Sample(f"{pair_id}_{style}", name, "placement", text, answer(placing, point), targets, viewpoint, told))
    return out


def balance(samples: list[Sample]) -> list[dict[str, Any]]:
    """How many programs there are of each family, by how their first thing is named."""
    counts = Counter((s.meta["program"]["family"], s.meta["naming"]) for s in samples if s.meta["style"] == STYLES[0])
    rows = [{"family": family} | {kind: counts[family, kind] for kind in KINDS} for family in FAMILIES]
    return [row | {"all": sum(row[kind] for kind in KINDS)} for row in rows]  # type: ignore[misc]
