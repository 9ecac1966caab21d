"""Ranked boxes against MMScan's and EmbodiedScan's own values, and against counting by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grand3d.detection import average_precision, hits, pooled, ranked, recall, top_share, true_positives

OVERLAPS = st.integers(1, 4).flatmap(
    lambda m: st.lists(st.lists(st.sampled_from([0.0, 0.2, 0.25, 0.4, 0.5, 0.9]), min_size=m, max_size=m), min_size=1, max_size=9)
)


def test_golden_cases_of_mmscan(golden: Callable[[str], Path]) -> None:
    cases = json.loads(golden("mmscan/ap_ar_gtopk_cases.json").read_text())["cases"]
    assert len(cases) == 9
    for case in cases:
        overlap = np.array(case["iou"])
        for threshold in (0.25, 0.5):
            found = hits(overlap, threshold)
            positive, num = true_positives(found), overlap.shape[1]
            seen = {"AP": average_precision(positive, num), "AR": recall(positive, num)}
            seen |= {f"gTop-{k}": top_share(found, num, k) for k in (1, 3, 5, 10)}
            for name, value in seen.items():
                assert value == pytest.approx(case[f"{name}@{threshold}"], abs=1e-6), (case["name"], name, threshold)


def slow_positives(overlap: np.ndarray, threshold: float) -> list[bool]:
    taken, out = set(), []
    for row in overlap:
        best = int(np.argmax(row))
        out.append(bool(row[best] >= threshold and best not in taken))
        taken |= {best} if out[-1] else set()
    return out


def slow_ap(positive: list[bool], num_true: int) -> float:
    points = [(sum(positive[: i + 1]) / num_true, sum(positive[: i + 1]) / (i + 1)) for i in range(len(positive))]
    area, reached = 0.0, 0.0
    for level in sorted({r for r, _ in points}):
        area += (level - reached) * max(p for r, p in points if r >= level)
        reached = level
    return area


@given(OVERLAPS, st.sampled_from([0.25, 0.5]))
def test_average_precision_is_the_area_counted_by_hand(rows: list[list[float]], threshold: float) -> None:
    overlap = np.array(rows)
    positive = true_positives(hits(overlap, threshold))
    assert positive.tolist() == slow_positives(overlap, threshold)
    assert average_precision(positive, overlap.shape[1]) == pytest.approx(slow_ap(positive.tolist(), overlap.shape[1]))
    assert 0 <= average_precision(positive, overlap.shape[1]) <= recall(positive, overlap.shape[1]) <= 1


@given(OVERLAPS)
def test_top_share_grows_with_k(rows: list[list[float]]) -> None:
    found = hits(np.array(rows), 0.25)
    shares = [top_share(found, len(rows[0]), k) for k in (1, 3, 5, 10)]
    assert shares == sorted(shares) and shares[-1] <= 1


def test_nothing_predicted_scores_nothing_and_no_true_box_has_no_score() -> None:
    none = hits(np.zeros((0, 3)), 0.25)
    assert average_precision(true_positives(none), 3) == recall(true_positives(none), 3) == top_share(none, 3, 5) == 0
    assert all(np.isnan(x) for x in (average_precision([], 0), recall([], 0), top_share(none, 0, 1)))
    assert pooled([], [], 2) == (0.0, 0.0)


def test_equal_scores_keep_their_order() -> None:
    assert ranked([0.5, 0.9, 0.5, 0.9]).tolist() == [1, 3, 0, 2]


def test_pooled_ranks_the_predictions_of_all_samples_together() -> None:
    ap, ar = pooled([[0.9, 0.1], [0.5]], [[True, False], [True]], 3)
    assert (ap, ar) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
