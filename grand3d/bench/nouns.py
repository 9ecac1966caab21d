"""Matching what people call things with category names: spelling, plurals and nothing more. Synonyms stay different."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_IRREGULAR = {
    "mice": "mouse",
    "people": "person",
    "men": "man",
    "women": "woman",
    "children": "child",
    "feet": "foot",
    "knives": "knife",
    "leaves": "leaf",
    "loaves": "loaf",
    "dice": "die",
}


def words(text: str) -> list[str]:
    """Lower-case words; ``_``, ``-`` and ``/`` part them like blanks do."""
    return _WORD.findall(text.lower())


def _singulars(word: str) -> set[str]:
    """What a word may be the plural of. Rules only, so a wrong candidate (``glasse``) may be among them."""
    out = set()
    if word in _IRREGULAR:
        out.add(_IRREGULAR[word])
    if word.endswith("lves"):
        out.add(word[:-3] + "f")
    if word.endswith("ies") and len(word) > 4:
        out.add(word[:-3] + "y")
    if word.endswith(("ses", "xes", "zes", "ches", "shes", "oes")):
        out.add(word[:-2])
    if word.endswith("s") and not word.endswith("ss") and len(word) > 2:
        out.add(word[:-1])
    return out


@lru_cache(maxsize=100_000)
def forms(name: str) -> frozenset[str]:
    """All normal forms of a noun phrase: as it is, and with its head noun in the singular.

    The head is the last word, or in ``cases of water bottles`` the word before ``of``. Labels joined by ``/``, as scene texts
    write merged proposals, count one by one too.
    """
    out = set()
    for part in {name, *name.split("/")}:
        parts = words(part)
        if parts:
            head = parts.index("of") - 1 if "of" in parts[1:] else len(parts) - 1
            out.add(" ".join(parts))
            out.update(" ".join([*parts[:head], one, *parts[head + 1 :]]) for one in _singulars(parts[head]))
    return frozenset(out)


def first_mention(text: str, categories: Iterable[str]) -> set[str]:
    """The categories named earliest in a text; of several names that start there, the longest. Empty when none is named."""
    by_form: dict[str, set[str]] = {}
    for category in categories:
        for form in forms(category):
            by_form.setdefault(form, set()).add(category)
    longest = max((form.count(" ") + 1 for form in by_form), default=0)
    parts = words(text)
    for start in range(len(parts)):
        for length in range(min(longest, len(parts) - start), 0, -1):
            found = {c for form in forms(" ".join(parts[start : start + length])) for c in by_form.get(form, ())}
            if found:
                return found
    return set()
