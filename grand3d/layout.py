"""Where the tokens of a packed row belong: scenes one after the other, each a prefix with suffixes behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

BOX = 8
"""Suffixes padded together on a CPU; more waste padding, fewer make many small calls."""


class Box(NamedTuple):
    """N suffix tokens of k suffixes as a rectangle of r columns, r = the longest of them.

    Attributes:
        rectangle: (k, r) index into the row's T tokens; padding repeats a suffix's last token.
        tokens: (N,) the tokens of these suffixes, among the T.
        places: (N,) where they stand in the flattened rectangle.
    """

    rectangle: torch.Tensor
    tokens: torch.Tensor
    places: torch.Tensor


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the tokens of a row of T tokens belong. All of it stays on the host; ``attention.prepare`` takes to a device what
    its attention needs there.

    Attributes:
        scenes: For each scene the positions (start, cut, end): its prefix is start .. cut, its suffixes are cut .. end.
        lengths: Tokens of each suffix of each scene, all > 0, in the order they stand.
        boxes: All suffixes, a few of similar length together, each few padded to a rectangle.
        scene_of: (T,) number of the scene each token belongs to.
        part_of: (T,) 0 for tokens of a prefix, else the number of the suffix, counted over the whole row from 1.
    """

    scenes: tuple[tuple[int, int, int], ...]
    lengths: tuple[tuple[int, ...], ...]
    boxes: tuple[Box, ...]
    scene_of: torch.Tensor
    part_of: torch.Tensor

    @property
    def num_tokens(self) -> int:
        return self.scenes[-1][2]

    @property
    def longest(self) -> int:
        """Tokens of the longest sample: its scene and its question."""
        return max(cut - start + max(k) for (start, cut, _), k in zip(self.scenes, self.lengths, strict=True))


def make_layout(groups: list[tuple[int, list[int]]]) -> Layout:
    """The layout of a row of scenes, each a prefix of so many tokens and suffixes of these lengths."""
    scenes, starts, position = [], [], 0
    for num_prefix, lengths in groups:
        cut = position + num_prefix
        scenes.append((position, cut, cut + sum(lengths)))
        position = cut
        for length in lengths:
            starts.append(position)
            position += length
    sizes = torch.tensor([length for _, lengths in groups for length in lengths])
    begin, boxes = torch.tensor(starts), []
    for few in torch.argsort(sizes, stable=True).split(BOX):
        steps = torch.arange(int(sizes[few].max()))
        inside = steps < sizes[few, None]
        rectangle = begin[few, None] + torch.minimum(steps, sizes[few, None] - 1)
        boxes.append(Box(rectangle, rectangle[inside], inside.flatten().nonzero().flatten()))
    scene_of, part_of = torch.zeros(position, dtype=torch.long), torch.zeros(position, dtype=torch.long)
    for number, (start, _, end) in enumerate(scenes):
        scene_of[start:end] = number
    for number, (start, size) in enumerate(zip(starts, sizes.tolist(), strict=True)):
        part_of[start : start + size] = number + 1
    return Layout(tuple(scenes), tuple(tuple(lengths) for _, lengths in groups), tuple(boxes), scene_of, part_of)
