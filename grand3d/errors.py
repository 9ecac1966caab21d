"""The one exception users see, and the word on a missing optional package."""

from __future__ import annotations

import importlib
from types import ModuleType


class GrandError(ValueError):
    """A wrong input. The message says what, where, seen, expected and the likely cause.

    The command line prints it without a traceback and exits with code 2.

    Attributes:
        cause: A few words without names or numbers, such as "wrong type"; refused rows are counted by it.
    """

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause


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
