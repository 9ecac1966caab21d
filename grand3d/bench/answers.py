"""Short answers compared with reference answers, by the rules of the benchmarks that ask for them.

Each rule gives exact match (EM) and, where it has one, a refined match (EM-R) that also takes an answer which holds the
reference or is held by it, blanks aside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
    *("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_SPELLING = {
    **{"letf": "left", "let": "left", "tehre": "there", "rigth": "right", "rght": "right", "behine": "behind", "tv": "TV"},
    **{"chai": "chair", "wasing": "washing", "waslked": "walked", "oclock": "o'clock", "none": "zero", "23": "twenty-three"},
    **{str(number): word for number, word in enumerate(_NUMBERS)},
}
_WORD = re.compile(r"\b(?:" + "|".join(sorted(_SPELLING, key=len, reverse=True)) + r")\b")
_CHAT_MARKS = re.compile(r"<\|?[a-z_/]+\|?>|\[/?INST\]|###|ASSISTANT:|USER:", re.I)
MMSCAN_LENGTH = 256
"""Characters of an answer that MMScan's evaluator reads."""


def clean(text: str) -> str:
    """An answer as LEO normalises it: lower case, few marks, slips of spelling mended, numbers to twenty as words, no article."""
    text = " ".join(text.lower().split())
    text = re.sub(r"[^a-z0-9,'\s\-:]+", "", text).strip()
    text = re.sub(r"\bo' +clock\b", "o'clock", text)
    text = _WORD.sub(lambda match: _SPELLING[match[0]], text)
    text = re.sub(r"\b([a-zA-Z]+)[0-9]\b", r"\1", text)  # a label with its number
    text = re.sub(r"\b(?:an?|the) (?=[a-zA-Z])", "", text)
    return re.sub(r"\bbackwards\b", "backward", text)


def _alike(answer: str, reference: str) -> bool:
    """One holds the other, blanks aside."""
    a, b = "".join(answer.split()), "".join(reference.split())
    return a in b or b in a


def match_scanqa(answer: str, references: Sequence[str]) -> bool:
    """ScanQA's official EM: the answer as it is, among the references as they are."""
    return answer in references


def match_leo(answer: str, references: Sequence[str]) -> tuple[bool, bool]:
    """(EM, EM-R) of LEO's and Beacon3D's script on cleaned texts.

    It stops at the first reference that the answer equals, holds or is held by: EM then depends on the order of the
    references. An empty answer is held by every reference, so its EM-R is 1.
    """
    own = clean(answer)
    for reference in map(clean, references):
        if own == reference:
            return True, True
        if _alike(own, reference):
            return False, True
    return False, False


def match_mmscan(answer: str, references: Sequence[str]) -> tuple[bool, bool]:
    """(EM, refined EM) of MMScan's devkit: marks of chat formats go, the first 256 characters count; nothing is wrong."""
    own, known = _mmscan_text(answer), [_mmscan_text(text) for text in references]
    return own in known, bool(own) and any(_alike(own, text) for text in known)


def match(answer: str, references: Sequence[str]) -> tuple[bool, bool]:
    """(EM, EM-R) as LEO's means them: over all references, in any order, and nothing where there is no answer."""
    own, known = clean(answer), [clean(text) for text in references]
    return own in known, bool(own) and any(_alike(own, text) for text in known)


def _mmscan_text(text: str) -> str:
    return clean(_CHAT_MARKS.sub("", text).strip()[:MMSCAN_LENGTH])


RULES: dict[str, Callable[[str, Sequence[str]], tuple[bool, bool]]] = {
    "leo": match_leo,
    "mmscan": match_mmscan,
    "all references": match,
}
"""Rules of EM and EM-R that reports show side by side, the official ones under their names."""
