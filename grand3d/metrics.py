"""Figures and their uncertainty. Everything here is a fraction of 1; reports turn them into percent.

Samples of one scene are not independent, so every interval resamples scenes, not samples. A figure over nothing is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grand3d.errors import GrandError, import_extra

Floats = NDArray[np.float64]


def accuracy_at(overlap: ArrayLike, threshold: float) -> float:
    """Fraction of IoUs (n,) at or above a threshold."""
    overlap = np.asarray(overlap, np.float64)
    return float((overlap >= threshold).mean()) if overlap.size else math.nan


def confusion(truth: ArrayLike, said_yes: ArrayLike) -> Floats:
    """One row (true positive, false positive, false negative, true negative) per question, to be summed."""
    truth, said_yes = np.asarray(truth, bool), np.asarray(said_yes, bool)
    return np.stack([truth & said_yes, ~truth & said_yes, truth & ~said_yes, ~truth & ~said_yes], axis=-1).astype(np.float64)


def binary_rates(counts: ArrayLike) -> dict[str, Floats]:
    """Precision, recall, F1, accuracy and the share of yes from counts (..., 4) as :func:`confusion` sums give.

    A rate whose denominator is 0 is 0, as in the public 3D-POPE script; accuracy and yes over no question are NaN.
    """
    tp, fp, fn, tn = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    total = tp + fp + fn + tn
    nothing = np.where(total > 0, 0.0, np.nan)
    precision, recall = _ratio(tp, tp + fp), _ratio(tp, tp + fn)
    return {
        "precision": precision,
        "recall": recall,
        "f1": _ratio(2 * precision * recall, precision + recall),
        "accuracy": _ratio(tp + tn, total) + nothing,
        "yes": _ratio(tp + fp, total) + nothing,
    }


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros(np.broadcast(above, below).shape), where=below > 0)


def bootstrap(
    columns: ArrayLike,
    clusters: Sequence[Any],
    statistic: Callable[[Floats], Floats],
    level: float = 0.95,
    num_draws: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile interval of a figure made of sums, drawing whole clusters with replacement.

    Args:
        columns: (n, k), one row per sample; the figure is a function of the column sums.
        clusters: The n scenes the samples belong to.
        statistic: From sums (num_draws, k) to figures (num_draws,).
        level: Coverage.
        num_draws: Resamples.
        seed: Same seed, same interval.

    Returns:
        Lower and upper end; NaN when there are fewer than two clusters, which say nothing about their spread, or no draw has
        a figure.
    """
    columns = np.asarray(columns, np.float64)
    names, index = np.unique(np.asarray(clusters), return_inverse=True)
    if len(names) < 2:
        return math.nan, math.nan
    sums = np.zeros((len(names), columns.shape[1]))
    np.add.at(sums, index, columns)
    draws = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=num_draws)
    figures = statistic(draws @ sums)
    if np.isnan(figures).all():
        return math.nan, math.nan
    low, high = np.nanquantile(figures, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def mean_interval(values: ArrayLike, clusters: Sequence[Any], level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """:func:`bootstrap` interval of a mean over samples; ``values`` (n,)."""
    values = np.asarray(values, np.float64)
    columns = np.stack([values, np.ones_like(values)], axis=-1)
    return bootstrap(columns, clusters, lambda sums: sums[:, 0] / sums[:, 1], level, seed=seed)


def paired_difference(ours: ArrayLike, theirs: ArrayLike, clusters: Sequence[Any], seed: int = 0) -> dict[str, float]:
    """Mean of ours minus mean of theirs over the same samples, ``low`` and ``high`` of its 95 % interval (whole clusters drawn),
    and the numbers of samples ``won`` and ``lost``.
    """
    gained = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    low, high = mean_interval(gained, clusters, seed=seed)
    mean = float(gained.mean()) if gained.size else math.nan
    return {"difference": mean, "low": low, "high": high, "won": int((gained > 0).sum()), "lost": int((gained < 0).sum())}


def match(overlap: ArrayLike) -> list[tuple[int, int]]:
    """Pairs (prediction, true box) of the matching with the most overlap in sum (Hungarian); pairs without overlap are left out.

    It is the sum that is most, as Multi3DRefer has it, not the number of pairs above a threshold.

    Raises:
        GrandError: If scipy is missing (extra ``bench``).
    """
    overlap = np.asarray(overlap, np.float64)
    if not overlap.size:
        return []
    if min(overlap.shape) == 1:  # the most common case needs no solver
        index = np.unravel_index(int(overlap.argmax()), overlap.shape)
        return [(int(index[0]), int(index[1]))] if overlap[index] > 0 else []
    rows, columns = import_extra("scipy.optimize", "bench").linear_sum_assignment(overlap, maximize=True)
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if overlap[i, j] > 0]


def matched_f1(overlap: ArrayLike, threshold: float) -> float:
    """F1 of predictions against true boxes by ``match``, pairs from the threshold on; 1 where there are neither, 0 where one is.

    Args:
        overlap: (predictions, true boxes).
    """
    overlap = np.asarray(overlap, np.float64)
    if not overlap.size:
        return float(overlap.shape == (0, 0))
    hits = sum(overlap[pair] >= threshold for pair in match(overlap))
    return 2 * hits / sum(overlap.shape)


def proportions_differ(hits: float, n: int, other_hits: float, other_n: int) -> float:
    """p value of the two-sided two-proportion z-test; NaN where it says nothing."""
    if not n or not other_n:
        return math.nan
    share = (hits + other_hits) / (n + other_n)
    spread = math.sqrt(share * (1 - share) * (1 / n + 1 / other_n))
    return math.erfc(abs(hits / n - other_hits / other_n) / spread / math.sqrt(2)) if spread else math.nan


def raking_weights(inside: ArrayLike, shares: ArrayLike, tolerance: float = 1e-9, max_rounds: int = 5000) -> Floats:
    """Weights under which overlapping groups have given shares, as near to equal weights as can be (raking, iterative
    proportional fitting: Deming & Stephan, 1940).

    Args:
        inside: (n, k), whether a sample is in a group; samples may be in several, or in none.
        shares: (k,) of the groups, each of all samples.

    Returns:
        (n,) with mean 1.

    Raises:
        GrandError: If no weights give all the shares at once.
    """
    inside, shares = np.asarray(inside, bool), np.asarray(shares, np.float64)
    weights = np.full(len(inside), 1 / max(len(inside), 1))
    for _ in range(max_rounds):
        for column, share in zip(inside.T, shares, strict=True):
            for part, wanted in ((column, share), (~column, 1 - share)):
                there = weights[part].sum()
                weights[part] *= wanted / there if there > 0 else 0
        if np.abs(weights @ inside - shares).max(initial=0) < tolerance and abs(weights.sum() - 1) < tolerance:
            return weights * len(weights)
    reached = ", ".join(f"{share:.3g}" for share in weights @ inside)
    wanted = ", ".join(f"{share:.3g}" for share in shares)
    raise GrandError(
        f"no weights give the groups the shares {wanted} at once, expected shares that samples can have; got {reached}"
    )


def reliability(confidence: ArrayLike, correct: ArrayLike, num_bins: int = 10) -> list[dict[str, Any]]:
    """A reliability diagram as rows: bins of equal width with something in them, each with n, mean confidence and accuracy."""
    confidence, correct = np.asarray(confidence, np.float64), np.asarray(correct, np.float64)
    index = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    rows = []
    for k in np.unique(index):
        inside = index == k
        rows.append(
            {
                "from": k / num_bins,
                "to": (k + 1) / num_bins,
                "n": int(inside.sum()),
                "confidence": float(confidence[inside].mean()),
                "accuracy": float(correct[inside].mean()),
            }
        )
    return rows


def calibration_error(confidence: ArrayLike, correct: ArrayLike, num_bins: int = 10) -> float:
    """Expected calibration error (Naeini et al., 2015): mean gap between confidence and accuracy over bins of equal width."""
    rows = reliability(confidence, correct, num_bins)
    total = sum(row["n"] for row in rows)
    return sum(row["n"] * abs(row["confidence"] - row["accuracy"]) for row in rows) / total if total else math.nan
