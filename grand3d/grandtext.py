"""The scene text of 3D-GRAND's own prompts, byte for byte: a Python dict an object."""

from __future__ import annotations

import re
from collections.abc import Iterable

from grand3d.duplicates import scene_extent
from grand3d.errors import GrandError
from grand3d.scene import Object, Triple

_START, _END = "%%%% Object-centric context:", "%%%%"
_ID = re.compile(r" <obj_([0-9]+)>: \{")
_KEY = re.compile(r"(?:, )?'(category|description|centroid|extent)': ")
_NUMBERS = re.compile(r"\[(-?[0-9]{1,9}\.[0-9]{2}), (-?[0-9]{1,9}\.[0-9]{2}), (-?[0-9]{1,9}\.[0-9]{2})\]")
_LITERAL = re.compile(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"")
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}


def write_grand(objects: Iterable[Object]) -> str:
    """Objects in their order as 3D-GRAND's scene text."""
    return _START + "".join(_item(k, item) for k, item in enumerate(objects)) + _END


def _item(k: int, item: Object) -> str:
    row = {"category": item.category}
    if item.description is not None:
        row["description"] = item.description
    row["centroid"] = "[" + ", ".join(f"{value:.2f}" for value in item.centroid) + "]"
    row["extent"] = "[" + ", ".join(f"{value:.2f}" for value in scene_extent(item)) + "]"
    return f" <obj_{k}>: {row!r};"


def read_grand(text: str) -> list[Object]:
    """The objects of such a text, named ``obj_k``.

    Raises:
        GrandError: If the text is not of the form, with the position.
    """
    if not text.startswith(_START):
        raise GrandError(f"scene text: begins with {text[:40]!r}, expected {_START!r}")
    objects: list[Object] = []
    position = len(_START)
    while text[position:] != _END:
        match = _ID.match(text, position)
        if match is None or match[1] != str(len(objects)):
            raise _fault(text, position, f"<obj_{len(objects)}>: {{...}}; or the closing {_END}")
        row, position = _read_row(text, match.end())
        objects.append(
            Object(
                object_id=f"obj_{len(objects)}",
                category=row["category"],
                centroid=_read_numbers(row["centroid"], position),
                extent=_read_numbers(row["extent"], position),
                description=row.get("description"),
            )
        )
    return objects


def _read_row(text: str, position: int) -> tuple[dict[str, str], int]:
    """The strings of one object and where the next begins."""
    row: dict[str, str] = {}
    while not text.startswith("};", position):
        key = _KEY.match(text, position)
        value = _LITERAL.match(text, key.end()) if key is not None else None
        if key is None or value is None or key[1] in row or key[0].startswith(",") != bool(row):
            raise _fault(text, position, "'key': 'text'")
        row[key[1]] = _unescape(value[1] if value[1] is not None else value[2], text, position)
        position = value.end()
    missing = [name for name in ("category", "centroid", "extent") if name not in row]
    if missing:
        raise _fault(text, position, f"an object with {', '.join(missing)}")
    return row, position + 2


def _unescape(words: str, text: str, position: int) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code is not None and int(code, 16) <= 0x10FFFF:
            return chr(int(code, 16))
        if match[4] not in _ESCAPES:
            raise _fault(text, position, f"a Python string, not the escape {match[0]!r}")
        return _ESCAPES[match[4]]

    return _ESCAPE.sub(character, words)


def _read_numbers(words: str, position: int) -> Triple:
    match = _NUMBERS.fullmatch(words)
    if match is None:
        raise GrandError(f"scene text, before character {position}: seen {words[:60]!r}, expected '[x.xx, y.yy, z.zz]'")
    return float(match[1]), float(match[2]), float(match[3])


def _fault(text: str, position: int, expected: str) -> GrandError:
    return GrandError(f"scene text, character {position}: seen {text[position : position + 40]!r}, expected {expected}")
