"""The command line: its streams, its exit codes. ``arguments`` says what it takes, ``commands`` does the work."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from grand3d.arguments import parse_arguments
from grand3d.errors import GrandError, unusable


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code.

    A wrong input gives one message on stderr and 2, and so do standard streams that are closed or cannot be written.
    Ctrl-C gives 130. A reader that went away, such as ``head``, has what it wanted: 141 and no word, as of any filter.
    """
    closed = _fill_closed_streams()
    own = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Output(own[0], "output"), _Output(own[1], "error")  # type: ignore[assignment]
    _quiet()
    try:
        try:
            code = _run(list(sys.argv[1:] if argv is None else argv), closed)
        except KeyboardInterrupt:
            print("grand3d: interrupted", file=sys.stderr)
            code = 130
        sys.stdout.flush()
        sys.stderr.flush()
        return code
    except BrokenPipeError:
        _silence(*own)
        return 141
    except GrandError as error:
        return _fail(str(error), own)
    except OSError as error:
        if error.filename is None:
            raise
        return _fail(str(unusable(error.filename, error, "used")), own)
    finally:
        sys.stdout, sys.stderr = own


def _run(argv: list[str], closed: bool) -> int:
    if closed:
        raise GrandError("standard output is closed, so nothing could be shown; send it to /dev/null to do without")
    try:
        options = parse_arguments(argv)
        module = importlib.import_module(f"grand3d.commands.{options.module}")
        return getattr(module, options.command)(options) or 0
    except SystemExit as error:  # argparse: 0 after --help, 2 after a usage error
        return error.code if isinstance(error.code, int) else 2


def _fail(message: str, own: tuple[TextIO, TextIO]) -> int:
    """Say what is wrong, once, and have nothing left that Python's own flush at the end would complain about."""
    try:
        print(f"grand3d: error: {message}", file=own[1], flush=True)
    except OSError:
        _silence(own[1])
    try:
        own[0].flush()
    except OSError:
        _silence(own[0])
    return 2


class _Output:
    """Standard output or standard error; when it cannot be written, the error says so (and argparse does not swallow it)."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream, self._name = stream, name

    def write(self, text: str) -> int:
        return self._try(self._stream.write, text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _try(self, do: Callable[..., Any], *words: str) -> Any:
        try:
            return do(*words)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise GrandError(f"standard {self._name} cannot be written ({error.strerror or error})") from None


def _fill_closed_streams() -> bool:
    """Whether standard output is closed (``>&-``). In the place of a closed stream stands /dev/null: else the next file
    that is opened would get its number, and what libraries print would land in that file."""
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)  # stdin stays None: the chat says so
    closed = sys.stdout is None
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    return closed


def _silence(*streams: TextIO) -> None:
    """Send what waits in streams to /dev/null."""
    for stream in streams:
        with contextlib.suppress(OSError, ValueError):  # one that a test put there has no number
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _quiet() -> None:
    """Our own output is all there is: no banners of libraries, and warnings as one line without their source code."""
    for name, value in (
        ("TOKENIZERS_PARALLELISM", "false"),
        ("TRANSFORMERS_VERBOSITY", "error"),
        ("HF_HUB_DISABLE_PROGRESS_BARS", "1"),
    ):
        os.environ.setdefault(name, value)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if category is UserWarning:
            print(f"grand3d: warning: {message}", file=sys.stderr)

    warnings.showwarning = show
