"""The settings that the averaging algorithms have in common."""

import math
from typing import Any, ClassVar, Final

from pydantic import Field

from fenchel_common.algorithms.averaging.choices import Numbers, Occasion, RecordedPlan
from fenchel_common.algorithms.averaging.family import AVERAGING
from fenchel_common.algorithms.averaging.rails import Measurement, Vectors
from fenchel_common.algorithms.family import Family
from fenchel_common.algorithms.settings import AlgorithmSettings, is_due
from fenchel_common.ids import RoundId
from fenchel_common.losses import Array, Fit, Loss
from fenchel_common.losses.multinomial import Multinomial

MEASUREMENT_LEAKS: Final = {
    "number of rows of each party": "in clear",
    "mean loss and number of correct predictions over all rows": "in clear, at measurements",
    "squared norm of the model": "in clear, at measurements",
}
ACCURACY_LEAK: Final = {
    "fraction of correct predictions on each party's rows": "in clear, at measurements, unless it shares rows"
}


class AveragingSettings(AlgorithmSettings):
    """The settings of an averaging algorithm; a subclass must define `vectors`, and `width` if it is not 1."""

    family: ClassVar[Family[Any]] = AVERAGING

    measure_every: int = Field(
        default=5, ge=0, description="Rounds between two measurements of P(w) and accuracy; 0: at the end only."
    )

    @property
    def vectors(self) -> Vectors:
        """The algorithm's vectors and numbers with these settings; both halves read it, at any time."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Values for each feature: 1, or the number of classes."""
        return 1

    @property
    def predicts_numbers(self) -> bool:
        """Whether the loss is one of regression, so that no prediction is right or wrong."""
        return self.loss_function.regression

    def fit_of(self, measured: Measurement) -> Fit:
        """How well the model predicts; the only loss of regression here, the squared one, is the squared error."""
        if self.predicts_numbers:
            return Fit(rmse=math.sqrt(max(measured.loss_sum, 0.0) / measured.samples))
        return Fit(accuracy=measured.correct / measured.samples)

    def measures(self, round_id: RoundId, *, closing: bool) -> bool:
        """Whether P(w) is to be measured in a round."""
        return closing or is_due(round_id, self.measure_every)

    def check_plan(self, plan: RecordedPlan, occasion: Occasion) -> None:
        """Raises `InvalidInput` for a plan that no honest server makes; called at every party, for each plan on record.

        A subclass states the bounds of its weights, numbers and coordinates. By default weights must not be negative.
        """
        del occasion
        plan.check_weights()

    def check_closing(self, told: Numbers, plan: RecordedPlan, occasion: Occasion) -> None:
        """Raises `InvalidInput` for numbers that no honest server tells with the sums; called as `check_plan` is.

        `plan` is the plan of the round, already checked. By default any numbers are taken.
        """
        del told, plan, occasion


class LocalLossSettings(AveragingSettings):
    """The settings of an algorithm that also takes the multinomial loss; a subclass must define `local_loss`."""

    @property
    def local_loss(self) -> Loss | Multinomial:
        """The loss that the parties minimise."""
        raise NotImplementedError

    def check_labels(self, y: Array, weights: Array | None = None) -> None:
        self.local_loss.check_labels(y)
        self.label_rules.check_weights(weights)

    @property
    def predicts_numbers(self) -> bool:
        return self.local_loss.regression

    @property
    def width(self) -> int:
        loss = self.local_loss
        return loss.classes if isinstance(loss, Multinomial) else 1
