"""FedDR's settings (Tran-Dinh, Pham, Phan and Nguyen, NeurIPS 2021): Douglas-Rachford splitting, party by party.

Its problem is mean of f_j + g; here g = 0, because f_j has the ridge. Every party j that takes part does

    y_j ← y_j + α (w − θ_j),  θ_j ← prox of η f_j at y_j,  x̂_j = 2 θ_j − y_j,

and w ← w + 1/K Σ (change of x̂_j), so a party that is absent counts with its last x̂_j. The first round, with zeros in
every place, is the paper's initialisation. For α = 1 and all parties it is FedPD with the same η.
"""

from typing import ClassVar, Final

from pydantic import Field

from fenchel_common.algorithms.averaging.proximal import ToleratedSettings, consensus_profile
from fenchel_common.algorithms.averaging.rails import MODEL, Vectors
from fenchel_common.algorithms.settings import PositiveFloat, Profile

TOTAL: Final = "total"
"""State: Σ_j x̂_j, of which the model is 1/K."""
CHANGE: Final = "change"
"""Summed: the change of a party's x̂_j."""
REFLECTED: Final = "reflected"
"""Kept: x̂_j."""
SOLUTION: Final = "solution"
"""Kept: θ_j."""


class FeddrSettings(ToleratedSettings):
    """Settings of a FedDR run, checked."""

    profile: ClassVar[Profile] = consensus_profile(
        "FedDR: Douglas-Rachford splitting, with a proximal step for each party",
        encrypted=("each party's solution, its reflection, and the change of that",),
    )

    eta: PositiveFloat = Field(default=10.0, description="Step size η of the proximal steps.")
    alpha: float = Field(default=1.0, gt=0.0, lt=2.0, description="Relaxation α of the splitting, below 2.")

    @property
    def vectors(self) -> Vectors:
        return Vectors(state=(MODEL, TOTAL), summed=(CHANGE,), kept=(REFLECTED, SOLUTION))
