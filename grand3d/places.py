"""Places in text, and regions of them: the points of a grid where a thing may stand, in a form that a sample can keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from grand3d import markup
from grand3d.errors import GrandError, shown
from grand3d.files import field, refuse_unknown
from grand3d.sample import Sample

STEP = 0.1
"""Units between the points of a grid."""

Points = np.ndarray  # (n, 2) float64: x, y in units
Mask = np.ndarray  # (n,) bool


def grid(half_side: float, step: float = STEP) -> Points:
    """The points of a square grid around 0, 0, up to ``half_side`` away; x in the outer order, (n, 2)."""
    count = round(2 * half_side / step)
    axis = np.array([round(-half_side + step * k, 9) + 0.0 for k in range(count + 1)])
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)


def region_of(points: Points, half_side: float, step: float = STEP) -> dict[str, Any]:
    """Points of ``grid`` in the short form that samples keep: how many in turn are out and in, beginning with those out."""
    every = grid(half_side, step)
    side = round(len(every) ** 0.5)
    index = np.rint((points + half_side) / step).astype(int)
    inside = np.zeros(len(every), bool)
    inside[index[:, 0] * side + index[:, 1]] = True
    edges = np.flatnonzero(np.diff(inside, prepend=False))
    return {"half_side": half_side, "step": step, "runs": np.diff([0, *edges.tolist(), len(every)]).tolist()}


def region_points(region: Any) -> Points:
    """The points of what ``region_of`` gave, (n, 2).

    Raises:
        GrandError: If it is none.
    """
    if not isinstance(region, dict):
        raise GrandError(f"region is {shown(region)}, expected an object with half_side, step and runs", "bad region")
    refuse_unknown(region, ("half_side", "step", "runs"), "region")
    half, step = field(region, "half_side", float, "region"), field(region, "step", float, "region")
    runs = field(region, "runs", list, "region")
    if not (0 < half <= 1000 and half / 1000 <= step <= half):
        raise GrandError(f"region: half_side and step are {half} and {step}, expected a grid of 1 to 1000 steps", "bad region")
    every = grid(half, step)
    good = all(isinstance(run, int) and not isinstance(run, bool) and run >= 0 for run in runs)
    if not good or sum(runs) != len(every):
        raise GrandError(f"region: runs are {shown(runs)}, expected counts that add up to {len(every)} points", "bad region")
    return every[np.repeat(np.arange(len(runs)) % 2 == 1, runs)]


def place_text(point: Sequence[float]) -> str:
    """A place in markup, whole centimetres."""
    return markup.PLACE + ", ".join(f"{round(value, 2) + 0.0:.2f}" for value in point) + markup.PLACE_END


def redrawn(sample: Sample, rng: Random) -> Sample:
    """The sample with another place that does as it says: any of ``meta["region"]``, each as likely; as it is without a region.

    Raises:
        GrandError: If the region is none, or holds no point.
    """
    places = markup.parse(sample.answer).places
    if sample.task != "placement" or "region" not in sample.meta or not places:
        return sample
    points = region_points(sample.meta["region"])
    if not len(points):
        raise GrandError(f"sample {shown(sample.sample_id)}: region holds no point, expected one at least", "bad region")
    x, y = points[rng.randrange(len(points))]
    old = sample.answer.rindex(markup.PLACE)
    return replace(sample, answer=sample.answer[:old] + place_text((x, y, places[-1][2])))
