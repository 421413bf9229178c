"""DRFA's settings: a distributionally robust average, with losses measured at a random local step.

Deng et al. 2020 (with a penalty ψ, its proximal form); an algorithm that the SCAFF-PD paper compares with. In a
round parties that are drawn by their weights λ take J local steps. The mean of their iterates after a random number of
steps is the snapshot, at which the losses of the next dual step are measured.
"""

from typing import ClassVar, Final

from pydantic import Field

from fenchel_common.algorithms.averaging.choices import Occasion, RecordedPlan, check_number
from fenchel_common.algorithms.averaging.descent import LOSS_LEAK, descent_profile
from fenchel_common.algorithms.averaging.rails import MODEL, Vectors
from fenchel_common.algorithms.averaging.scaffpd import RobustSettings
from fenchel_common.algorithms.settings import Profile

SNAPSHOT = "snapshot"
SNAPSHOT_STEP: Final = "snapshot_step"
"""Told: the number of local steps after which the snapshot is taken."""


class DrfaSettings(RobustSettings):
    """Settings of a DRFA run, checked."""

    profile: ClassVar[Profile] = descent_profile(
        "DRFA: distributionally robust averaging, with losses taken at a random local step",
        encrypted=("each party's weights, at the end and at the random step",),
        visible=LOSS_LEAK,
    )

    sampled: int | None = Field(
        default=None,
        ge=1,
        le=1 << 20,
        description="Parties to draw by their weights, with replacement; if not given, all take part and "
        "count by their weights.",
    )

    @property
    def vectors(self) -> Vectors:
        return Vectors(
            state=(MODEL, SNAPSHOT),
            summed=(MODEL, SNAPSHOT),
            surveyed=("loss",),
            measured=self.measured,
            restates=True,
        )

    def check_plan(self, plan: RecordedPlan, occasion: Occasion) -> None:
        check_number(plan.told, SNAPSHOT_STEP, least=1.0, most=self.local_steps)
        if self.sampled is None:
            super().check_plan(plan, occasion)
        else:
            plan.check_weights(together=self.sampled)
