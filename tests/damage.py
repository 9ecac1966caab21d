"""Disks that are full, as Python and as safetensors find them."""

from __future__ import annotations

import errno
from typing import NoReturn

import safetensors


def full_disk(*args: object, **kwargs: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def full_disk_for_rust(*args: object, **kwargs: object) -> NoReturn:
    raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
