"""Tables in CSV, row by row with the place of each; cells that hold a Python list, true or false."""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grand3d.errors import GrandError, place
from grand3d.files import read_text, shown


def read_table(path: str | Path, needed: Sequence[str], what: str) -> Iterator[tuple[str, dict[str, str]]]:
    """``(path:line, row)`` of a CSV file; a column that a short row lacks is not in it.

    Args:
        needed: Columns that there must be.
        what: The table that is meant, for messages.

    Raises:
        GrandError: If columns are missing, or the file is not CSV.
    """
    reader = csv.DictReader(io.StringIO(read_text(path)), strict=True)
    try:
        absent = [name for name in needed if name not in (reader.fieldnames or ())]
        if absent:
            raise GrandError(f"{place(path)}: columns {shown(absent)} are missing, expected a table of {what}", "wrong columns")
        for row in reader:
            yield f"{place(path)}:{reader.line_num}", {k: v for k, v in row.items() if k is not None and v is not None}
    except csv.Error as error:
        where = f"{place(path)}:{reader.line_num}"
        raise GrandError(f"{where}: {error}, expected a table in CSV; is it cut off?", "not CSV") from None


def list_cell(text: str, name: str, kind: type) -> list[Any]:
    """The list that a cell holds in Python's writing, items of one type: left as text, its letters would be taken for items.

    Raises:
        GrandError: If it is no such list.
    """
    try:
        items = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        items = None
    if not isinstance(items, list) or not all(isinstance(item, kind) and not isinstance(item, bool) for item in items):
        example = {str: "of texts such as ['the', 'chair']", int: "of whole numbers such as [4, 7]"}.get(kind, "of lists")
        raise GrandError(f"{name} is {shown(text)}, expected a list {example}", "broken row")
    return items


def flag_cell(text: str, name: str) -> bool:
    """True or False, in any case of letters.

    Raises:
        GrandError: If it is neither.
    """
    if text.strip().lower() not in ("true", "false"):
        raise GrandError(f"{name} is {shown(text)}, expected True or False", "broken row")
    return text.strip().lower() == "true"
