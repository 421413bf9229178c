"""SCAFFOLD's settings: the average of the parties' losses, by local steps that control variates correct.

Karimireddy et al. 2020, with option II for the control variates; the SCAFF-PD paper compares with it.
"""

from typing import ClassVar, Final

from pydantic import Field

from fenchel_common.algorithms.averaging.choices import Numbers, Occasion, RecordedPlan, check_number
from fenchel_common.algorithms.averaging.descent import DescentSettings, descent_profile
from fenchel_common.algorithms.averaging.rails import MODEL, Vectors
from fenchel_common.algorithms.settings import PositiveFloat, Profile

CONTROL = "control"
OWN_CONTROL = "own_control"
CONTRIBUTED: Final = "share"
"""Told: the fraction of the parties that contributed to the sums."""


class ScaffoldSettings(DescentSettings):
    """Settings of a SCAFFOLD run, checked."""

    profile: ClassVar[Profile] = descent_profile(
        "SCAFFOLD: local steps whose drift is corrected by control variates",
        encrypted=("each party's local update", "each party's control variate and its change"),
        visible={},
    )

    global_step: PositiveFloat = Field(default=1.0, description="η_g: how much of the mean local change is taken.")

    @property
    def vectors(self) -> Vectors:
        return Vectors(state=(MODEL, CONTROL), summed=(MODEL, CONTROL), kept=(OWN_CONTROL,), measured=self.measured)

    def check_plan(self, plan: RecordedPlan, occasion: Occasion) -> None:
        del occasion
        plan.check_equal_weights()

    def check_closing(self, told: Numbers, plan: RecordedPlan, occasion: Occasion) -> None:
        del plan
        check_number(told, CONTRIBUTED, least=1.0 / occasion.clients, most=1.0)
