"""Short answers compared with reference answers, by the rules of the benchmarks that ask for them.

Each rule gives exact match (EM) and, where it has one, a refined match (EM-R) that also takes an answer which holds the
reference or is held by it, blanks aside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

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
_MMSCAN_MARKS = ("ASSISTANT:", "\n", "<s>", "</s>", "<unk>", "<p>", "</p>", "<ref>", "<|endoftext|>")
MMSCAN_LENGTH = 256
"""Characters of an answer that MMScan's evaluator reads."""


@lru_cache(1 << 14)  # each rule cleans the same texts
def clean(text: str) -> str:
    """An answer as LEO normalises it: lower case, few marks, slips of spelling mended, numbers to twenty as words, no article.

    SQA3D, Beacon3D and MMScan do the same. Blanks that a mark leaves behind stay, as they do there: ``brown .`` is not
    ``brown``.
    """
    text = re.sub(" +$|^ +", "", text.lower())
    text = re.sub(r"[^a-z0-9,'\s\-:]+", "", re.sub(" {2,}", " ", text))
    text = _WORD.sub(lambda match: _SPELLING[match[0]], text)
    text = re.sub(r"\bo' +clock\b", "o'clock", text)
    text = re.sub(r"\b([a-zA-Z]+)[0-9]\b", r"\1", text)  # a label with its number
    for article in ("a", "an", "the"):  # one after the other: each reads the word behind it, so that of "a a" one stays
        text = re.sub(rf"\b{article} ([a-zA-Z]+)", r"\1", text)
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
    own, known = mmscan_text(answer), [mmscan_text(text) for text in references]
    return own in known, any(_alike(own if own.strip() else "\0", text) for text in known)  # nothing is in no reference


def match(answer: str, references: Sequence[str]) -> tuple[bool, bool]:
    """(EM, EM-R) as LEO's means them: over all references, in any order, and nothing where there is no answer."""
    own, known = " ".join(clean(answer).split()), [" ".join(clean(text).split()) for text in references]
    return own in known, bool(own) and any(text and _alike(own, text) for text in known)


@lru_cache(1 << 14)
def mmscan_text(text: str) -> str:
    """A text as MMScan's evaluator compares it, for exact match and for the metrics of texts alike."""
    for mark in _MMSCAN_MARKS:
        text = text.replace(mark, "")
    return clean(re.sub(r"\s{2,}", " ", text.strip())[:MMSCAN_LENGTH])


RULES: dict[str, Callable[[str, Sequence[str]], tuple[bool, bool]]] = {
    "leo": match_leo,
    "mmscan": match_mmscan,
    "all references": match,
}
"""Rules of EM and EM-R that reports show side by side, the official ones under their names."""
