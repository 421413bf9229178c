"""The settings of DualFL and of the algorithms that its paper compares with, which all minimise E(θ) = 1/K Σ f_j(θ).

f_j(θ) = K/N Σ_{i of j} l_i(x_i·θ) + λ/2 ‖θ‖² over party j's rows, so that E is P. The
shards are horizontal, and every party knows its labels.
"""

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from fenchel_common.algorithms.averaging.choices import Numbers, Occasion, RecordedPlan, check_number, check_repeated
from fenchel_common.algorithms.averaging.settings import MEASUREMENT_LEAKS, LocalLossSettings
from fenchel_common.algorithms.settings import PositiveFloat, Profile
from fenchel_common.errors import InvalidConfig
from fenchel_common.losses import LOSSES, Loss
from fenchel_common.losses.multinomial import Multinomial

CLIENTS: Final = "clients"
"""Told: K."""
SAMPLE_WEIGHT: Final = "share"
"""Told: K/N, the weight of a sample in f_j."""

CURVATURES: Final = {"logistic": 0.25, "smoothed_hinge": 1.0, Multinomial.name: 0.5}
"""The largest second derivative of each smooth loss."""

LocalSolver = Literal["accelerated", "lbfgs", "dual"]


def consensus_profile(
    summary: str,
    *,
    encrypted: tuple[str, ...],
    visible: dict[str, str] | None = None,
    losses: tuple[str, ...] = ("logistic", "smoothed_hinge", "hinge", Multinomial.name),
) -> Profile:
    """The profile of one of these algorithms: the common entries, and those that the algorithm adds."""
    return Profile(
        summary=summary,
        partitions=("horizontal",),
        losses=losses,
        encrypted=(*encrypted, "the model"),
        visible=MEASUREMENT_LEAKS | (visible or {}),
    )


class ConsensusSettings(LocalLossSettings):
    """Settings of these algorithms, checked."""

    loss: str = Field(default="logistic", description="The loss of a sample.")
    classes: int = Field(default=2, ge=2, le=10_000, description="Classes of the multinomial loss, labels from 0.")

    @property
    def curvature(self) -> float | None:
        """The largest second derivative of the loss; None if it has kinks."""
        return CURVATURES.get(self.loss)

    @property
    def loss_function(self) -> Loss:
        """The loss of a margin; `InvalidConfig` for the multinomial loss."""
        if self.loss == Multinomial.name:
            raise InvalidConfig("loss: multinomial takes classes from 0; for labels -1 and +1 choose logistic")
        return super().loss_function

    @property
    def local_loss(self) -> Loss | Multinomial:
        return Multinomial(self.classes) if self.loss == Multinomial.name else LOSSES[self.loss]

    def check_plan(self, plan: RecordedPlan, occasion: Occasion) -> None:
        """K and K/N must be those that every party knows by its layout."""
        plan.check_equal_weights()
        clients, fraction = occasion.clients, occasion.clients / occasion.samples
        check_number(plan.told, CLIENTS, least=clients, most=clients)
        check_number(plan.told, SAMPLE_WEIGHT, least=fraction, most=fraction)

    def check_closing(self, told: Numbers, plan: RecordedPlan, occasion: Occasion) -> None:
        del occasion
        check_repeated(told, plan)


class ProximalSettings(ConsensusSettings):
    """Settings of algorithms whose parties solve a local problem in each round."""

    local_solver: LocalSolver | None = Field(
        default=None,
        description="accelerated (gradient method with restart and backtracking, the default), lbfgs, or dual "
        "(proximal gradient on the local dual; the only one for the hinge, and its default).",
    )
    local_iterations: int = Field(
        default=5000, ge=1, le=10_000_000, description="At most so many iterations on a local problem."
    )

    @model_validator(mode="after")
    def _fitting_solver(self) -> Self:
        if self.loss == "hinge" and self.local_solver not in (None, "dual"):
            raise ValueError(f"local_solver: {self.local_solver} needs a smooth loss; for the hinge use dual")
        if self.loss == Multinomial.name and self.local_solver == "dual":
            raise ValueError("local_solver: dual takes losses of a margin; for multinomial use accelerated or lbfgs")
        return self

    @property
    def solver(self) -> LocalSolver:
        if self.local_solver is not None:
            return self.local_solver
        return "dual" if self.loss == "hinge" else "accelerated"


class ToleratedSettings(ProximalSettings):
    """Settings of algorithms whose theory does not state how exactly local problems must be solved."""

    local_gap: PositiveFloat = Field(
        default=1e-10, description="Duality gap at which a local problem counts as solved."
    )
