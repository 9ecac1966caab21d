"""Scores of texts against reference texts, without Java: tokens, BLEU, ROUGE-L and CIDEr as pycocoevalcap computes them.

Texts of benchmarks are tokenised by Stanford's PTB tokenizer there, a Java program; ``ptb_tokens`` gives the same tokens for
the sentences of this field (all but 4 of 23,277 real ones, ``tests/test_textmetrics.py``). METEOR exists as a Java program only
(``meteor``).
"""

from __future__ import annotations

import math
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

REMOVED = frozenset(("''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"))
_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
_SPLIT = {"cannot": "can not", "gonna": "gon na", "gotta": "got ta", "wanna": "wan na", "gimme": "gim me", "lemme": "lem me"}
_ABBREVIATIONS = (
    "mr|mrs|ms|dr|prof|st|jr|sr|etc|vs|no|inc|ltd|co|corp|dept|fig|figs|approx|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec"
)
_PATTERNS = (
    r"(?P<bracket>[()\[\]{}])",
    r"(?P<quote>''|``)",
    r"(?P<marks>[?!]{2,})",
    r"(?P<clitic>n't|'(?:s|re|ve|ll|d|m)\b)",
    rf"(?P<abbreviation>(?:[a-z]\.){{2,}}|(?:{_ABBREVIATIONS})\.(?=\s*\S))",
    r"(?P<number>[0-9]+(?:[.,:/][0-9]+)*(?![a-z0-9]))",
    r"(?P<word>[^\W_]+(?:(?:['’](?!(?:s|re|ve|ll|d|m|t)\b)|[-/_.&@](?=[^\W_]))[^\W_]+)*)",
    r"(?P<dots>\.{3}|…)",
    r"(?P<dash>--+|[–—])",
    r"(?P<other>\S)",
)
_TOKEN = re.compile("|".join(_PATTERNS))


def ptb_tokens(text: str) -> list[str]:
    """Lower-case tokens without punctuation, as pycocoevalcap's PTBTokenizer gives them."""
    out: list[str] = []
    text = " ".join(text.split()).lower().replace("’", "'")
    for match in _TOKEN.finditer(re.sub(r"(?<=[a-z])n't\b", r" n't", text)):
        kind, token = match.lastgroup, match[0]
        if kind == "bracket":
            out.append(_BRACKETS[token])
        elif kind == "word" and token in _SPLIT:
            out += _SPLIT[token].split()
        elif kind not in ("dots", "dash", "quote") and token not in REMOVED and token not in '"“”‘':
            out.append(token)
    return out


def bleu(answers: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> Floats:
    """BLEU-1 to BLEU-4 over a whole corpus, (4,); the closest reference length, and pycocoevalcap's smoothing of empty counts.

    Args:
        answers: Tokens of each answer.
        references: Tokens of its references.
    """
    return bleu_of(np.sum([bleu_counts(a, r) for a, r in zip(answers, references, strict=True)], axis=0))


def bleu_counts(answer: Sequence[str], references: Sequence[Sequence[str]]) -> Floats:
    """What one answer adds to a corpus' BLEU: matches of 1 to 4 words, numbers of them, own and reference length, (10,)."""
    most: Counter[tuple[str, ...]] = Counter()
    for reference in references:
        most |= _grams(reference)
    own = _grams(answer)
    matched, guessed = np.zeros(4), np.array([max(0, len(answer) - k) for k in range(4)], np.float64)
    for gram, count in own.items():
        matched[len(gram) - 1] += min(count, most[gram])
    closest = min((abs(len(r) - len(answer)), len(r)) for r in references)[1]
    return np.array([*matched, *guessed, len(answer), closest], np.float64)


def bleu_of(sums: Floats) -> Floats:
    """BLEU-1 to BLEU-4 (..., 4) from sums (..., 10) of ``bleu_counts``."""
    sums = np.asarray(sums, np.float64)
    precision = np.cumprod((sums[..., :4] + 1e-15) / (sums[..., 4:8] + 1e-9), axis=-1)
    ratio = (sums[..., 8] + 1e-15) / (sums[..., 9] + 1e-9)
    short = np.where(ratio < 1, np.exp(1 - 1 / np.where(ratio > 0, ratio, 1)), 1.0)
    return precision ** (1 / np.arange(1, 5)) * short[..., None]


def _grams(tokens: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + n]) for n in range(1, 5) for i in range(len(tokens) - n + 1))


def rouge_l(answer: Sequence[str], references: Sequence[Sequence[str]], beta: float = 1.2) -> float:
    """ROUGE-L: F of the longest common subsequence, by the best precision and the best recall over the references."""
    common = [_longest_common(answer, reference) for reference in references]
    precision = max(n / len(answer) for n in common) if answer else 0.0
    recall = max((n / len(reference) if reference else 0.0) for n, reference in zip(common, references, strict=True))
    if not precision or not recall:
        return 0.0
    return (1 + beta**2) * precision * recall / (recall + beta**2 * precision)


def _longest_common(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence, a whole row of the table at once as the bits of one number (Hyyro, 2004)."""
    places: dict[str, int] = {}
    for j, token in enumerate(b):
        places[token] = places.get(token, 0) | 1 << j
    row = full = (1 << len(b)) - 1  # a bit is 0 where the length grows
    for token in a:
        found = row & places.get(token, 0)
        row = (row + found) | (row - found)
    return len(b) - (row & full).bit_count()


@dataclass(frozen=True, slots=True)
class _Vector:
    """TF-IDF weights of an answer or reference by length of n-gram, their norms, and its length in pairs of words."""

    weights: tuple[dict[tuple[str, ...], float], ...]
    norms: tuple[float, ...]
    length: int


def cider(answers: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]], sigma: float = 6.0) -> Floats:
    """CIDEr(-D) of each answer, (n,); the figure of a corpus is the mean.

    How rare an n-gram is, is counted over the references at hand: figures of different sets of questions do not compare, and
    a single question scores 0.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    for group in references:
        seen.update({gram for reference in group for gram in _grams(reference)})
    total = math.log(float(len(references))) if references else 0.0

    def vector(tokens: Sequence[str]) -> _Vector:
        weights: tuple[dict[tuple[str, ...], float], ...] = ({}, {}, {}, {})
        grams = _grams(tokens)
        for gram, count in grams.items():
            weights[len(gram) - 1][gram] = count * (total - math.log(max(1.0, seen[gram])))
        norms = tuple(math.sqrt(sum(w * w for w in part.values())) for part in weights)
        return _Vector(weights, norms, sum(count for gram, count in grams.items() if len(gram) == 2))

    def alike(a: _Vector, b: _Vector) -> float:
        out, penalty = 0.0, math.exp(-((a.length - b.length) ** 2) / (2 * sigma**2))
        for n in range(4):
            shared = sum(min(w, b.weights[n].get(gram, 0.0)) * b.weights[n].get(gram, 0.0) for gram, w in a.weights[n].items())
            if a.norms[n] and b.norms[n]:
                shared /= a.norms[n] * b.norms[n]
            out += shared * penalty
        return out / 4

    scores = []
    for answer, group in zip(answers, references, strict=True):
        own = vector(answer)
        scores.append(10 * sum(alike(own, vector(reference)) for reference in group) / len(group))
    return np.array(scores, np.float64)


def meteor(answers: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> tuple[float, Floats] | None:
    """METEOR 1.5 of the corpus and of each answer, by the Java program that pycocoevalcap carries.

    Returns:
        None where either is missing or the program does not run.
    """
    if shutil.which("java") is None:
        return None
    try:
        from pycocoevalcap.meteor.meteor import Meteor
    except ImportError:
        return None
    scorer = Meteor()
    try:
        total, each = scorer.compute_score(
            {k: [" ".join(reference) for reference in group] for k, group in enumerate(references)},
            {k: [" ".join(answer)] for k, answer in enumerate(answers)},
        )
    except (OSError, ValueError):  # no jar, or too little memory for it: its answer is empty, and no number
        return None
    finally:
        if scorer.lock.locked():  # its own end would wait for it for ever
            scorer.lock.release()
        scorer.meteor_p.kill()
        scorer.meteor_p.communicate()
    return float(total), np.array(each, np.float64)
