"""Which samples of which data make an epoch: weights, limits by task, splits by room, small scenes first. Pure, and NumPy alone,
so that millions of samples are laid out in seconds: a sample is a number here, and is read when its group is trained.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SPLITS = {"train": 0.90, "val": 0.05, "test": 0.05}
"""Shares of the rooms, by a hash of their name: adding rooms moves none from one split to another."""

_SCANS = re.compile(r"(scene[0-9]{4})_[0-9]{2}")


def room_of(scene_id: str) -> str:
    """The room of a scan: ``scene0011`` for ScanNet's ``scene0011_00``; any other id is a room of its own."""
    found = _SCANS.fullmatch(scene_id)
    return found[1] if found else scene_id


def split_of(scene_id: str) -> str:
    """``train``, ``val`` or ``test``, the same for all scans of a room."""
    digest = hashlib.blake2b(room_of(scene_id).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    share, edge = int.from_bytes(digest, "big") / 2**64, 0.0
    for name, part in SPLITS.items():
        edge += part
        if share < edge:
            return name
    return name


@dataclass(frozen=True)
class Part:
    """One source of a mixture.

    Attributes:
        scenes: (n,) a number for the scene of each sample; negative leaves the sample out.
        weight: Times each scene's samples are used in an epoch; the fraction takes a random part of each scene.
        tasks: (n,) a number for the task of each sample.
        limits: ``{task number: most samples of it in an epoch}``, drawn anew for each.
    """

    scenes: Ints
    weight: float = 1.0
    tasks: Ints | None = None
    limits: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Epoch:
    """Groups of samples of one scene each, in their order.

    Attributes:
        sources: (g,) the part that each group is from.
        starts: (g,) and ``ends``: where its samples stand in ``rows``.
        rows: Numbers of samples in their part.
    """

    sources: Ints
    starts: Ints
    ends: Ints
    rows: Ints

    def __len__(self) -> int:
        return len(self.sources)

    def group(self, number: int) -> tuple[int, Ints]:
        return int(self.sources[number]), self.rows[self.starts[number] : self.ends[number]]


def lay_out(parts: Sequence[Part], size: int, seed: Sequence[int], scene_sizes: Sequence[Ints] | None = None) -> Epoch:
    """The groups of an epoch: samples shuffled within their scene, cut into groups of at most ``size``, groups shuffled.

    Args:
        seed: The same numbers give the same epoch.
        scene_sizes: For each part the number of objects of each scene: groups then come from small scenes to large ones, and
            in random order where scenes are alike.
    """
    rng = np.random.default_rng(list(seed))
    rows, sources, starts, ends, orders = [], [], [], [], []
    offset = 0
    for number, part in enumerate(parts):
        chosen = _chosen(part, rng)
        chosen = chosen[np.lexsort((rng.random(len(chosen)), part.scenes[chosen]))]
        scenes = part.scenes[chosen]
        rank = _rank(scenes)
        first = np.flatnonzero(rank % size == 0)
        rows.append(chosen)
        sources.append(np.full(len(first), number, np.int64))
        starts.append(first + offset)
        ends.append(np.append(first[1:], len(chosen)) + offset if len(first) else first)
        if scene_sizes is not None:
            orders.append(scene_sizes[number][scenes[first]])
        offset += len(chosen)
    found = [np.concatenate(item) if item else np.zeros(0, np.int64) for item in (sources, starts, ends, rows)]
    order = rng.permutation(len(found[0]))
    if scene_sizes is not None and len(order):
        order = order[np.argsort(np.concatenate(orders)[order], kind="stable")]
    return Epoch(found[0][order], found[1][order], found[2][order], found[3])


def _chosen(part: Part, rng: np.random.Generator) -> Ints:
    """Numbers of the samples that an epoch takes of a part, some several times."""
    kept = np.flatnonzero(part.scenes >= 0)
    for task, limit in sorted(part.limits.items()):
        of_task = np.flatnonzero(part.tasks[kept] == task) if part.tasks is not None else np.zeros(0, np.int64)
        if len(of_task) > limit:
            kept = np.delete(kept, rng.permutation(of_task)[limit:])
    whole, fraction = int(part.weight), part.weight % 1
    if fraction == 0:
        return np.tile(kept, whole)
    # of each scene the fraction, rounded at random so that the mean is right
    order = kept[np.lexsort((rng.random(len(kept)), part.scenes[kept]))]
    scenes = part.scenes[order]
    counts = np.bincount(scenes, minlength=1)
    take = np.floor(counts * fraction + rng.random(len(counts))).astype(np.int64)
    return np.concatenate([np.tile(kept, whole), order[_rank(scenes) < take[scenes]]])


def _rank(scenes: Ints) -> Ints:
    """Place of each row among those of its scene; rows of a scene stand together."""
    if not len(scenes):
        return np.zeros(0, np.int64)
    first = np.append(True, scenes[1:] != scenes[:-1])
    return np.arange(len(scenes)) - np.flatnonzero(first)[np.cumsum(first) - 1]
