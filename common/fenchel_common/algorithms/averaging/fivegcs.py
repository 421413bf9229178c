"""5GCS's settings (Grudzień, Malinovsky and Richtárik 2022): a primal-dual method with a local proximal step.

P = Σ F_j + λ/2 ‖·‖² with F_j = 1/N Σ l_i over party j's rows; u_j is the gradient of F_j, v = Σ u_j, and S are the
parties that answer::

    w' = (w − γ v)/(1 + γλ)
    θ_j ≈ argmin F_j(θ) + τ/2 ‖θ − w' − u_j/τ‖²,  u_j ← ∇F_j(θ_j)
    w ← w' − γ K/|S| · (change of v)
"""

from typing import ClassVar, Final

from pydantic import Field

from fenchel_common.algorithms.averaging.proximal import ToleratedSettings, consensus_profile
from fenchel_common.algorithms.averaging.rails import MODEL, Vectors
from fenchel_common.algorithms.settings import PositiveFloat, Profile

TOTAL: Final = "total"
"""State: v."""
CHANGE: Final = "change"
"""Summed: the change of a party's u_j."""
DUAL: Final = "dual"
"""Kept: u_j."""


class FivegcsSettings(ToleratedSettings):
    """Settings of a 5GCS run, checked."""

    profile: ClassVar[Profile] = consensus_profile(
        "5GCS: accelerated in rounds for smooth strongly convex problems, with a proximal step for each party",
        encrypted=("each party's dual vector and its change",),
    )

    gamma: PositiveFloat = Field(default=10.0, description="Primal step γ.")
    tau: PositiveFloat | None = Field(
        default=None, description="Dual parameter τ; by default 1/(2γK) for K parties, as DualFL's Table 2 has it."
    )

    @property
    def vectors(self) -> Vectors:
        return Vectors(state=(MODEL, TOTAL), summed=(CHANGE,), kept=(CHANGE, DUAL))
