"""The Pareto front, grey relational analysis, and the metrics of trials."""

from dataclasses import replace

import numpy as np
import pytest

from fenchel_deploy.papers.choice import Metrics, Range, Trial, diverged, grey_grades, judged, pareto_front

GOOD = Metrics(1.0, 2.0, 3.0, 0.1, 0.9, 0.01, 5.0)


def test_values_are_drawn_with_even_density_over_their_logarithms() -> None:
    rng = np.random.default_rng(0)
    drawn = np.log10([Range(1e-5, 1e1).drawn(rng) for _ in range(4000)])
    counts, _ = np.histogram(drawn, bins=6, range=(-5, 1))
    assert counts.sum() == 4000
    assert np.abs(counts / 4000 - 1 / 6).max() < 0.03
    assert {Range(0.2, 3.0, whole=True).drawn(rng) for _ in range(200)} == {1, 2, 3}


def test_the_front_has_the_trials_that_no_other_one_beats() -> None:
    costs = np.array([[1.0, 4.0], [2.0, 2.0], [4.0, 1.0], [2.0, 3.0], [2.0, 2.0]])
    assert pareto_front(costs) == [0, 1, 2, 4], "equal trials do not beat each other"


def test_grades_are_those_of_a_calculation_by_hand() -> None:
    """F = 1, 0.5, 0 and 0, 0.75, 1: Δ = 0, 0.5, 1 and 1, 0.25, 0, of which the least is 0 and the largest 1."""
    grades = grey_grades(np.array([[1.0, 5.0], [2.0, 2.0], [3.0, 1.0]]))
    np.testing.assert_allclose(grades, [(1 + 0.5) / 2, (1 / 1.5 + 1 / 1.25) / 2, (0.5 + 1) / 2])
    np.testing.assert_array_equal(grey_grades(np.array([[1.0, 7.0], [1.0, 7.0]])), [1.0, 1.0])


def test_diverged_and_beaten_trials_have_no_grade_and_the_largest_grade_is_chosen() -> None:
    worse = replace(GOOD, last_losses=0.2, accuracy=0.8)
    slower = replace(GOOD, runtime_0=9.0, runtime_257=9.0, runtime_800=9.0, last_losses=0.09)
    trials = [Trial({"a": number}, metrics) for number, metrics in enumerate([None, worse, slower, GOOD])]
    found = judged(trials)
    assert [one.grade is None for one in found] == [True, True, False, False]
    assert [one.chosen for one in found] == [False, False, False, True]
    assert [one.trial for one in found] == trials
    assert not any(one.chosen for one in judged(trials[:1]))


def test_the_metrics_of_a_trial() -> None:
    losses = [1.0, 0.5, 0.05, 0.2, 0.1, 0.1, 0.05, 0.0]
    metrics = Metrics.of(losses, [0.5, 0.9, 0.8], work_s=2.0, trips=4.0)
    assert (metrics.runtime_0, metrics.runtime_257, metrics.runtime_800) == pytest.approx((2.0, 3.03, 5.2))
    assert metrics.last_losses == pytest.approx(0.09)
    assert metrics.accuracy == 0.9
    assert metrics.volatility == pytest.approx(np.std(np.diff(losses)))
    assert metrics.rounds_to_90 == 2
    assert metrics.costs[4] == -0.9
    assert diverged([1.0, 2.0, 3.0])
    assert diverged([1.0, float("inf")])
    assert not diverged(losses)
