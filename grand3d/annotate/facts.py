"""What is true of a scene, ready to be asked: names, looks, places and relations, each worked out once and kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from grand3d import relations as rel
from grand3d.annotate.lexicon import looks_of, same
from grand3d.bench.nouns import forms
from grand3d.scene import Object, Region, Scene
from grand3d.synth.exact import Exact

NEIGHBOURS = 10
"""Things around an object that are looked at for relations, the nearest by their centres."""
FRONTED = (
    "couch",
    "sofa",
    "bed",
    "tv",
    "monitor",
    "toilet",
    "desk",
    "dresser",
    "cabinet",
    "bookshelf",
    "armchair",
    "stove",
    "refrigerator",
)
"""Things with a front: with the back to one wall, they look into the room."""

_PAIRS = ("on", "under", "above", "near", "larger", "taller")
_AROUND = (("on", rel.on), ("above", rel.above), ("under", rel.under), ("near", rel.near))
_TURNED = {"smaller": "larger", "shorter": "taller", "supports": "on"}


def attribute_of(item: Object, name: str) -> str:
    """The colour, material or shape of an object as its scene says it; empty where it does not."""
    return item.attributes.get(name) or (item.attributes.get("color", "") if name == "colour" else "")


class Facts:
    """Asks one scene.

    Attributes:
        by_id: Objects by id.
        groups: Objects by category as the scene writes it.
        extra: All forms of the scene's own categories, which the vocabulary may lack.
        exact: Decides which relation fits one object only.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.by_id = {item.object_id: item for item in scene.objects}
        self.groups: dict[str, list[Object]] = {}
        for item in scene.objects:
            self.groups.setdefault(item.category, []).append(item)
        self.extra = frozenset(form for name in self.groups for form in forms(name))
        self.exact = Exact(scene)
        self.bounds = self.exact.bounds
        self.regions: dict[str, Region] = {region.region_id: region for region in scene.regions}
        self._kept: dict[Any, Any] = {}

    def called(self, noun: str) -> list[Object]:
        """All objects that a noun may name."""
        key = ("called", noun)
        if key not in self._kept:
            self._kept[key] = [item for name, items in self.groups.items() if same(noun, name) for item in items]
        return self._kept[key]

    def looks(self, object_id: str) -> frozenset[str]:
        """Words on colour, material and shape that the attributes and the description of an object state."""
        key = ("looks", object_id)
        if key not in self._kept:
            item = self.by_id[object_id]
            texts = [*item.attributes.values(), item.description or "", item.category]
            self._kept[key] = frozenset().union(*map(looks_of, texts))
        return self._kept[key]

    def holds(self, name: str, item: Object, anchors: Sequence[Object], viewpoint: rel.Point | None = None) -> bool:
        """Whether a relation holds between an object and one anchor, or for ``between`` two.

        ``left``, ``right``, ``front`` and ``behind`` hold from a viewpoint only; ``facing`` where the object's heading is known.
        ``nearest`` and ``farthest`` are among the objects of its category.
        """
        key = (name, item.object_id, *(anchor.object_id for anchor in anchors), viewpoint)
        if key not in self._kept:
            self._kept[key] = self._holds(name, item, anchors, viewpoint)
        return self._kept[key]

    def _holds(self, name: str, item: Object, anchors: Sequence[Object], viewpoint: rel.Point | None) -> bool:
        if name == "between":
            return len(anchors) == 2 and rel.between(item, *anchors)
        anchor = anchors[0]
        if anchor is item:
            return False
        if name in _PAIRS:
            return getattr(rel, name)(item, anchor)
        if name in _TURNED:
            return getattr(rel, _TURNED[name])(anchor, item)
        if name in ("nearest", "farthest"):
            rivals = [other for other in self.called(item.category) if other is not anchor]
            return getattr(rel, name)(rivals, anchor) is item
        if name.startswith("same_"):
            return "" != attribute_of(item, name[5:]) == attribute_of(anchor, name[5:])
        if name == "inside":
            return rel.cover(item, anchor) >= rel.COVER and rel.low(anchor) - 0.05 <= item.centroid[2] <= rel.high(anchor)
        if name == "facing":
            heading = self.heading(item)
            return heading is not None and rel.facing(item, heading, anchor)
        return viewpoint is not None and rel.side_of(item, anchor, viewpoint) == name

    def in_place(self, name: str, item: Object) -> bool:
        """Whether an object stands in the ``corner``, in the ``middle`` of the room, or against the ``wall``."""
        tests = {"corner": rel.in_corner, "middle": rel.in_middle, "wall": rel.against_wall}
        return tests[name](item, self.bounds)

    def neighbours(self, item: Object) -> list[Object]:
        """The other things around an object, nearest first."""
        key = ("neighbours", item.object_id)
        if key not in self._kept:
            rest = [other for other in self.exact.items if other is not item]
            self._kept[key] = sorted(rest, key=lambda other: math.dist(other.centroid, item.centroid))[:NEIGHBOURS]
        return self._kept[key]

    def around(self, item: Object) -> list[tuple[str, Object]]:
        """Relations of an object to its neighbours, the closest first: on, under, above, near."""
        key = ("around", item.object_id)
        if key not in self._kept:
            found = []
            for other in self.neighbours(item):
                for name, test in _AROUND:
                    if test(item, other):
                        found.append((name, other))
                        break
            self._kept[key] = found
        return self._kept[key]

    def heading(self, item: Object) -> float | None:
        """Where the front of an object points, radians from +x towards +y, or None where nobody can say.

        The attribute ``heading`` says it in degrees; a thing that has a front and stands against exactly one wall looks away
        from it.
        """
        if "heading" in item.attributes:
            try:
                return math.radians(float(item.attributes["heading"]))
            except ValueError:
                return None
        if not item.category.endswith(FRONTED):
            return None
        near = [side for side, gap in enumerate(rel.wall_gaps(item, self.bounds)) if gap <= rel.WALL_REACH]
        return (0.0, math.pi / 2, math.pi, -math.pi / 2)[near[0]] if len(near) == 1 else None

    def region_of(self, item: Object) -> Region | None:
        """The region an object belongs to."""
        if item.region_id in self.regions:
            return self.regions[item.region_id]
        return next((region for region in self.regions.values() if item.object_id in region.object_ids), None)

    def size(self, item: Object) -> tuple[float, float, float]:
        """Longer side, shorter side and height of an object, metres."""
        x, y, z = item.extent
        return max(x, y), min(x, y), z
