"""PLY files: ascii and binary of both byte orders, with numpy alone.

Elements come in the order of the header, each as ``{property: array}``; a list property gives an array (n, k) where all rows
have k items, else a list of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grand3d.errors import GrandError, place, shown
from grand3d.files import read_bytes

TYPES = {
    **{"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4", "double": "f8"},
    **{"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4"},
    **{"float32": "f4", "float64": "f8"},
}
ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
MAX_HEADER = 65536
"""Bytes; a longer one is no header."""

Columns = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Property:
    """One column: its numpy type and, for a list, that of the count before it."""

    name: str
    kind: str
    count: str = ""


@dataclass(frozen=True, slots=True)
class Element:
    name: str
    size: int
    properties: tuple[Property, ...]


def read_ply(path: str | Path, wanted: tuple[str, ...] = ("vertex",)) -> dict[str, Columns]:
    """Read elements of a PLY file.

    Args:
        wanted: Which; what follows the last of them is not looked at.

    Raises:
        GrandError: If the file is no PLY, is cut off, or lacks an element.
    """
    raw = read_bytes(path)
    order, elements, start = _header(path, raw)
    absent = [name for name in wanted if name not in [element.name for element in elements]]
    if absent:
        has = ", ".join(f"{element.size} {element.name}" for element in elements)
        raise GrandError(f"{place(path)}: has no {absent[0]}, expected one; it has {has}", "wrong elements")
    last = max(index for index, element in enumerate(elements) if element.name in wanted)
    out = {}
    lines = raw[start:].split(b"\n") if not order else []
    position = 0 if not order else start
    for element in elements[: last + 1]:
        if order:
            columns, position = _binary(path, raw, position, element, order)
        else:
            columns, position = _ascii(path, lines, position, element)
        if element.name in wanted:
            out[element.name] = columns
    return out


def points_of(path: str | Path, columns: Columns) -> NDArray[np.float64]:
    """Coordinates (n, 3) of a vertex element, float64.

    Raises:
        GrandError: If x, y or z is missing or not finite.
    """
    absent = [axis for axis in "xyz" if axis not in columns]
    if absent:
        raise GrandError(
            f"{place(path)}: a vertex has no {absent[0]}, expected x, y, z; it has {shown(sorted(columns))}", "no point"
        )
    points = np.stack([np.asarray(columns[axis], np.float64) for axis in "xyz"], axis=1)
    wrong = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(wrong):
        seen = f"vertex {wrong[0]} is {points[wrong[0]].tolist()}"
        raise GrandError(f"{place(path)}: {seen}, expected finite numbers ({len(wrong)} vertices are so)", "bad number")
    return points


def _header(path: str | Path, raw: bytes) -> tuple[str, list[Element], int]:
    """Byte order ('' for ascii), elements, and where the data begin."""
    if raw[:3] != b"ply" or raw[3:4] not in (b"\n", b"\r"):
        raise GrandError(f"{place(path)}: begins with {shown(raw[:12])}, expected the line 'ply'", "not PLY")
    end = raw.find(b"end_header", 0, MAX_HEADER)
    close = raw.find(b"\n", end)
    if end < 0 or close < 0:
        raise GrandError(f"{place(path)}: the header has no end, expected a line 'end_header'; is the file cut off?", "not PLY")
    order = None
    elements: list[tuple[str, int, list[Property]]] = []
    for line in raw[:end].decode("latin-1").splitlines()[1:]:
        match line.split():
            case ["format", name, "1.0"] if name in ORDERS:
                order = ORDERS[name]
            case ["element", name, size] if size.isascii() and size.isdigit():
                elements.append((name, int(size), []))
            case ["property", "list", count, kind, name] if count in TYPES and kind in TYPES and elements:
                elements[-1][2].append(Property(name, TYPES[kind], TYPES[count]))
            case ["property", kind, name] if kind in TYPES and elements:
                elements[-1][2].append(Property(name, TYPES[kind]))
            case [] | ["comment", *_] | ["obj_info", *_]:
                pass
            case _:
                raise GrandError(f"{place(path)}: header line {shown(line)}, expected format, element or property", "not PLY")
    if order is None:
        raise GrandError(f"{place(path)}: the header has no format, expected one of {', '.join(ORDERS)} 1.0", "not PLY")
    return order, [Element(name, size, tuple(properties)) for name, size, properties in elements], close + 1


def _cut(path: str | Path, element: Element, what: str) -> GrandError:
    reason = f"ends within its {element.size} {element.name} rows ({what}), expected all of them; is the file cut off?"
    return GrandError(f"{place(path)}: {reason}", "cut off")


def _binary(path: str | Path, raw: bytes, start: int, element: Element, order: str) -> tuple[Columns, int]:
    if not element.properties or not element.size:
        return {p.name: np.zeros(0) for p in element.properties}, start
    lists = [p for p in element.properties if p.count]
    if not lists:
        kind = np.dtype([(p.name, order + p.kind) for p in element.properties])
        if start + kind.itemsize * element.size > len(raw):
            raise _cut(path, element, f"{(len(raw) - start) // kind.itemsize} are there")
        rows = np.frombuffer(raw, kind, element.size, start)
        return {p.name: rows[p.name] for p in element.properties}, start + rows.nbytes
    counts, _ = _list_row(path, raw, start, element, order)
    lengths = {p.name: len(counts[p.name]) for p in lists}
    kind = np.dtype(  # all rows as long as the first, as in a mesh of triangles
        [
            field
            for p in element.properties
            for field in (
                [(f"#{p.name}", order + p.count), (p.name, order + p.kind, (lengths[p.name],))]
                if p.count
                else [(p.name, order + p.kind)]
            )
        ]
    )
    if start + kind.itemsize * element.size <= len(raw):
        rows = np.frombuffer(raw, kind, element.size, start)
        if all((rows[f"#{p.name}"] == lengths[p.name]).all() for p in lists):
            return {p.name: rows[p.name] for p in element.properties}, start + rows.nbytes
    every: dict[str, list[Any]] = {p.name: [] for p in element.properties}
    for _ in range(element.size):
        row, start = _list_row(path, raw, start, element, order)
        for name, value in row.items():
            every[name].append(value)
    return {p.name: every[p.name] if p.count else np.asarray(every[p.name]) for p in element.properties}, start


def _list_row(path: str | Path, raw: bytes, start: int, element: Element, order: str) -> tuple[dict[str, Any], int]:
    row: dict[str, Any] = {}
    for p in element.properties:
        num = 1
        if p.count:
            num = int(_take(path, raw, start, element, order + p.count, 1)[0])
            start += np.dtype(p.count).itemsize
            if num < 0:
                raise GrandError(f"{place(path)}: a list of {element.name} has {num} items, expected 0 or more", "not PLY")
        values = _take(path, raw, start, element, order + p.kind, num)
        start += values.nbytes
        row[p.name] = values if p.count else values[0]
    return row, start


def _take(path: str | Path, raw: bytes, start: int, element: Element, kind: str, num: int) -> NDArray[Any]:
    if start + np.dtype(kind).itemsize * num > len(raw):
        raise _cut(path, element, "the last one is not whole")
    return np.frombuffer(raw, kind, num, start)


def _ascii(path: str | Path, lines: list[bytes], start: int, element: Element) -> tuple[Columns, int]:
    rows = [line for line in lines[start : start + element.size] if line.strip()]
    if len(rows) < element.size:
        raise _cut(path, element, f"{len(rows)} are there")
    every: dict[str, list[Any]] = {p.name: [] for p in element.properties}
    for number, line in enumerate(rows):
        words = line.split()
        position = 0
        try:
            for p in element.properties:
                num = 1
                if p.count:
                    num, position = int(words[position]), position + 1
                values = [float(word) for word in words[position : position + num]]
                if len(values) < num or num < 0:
                    raise ValueError
                position += num
                every[p.name].append(np.asarray(values).astype(p.kind) if p.count else values[0])
        except (ValueError, IndexError, OverflowError):
            expected = f"expected the numbers of {', '.join(p.name for p in element.properties)}"
            raise GrandError(
                f"{place(path)}: {element.name} {number} is {shown(line.decode('latin-1'))}, {expected}", "bad number"
            ) from None
    out: Columns = {}
    for p in element.properties:
        if p.count:
            same = len({len(values) for values in every[p.name]}) == 1
            out[p.name] = np.stack(every[p.name]) if same else every[p.name]
        else:
            column = np.asarray(every[p.name], np.float64)
            out[p.name] = column.astype(p.kind) if p.kind[0] == "f" or np.isfinite(column).all() else column
    return out, start + element.size
