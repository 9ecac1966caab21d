"""Names of classes: ScanNet's label table (.tsv), and class numbers, whose numbering must be named.

A number means nothing by itself: 7 is ``cabinet`` among ScanNet's raw ids and ``table`` in NYU40.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grand3d.convert.instances import category_of
from grand3d.convert.scannet_classes import SCANNET20, SCANNET200
from grand3d.errors import GrandError, place, shown
from grand3d.files import read_json, read_text

SPACES: dict[str, Mapping[int, str]] = {"scannet20": SCANNET20, "scannet200": SCANNET200}
SPACES_HELP = (
    "what class numbers mean: scannet20 (NYU40 ids), scannet200 (ScanNet's raw ids), a ScanNet label table (.tsv, raw ids),"
    " or {number: name} (.json)"
)
RAW, CLASS = "raw_category", "nyu40class"
_TYPOS = {"refridgerator": "refrigerator"}
"""NYU's spelling, which its own table has and no other file."""
BLANK_CLASS = "otherprop"
"""NYU40's name for what none of its other classes fits, taken where the table leaves the class of a label blank."""


@dataclass(frozen=True, slots=True)
class LabelTable:
    """One column of ScanNet's label table.

    Attributes:
        by_label: Annotated label -> category, both with single blanks; blank cells are left out, save those of
            ``nyu40class``.
        by_id: Raw id -> ``category``, or where that is blank the annotated label. Labels share ids; their first row counts
            (one public copy gives an id two categories).
    """

    by_label: Mapping[str, str]
    by_id: Mapping[int, str]


def read_label_table(path: str | Path, column: str = "category") -> LabelTable:
    """Read a label table of ScanNet: the releases differ in columns, line ends, blanks within cells and ids left out.

    Args:
        column: What becomes the category: ``category`` (one spelling for a thing), ``nyu40class``, or any other column.

    Raises:
        GrandError: If columns are missing, or a row is broken.
    """
    header, *lines = read_text(path).splitlines() or [""]
    names = header.split("\t")
    key = RAW if RAW in names else "category"  # the first release has no raw_category
    for name in ("id", key, column):
        if name not in names:
            expected = f"expected a label table of ScanNet; its columns: {', '.join(names)[:200]}"
            raise GrandError(f"{place(path)}: has no column {name!r}, {expected}", "wrong columns")
    by_label: dict[str, str] = {}
    by_id: dict[int, str] = {}
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue
        cells = dict(zip(names, line.split("\t"), strict=False))
        label, value = (" ".join(cells.get(name, "").split()) for name in (key, column))
        where = f"{place(path)}:{number}"
        if not cells["id"].strip().isdigit() or not label:
            raise GrandError(f"{where}: seen {shown(line)}, expected a number, a tab and a label", "broken row")
        index = int(cells["id"])
        by_id.setdefault(index, " ".join(cells.get("category", "").split()) or label)
        value = _TYPOS.get(value, value) or (BLANK_CLASS if column == CLASS else "")
        if value:
            by_label.setdefault(label, value)
    return LabelTable(by_label, by_id)


def class_names(labels: str) -> Mapping[int, str]:
    """Class number -> name, in the numbering named: one of SPACES, a label table with ScanNet's raw ids, or JSON of one's own.

    Raises:
        GrandError: If it is none of them.
    """
    if labels in SPACES:
        return SPACES[labels]
    if not os.path.exists(labels):
        raise GrandError(f"labels is {shown(labels)}, expected {', '.join(SPACES)}, or the path of a table (.tsv, .json)")
    if labels.endswith(".json"):
        return names_in(labels)
    return read_label_table(labels, "id").by_id


def names_in(path: str | Path) -> dict[int, str]:
    """Number -> name from JSON: ``{"3": "chair"}``, or a list whose places are the numbers.

    Raises:
        GrandError: If it is something else, or a name is blank.
    """
    document = read_json(path)
    items = enumerate(document) if isinstance(document, list) else document.items() if isinstance(document, dict) else ()
    names = {}
    for key, value in items:
        if not str(key).removeprefix("-").isdigit():
            raise GrandError(f"{place(path)}: the key {shown(key)} is no whole number, expected {{number: name}}", "bad id")
        try:
            names[int(key)] = category_of(value)
        except GrandError as error:
            raise GrandError(f"{place(path)}: {key}: {error}", error.cause) from None
    if not names:
        raise GrandError(f"{place(path)}: holds {shown(document)}, expected {{number: name}} or a list of names", "wrong type")
    return names


def class_name(number: int, names: Mapping[int, str], labels: str) -> str:
    """The name of a class number.

    Raises:
        GrandError: If the numbering does not have it: then it is probably another one.
    """
    if number not in names:
        others = [space for space, table in SPACES.items() if number in table and space != labels]
        hint = f"; {' and '.join(others)} would have it" if others else ""
        raise GrandError(f"class {number} is none of the {len(names)} of {labels}, expected one of them{hint}", "unknown class")
    return names[number]
