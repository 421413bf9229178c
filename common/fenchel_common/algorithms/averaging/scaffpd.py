"""SCAFF-PD's settings: min_x max_{λ∈Λ} Σ λ_i f_i(x) − ψ(λ) over the parties (Algorithms 1 and 2 of the paper).

A round of the paper takes two rounds here, because c = Σ λ_i^{r+1} c_i must be known before the local steps. In the
first the parties report their losses, the server steps the dual variable λ and the parties return their gradients c_i;
in the second they return their corrected local steps Δu_i. Both are summed on ciphertext with the weights λ_i^{r+1}.

Parameters of round r: the primal step τ_r = J·η_ℓ·η_g, the dual step σ_r and the extrapolation θ_r. They are fixed, or
set by Condition 3.1 (ψ convex) or Condition 3.2 (ψ strongly convex).
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from fenchel_common.algorithms.averaging.choices import Numbers, Occasion, RecordedPlan, check_number, check_repeated
from fenchel_common.algorithms.averaging.descent import LOSS_LEAK, DescentSettings, descent_profile
from fenchel_common.algorithms.averaging.rails import MODEL, Vectors
from fenchel_common.algorithms.settings import PositiveFloat, Profile

CONTROL = "control"
UPDATE = "update"
TAU: Final = "tau"
"""Told, in a round with local steps: τ_r."""


@dataclass(frozen=True, slots=True)
class Pace:
    """τ_r, σ_r and θ_r; the next ones are the same, or follow Condition 3.1 if `strong_convexity` is above 0."""

    tau: float
    sigma: float
    theta: float
    strong_convexity: float = 0.0

    def next(self) -> "Pace":
        """Condition 3.1 with τ_{r+1} = τ_r √(γ_r/γ_{r+1}) (Lemma E.3), where γ_r = σ_r/τ_r."""
        if self.strong_convexity == 0.0:
            return self
        gamma = self.sigma / self.tau
        next_gamma = gamma * (1.0 + self.strong_convexity * self.tau)
        tau = self.tau * math.sqrt(gamma / next_gamma)
        sigma = next_gamma * tau
        return Pace(tau, sigma, self.sigma / sigma, self.strong_convexity)

    @classmethod
    def strongly_concave(cls, *, mu_x: float, mu_dual: float, smoothness: float, coupling: float) -> "Pace":
        """Condition 3.2 with the constants of its proof: ω of (E.54) with C_ω = 1, θ = 1 − 1/ω, τ and σ of (E.51)."""
        half = 0.5 + 24.0 * smoothness / mu_x
        omega = half + math.sqrt(half**2 + 16.0 * coupling**2 / (mu_x * mu_dual))
        theta = 1.0 - 1.0 / omega
        ratio = (1.0 - theta) / theta
        return cls(tau=4.0 * ratio / mu_x, sigma=ratio / mu_dual, theta=theta)


class RobustSettings(DescentSettings):
    """Settings of the algorithms that weigh parties by their losses."""

    ambiguity: Literal["chi2", "cvar"] = Field(
        default="chi2", description="ψ and Λ: chi2 penalises weights that differ (rho); cvar bounds them (alpha)."
    )
    rho: float = Field(
        default=0.1, ge=0.0, le=1e12, description="chi2: 0 is agnostic learning, a large one the average of all."
    )
    alpha: float = Field(
        default=0.3, gt=0.0, le=1.0, description="cvar: the fraction of parties, those with the largest losses."
    )
    dual_step: PositiveFloat = Field(default=1.0, description="σ: the size of a step of the weights.")

    def largest_weight(self, clients: int) -> float:
        """The bound of Λ on each λ_i."""
        return min(1.0, 1.0 / (self.alpha * clients)) if self.ambiguity == "cvar" else 1.0

    def check_plan(self, plan: RecordedPlan, occasion: Occasion) -> None:
        """Weights follow from the losses that the parties tell the server; a party can check that they are in Λ."""
        plan.check_weights(each=self.largest_weight(occasion.clients) * (1.0 + 1e-9), together=1.0)

    def check_closing(self, told: Numbers, plan: RecordedPlan, occasion: Occasion) -> None:
        del occasion
        check_repeated(told, plan)


class ScaffpdSettings(RobustSettings):
    """Settings of a SCAFF-PD run, checked."""

    profile: ClassVar[Profile] = descent_profile(
        "SCAFF-PD: robust to the parties with large losses; accelerated primal-dual, corrected local steps",
        encrypted=("each party's gradient", "each party's local update"),
        visible=dict.fromkeys(LOSS_LEAK, "in clear, every other round"),
    )

    rule: Literal["fixed", "concave", "strongly_concave"] = Field(
        default="fixed",
        description="τ, σ and θ: as given; from there on as Condition 3.1 (concave); or all by Condition 3.2, from "
        "lambda, rho, smoothness and coupling.",
    )
    global_step: float = Field(default=1.0, ge=1.0, le=1e6, description="η_g: τ = local_steps·step·global_step.")
    extrapolation: float = Field(default=1.0, ge=0.0, le=1.0, description="θ of the extrapolated dual step.")
    smoothness: PositiveFloat | None = Field(default=None, description="L_xx of Condition 3.2.")
    coupling: PositiveFloat | None = Field(default=None, description="L_λx of Condition 3.2.")

    @model_validator(mode="after")
    def _rule_has_its_constants(self) -> Self:
        if self.rule != "fixed" and self.lambda_ <= 0.0:
            raise ValueError("lambda: Conditions 3.1 and 3.2 need strongly convex losses; use a number above 0")
        if self.rule == "strongly_concave":
            if self.ambiguity != "chi2" or self.rho <= 0.0:
                raise ValueError("rho: Condition 3.2 needs the chi2 penalty with rho above 0; else use rule = concave")
            if self.smoothness is None or self.coupling is None:
                raise ValueError("smoothness: Condition 3.2 needs smoothness and coupling; else use rule = fixed")
        return self

    @property
    def vectors(self) -> Vectors:
        return Vectors(state=(MODEL, CONTROL), summed=(UPDATE,), surveyed=("loss",), measured=self.measured)

    def check_plan(self, plan: RecordedPlan, occasion: Occasion) -> None:
        """τ_r never rises."""
        super().check_plan(plan, occasion)
        if plan.told:
            check_number(plan.told, TAU, least=math.ulp(0.0), most=self.first_pace(occasion.clients).tau)

    def first_pace(self, clients: int) -> Pace:
        """τ_0, σ_0 and θ_0."""
        if self.rule == "strongly_concave":
            assert self.smoothness is not None
            assert self.coupling is not None
            return Pace.strongly_concave(
                mu_x=self.lambda_,
                mu_dual=self.rho * clients,
                smoothness=self.smoothness,
                coupling=self.coupling,
            )
        tau = self.local_steps * self.step * self.global_step
        return Pace(tau, self.dual_step, self.extrapolation, self.lambda_ if self.rule == "concave" else 0.0)
