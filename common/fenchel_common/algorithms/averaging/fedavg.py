"""FedAvg's settings, in the hybrid form of the HyFDCA paper.

A client steps by SGD on the loss of its own rows, with its own columns alone; the server joins the weights and averages
those of features that several parties hold. γ_t = a/(b + √t) in round t (section 5 of the paper, and 7.3 of its
supplement).
"""

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from fenchel_common.algorithms.averaging.choices import Occasion, RecordedPlan
from fenchel_common.algorithms.averaging.rails import ACCURACY, Vectors
from fenchel_common.algorithms.averaging.settings import ACCURACY_LEAK, MEASUREMENT_LEAKS, AveragingSettings
from fenchel_common.algorithms.settings import ANY_PARTITION, PositiveFloat, Profile


class LocalSgdSettings(AveragingSettings):
    """Settings of algorithms whose clients step by SGD with the step size a/(b + √t)."""

    local_steps: int | float = Field(
        default=1.0,
        description="SGD steps of a client in a round: a whole number, or passes over its rows (with a point).",
    )
    batch: int = Field(default=1, ge=1, le=1 << 20, description="Rows of one step.")
    a: PositiveFloat = Field(default=1.0, description="Step size in round t: a/(b + √t).")
    b: float = Field(default=1.0, ge=0.0, le=1e12, description="See a.")

    @field_validator("local_steps", mode="before")
    @classmethod
    def _possible_steps(cls, steps: object) -> object:
        whole = isinstance(steps, int) and not isinstance(steps, bool) and 1 <= steps <= 10_000_000
        if whole or (isinstance(steps, float) and 0.0 < steps <= 1000.0):
            return steps
        raise ValueError(
            "use a whole number of steps from 1, or a number with a decimal point of passes, at most 1000.0"
        )

    def step_size(self, round_id: int) -> float:
        return float(self.a / (self.b + round_id**0.5))

    def steps_over(self, rows: int) -> int:
        """Local steps of a client with this many rows."""
        if isinstance(self.local_steps, int):
            return self.local_steps
        return max(1, round(self.local_steps * rows / self.batch))


class FedavgSettings(LocalSgdSettings):
    """Settings of a FedAvg run, checked."""

    profile: ClassVar[Profile] = Profile(
        summary="FedAvg: local SGD on own columns, weights averaged at overlaps; no optimum where columns are split",
        partitions=ANY_PARTITION,
        losses=("hinge", "smoothed_hinge", "logistic"),
        encrypted=("each party's weights", "the model", "inner products, for measurements"),
        visible=MEASUREMENT_LEAKS | ACCURACY_LEAK,
    )

    weighting: Literal["samples", "uniform"] = Field(
        default="samples", description="How parties count in an average: by their rows, or all the same."
    )

    @property
    def vectors(self) -> Vectors:
        return Vectors(measured=(ACCURACY,), restates=True)

    def check_plan(self, plan: RecordedPlan, occasion: Occasion) -> None:
        if self.weighting == "uniform":
            plan.check_equal_weights()
        else:
            plan.check_weights_by_samples(occasion)
