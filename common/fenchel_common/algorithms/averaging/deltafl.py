"""Δ-FL's settings: the mean over the parties with the largest losses (superquantile; Pillutla et al. 2021)."""

from typing import ClassVar

from pydantic import Field

from fenchel_common.algorithms.averaging.choices import Occasion, RecordedPlan
from fenchel_common.algorithms.averaging.descent import LOSS_LEAK, DescentSettings, descent_profile
from fenchel_common.algorithms.averaging.rails import Vectors
from fenchel_common.algorithms.settings import Profile


class DeltaflSettings(DescentSettings):
    """Settings of a Δ-FL run, checked."""

    profile: ClassVar[Profile] = descent_profile(
        "Δ-FL: the average of the parties whose losses are above a quantile",
        encrypted=("each party's weights",),
        visible=LOSS_LEAK,
    )

    alpha: float = Field(default=0.5, gt=0.0, le=1.0, description="The fraction of parties, by rows, that train.")

    @property
    def vectors(self) -> Vectors:
        return Vectors(surveyed=("loss",), measured=self.measured, restates=True)

    def check_plan(self, plan: RecordedPlan, occasion: Occasion) -> None:
        """Who trains follows from the losses that the parties tell the server; with what weight, from their rows."""
        plan.check_weights_by_samples(occasion, some_rest=True)
