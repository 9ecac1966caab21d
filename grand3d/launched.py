"""The processes that a launcher started together, by the variables that ``accelerate launch`` and ``torchrun`` set."""

from __future__ import annotations

import datetime
import os
from typing import Any

from grand3d.errors import import_extra

LONGEST = datetime.timedelta(days=7)  # one may wait that long for the slowest


def number() -> int:
    """Which of the processes this is, from 0 on."""
    return int(os.environ.get("RANK", "0"))


def count() -> int:
    """How many there are; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def from_first(value: Any) -> Any:
    """What the first process gives, in all of them. All must call it, and wait for the first."""
    return from_all(value)[0]


def from_all(value: Any) -> list[Any]:
    """What each process gives, in all of them. All must call it, and wait for each other."""
    if count() == 1:
        return [value]
    import_extra("torch", "train")
    from torch import distributed

    if not distributed.is_initialized():
        distributed.init_process_group("gloo", timeout=LONGEST)
    values: list[Any] = [None] * count()
    distributed.all_gather_object(values, value)
    return values
