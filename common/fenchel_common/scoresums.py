"""How well scores predict labels, from sums over samples: parties add the sums up encrypted, and open the totals.

Every sample counts once, also in a run whose losses are weighted. A *score* is z = x·w, a label is −1 or +1, or a
number to predict. Of two classes the sums have a histogram of the scores of each class. Its bins have the same width
in σ(z) = 1/(1 + exp(−z)); how many there are follows from the number of samples alone. Nobody's data choose an edge.

AUC, the probability that a sample of class +1 has the larger score than one of class −1, follows from the histograms up
to the pairs in one bin. Such a pair counts one half, so that the error is at most half of the share of these pairs. A
score that is itself known up to an error may belong to the next bin: samples that near to an edge are counted too, and
widen the bound by their share in their class. So the true AUC always lies within the stated bound.
"""

from dataclasses import dataclass, field, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss

Array = NDArray[np.float64]

LEAST_IN_CLASS: Final = 20
"""Below so many samples in one of the classes there are no histograms, and so no AUC and no table of calibration."""
SAMPLES_A_BIN: Final = 10
"""A bin has at least so many samples on average, unless there are fewer than 10 bins of this size."""
CALIBRATION_ROWS: Final = 10
MOST_BINS: Final = 500
UNIT: Final = 1024.0
"""Numbers of samples are summed in this unit, so that they are within the bound of their vectors and exact."""
SMALLEST_VARIANCE: Final = 2.0**-20
"""Labels with a smaller variance are taken for equal ones, for which R² means nothing."""

_NUMBERS: Final = 4
_COUNTS: Final = 5
_PROBABILITIES: Final = 2


@dataclass(frozen=True, slots=True)
class CalibrationRow:
    """The samples whose predicted probability of the class +1 is in one tenth of the range from 0 to 1.

    Attributes
    ----------
    samples
        How many there are. Rows of fewer than `SAMPLES_A_BIN` are left out.
    predicted, observed
        The mean of their predicted probabilities, and the share of them that are of the class.
    """

    samples: int
    predicted: float
    observed: float


@dataclass(frozen=True, slots=True)
class ScoreFigures:
    """How well scores predict; a figure that the loss or the number of samples does not allow is None.

    Attributes
    ----------
    auc, auc_error
        The true AUC is at most `auc_error` away from `auc`.
    log_loss, brier
        The means of −log p and of (1 − p)², with p the predicted probability of a sample's own class. Only with the
        logistic loss, whose scores are log-odds.
    rmse, r2
        In regression; in the unit of the labels as the loss takes them.
    classes_accuracy
        How often the class with the largest score is right. In a run of several classes one of the problems has it.
    """

    samples: int
    accuracy: float | None = None
    auc: float | None = None
    auc_error: float | None = None
    log_loss: float | None = None
    brier: float | None = None
    calibration: tuple[CalibrationRow, ...] = field(default=())
    rmse: float | None = None
    r2: float | None = None
    classes_accuracy: float | None = None

    def named(self) -> dict[str, float]:
        """The known figures by name, without the number of samples, the accuracy and the table."""
        names = ("auc", "auc_error", "log_loss", "brier", "rmse", "r2")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class ScoreSums:
    """Which sums are made; the same at every party.

    Attributes
    ----------
    regression, probabilities
        Whether the labels are numbers to predict, and whether scores are log-odds.
    bins
        Of a histogram; a multiple of `CALIBRATION_ROWS`, or 0 if there are none.
    divisor
        Sums of other things than samples are divided by it: the number of samples of the federation.
    """

    regression: bool
    probabilities: bool
    bins: int
    divisor: int

    @classmethod
    def of(cls, loss: Loss, *, samples: int, least_in_class: int) -> Self:
        """The sums for a loss and so many samples; `least_in_class` is the number of those in the smaller class."""
        bins = 0
        if not loss.regression and least_in_class >= LEAST_IN_CLASS:
            tens = samples // (SAMPLES_A_BIN * CALIBRATION_ROWS)
            bins = CALIBRATION_ROWS * min(max(tens, 1), MOST_BINS // CALIBRATION_ROWS)
        return cls(loss.regression, loss.name == "logistic", bins, samples)

    @property
    def length(self) -> int:
        """The number of sums."""
        if self.regression:
            return _NUMBERS
        rows = CALIBRATION_ROWS if self.bins and self.probabilities else 0
        return _COUNTS + self.probabilities * _PROBABILITIES + rows + 2 * self.bins

    def sums(self, z: Array, y: Array, *, off: Array | float = 0.0) -> Array:
        """(length,) the sums over some samples.

        Parameters
        ----------
        z, y
            (n,) scores and labels; labels with weights are (n, 2), and the weights are not used.
        off
            (n,) or one number: the true score is at most so far from z.
        """
        labels = y[:, 0] if y.ndim == 2 else y
        if self.regression:
            means = np.array([((z - labels) ** 2).sum(), labels.sum(), labels @ labels]) / self.divisor
            return np.concatenate([[len(z) / UNIT], means])
        positive = labels > 0.0
        counts = [np.count_nonzero(positive), np.count_nonzero(~positive), np.count_nonzero((z >= 0.0) == positive)]
        near = self._bin_of(z - off) != self._bin_of(z + off)
        counts += [np.count_nonzero(near & positive), np.count_nonzero(near & ~positive)]
        parts, p = [np.array(counts) / UNIT], _probabilities(z)
        if self.probabilities:
            wrong = np.where(positive, 1.0 - p, p)
            losses = np.logaddexp(0.0, np.where(positive, -z, z))
            parts.append(np.array([losses.sum(), wrong @ wrong]) / self.divisor)
        if self.bins:
            bins = self._bin_of(z)
            if self.probabilities:
                rows = bins // (self.bins // CALIBRATION_ROWS)
                parts.append(np.bincount(rows, weights=p, minlength=CALIBRATION_ROWS) / self.divisor)
            parts += [np.bincount(bins[side], minlength=self.bins) / UNIT for side in (positive, ~positive)]
        return np.concatenate(parts)

    def figures(self, totals: Array) -> ScoreFigures:
        """The figures from the totals of all parties' `sums`.

        Raises
        ------
        InvalidInput
            If no samples have such totals.
        """
        if totals.shape != (self.length,):
            raise InvalidInput("scores: has another length than the sums of the run")
        if self.regression:
            return self._of_numbers(totals)
        counts = np.round(totals[:_COUNTS] * UNIT)
        positive, negative, correct, near_positive, near_negative = counts.tolist()
        samples = positive + negative
        if not (min(positive, negative) >= 0 and 0 <= correct <= samples and samples > 0):
            raise InvalidInput("scores: the numbers of samples are impossible; a party has altered them")
        share = near_positive / max(positive, 1) + near_negative / max(negative, 1)
        auc, error = self._auc(totals, positive, negative)
        log_loss = brier = None
        if self.probabilities:
            log_loss, brier = (totals[_COUNTS : _COUNTS + 2] * self.divisor / samples).tolist()
        return ScoreFigures(
            samples=int(samples),
            accuracy=correct / samples,
            auc=auc,
            auc_error=None if error is None else min(error + share, 1.0),
            log_loss=log_loss,
            brier=brier,
            calibration=self._calibration(totals),
        )

    def _of_numbers(self, totals: Array) -> ScoreFigures:
        samples = round(totals[0] * UNIT)
        if samples <= 0:
            raise InvalidInput("scores: the number of samples is impossible; a party has altered it")
        squares, mean, mean_square = (totals[1:] * self.divisor / samples).tolist()
        variance = mean_square - mean**2
        r2 = 1.0 - squares / variance if variance > SMALLEST_VARIANCE else None
        return ScoreFigures(samples=samples, rmse=float(np.sqrt(max(squares, 0.0))), r2=r2)

    def _histograms(self, totals: Array) -> tuple[Array, Array]:
        """(bins,) the scores of the class +1 and of the class −1."""
        found = np.round(totals[self.length - 2 * self.bins :] * UNIT)
        return found[: self.bins], found[self.bins :]

    def _auc(self, totals: Array, positive: float, negative: float) -> tuple[float | None, float | None]:
        if not self.bins:
            return None, None
        of_positive, of_negative = self._histograms(totals)
        if of_positive.sum() != positive or of_negative.sum() != negative or not positive or not negative:
            raise InvalidInput("scores: the histograms do not have all samples; a party has altered them")
        below = np.cumsum(of_negative) - of_negative
        pairs = positive * negative
        level = float(of_positive @ of_negative) / pairs / 2.0
        return float(of_positive @ below) / pairs + level, level

    def _calibration(self, totals: Array) -> tuple[CalibrationRow, ...]:
        if not self.bins or not self.probabilities:
            return ()
        of_positive, of_negative = (part.reshape(CALIBRATION_ROWS, -1).sum(axis=1) for part in self._histograms(totals))
        first = _COUNTS + _PROBABILITIES
        predicted = totals[first : first + CALIBRATION_ROWS] * self.divisor
        return tuple(
            CalibrationRow(int(samples), float(sum_of_p / samples), float(of_class / samples))
            for samples, sum_of_p, of_class in zip(of_positive + of_negative, predicted, of_positive, strict=True)
            if samples >= SAMPLES_A_BIN
        )

    def _bin_of(self, z: Array) -> NDArray[np.int64]:
        bins = self.bins or 1
        return np.minimum((_probabilities(z) * bins).astype(np.int64), bins - 1)


def exact_figures(loss: Loss, z: Array, y: Array) -> ScoreFigures:
    """The figures of scores that are all at hand, with the exact AUC; it is None if a class has no sample."""
    labels = y[:, 0] if y.ndim == 2 else y
    if not len(z):
        return ScoreFigures(samples=0)
    of_positive, of_negative = z[labels > 0.0], np.sort(z[labels <= 0.0])
    comparable = not loss.regression and len(of_positive) > 0 and len(of_negative) > 0
    sums = ScoreSums.of(loss, samples=len(z), least_in_class=LEAST_IN_CLASS if comparable else 0)
    figures = sums.figures(sums.sums(z, labels))
    if not comparable:
        return figures
    ranks = [np.searchsorted(of_negative, of_positive, side=side) for side in ("left", "right")]
    won = float((ranks[0] + ranks[1]).sum()) / 2.0
    return replace(figures, auc=won / (len(of_positive) * len(of_negative)), auc_error=0.0)


def _probabilities(z: Array) -> Array:
    """σ(z), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * z)), dtype=np.float64)
