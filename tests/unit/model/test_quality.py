"""The figures of predictions are those of scikit-learn's metrics, with ties and weights."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics

from fenchel_common.model.quality import quality
from fenchel_common.model.scoring import predictions
from support.models import NUMBERS, small_record

Array = NDArray[np.float64]
RNG = np.random.default_rng(4)
ROWS = 200
WEIGHTS = RNG.uniform(0.1, 3.0, ROWS)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
def test_two_classes(weights: Array | None) -> None:
    y = (RNG.random(ROWS) < 0.3).astype(float)
    z = np.round(y + RNG.normal(size=ROWS), 1)  # with many ties
    given: Any = {"sample_weight": weights}
    found = quality(predictions(small_record(), z), y, weights)
    p = 1.0 / (1.0 + np.exp(-z))
    assert (found.rows, found.labelled, found.rmse) == (ROWS, ROWS, None)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(y, z >= 0.0, **given), abs=1e-14)
    assert found.auc == pytest.approx(metrics.roc_auc_score(y, z, **given), abs=1e-14)
    assert found.log_loss == pytest.approx(metrics.log_loss(y, p, **given), abs=1e-12)
    assert found.brier == pytest.approx(metrics.brier_score_loss(y, p, **given), abs=1e-14)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_several_classes(weights: Array | None, loss: str) -> None:
    record = small_record(NUMBERS, task="classes", classes=("a", "b", "c"), loss=loss)
    y = RNG.integers(0, 3, ROWS).astype(float)
    z = np.eye(3)[y.astype(int)] + RNG.normal(size=(ROWS, 3))
    odds = np.exp(z) if loss == "multinomial" else 1.0 / (1.0 + np.exp(-z))
    p = odds / odds.sum(axis=1, keepdims=True)
    found = quality(predictions(record, z), y, weights)
    expected = metrics.log_loss(y, p, sample_weight=weights)
    assert found.log_loss == pytest.approx(expected, abs=1e-12)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(y, z.argmax(axis=1), sample_weight=weights))
    area = metrics.roc_auc_score(y, p, multi_class="ovr", sample_weight=weights)
    assert found.auc == pytest.approx(area, abs=1e-12)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
def test_numbers(weights: Array | None) -> None:
    record = small_record(NUMBERS, task="regression", loss="squared", classes=())
    y = RNG.normal(size=ROWS)
    z = y + RNG.normal(size=ROWS)
    found = quality(predictions(record, z), y, weights)
    error = metrics.mean_squared_error(y, z, sample_weight=weights)
    assert found.rmse == pytest.approx(np.sqrt(error), abs=1e-14)
    assert found.r2 == pytest.approx(metrics.r2_score(y, z, sample_weight=weights), abs=1e-14)
    assert (found.accuracy, found.auc) == (None, None)


def test_rows_without_label_are_counted_and_not_measured() -> None:
    z = np.array([1.0, -1.0, 2.0])
    assert quality(predictions(small_record(), z), None).labelled == 0
    found = quality(predictions(small_record(), z), np.array([1.0, np.nan, 1.0]))
    assert (found.rows, found.labelled, found.accuracy, found.auc) == (3, 2, 1.0, None)


def test_scores_of_a_loss_that_are_no_log_odds_have_no_probability() -> None:
    found = predictions(small_record(loss="hinge"), np.array([0.0, -1.0]))
    assert found.probabilities is None
    assert found.labels() == ["yes", "no"]
