"""The processes that a launcher started together, by the variables that ``accelerate launch`` and ``torchrun`` set."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from typing import Any, TypeVar

from grand3d.errors import GrandError, import_extra

T = TypeVar("T")

LONGEST = datetime.timedelta(days=7)  # one may wait that long for the slowest


def number() -> int:
    """Which of the processes this is, from 0 on."""
    return _variable("RANK", 0, 0)


def count() -> int:
    """How many there are; 1 without a launcher."""
    return _variable("WORLD_SIZE", 1, 1)


def device() -> int:
    """Which GPU of its machine this process takes."""
    return _variable("LOCAL_RANK", 0, 0)


def _variable(name: str, default: int, least: int) -> int:
    text = os.environ.get(name, str(default))
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise _unlaunched(f"{name}={text!r}")
    return int(text)


def _unlaunched(seen: str) -> GrandError:
    return GrandError(
        f"the environment says {seen}, expected what torchrun or accelerate launch sets: RANK and LOCAL_RANK from 0, WORLD_SIZE "
        "from 1 and, for several processes, MASTER_ADDR and MASTER_PORT; is it left over from another job?"
    )


def from_first(make: Callable[[], T]) -> T:
    """What the first process makes, in all of them; so is the error with which it refuses.

    Raises:
        GrandError: The first process's.
    """
    value: T | None = None
    error: GrandError | None = None
    if number() == 0:
        try:
            value = make()
        except GrandError as caught:
            error = caught
    value, error = from_all((value, error))[0]
    if error is not None:
        raise error
    return value  # type: ignore[return-value]


def from_all(value: Any) -> list[Any]:
    """What each process gives, in all of them. All must call it, and wait for each other."""
    if count() == 1:
        return [value]
    import_extra("torch", "train")
    from torch import distributed

    if not distributed.is_initialized():
        if not {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
            raise _unlaunched(f"WORLD_SIZE={count()} and no MASTER_ADDR or MASTER_PORT")
        distributed.init_process_group("gloo", timeout=LONGEST)
    values: list[Any] = [None] * count()
    distributed.all_gather_object(values, value)
    return values
