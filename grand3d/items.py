"""The rows of a file one at a time, whether it is JSON lines or one JSON array: a file of any size in little memory."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from grand3d.errors import GrandError, place
from grand3d.files import Rejects, opened, read_numbered
from grand3d.jsons import decode

T = TypeVar("T")
CHUNK = 1 << 20
_IN_TEXT, _OUTSIDE, _INSIDE = (re.compile(marks) for marks in (r'["\\]', r'["\[\]{},]', r'["\[\]{}]'))
"""What matters next: inside a quoted text, at the level of the rows, and inside a row."""


def read_items(path: str | Path, parse: Callable[[Any], T], rejects: Rejects | None = None) -> Iterator[tuple[str, T]]:
    """Each row with its place, ``path:line`` or ``path: row n``.

    Args:
        parse: Turns one decoded row into a value; raises GrandError for a bad one.
        rejects: Where bad rows go. None raises at the first.

    Raises:
        GrandError: For a file that is neither, or ends inside the array; for a bad row, unless ``rejects`` skips it.
    """
    path = Path(path)
    rejects = rejects if rejects is not None else Rejects()
    if not _is_array(path):
        yield from read_numbered(path, parse, rejects)
        return
    for number, text in enumerate(_texts(path)):
        where, row = f"{place(path)}: row {number}", text
        try:
            row = decode(text)
            value = parse(row)
        except GrandError as error:
            rejects.add(where, str(error), row, error.cause)
            continue
        yield where, value


def _is_array(path: Path) -> bool:
    with opened(path) as file:
        head = file.read(64)
    return head.lstrip(b"\xef\xbb\xbf\r\n\t ")[:1] == b"["


def _texts(path: Path) -> Iterator[str]:
    """The text of each element of the array; what stands inside an element is not looked at beyond its brackets and quotes."""
    depth, quoted, escaped, item, ended = 0, False, False, [], False
    read = codecs.getincrementaldecoder("utf-8")()
    with opened(path) as file:
        while chunk := file.read(CHUNK):
            try:
                text = read.decode(chunk).lstrip("\ufeff") if depth == 0 else read.decode(chunk)
            except UnicodeDecodeError as error:
                raise GrandError(f"{place(path)}: {error.reason}; expected UTF-8 text", "not UTF-8") from None
            start = i = 0
            if escaped:  # the character behind a backslash that ended the chunk before
                escaped, i = not text, 1
            while mark := (_IN_TEXT if quoted else _OUTSIDE if depth <= 1 else _INSIDE).search(text, i):
                c, i = mark[0], mark.end()
                if c == "\\":
                    escaped = i == len(text)
                    i += 1
                elif c == '"':
                    quoted = not quoted
                elif c in "[{":
                    depth += 1
                    if depth == 1:
                        start = i
                elif c in "]}":
                    depth -= 1
                if (depth == 1 and c == ",") or (depth == 0 and c == "]" and not ended):
                    whole = "".join([*item, text[start : i - 1]]).strip()
                    item, start, ended = [], i, depth == 0
                    if whole or not ended:
                        yield whole
            if depth:
                item.append(text[start:])
            elif ended and text[start:].strip():
                raise GrandError(f"{place(path)}: text behind the end of the array, expected one JSON array", "not JSON")
    if not ended:
        raise GrandError(f"{place(path)}: ends inside the array, expected its closing bracket; is it cut off?", "not JSON")
