from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d import metrics


def test_accuracy_at_counts_the_threshold_itself_as_a_hit() -> None:
    assert metrics.accuracy_at([0.25, 0.2499999, 0.5, 0.0], 0.25) == 0.5


def test_accuracy_at_over_nothing_is_nan() -> None:
    assert math.isnan(metrics.accuracy_at([], 0.25))


def test_binary_rates_of_known_counts_are_right() -> None:
    rates = metrics.binary_rates([6, 2, 3, 9])
    assert rates["precision"] == 0.75
    assert rates["recall"] == pytest.approx(6 / 9)
    assert rates["f1"] == pytest.approx(12 / 17)
    assert rates["accuracy"] == 0.75
    assert rates["yes"] == 0.4


def test_binary_rates_without_any_yes_are_zero_not_nan() -> None:
    rates = metrics.binary_rates([0, 0, 0, 5])
    assert (rates["precision"], rates["recall"], rates["f1"], rates["accuracy"]) == (0, 0, 0, 1)
    assert math.isnan(metrics.binary_rates([0, 0, 0, 0])["accuracy"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_confusion_puts_every_question_into_one_cell(rows: list[tuple[bool, bool]]) -> None:
    truth, said = zip(*rows, strict=True)
    counts = metrics.confusion(truth, said)
    assert (counts.sum(axis=1) == 1).all()
    assert metrics.binary_rates(counts.sum(axis=0))["accuracy"] == pytest.approx(np.mean(np.array(truth) == np.array(said)))


def test_mean_interval_is_the_same_for_the_same_seed_and_contains_the_mean() -> None:
    rng = np.random.default_rng(3)
    values, scenes = rng.random(300), rng.integers(0, 30, 300)
    low, high = metrics.mean_interval(values, scenes)
    assert (low, high) == metrics.mean_interval(values, scenes)
    assert low < values.mean() < high
    assert high - low < 0.2


def test_mean_interval_of_identical_samples_per_scene_is_as_wide_as_of_the_scenes() -> None:
    scene_values = np.random.default_rng(0).random(20)
    once = metrics.mean_interval(scene_values, np.arange(20))
    fifty_times = metrics.mean_interval(np.repeat(scene_values, 50), np.repeat(np.arange(20), 50))
    assert fifty_times == pytest.approx(once)
    independent = metrics.mean_interval(np.repeat(scene_values, 50), np.arange(1000))
    assert independent[1] - independent[0] < (once[1] - once[0]) / 3


def test_mean_interval_of_one_scene_is_nan() -> None:
    assert all(map(math.isnan, metrics.mean_interval([0, 1, 1], ["a", "a", "a"])))
    assert all(map(math.isnan, metrics.mean_interval([], [])))


def test_mean_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        scene = np.repeat(np.arange(40), 5)
        values = rng.normal(size=40)[scene] + rng.normal(size=200)
        low, high = metrics.mean_interval(values, scene)
        covered += low <= 0 <= high
    assert 175 <= covered <= 200


@settings(deadline=None)  # the oracle is imported in the first example
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_binary_rates_are_those_of_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    truth, said = ([pair[k] for pair in pairs] for k in (0, 1))
    ours = metrics.binary_rates(metrics.confusion(truth, said).sum(axis=0))
    theirs = sklearn.precision_recall_fscore_support(truth, said, average="binary", zero_division=0)
    assert [float(ours[key]) for key in ("precision", "recall", "f1")] == pytest.approx(theirs[:3])
    assert float(ours["accuracy"]) == pytest.approx(sklearn.accuracy_score(truth, said))
