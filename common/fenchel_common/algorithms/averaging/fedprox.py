"""FedProx's settings: local steps that a proximal term keeps near the averaged model (Li et al. 2020)."""

from typing import ClassVar

from pydantic import Field

from fenchel_common.algorithms.averaging.choices import Occasion, RecordedPlan
from fenchel_common.algorithms.averaging.descent import DescentSettings, descent_profile
from fenchel_common.algorithms.averaging.rails import Vectors
from fenchel_common.algorithms.settings import Profile


class FedproxSettings(DescentSettings):
    """Settings of a FedProx run, checked."""

    profile: ClassVar[Profile] = descent_profile(
        "FedProx: local steps that a proximal term keeps near the averaged model",
        encrypted=("each party's weights",),
        visible={},
    )

    mu: float = Field(default=0.1, ge=0.0, le=1e12, description="Weight of μ/2·‖w − w_t‖²; 0 is FedAvg.")

    @property
    def vectors(self) -> Vectors:
        return Vectors(measured=self.measured, restates=True)

    def check_plan(self, plan: RecordedPlan, occasion: Occasion) -> None:
        plan.check_weights_by_samples(occasion)
