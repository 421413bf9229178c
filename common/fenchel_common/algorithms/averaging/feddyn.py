"""FedDyn's settings (Acar et al., ICLR 2021): a regulariser that moves with the party's own gradient.

θ_j ← argmin f_j(θ) − ⟨g_j, θ⟩ + α/2 ‖θ − w‖², g_j ← g_j − α (θ_j − w), and over the parties S that answer
h ← h − α/K Σ_S (θ_j − w), w ← mean of θ_j − h/α. With all parties it is FedPD with η = 1/α.
"""

from typing import ClassVar, Final

from pydantic import Field

from fenchel_common.algorithms.averaging.proximal import ToleratedSettings, consensus_profile
from fenchel_common.algorithms.averaging.rails import MODEL, Vectors
from fenchel_common.algorithms.settings import PositiveFloat, Profile

CORRECTION: Final = "correction"
"""State: h."""
GRADIENT: Final = "gradient"
"""Kept: g_j."""


class FeddynSettings(ToleratedSettings):
    """Settings of a FedDyn run, checked."""

    profile: ClassVar[Profile] = consensus_profile(
        "FedDyn: local problems with a dynamic regulariser", encrypted=("each party's weights and gradient",)
    )

    alpha: PositiveFloat = Field(default=0.1, description="Regularisation parameter α of the local problems.")

    @property
    def vectors(self) -> Vectors:
        return Vectors(state=(MODEL, CORRECTION), summed=(MODEL,), kept=(GRADIENT,))
