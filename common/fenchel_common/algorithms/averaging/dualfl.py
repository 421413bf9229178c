"""DualFL's settings, and the scalar sequences of its theory, which both halves use.

Problem (2.1)   E(θ) = 1/K Σ_j f_j(θ) over K parties, f_j(θ) = K/N Σ_{i of j} l_i(x_i·θ) + μ/2 ‖θ‖², μ = λ + α

so that E is the P of all rows plus α/2 ‖θ‖²: the regularised form (4.1) for problems that are not
strongly convex, where λ may be 0. Every f_j is μ-strongly convex, and L-smooth unless the loss has kinks.

The server adds one vector of each party and needs no other. With v_j = ξ_j/ν = ζ_j^(n) − θ_j^(n+1) of (6.9a), the
average (3.2) is θ = −1/K Σ v_j, because the ζ_j sum to zero (6.10), and (3.3) reads

    ζ_j = (1 + β)(v_j + θ) − β (v_j' + θ')                with the values of one round earlier primed.

A party therefore sends the change of its v_j. A party that misses a round leaves its v_j as it was, and θ is still the
point (6.5) of the dual variables; (3.2) over those present would leave Σ ζ_j ≠ 0, a permanent bias. After such a
round the momentum starts again (t = 1).
"""

import math
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from fenchel_common.algorithms.averaging.choices import Occasion, RecordedPlan, check_number
from fenchel_common.algorithms.averaging.proximal import ProximalSettings, consensus_profile
from fenchel_common.algorithms.averaging.rails import MODEL, Vectors
from fenchel_common.algorithms.settings import PositiveFloat, Profile

PREVIOUS: Final = "previous"
"""State: the model of one round earlier, θ^(n−1)."""
TOTAL: Final = "total"
"""State: Σ_j v_j, of which the model is −1/K."""
CHANGE: Final = "change"
"""Summed: the change of a party's v_j."""
DUAL: Final = "dual"
"""Kept: v_j."""
SMOOTHNESS: Final = "smoothness"
"""Reported: L of the party's f_j."""
CRITERION_MET: Final = "criterion_met"
"""Reported: 1 if the local problem was solved as (3.7) or (3.8) asks, else 0."""

BETA: Final = "beta"
TOLERANCE: Final = "tolerance"


def next_momentum(t: float, rho: float) -> tuple[float, float]:
    """t_{n+1} and β_n from t_n, (3.4)."""
    shrunk = 1.0 - rho * t * t
    following = (shrunk + math.sqrt(shrunk * shrunk + 4.0 * t * t)) / 2.0
    return following, (t - 1.0) / following * (1.0 - following * rho) / (1.0 - rho)


def gap_bound(n: int, *, clients: int, rho: float, nu: float, gamma: float) -> float:
    """The bound on Γ^{n,j} in epoch n: (3.7) for ρ = 0, else (3.8)."""
    if rho == 0.0:
        return 1.0 / (clients * nu * math.pow(n + 1, 4.0 + gamma))
    return math.pow((1.0 - math.sqrt(rho)) / (1.0 + gamma), n) / clients


class DualflSettings(ProximalSettings):
    """Settings of a DualFL run, checked."""

    profile: ClassVar[Profile] = consensus_profile(
        "DualFL: accelerated in rounds for smooth and nonsmooth convex losses, by FISTA on the dual",
        encrypted=("each party's dual vector and its change",),
        visible={
            "the smoothness constant of each party's loss": "in clear, each round, if rho is auto and the loss smooth",
            "whether each party solved its local problem well enough": "in clear, each round",
        },
    )

    lambda_: float = Field(
        default=1e-2, alias="lambda", ge=0.0, le=1e12, description="Weight of λ/2·‖w‖²; 0 needs alpha."
    )
    alpha: float = Field(
        default=0.0,
        ge=0.0,
        le=1e12,
        description="Trains with α/2·‖w‖² on top, for problems that are not strongly convex (section 4).",
    )
    rho: float | Literal["auto"] = Field(
        default="auto", description="Momentum parameter ρ, from 0 and below 1; auto: ν/L, and 0 for the hinge."
    )
    nu: PositiveFloat | None = Field(
        default=None, description="Parameter ν of the duality, at most λ + α, which is the default."
    )
    gamma: PositiveFloat = Field(default=0.1, description="γ of the inexactness criteria (3.7) and (3.8).")
    gap_factor: PositiveFloat = Field(
        default=1e-3, description="A constant before those criteria; the rates are valid for any."
    )

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if self.strong_convexity <= 0.0:
            raise ValueError("lambda: 0 makes the problem not strongly convex; set alpha above 0 as well")
        if self.nu is not None and self.nu > self.strong_convexity:
            raise ValueError(f"nu: must be at most lambda + alpha = {self.strong_convexity:g}")
        if not isinstance(self.rho, str) and not 0.0 <= self.rho < 1.0:
            raise ValueError("rho: use auto, or a number from 0 and below 1")
        return self

    @property
    def strong_convexity(self) -> float:
        """μ"""
        return self.lambda_ + self.alpha

    @property
    def duality(self) -> float:
        """ν"""
        return self.strong_convexity if self.nu is None else self.nu

    @property
    def asks_smoothness(self) -> bool:
        return self.rho == "auto" and self.curvature is not None

    def check_plan(self, plan: RecordedPlan, occasion: Occasion) -> None:
        super().check_plan(plan, occasion)
        check_number(plan.told, BETA, least=0.0, most=1.0)
        check_number(plan.told, TOLERANCE, least=0.0, most=math.inf)

    @property
    def vectors(self) -> Vectors:
        return Vectors(
            state=(MODEL, PREVIOUS, TOTAL),
            summed=(CHANGE,),
            kept=(CHANGE, DUAL),
            reported=(CRITERION_MET, SMOOTHNESS) if self.asks_smoothness else (CRITERION_MET,),
        )
