"""The one exception users see, how its messages show things, and the word on a missing optional package."""

from __future__ import annotations

import contextlib
import errno
import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

_REASONS = {
    errno.ENOENT: "no such file",
    errno.EISDIR: "is a folder, a file was expected",
    errno.EEXIST: "a part of the path is a file, where a folder is expected",
    errno.ENOTDIR: "a part of the path is a file, where a folder is expected",
    errno.ENAMETOOLONG: "the name is too long for this file system",
}


_FULL = (errno.ENOSPC, errno.EDQUOT, None)
"""Numbers of errors of a full disk; libraries in Rust and C++ give none."""
_TORCH_WRITER = ("inline_container", "PytorchStreamWriter", "open file failed")
"""Marks of a RuntimeError that comes from the code with which torch writes files."""


class GrandError(ValueError):
    """A wrong input. The message says what, where, seen, expected and the likely cause.

    The command line prints it without a traceback and exits with code 2.

    Attributes:
        cause: A few words without names or numbers, such as "wrong type"; refused rows are counted by it.
    """

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause


def place(path: str | Path) -> str:
    """A path as a message shows it: what would not print is escaped, and of a very long one the middle is left out."""
    text = str(path) or "(an empty name)"
    text = text if text.isprintable() else repr(text)
    text = text or "'' (an empty name)"
    return text if len(text) <= 300 else f"{text[:140]} ... {text[-140:]}"


def unusable(path: str | Path, error: Exception, what: str) -> GrandError:
    """What to raise when the system refuses a path; ``what`` is what cannot be done, such as ``written``."""
    if isinstance(error, OSError) and error.errno in _REASONS:
        reason = _REASONS[error.errno]
        return GrandError(f"{place(path)}: {reason}" if what == "read" else f"{place(path)}: cannot be {what} ({reason})")
    if isinstance(error, ValueError):  # what open() says of a NUL
        return GrandError(f"{place(path)}: cannot be {what}: the name holds a NUL character")
    reason = getattr(error, "strerror", None) or str(error).split("\n")[0]
    return GrandError(f"{place(path)}: cannot be {what} ({reason})")


@contextlib.contextmanager
def writing(path: str | Path, hint: str = "") -> Iterator[None]:
    """One message where something cannot be written, whichever library wrote it; any other error goes through.

    Raises:
        GrandError: Naming ``path``, the fault, on a full disk the free space, and ``hint``.
    """
    try:
        yield
    except GrandError:
        raise
    except Exception as error:
        if not _of_writing(error):
            raise
        space = ""
        if not isinstance(error, ValueError) and getattr(error, "errno", None) in _FULL:
            with contextlib.suppress(OSError):
                at = next(parent for parent in Path(path).resolve().parents if parent.exists())
                space = f"; {shutil.disk_usage(at).free / 1e9:.2f} GB are free on its disk"
        raise GrandError(f"{unusable(path, error, 'written')}{space}{hint}") from error


def _of_writing(error: Exception) -> bool:
    """Whether an error says that a file cannot be written: an OSError, or what libraries raise in place of one."""
    text = str(error)
    if isinstance(error, RuntimeError):  # torch's; others are of memory, or of another process that is gone
        return any(mark in text for mark in _TORCH_WRITER)
    if isinstance(error, ValueError):
        return "embedded null" in text
    return isinstance(error, OSError) or "os error" in text  # the latter by safetensors and tokenizers, which are Rust


def shown(value: Any) -> str:
    """A value as an error message quotes it: its Python form, at most 80 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a whole number of thousands of digits has no text, nor has endless nesting
        text = f"a {type(value).__name__} too long to show"
    return text if len(text) <= 80 else text[:77] + "..."


def import_extra(module: str, extra: str) -> ModuleType:
    """Import an optional package, or name the pip line that brings it.

    Args:
        module: Import name, such as ``"peft"``.
        extra: The grand3d extra that installs it, such as ``"train"``.

    Raises:
        GrandError: If the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name and error.name.split(".")[0] != module.split(".")[0]:
            raise  # the package is there but broken: its own message says more than ours
        raise GrandError(
            f"the Python package {module!r} is not installed; install it with: pip install 'grand3d[{extra}]'"
        ) from None
