"""Tables of coloured things, after CLEVR: its vocabulary, its plane, and its rules of how far apart things stand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from grand3d import relations as rel
from grand3d.scene import Object, Scene

SHAPES = ("cube", "sphere", "cylinder")
COLOURS = ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")
MATERIALS = ("rubber", "metal")
SPACE = "clevr"
CAMERA = (7.545, -6.563, 5.5)
"""Where the viewer stands who looks at the middle: the heading of CLEVR's published scenes."""

Viewpoint = tuple[tuple[float, float, float], tuple[float, float, float]]


@dataclass(frozen=True, slots=True)
class TableRules:
    """How tables are laid; lengths in CLEVR's units, values those of its generator where it has one.

    Attributes:
        num_objects: Least and most things on a table.
        radii: By size. ReRef-3D says .35 and .70 of all shapes.
        cube_scale: Factor for cubes; CLEVR's generator has 1/sqrt(2), by which a cube's edges are as far out as a sphere's.
        half_side: Centres lie from minus this to this, along x and y.
        min_gap: Between the discs of any two things, at least.
        margin: Along the viewer's left and depth, at least, between any two centres, so that no relation is in doubt.
        turn: Degrees that the viewer is turned about the middle at most, to either side; 0: always as in CLEVR's files.
        tries: Of a place for a thing, before the table is begun anew.
    """

    num_objects: tuple[int, int] = (3, 10)
    radii: tuple[tuple[str, float], ...] = (("large", 0.7), ("small", 0.35))
    cube_scale: float = 1.0
    half_side: float = 3.0
    min_gap: float = 0.25
    margin: float = 0.4
    turn: float = 0.0
    tries: int = 50


RULES = TableRules()


def make_table(seed: int, index: int, rules: TableRules = RULES) -> tuple[Scene, Viewpoint]:
    """Table number ``index`` of a seed, and how it is looked at. Nothing is drawn: a thing may hide another."""
    rng = Random(f"table {seed} {index}")
    turn = math.radians(rng.uniform(-rules.turn, rules.turn))
    c, s = math.cos(turn), math.sin(turn)
    x, y, z = CAMERA
    viewpoint = ((round(c * x - s * y, 3), round(s * x + c * y, 3), z), (0.0, 0.0, 0.0))
    ways = rel.directions((-viewpoint[0][0], -viewpoint[0][1]))
    number = rng.randint(*rules.num_objects)
    while True:
        objects = _lay(rng, number, ways, rules)
        if objects is not None:
            return Scene(f"table_{seed}_{index:05d}", tuple(objects), id_space=SPACE), viewpoint


def _lay(rng: Random, number: int, ways: dict[str, rel.Point], rules: TableRules) -> list[Object] | None:
    objects: list[Object] = []
    while len(objects) < number:
        size, radius = rng.choice(rules.radii)
        shape = rng.choice(SHAPES)
        radius = round(radius * (rules.cube_scale if shape == "cube" else 1.0), 4)
        looks = {"size": size, "color": rng.choice(COLOURS), "material": rng.choice(MATERIALS), "shape": shape}
        for _ in range(rules.tries):
            x, y = (round(rng.uniform(-rules.half_side, rules.half_side), 2) for _ in range(2))
            item = Object(str(len(objects)), " ".join(looks.values()), (x, y, radius), (2 * radius,) * 3, attributes=looks)
            if all(_apart(item, other, ways, rules) for other in objects):
                objects.append(item)
                break
        else:
            return None
    return objects


def _apart(a: Object, b: Object, ways: dict[str, rel.Point], rules: TableRules) -> bool:
    if rel.disc_gap(a, b) < rules.min_gap:
        return False
    return all(abs(rel.beyond(a, b, ways[side])) >= rules.margin for side in ("right", "behind"))


def spread(count: int, parts: int) -> list[int]:
    """A number cut into parts that differ by one at most."""
    edges = [count * k // parts for k in range(parts + 1)]
    return [b - a for a, b in pairwise(edges)]
