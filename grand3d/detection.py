"""Scores of ranked boxes against true ones: average precision, recall, and the share found among the first few.

Everything is computed from overlaps (predictions, true boxes) whose rows stand best score first. A prediction belongs to the
true box that it overlaps most (the first of equals); it is a hit when that overlap reaches the threshold, and only the first
hit of a true box is a true positive. Later ones are false positives: there is no second choice. So MMScan's evaluator counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def ranked(scores: ArrayLike) -> NDArray[np.intp]:
    """Indices best score first; equals in their order, so that a figure does not depend on the machine."""
    return np.argsort(-np.asarray(scores, np.float64), kind="stable")


def hits(overlap: ArrayLike, threshold: float) -> NDArray[np.intp]:
    """Which true box each prediction hits, -1 for none: (predictions,)."""
    overlap = np.asarray(overlap, np.float64)
    if not overlap.size:
        return np.full(len(overlap), -1)
    best = overlap.argmax(axis=1)
    return np.where(overlap[np.arange(len(best)), best] >= threshold, best, -1)


def true_positives(found: NDArray[np.intp]) -> Bools:
    """Whether each prediction is the first hit of its true box, from ``hits``."""
    out = np.zeros(len(found), bool)
    names, first = np.unique(found, return_index=True)
    out[first[names >= 0]] = True
    return out


def average_precision(positive: ArrayLike, num_true: int) -> float:
    """Area under the precision-recall curve, each precision raised to the best at a higher recall (VOC 2010).

    Args:
        positive: Whether each prediction, best first, is a true positive.
        num_true: True boxes; NaN for none.
    """
    positive = np.asarray(positive, bool)
    if not num_true:
        return np.nan
    precision = positive.cumsum() / np.arange(1, len(positive) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float(best[positive].sum() / num_true)


def recall(positive: ArrayLike, num_true: int) -> float:
    """Share of the true boxes that are found at all; NaN for none."""
    return float(np.asarray(positive, bool).sum() / num_true) if num_true else np.nan


def top_share(found: NDArray[np.intp], num_true: int, k: int) -> float:
    """gTop-k of MMScan: over n = 1 to N true boxes, the share of n for which the first n k predictions hit n of them or more."""
    if not num_true:
        return np.nan
    known = true_positives(found).cumsum()
    wanted = np.arange(1, num_true + 1)
    last = np.minimum(wanted * k, len(found)) - 1
    return float((np.where(last >= 0, known[last] if len(found) else 0, 0) >= wanted).mean())


def pooled(scores: Sequence[ArrayLike], positives: Sequence[ArrayLike], num_true: int) -> tuple[float, float]:
    """AP and AR over the predictions of many samples, ranked together; ``num_true`` counts all their true boxes."""
    if not scores:
        return (0.0, 0.0) if num_true else (np.nan, np.nan)
    order = ranked(np.concatenate([np.asarray(row, np.float64) for row in scores]))
    positive = np.concatenate([np.asarray(row, bool) for row in positives])[order]
    return average_precision(positive, num_true), recall(positive, num_true)
