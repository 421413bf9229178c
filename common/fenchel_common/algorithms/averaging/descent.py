"""The settings of algorithms whose clients take gradient steps on f_i(x) = 1/n_i Σ l(x_j·x, y_j) + λ/2 ‖x‖²."""

from typing import ClassVar

from pydantic import Field

from fenchel_common.algorithms.averaging.rails import ACCURACY
from fenchel_common.algorithms.averaging.settings import ACCURACY_LEAK, MEASUREMENT_LEAKS, LocalLossSettings
from fenchel_common.algorithms.settings import PositiveFloat, Profile
from fenchel_common.errors import InvalidConfig
from fenchel_common.losses import LOSSES, Loss
from fenchel_common.losses.multinomial import Multinomial
from fenchel_common.losses.squared import Squared

DescentLoss = Loss | Multinomial

DESCENT_LOSSES = ("logistic", "smoothed_hinge", "hinge", Multinomial.name, Squared.name)
LOSS_LEAK = {"the loss of each party": "in clear, every round"}


def descent_profile(summary: str, *, encrypted: tuple[str, ...], visible: dict[str, str]) -> Profile:
    """The profile of one of these algorithms: the common entries, and those that the algorithm adds."""
    return Profile(
        summary=summary,
        partitions=("horizontal",),
        losses=DESCENT_LOSSES,
        encrypted=(*encrypted, "the model"),
        visible=MEASUREMENT_LEAKS | ACCURACY_LEAK | visible,
    )


class DescentSettings(LocalLossSettings):
    """Settings of these algorithms, checked."""

    profile: ClassVar[Profile]

    loss: str = Field(default="logistic", description="The loss of a sample.")
    lambda_: float = Field(default=1e-2, alias="lambda", ge=0.0, le=1e12, description="Weight of λ/2·‖w‖².")
    classes: int = Field(default=2, ge=2, le=10_000, description="Classes of the multinomial loss, labels from 0.")
    local_steps: int = Field(default=10, ge=1, le=1_000_000, description="J: gradient steps of a client in a round.")
    step: PositiveFloat = Field(default=1.0, description="η_ℓ: the size of a local step.")
    batch: int | None = Field(
        default=None, ge=1, le=1 << 20, description="Rows of a local step, drawn at random; all of them if not given."
    )

    @property
    def local_loss(self) -> DescentLoss:
        return Multinomial(self.classes) if self.loss == Multinomial.name else LOSSES[self.loss]

    @property
    def measured(self) -> tuple[str, ...]:
        """The numbers about its own rows that a party tells at measurements; predictions of numbers have none."""
        return () if self.predicts_numbers else (ACCURACY,)

    @property
    def loss_function(self) -> Loss:
        """The loss, for a comparison with the centralized optimum; `InvalidConfig` if it has several scores."""
        loss = self.local_loss
        if not isinstance(loss, Loss):
            raise InvalidConfig(
                f"loss: {self.loss} takes classes from 0; a comparison needs a loss of one score, such as logistic"
            )
        return loss
