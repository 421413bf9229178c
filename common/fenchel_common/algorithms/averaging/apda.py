"""The settings of APDA with an inexact prox (Sadiev, Kovalev and Richtárik, NeurIPS 2022), in its federated form.

The parties' copies x_j of the model are to agree: min Σ f_j(x_j) subject to x_1 = … = x_K, whose multipliers y_j sum to
zero. In a round every party does, with x̂_j ≈ the prox of η_x f_j at x_j − η_x y_j,

    x_j⁺ = x_j − η_x (∇f_j(x̂_j) + y_j),
    v_j  = y_j + η_y (x_j⁺ + θ (x_j⁺ − x_j)) − η_y β_y (y_j + ∇f_j(x̂_j)),  y_j⁺ = v_j − mean of v,

and the model is the mean of x_j⁺. The gradient at x̂_j instead of the solution makes an inexact prox enough; the term
with β_y makes the convergence linear though the dual problem is not smooth. θ = max {2/(2 + μ η_x), 1 − β_y η_y} with μ
= λ, and η_y = 1/(32 η_x) unless it is given, as DualFL's Table 2 has them.
"""

from typing import ClassVar, Final, Self

from pydantic import Field, model_validator

from fenchel_common.algorithms.averaging.proximal import ToleratedSettings, consensus_profile
from fenchel_common.algorithms.averaging.rails import MODEL, Vectors
from fenchel_common.algorithms.settings import PositiveFloat, Profile
from fenchel_common.losses.multinomial import Multinomial

DUAL: Final = "dual"
"""Summed and kept: v_j of the round. State: their mean."""


class ApdaSettings(ToleratedSettings):
    """Settings of a run of APDA with an inexact prox, checked."""

    profile: ClassVar[Profile] = consensus_profile(
        "APDA-Inexact: accelerated in rounds for smooth strongly convex problems, by an inexact prox",
        losses=("logistic", "smoothed_hinge", Multinomial.name),
        encrypted=("each party's weights and dual vector",),
    )

    eta_x: PositiveFloat = Field(default=10.0, description="Primal step η_x.")
    eta_y: PositiveFloat | None = Field(default=None, description="Dual step η_y; by default 1/(32 η_x).")
    beta_y: float = Field(default=0.01, ge=0.0, allow_inf_nan=False, description="Dual step β_y, with η_y β_y ≤ 1.")

    @model_validator(mode="after")
    def _contracting(self) -> Self:
        if self.beta_y * self.dual_step > 1.0:
            raise ValueError(f"beta_y: must be at most 1/eta_y = {1.0 / self.dual_step:g}")
        return self

    @property
    def dual_step(self) -> float:
        """η_y"""
        return 1.0 / (32.0 * self.eta_x) if self.eta_y is None else self.eta_y

    @property
    def overrelaxation(self) -> float:
        """θ"""
        return max(2.0 / (2.0 + self.lambda_ * self.eta_x), 1.0 - self.beta_y * self.dual_step)

    @property
    def vectors(self) -> Vectors:
        return Vectors(state=(MODEL, DUAL), summed=(MODEL, DUAL), kept=(MODEL, DUAL))
