"""Scaffnew's settings (ProxSkip; Mishchenko et al., ICML 2022): gradient steps, and averages at random.

θ_j ← θ_j − γ (∇f_j(θ_j) − c_j); with probability p: w ← mean of θ_j, c_j ← c_j + p/γ (w − θ_j), θ_j ← w. All parties
draw the same random numbers, so a round has as many steps as there are until the next average: a geometric number,
which the server tells. The c_j sum to zero. After a round without some party they do not, so their mean is subtracted.
"""

from typing import ClassVar, Final

import numpy as np
from pydantic import Field

from fenchel_common.algorithms.averaging.choices import Occasion, RecordedPlan, check_number
from fenchel_common.algorithms.averaging.proximal import ConsensusSettings, consensus_profile
from fenchel_common.algorithms.averaging.rails import MODEL, Vectors
from fenchel_common.algorithms.settings import PositiveFloat, Profile
from fenchel_common.ids import RoundId

VARIATE: Final = "variate"
"""Summed and kept: c_j of the round. State: their mean."""
STEPS: Final = "steps"
"""Told: the number of gradient steps of the round."""


class ScaffnewSettings(ConsensusSettings):
    """Settings of a Scaffnew run, checked."""

    profile: ClassVar[Profile] = consensus_profile(
        "Scaffnew: gradient steps, and averages at random; no theorem for the hinge",
        encrypted=("each party's weights and control variate",),
    )

    step: PositiveFloat = Field(default=1.0, description="Step size γ, at most 1/L.")
    p: float = Field(default=0.1, gt=0.0, le=1.0, description="Probability of an average after a step; best 1/√κ.")

    @property
    def vectors(self) -> Vectors:
        return Vectors(state=(MODEL, VARIATE), summed=(MODEL, VARIATE), kept=(MODEL, VARIATE))

    def steps_in(self, round_id: RoundId) -> int:
        """The number of gradient steps in a round, drawn from the seed."""
        return int(np.random.default_rng([self.seed, round_id]).geometric(self.p))

    def check_plan(self, plan: RecordedPlan, occasion: Occasion) -> None:
        super().check_plan(plan, occasion)
        steps = self.steps_in(occasion.round_id)
        check_number(plan.told, STEPS, least=steps, most=steps)
