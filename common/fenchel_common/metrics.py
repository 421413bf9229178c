"""The record of a round, and the last certificate of a run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from fenchel_common import jsonrecord
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.scoresums import ScoreFigures

RMSE: Final = "rmse"
"""Of the figures of a round of regression: the root of the mean squared error, in the place of an accuracy.

It is in the unit of the labels or, if the run standardises them, in standard deviations."""
R2: Final = "r2"
"""Of the figures of a round of regression with standardised labels: the share of their variance that is explained."""

CLASS_ACCURACY: Final = "mean_accuracy_of_classes"
"""Of the figures of a round of several classes: the mean accuracy of telling one class from the rest."""


@dataclass(frozen=True, slots=True)
class RoundMetrics:
    """One round's record.

    `primal`, `dual`, `gap` and `accuracy` certify the model that *entered* the round; they are None if the round did
    not certify it. An algorithm without a certificate has no `dual` and no `gap`; regression has no `accuracy`, and
    has `RMSE` among its figures. `gap` includes `gap_error`, the most that fixed-point rounding can have hidden.
    `figures` are further figures of the algorithm, by name; with several classes, `primal` and `dual` are means over
    the classes, `gap` is the largest one, and the figures have those of each class. `phases` are the round's phases
    in order; the server's round ledger adds them, an algorithm leaves them empty. A `closing` round only certifies
    the model, and does not count towards the limit of rounds; the server's driver adds this. `scores` say how well the
    model predicts with which the round ends the run, or a leg of its path; `leg` is the number of that leg.
    """

    round: RoundId
    primal: float | None = None
    dual: float | None = None
    gap: float | None = None
    gap_error: float | None = None
    accuracy: float | None = None
    samples_updated: int = 0
    participants: tuple[ClientId, ...] = ()
    absences: Mapping[ClientId, str] = field(default_factory=dict)
    stale: tuple[ClientId, ...] = ()
    note: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    phases: tuple[str, ...] = ()
    closing: bool = False
    scores: ScoreFigures | None = None
    leg: int = 0

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads back what `to_json` wrote."""
        return jsonrecord.from_json(cls, text)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Reads the metrics from a JSON mapping that may have further keys, such as the event of a round."""
        return jsonrecord.from_mapping(cls, mapping)

    def to_json(self) -> str:
        return jsonrecord.to_json(self)

    @property
    def fit(self) -> str:
        """How well the model predicts, for people to read: its accuracy or its root mean squared error."""
        if self.accuracy is not None:
            return f"accuracy {self.accuracy:.4f}"
        if CLASS_ACCURACY in self.figures:
            return f"mean accuracy of classes {self.figures[CLASS_ACCURACY]:.4f}"
        if R2 in self.figures:
            return f"RMSE {self.figures[RMSE]:.4g} standard deviations, R² {self.figures[R2]:.4f}"
        return f"RMSE {self.figures[RMSE]:.4g}" if RMSE in self.figures else "accuracy unknown"

    @property
    def measured(self) -> bool:
        """Whether the round measured P(w). Every round with a certificate did, because the gap is P(w) − D(α)."""
        return self.primal is not None


@dataclass(frozen=True, slots=True)
class LastCertificate:
    """The figures of the last round that measured its model, and which round that was; all None if no round did.

    `rmse` and `r2` take the place of `accuracy` in regression. `scores` are figures of the same model, if the parties
    have measured it.
    """

    round: RoundId | None = None
    primal: float | None = None
    dual: float | None = None
    gap: float | None = None
    accuracy: float | None = None
    rmse: float | None = None
    r2: float | None = None
    scores: ScoreFigures | None = None


def last_certificate(rounds: Iterable[RoundMetrics]) -> LastCertificate:
    """The figures of the last of these rounds that measured its model. `rounds` must be in order."""
    measured = [metrics for metrics in rounds if metrics.measured]
    if not measured:
        return LastCertificate()
    last = measured[-1]
    return LastCertificate(
        round=last.round,
        primal=last.primal,
        dual=last.dual,
        gap=last.gap,
        accuracy=last.accuracy,
        rmse=last.figures.get(RMSE),
        r2=last.figures.get(R2),
        scores=last.scores,
    )
