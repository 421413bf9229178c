"""q-FFL's settings: the sum of f_i^{q+1}/(q + 1), by q-FedAvg (Li et al. 2019); SCAFF-PD's paper compares with it."""

import math
from typing import ClassVar, Final

from pydantic import Field

from fenchel_common.algorithms.averaging.choices import Numbers, Occasion, RecordedPlan, check_number
from fenchel_common.algorithms.averaging.descent import LOSS_LEAK, DescentSettings, descent_profile
from fenchel_common.algorithms.averaging.rails import Vectors
from fenchel_common.algorithms.settings import Profile

UPDATE = "update"
TOTAL: Final = "total"
"""Told: Σ h_i."""


class QfflSettings(DescentSettings):
    """Settings of a q-FFL run, checked."""

    profile: ClassVar[Profile] = descent_profile(
        "q-FFL: fairness by powers of the parties' losses (q-FedAvg)",
        encrypted=("each party's local update",),
        visible=LOSS_LEAK | {"the squared norm of each party's local update": "in clear, every round"},
    )

    q: float = Field(default=1.0, ge=0.0, le=100.0, description="How much large losses count; 0 is FedAvg.")

    @property
    def vectors(self) -> Vectors:
        return Vectors(summed=(UPDATE,), surveyed=("loss",), reported=("squared_change",), measured=self.measured)

    def check_closing(self, told: Numbers, plan: RecordedPlan, occasion: Occasion) -> None:
        del plan, occasion
        check_number(told, TOTAL, least=math.ulp(0.0), most=math.inf)
