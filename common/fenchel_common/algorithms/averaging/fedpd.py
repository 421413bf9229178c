"""FedPD's settings (Zhang et al., IEEE TSP 2021), with communication in every round.

θ_j ← argmin f_j(θ) + ⟨π_j, θ⟩ + 1/(2η) ‖θ − w‖², π_j ← π_j + (θ_j − w)/η, w ← mean of θ_j + η π_j.
"""

from typing import ClassVar, Final

from pydantic import Field

from fenchel_common.algorithms.averaging.proximal import ToleratedSettings, consensus_profile
from fenchel_common.algorithms.averaging.rails import Vectors
from fenchel_common.algorithms.settings import PositiveFloat, Profile

MULTIPLIER: Final = "multiplier"
"""Kept: π_j."""


class FedpdSettings(ToleratedSettings):
    """Settings of a FedPD run, checked."""

    profile: ClassVar[Profile] = consensus_profile(
        "FedPD: an augmented Lagrangian for each party", encrypted=("each party's weights and multiplier",)
    )

    eta: PositiveFloat = Field(default=10.0, description="Penalty parameter η: 1/(2η) before the squared distance.")

    @property
    def vectors(self) -> Vectors:
        return Vectors(kept=(MULTIPLIER,), restates=True)
