"""How well a model predicts rows whose labels are at hand, computed as scikit-learn's metrics are."""

from dataclasses import dataclass

import numpy as np

from fenchel_common.model.record import Array
from fenchel_common.model.scoring import Predictions


@dataclass(frozen=True, slots=True)
class Quality:
    """The figures of some rows; one that the task or the labels do not allow is None.

    Attributes
    ----------
    labelled
        How many rows have a label; the figures are of these.
    auc
        The area under the ROC curve; of several classes the mean of each against the rest, by probabilities.
    brier
        Of two classes: the mean of (p − y)², p the probability of the positive class and y 0 or 1.
    rmse, r2
        Of numbers, in their own unit.
    """

    rows: int
    labelled: int
    accuracy: float | None = None
    auc: float | None = None
    log_loss: float | None = None
    brier: float | None = None
    rmse: float | None = None
    r2: float | None = None


def quality(found: Predictions, y: Array | None, weights: Array | None = None) -> Quality:
    """The figures of predictions.

    Parameters
    ----------
    y
        (n,) the position of each row's class, or its number; NaN where there is no label.
    weights
        (n,) how much each row counts; None if each counts once.
    """
    rows = len(found.predicted)
    known = np.zeros(rows, dtype=bool) if y is None else ~np.isnan(y)
    if y is None or not known.any():
        return Quality(rows, 0)
    labels, counts = y[known], np.ones(int(known.sum())) if weights is None else weights[known]
    predicted, labelled = found.predicted[known], len(labels)
    if not found.classes:
        return _of_numbers(predicted, labels, counts, rows=rows)
    right = float(np.average(predicted == labels, weights=counts))
    p = None if found.probabilities is None else found.probabilities[known]
    if found.scores.ndim == 1:
        return Quality(
            rows,
            labelled,
            accuracy=right,
            auc=area(found.scores[known], labels == 1.0, counts),
            log_loss=None if p is None else _log_loss(np.column_stack([1.0 - p, p]), labels, counts),
            brier=None if p is None else float(np.average((p - labels) ** 2, weights=counts)),
        )
    if p is None:
        return Quality(rows, labelled, accuracy=right)
    areas = [area(p[:, at], labels == at, counts) for at in range(len(found.classes))]
    known_areas = [one for one in areas if one is not None]
    return Quality(
        rows,
        labelled,
        accuracy=right,
        auc=float(np.mean(known_areas)) if len(known_areas) == len(areas) else None,
        log_loss=_log_loss(p, labels, counts),
    )


def area(scores: Array, positive: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], weights: Array) -> float | None:
    """The area under the ROC curve: the share of pairs in which the positive row has the larger score.

    A pair counts as the product of the weights of its rows, and one of equal scores counts one half. None unless
    there are rows of both kinds.
    """
    if positive.all() or not positive.any():
        return None
    values, group = np.unique(scores, return_inverse=True)
    of_positive, of_negative = (
        np.bincount(group[side], weights=weights[side], minlength=len(values)) for side in (positive, ~positive)
    )
    below = np.cumsum(of_negative) - of_negative / 2.0
    return float(of_positive @ below / (of_positive.sum() * of_negative.sum()))


def _log_loss(p: Array, labels: Array, weights: Array) -> float:
    own = p[np.arange(len(labels)), labels.astype(np.int64)]
    # Probabilities are kept away from 0 as scikit-learn keeps them.
    return float(np.average(-np.log(np.clip(own, np.finfo(np.float64).eps, 1.0)), weights=weights))


def _of_numbers(predicted: Array, y: Array, weights: Array, *, rows: int) -> Quality:
    errors = float(np.average((predicted - y) ** 2, weights=weights))
    variance = float(np.average((y - np.average(y, weights=weights)) ** 2, weights=weights))
    return Quality(rows, len(y), rmse=float(np.sqrt(errors)), r2=1.0 - errors / variance if variance > 0.0 else None)
