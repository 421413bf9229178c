"""FedDualAvg's settings (Yuan, Zaheer and Reddi, ICML 2021): local dual averaging of gradients, with a composite term.

Its problem is F + ψ; here F is the mean loss, ψ = λ/2 ‖·‖², and the mirror map is ½ ‖·‖². In round r = 0, 1, … every
party takes T steps from z^0 = z,

    w^k = z^k/(1 + λ (η_s η_c r T + η_c k)),  z^(k+1) = z^k − η_c ∇F_j(w^k),  F_j = K/N Σ l_i over its rows,

and z ← z + η_s (mean of z^T − z), w = z/(1 + λ η_s η_c (r + 1) T). With λ = 0 it is FedAvg with all rows in each step.
With one local step it tends to the optimum, its distance falling as 1/r; with more, and parties that differ, it stops
short, because nothing corrects the drift of the local steps.
"""

from typing import ClassVar, Final

from pydantic import Field

from fenchel_common.algorithms.averaging.proximal import ConsensusSettings, consensus_profile
from fenchel_common.algorithms.averaging.rails import MODEL, Vectors
from fenchel_common.algorithms.settings import PositiveFloat, Profile
from fenchel_common.ids import RoundId

DUAL: Final = "dual"
"""State: z."""
CHANGE: Final = "change"
"""Summed: z^T − z of a party."""


class FeddualavgSettings(ConsensusSettings):
    """Settings of a FedDualAvg run, checked."""

    profile: ClassVar[Profile] = consensus_profile(
        "FedDualAvg: local dual averaging with a composite term; stops short of the optimum where parties differ",
        encrypted=("each party's sum of gradients",),
    )

    client_step: PositiveFloat = Field(default=1.0, description="η_c: the size of a party's steps.")
    server_step: PositiveFloat = Field(default=1.0, description="η_s: the size of the server's step.")
    local_steps: int = Field(default=10, ge=1, le=1_000_000, description="T: steps of a party in a round.")

    @property
    def vectors(self) -> Vectors:
        return Vectors(state=(MODEL, DUAL), summed=(CHANGE,))

    def shrinkage(self, round_id: RoundId, local_step: int = 0) -> float:
        """The factor before z^k that gives w^k, in rounds from 1."""
        passed = self.server_step * self.client_step * (round_id - 1) * self.local_steps
        return 1.0 / (1.0 + self.lambda_ * (passed + self.client_step * local_step))
