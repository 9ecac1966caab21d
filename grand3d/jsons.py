"""JSON as data files need it: values, and one message for whatever Python's own reader trips over or lets through."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from grand3d.errors import GrandError, shown

MAX_DEPTH = 100
"""Lists and objects inside each other that a file may have here; Python itself gives up somewhere near 1,000."""


def decode(text: str) -> Any:
    r"""JSON to values. NaN, Infinity and ``\u0000`` are let through here: in a document they spoil one row, not all of it.

    Raises:
        GrandError: Also for what Python's reader lets through or trips over: a key twice in one object (one value would
            be lost), half a surrogate pair (not text), NUL characters, numbers of thousands of digits, very deep nesting.
    """
    refuse_nul(text)
    try:
        value = json.loads(text, object_pairs_hook=_once)
        if text.count("[") + text.count("{") > MAX_DEPTH:
            _refuse_depth(value)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise _not_json(text, error) from error
    except RecursionError:
        raise _too_deep() from None
    except UnicodeEncodeError:
        raise GrandError("a text holds half a surrogate pair (\\ud...), expected a whole one", "not text") from None
    except GrandError:
        raise
    except ValueError:  # Python turns no more than 4,300 digits into a number, or as many as its settings say
        number = max(re.finditer("[0-9]+", text), key=lambda match: len(match[0]))
        seen = f"a number of {len(number[0]):,} digits at {_position(text, number.start())}"
        reason = "expected one that fits a float (up to 1.8e308); is it an id without quotes, or are commas lost?"
        raise GrandError(f"{seen}, {reason}", "bad number") from None
    return value


def _once(items: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(items)
    if len(row) < len(items):
        twice = next(key for key, count in Counter(key for key, _ in items).items() if count > 1)
        raise GrandError(f"key {shown(twice)} occurs twice in one JSON object; one of the values would be lost", "key twice")
    return row


def leaves(value: Any) -> Iterator[Any]:
    """All that is neither list nor object in a decoded value, and the keys of its objects, in no order."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield from item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        else:
            yield item


def refuse_nul(text: str) -> None:
    """Refuse text with a NUL character in it, which no text of ours has a use for."""
    position = text.find("\0")
    if position >= 0:
        where = _position(text, position)
        raise GrandError(f"a NUL character at {where}; is the file damaged, or not text at all? Expected text", "NUL character")


def _not_json(text: str, error: json.JSONDecodeError) -> GrandError:
    rest = text[error.pos :].strip()
    expected = f"expected {error.msg.removeprefix('Expecting ')}" if error.msg.startswith("Expecting ") else error.msg
    hint, cause = "", "not JSON"
    if not text.strip():
        hint = "; it is empty"
    elif error.msg == "Extra data":
        expected = "expected the end, for one value was whole"
        if "\n" in text[: error.pos]:
            hint = "; it looks like JSON lines, where one JSON document is expected"
        elif "\r" in text[: error.pos]:
            hint, cause = "; lines end with CR alone, where LF or CRLF is expected", "CR alone"
        else:
            hint = "; two objects on one line?"
    elif error.msg.startswith("Unterminated"):
        expected, hint = "expected the closing quote", "; it ends inside a text: is it cut off?"
    elif not rest or (len(rest) < 6 and rest[-1] not in "]}"):  # 6: inside of false, \\u00e9, ...
        hint = "; it ends too early: is it cut off?"
    seen = shown(rest[:30]) if rest else "the end"
    return GrandError(f"not JSON: seen {seen} at {_position(text, error.pos)}, {expected}{hint}", cause)


def _position(text: str, position: int) -> str:
    return f"line {text.count(chr(10), 0, position) + 1}, column {position - text.rfind(chr(10), 0, position)}"


def _refuse_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner = [item for item in level if isinstance(item, list | dict)]
        if not inner:
            return
        level = [child for item in inner for child in (item.values() if isinstance(item, dict) else item)]
    raise _too_deep()


def _too_deep() -> GrandError:
    return GrandError(
        f"nested too deeply: more than {MAX_DEPTH} lists and objects inside each other; expected fewer", "nested too deeply"
    )
