import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput
from fenchel_common.losses import LOSSES
from fenchel_common.scoresums import (
    CALIBRATION_ROWS,
    LEAST_IN_CLASS,
    SAMPLES_A_BIN,
    UNIT,
    ScoreSums,
    exact_figures,
)

Array = NDArray[np.float64]

LOGISTIC, HINGE, SQUARED = LOSSES["logistic"], LOSSES["hinge"], LOSSES["squared"]


def drawn(seed: int, *, samples: int = 400, spread: float = 1.0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    y = np.where(random.random(samples) < 0.3, 1.0, -1.0)
    return spread * (y + 1.5 * random.normal(size=samples)), y


def auc_by_pairs(z: Array, y: Array) -> float:
    of_positive, of_negative = z[y > 0.0][:, None], z[y <= 0.0][None, :]
    return float(((of_positive > of_negative) + 0.5 * (of_positive == of_negative)).mean())


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    samples=st.sampled_from([80, 400, 3000]),
    spread=st.sampled_from([1e-3, 0.05, 1.0, 30.0]),
    off=st.sampled_from([0.0, 1e-9, 0.02]),
)
def test_the_true_auc_is_within_the_stated_bound(seed: int, samples: int, spread: float, off: float) -> None:
    z, y = drawn(seed, samples=samples, spread=spread)
    wrong = z + off * np.random.default_rng(seed + 1).uniform(-1.0, 1.0, size=samples)
    sums = ScoreSums.of(LOGISTIC, samples=samples, least_in_class=LEAST_IN_CLASS)
    figures = sums.figures(sums.sums(wrong, y, off=off))
    assert figures.auc is not None
    assert figures.auc_error is not None
    assert abs(figures.auc - auc_by_pairs(z, y)) <= figures.auc_error + 1e-12


def test_the_bound_is_narrow_for_scores_of_usual_size() -> None:
    z, y = drawn(1, samples=900)
    sums = ScoreSums.of(HINGE, samples=900, least_in_class=LEAST_IN_CLASS)
    error = sums.figures(sums.sums(z, y)).auc_error
    assert error is not None
    assert 0.0 < error < 0.01


def test_sums_of_parts_add_up_to_the_figures_of_all() -> None:
    z, y = drawn(2)
    sums = ScoreSums.of(LOGISTIC, samples=len(z), least_in_class=LEAST_IN_CLASS)
    parts = [sums.sums(z[part], y[part]) for part in np.array_split(np.arange(len(z)), 3)]
    figures, p = sums.figures(np.sum(parts, axis=0)), 1.0 / (1.0 + np.exp(-z))
    right = np.where(y > 0.0, p, 1.0 - p)
    assert figures.samples == len(z)
    assert figures.accuracy == np.mean((z >= 0.0) == (y > 0.0))
    assert figures.log_loss == pytest.approx(-np.log(right).mean())
    assert figures.brier == pytest.approx(((1.0 - right) ** 2).mean())
    assert sum(row.samples for row in figures.calibration) == len(z)
    for number, row in enumerate(figures.calibration):
        inside = np.minimum((p * CALIBRATION_ROWS).astype(int), CALIBRATION_ROWS - 1) == number
        assert row.samples == inside.sum()
        assert row.predicted == pytest.approx(p[inside].mean())
        assert row.observed == pytest.approx((y[inside] > 0.0).mean())


def test_exact_figures_have_the_auc_of_all_pairs_and_ignore_weights() -> None:
    z, y = drawn(3)
    z[:50] = np.round(z[:50])
    weighted = np.column_stack([y, np.linspace(0.1, 5.0, len(y))])
    figures = exact_figures(LOGISTIC, z, weighted)
    assert figures == exact_figures(LOGISTIC, z, y)
    assert figures.auc == pytest.approx(auc_by_pairs(z, y), abs=1e-12)
    assert figures.auc_error == 0.0


def test_numbers_to_predict_have_an_error_and_a_share_of_the_variance() -> None:
    random = np.random.default_rng(4)
    y = random.normal(3.0, 2.0, size=200)
    z = y + random.normal(0.0, 0.5, size=200)
    figures = exact_figures(SQUARED, z, y)
    assert figures.rmse == pytest.approx(np.sqrt(((z - y) ** 2).mean()))
    assert figures.r2 == pytest.approx(1.0 - ((z - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    assert (figures.accuracy, figures.auc) == (None, None)
    assert exact_figures(SQUARED, z, np.full(200, 3.0)).r2 is None


def test_a_small_class_has_no_histogram_and_bins_have_enough_samples() -> None:
    few = ScoreSums.of(LOGISTIC, samples=10_000, least_in_class=LEAST_IN_CLASS - 1)
    assert (few.bins, few.length) == (0, 7)
    z, y = drawn(5)
    figures = few.figures(few.sums(z, y))
    assert (figures.auc, figures.auc_error, figures.calibration) == (None, None, ())
    assert figures.log_loss is not None
    for samples in (1, 99, 100, 569, 4_999, 10**7):
        bins = ScoreSums.of(HINGE, samples=samples, least_in_class=LEAST_IN_CLASS).bins
        assert bins % CALIBRATION_ROWS == 0
        assert bins == CALIBRATION_ROWS or samples / bins >= SAMPLES_A_BIN


def test_a_calibration_row_of_few_samples_is_left_out() -> None:
    z, y = drawn(6, samples=200)
    z = np.where(np.arange(200) < SAMPLES_A_BIN - 1, 5.0, -5.0)
    (row,) = exact_figures(LOGISTIC, z, y).calibration
    assert row.samples == 200 - SAMPLES_A_BIN + 1


def test_figures_of_one_class_and_of_no_sample() -> None:
    z, _ = drawn(7)
    one = exact_figures(LOGISTIC, z, np.ones(len(z)))
    assert one.auc is None
    assert one.accuracy == np.mean(z >= 0.0)
    assert exact_figures(LOGISTIC, np.zeros(0), np.zeros(0)).samples == 0


@pytest.mark.parametrize(("position", "change"), [(0, -1.0), (0, 1.0 / UNIT), (2, 1.0), (-1, 1.0 / UNIT)])
def test_totals_that_no_samples_have_are_refused(position: int, change: float) -> None:
    z, y = drawn(8)
    sums = ScoreSums.of(LOGISTIC, samples=len(z), least_in_class=LEAST_IN_CLASS)
    totals = sums.sums(z, y)
    totals[position] += change
    with pytest.raises(InvalidInput, match="altered"):
        sums.figures(totals)
    with pytest.raises(InvalidInput, match="length"):
        sums.figures(totals[1:])
