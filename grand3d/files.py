"""Reading and writing text files so that nothing is lost without being said, and the typed fields of their rows.

Rules for what is read: UTF-8 with or without BOM, LF or CRLF, gzip by content and not by name.
Rules for what is written: whole files appear at once (write beside, then rename). See docs/formats.md.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import json
import math
import os
import re
import tempfile
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from grand3d.errors import GrandError, place, shown, unusable, writing
from grand3d.jsons import decode, leaves, refuse_nul

T = TypeVar("T")
GZIP = b"\x1f\x8b"


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The bytes of a file, decompressed where its first two bytes say gzip; system errors become GrandError."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise unusable(path, error, "read") from None
    with file:
        try:
            packed = file.peek(2)[:2] == GZIP
            opened = gzip.GzipFile(fileobj=file) if packed else file
            head = opened.peek(4)[:4]
            if packed and head[:2] == GZIP:
                reason = "gzip inside gzip, expected text inside; was it packed twice? Unpack it once: gunzip -c OLD > NEW"
                raise GrandError(f"{place(path)}: {reason}", "packed twice")
            wide = _wide_encoding(head)
            if wide:
                reason = f"the file is {wide}, expected UTF-8; save it as UTF-8, or: iconv -f {wide} -t UTF-8 OLD > NEW"
                raise GrandError(f"{place(path)}: {reason}", "not UTF-8")
            yield opened
        except (OSError, EOFError, zlib.error) as error:
            whole = ", expected a whole gzip file" if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile) else ""
            raise GrandError(f"{place(path)}: cannot be read ({error}){whole}; is it cut off or damaged?") from None


def _wide_encoding(head: bytes) -> str:
    """UTF-16 or UTF-32 where the first bytes of a file say so: a byte-order mark, or every other byte NUL; else nothing."""
    if head in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return "UTF-32"
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "UTF-16"
    zero = [byte == 0 for byte in head]
    return {(False, True, False, True): "UTF-16LE", (True, False, True, False): "UTF-16BE"}.get(tuple(zero), "")


def read_bytes(path: str | Path) -> bytes:
    """What a file holds, decompressed where it is gzip; GrandError where it cannot be read or is UTF-16."""
    with opened(Path(path)) as file:
        return file.read()


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file; a BOM is dropped, gzip is recognised by its first bytes.

    Raises:
        GrandError: If the file is missing, is a folder, is not UTF-8, or holds a NUL character.
    """
    raw = read_bytes(path)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8, expected UTF-8; is the file in another encoding?"
        raise GrandError(f"{place(path)}: {reason}", "not UTF-8") from None
    try:
        refuse_nul(text)
    except GrandError as error:
        raise GrandError(f"{place(path)}: {error}", error.cause) from None
    return text


def read_json(path: str | Path) -> Any:
    """One JSON document. NaN and Infinity are let through here and refused where numbers are checked.

    Raises:
        GrandError: Naming line and column of a fault, or what the file seems to be instead.
    """
    text = read_text(path)
    try:
        return decode(text)
    except GrandError as error:
        raise GrandError(f"{place(path)}: {error}", error.cause) from None


class Rejects:
    """Rows that were refused, with their reasons: raised at once, or collected when the user asked to skip them.

    Args:
        skip_bad: False raises the first fault. True keeps the rest going.
    """

    def __init__(self, skip_bad: bool = False) -> None:
        self.skip_bad = skip_bad
        self.rows: list[dict[str, Any]] = []

    def add(self, where: str, reason: str, row: Any = None, cause: str = "") -> None:
        """Refuse one row.

        Args:
            where: The file and the line or key.
            row: The row, whole: its values where it is JSON, else its text.
            cause: What such rows are counted by; by default the reason up to its first colon.
        """
        reason = reason.removeprefix(f"{where}: ")
        cause = cause or reason.split(":")[0]
        if not self.skip_bad:
            raise GrandError(f"{where}: {reason}", cause)
        self.rows.append({"where": where, "cause": cause, "reason": reason, "row": row})

    def note(self, where: str, reason: str, row: Any = None, cause: str = "") -> None:
        """Note what a rule of its source leaves out, or what cannot be known; no fault, so it never raises."""
        cause = cause or reason.split(":")[0]
        self.rows.append({"where": where, "cause": cause, "reason": reason, "row": row, "noted": True})

    def counts(self) -> dict[str, int]:
        """Refused rows and notes by cause, most frequent first."""
        return dict(Counter(row["cause"] for row in self.rows).most_common())

    def save(self, beside: str | Path) -> Path | None:
        """Write the rejected rows to ``<beside>.rejected.jsonl``; nothing is written when there are none."""
        if not self.rows:
            return None
        path = Path(f"{str(beside).rstrip('/')}.rejected.jsonl")
        self.write(path)
        return path

    def write(self, path: str | Path) -> None:
        """Write the rejected rows, be there any or none."""
        write_jsonl(path, map(_as_json, self.rows))


def _as_json(reject: dict[str, Any]) -> dict[str, Any]:
    """A rejected row that other JSON readers take too: with NaN or infinity in it, it is kept as its text."""
    try:
        json.dumps(reject["row"], allow_nan=False)
    except ValueError:
        return reject | {"row": json.dumps(reject["row"], ensure_ascii=False)}
    return reject


def read_jsonl(path: str | Path, parse: Callable[[Any], T], rejects: Rejects | None = None) -> Iterator[T]:
    """Parse every line of a JSON-lines file, one line in memory at a time; blank lines are passed over.

    Args:
        path: File to read.
        parse: Turns one decoded line into a value; raises GrandError for a bad one.
        rejects: Where bad lines go. None raises at the first.

    Raises:
        GrandError: ``path:line: reason`` unless ``rejects`` skips bad lines; always for a file that is one JSON document.
    """
    return (value for _, value in read_numbered(path, parse, rejects))


def read_numbered(path: str | Path, parse: Callable[[Any], T], rejects: Rejects | None = None) -> Iterator[tuple[str, T]]:
    """What :func:`read_jsonl` gives, each value with its place, ``path:line``."""
    with opened(Path(path)) as file:
        yield from parse_lines(file, path, parse, rejects)


def parse_lines(
    lines: Iterable[bytes], path: str | Path, parse: Callable[[Any], T], rejects: Rejects | None = None, start: int = 1
) -> Iterator[tuple[str, T]]:
    """What :func:`read_numbered` gives of some lines of a file.

    Args:
        start: Number of the first of them, from 1.
    """
    rejects = rejects if rejects is not None else Rejects()
    first = start == 1
    for number, raw in enumerate(lines, start):
        where = f"{place(path)}:{number}"
        try:
            line = raw.decode("utf-8").strip("\r\n\t \ufeff")
        except UnicodeDecodeError as error:
            reason = f"byte {error.start + 1} of the line is not UTF-8, expected UTF-8; is the file in another encoding?"
            rejects.add(where, reason, repr(raw), "not UTF-8")  # its Python form: text could not hold these bytes
            continue
        if not line:
            continue
        if first and line in ("[", "{"):
            raise GrandError(f"{where}: the file looks like one JSON document, where JSON lines are expected", "not JSON")
        first = False
        row: Any = line
        try:
            row = decode(line)
            value = parse(row)
        except GrandError as error:
            if error.cause == "CR alone":  # the whole file came as one line: no row of it can be told from the next
                raise GrandError(f"{where}: {error}", error.cause) from None
            rejects.add(where, str(error), row, error.cause)
            continue
        yield where, value


PART = ".grand3d-part"
"""End of the name of what is written beside its place, until it is whole; nobody else names files so."""


def half_named(name: str) -> dict[str, str]:
    """How ``tempfile`` is to name what is written beside its place."""
    return {"prefix": f".{name[:40]}.", "suffix": PART}  # cut, so that the longest name a file may have stays one


def half_written(name: str) -> str:
    """What a file or folder of this name was to be called, its first 40 characters; empty if it is no half-written one."""
    match = re.fullmatch(rf"\.(.{{1,40}})\.[a-z0-9_]{{8}}{re.escape(PART)}", name)
    return match[1] if match else ""


def write_text(path: str | Path, text: str | Iterable[str]) -> None:
    """Write a whole file at once: a reader sees the old text or the new one, never a part.

    A link keeps its place, what it points to is written. A device or pipe, such as /dev/stdout, is written into.

    Args:
        text: Or its parts, which need not be held together.

    Raises:
        GrandError: If the place cannot be written.
    """
    path = Path(path)
    parts = [text] if isinstance(text, str) else text
    beside = ""
    try:
        with writing(path):
            if os.path.isdir(path):  # else only the renaming would find out
                raise IsADirectoryError(errno.EISDIR, "")
            if os.path.exists(path) and not os.path.isfile(path):
                with open(path, "w", encoding="utf-8", newline="\n") as file:
                    file.writelines(parts)
                return
            path = Path(os.path.realpath(path))
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, beside = tempfile.mkstemp(dir=path.parent, **half_named(path.name))
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(beside, 0o644)
            os.replace(beside, path)
    except UnicodeEncodeError:
        reason = "it would hold half a surrogate pair, which is no character; does it name a file whose name is not UTF-8?"
        raise GrandError(f"{place(path)}: cannot be written: {reason}") from None
    finally:
        if beside:
            Path(beside).unlink(missing_ok=True)


def write_json(path: str | Path, value: Any) -> None:
    """Write one JSON document, indented, at once."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def json_lines(rows: Iterable[Any]) -> str:
    """Rows as the text of a JSON-lines file."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_jsonl(path: str | Path, rows: Iterable[Any]) -> int:
    """Write JSON lines at once; returns the number of rows. The rows are not held together."""
    count = 0

    def lines() -> Iterator[str]:
        nonlocal count
        for row in rows:
            count += 1
            yield json_lines((row,))

    write_text(path, lines())
    return count


_KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "a JSON object"}
_REQUIRED = object()


def is_number(value: Any) -> bool:
    """Whether a value is a finite number that fits a float; true and false are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def field(row: dict[str, Any], name: str, kind: type, where: str, default: Any = _REQUIRED) -> Any:
    """The value of a row's field, of the type asked for.

    Args:
        row: One decoded JSON object.
        name: Key.
        kind: str, int, float (whole numbers count and come back as float), bool, list or dict.
        where: What a message starts with; may be empty.
        default: What an absent or null field gives; without it the field is required.

    Raises:
        GrandError: If a required field is absent, or the type is another.
    """
    value = row.get(name)
    if value is None and default is not _REQUIRED:
        return default
    absent = name not in row
    name = f"{where}: {name}" if where else name
    if absent:
        raise GrandError(f"{name} is missing, expected {_KINDS[kind]}; the keys are {shown(sorted(row))}", "missing key")
    fits = is_number(value) if kind is float else isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not fits:
        raise GrandError(f"{name} is {shown(value)}, expected {_KINDS[kind]}", "wrong type")
    return float(value) if kind is float else value


def visible(text: str) -> bool:
    """Whether a text has anything to see in it: blanks, line breaks and characters without width show nothing."""
    return any(unicodedata.category(c) not in ("Cc", "Cf", "Zs", "Zl", "Zp") for c in text)


def one_line(text: str) -> bool:
    """Whether no line break, of whatever kind, stands in a text."""
    return len(f"{text}.".splitlines()) == 1


def numbers(value: Any, length: int, what: str) -> tuple[float, ...]:
    """A list of finite numbers of a given length, as floats.

    Raises:
        GrandError: Starting with ``what``.
    """
    if not isinstance(value, list | tuple) or len(value) != length or not all(is_number(x) for x in value):
        cause = "bad number" if isinstance(value, list | tuple) else "wrong type"
        raise GrandError(f"{what} is {shown(value)}, expected {length} finite numbers", cause)
    return tuple(float(x) for x in value)


def texts(value: Any, what: str) -> tuple[str, ...]:
    """A list of texts.

    Raises:
        GrandError: Starting with ``what``.
    """
    if not isinstance(value, list | tuple) or not all(isinstance(x, str) for x in value):
        raise GrandError(f"{what} is {shown(value)}, expected a list of texts", "wrong type")
    return tuple(value)


def refuse_unknown(row: dict[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse keys that would be lost, such as a mistyped optional one.

    Raises:
        GrandError: Naming the unknown keys and the known ones.
    """
    unknown = sorted(set(row) - set(known))
    if unknown:
        raise GrandError(f"{where}: unknown keys {shown(unknown)}, expected {', '.join(known)}", "unknown key")


def refuse_unfit(row: dict[str, Any], where: str) -> None:
    """Refuse what no row of data may hold anywhere, be it in a key: a NUL character, or a number that fits no float.

    Raises:
        GrandError: Starting with ``where``.
    """
    for leaf in leaves(row):
        if isinstance(leaf, str) and "\0" in leaf:
            reason = "a NUL character, expected text; does it come from a binary or fixed-width field?"
            raise GrandError(f"{where}: {shown(leaf)} holds {reason}", "NUL character")
        if isinstance(leaf, int | float) and not isinstance(leaf, bool) and not is_number(leaf):
            raise GrandError(f"{where}: a number is {shown(leaf)}, expected a finite one; a division by 0?", "bad number")
