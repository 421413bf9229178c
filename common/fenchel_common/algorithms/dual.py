"""Phases, formats of vectors, preparation and settings that HyFDCA and corrective HyFDCA have in common."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from fenchel_common.algorithms.settings import ANY_PARTITION, AlgorithmSettings, Profile
from fenchel_common.blocks import BlockVector
from fenchel_common.classlabels import check_classes, class_codes, class_name
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import LOSSES, Array, Loss
from fenchel_common.losses.weighted import ClassWeighted

ALPHA_FORMAT: Final = VectorFormat(bound=2.0)
"""For α and its changes, of a loss with y·α in [0, 1]: however many rounds add to α, and one change is at most 1."""
PRODUCT_FORMAT: Final = VectorFormat()
"""For inner products, squared row norms, contributions to the model and vectors of numbers."""

INNER_PRODUCT: Final = "inner_product"
LOCAL_DUAL: Final = "local_dual"
PRIMAL: Final = "primal"

PREPARATION: Final = "HyfdcaProductResult"
"""The message that a party sends before the first round: a `ProductResult`."""

ABOUT_LOCAL: Final = (
    "corrective: nothing to tune, monotone. paper: Algorithm 5, the practical variant. theory: Algorithm 3."
)
ABOUT_CERTIFICATES: Final = (
    "Rounds between two certificates, which need all parties; 0: only at the end. The default is 5 with local = paper "
    "or theory, where a certificate takes extra work."
)

MAX_CLASSES: Final = 100
"""The most classes of a run; every class is a problem of its own."""

LARGEST_TARGET: Final = 500.0
"""The largest magnitude of a label that is a number: means of squared errors then stay within `PRODUCT_FORMAT`."""


def alpha_format(loss: Loss) -> VectorFormat:
    """For α and its changes: `ALPHA_FORMAT`, with a wider bound for a loss whose dual variables are further apart."""
    return VectorFormat(bound=2.0 * loss.dual_change)


@dataclass(frozen=True, slots=True)
class ProductResult:
    """Inner products with a party's rows; as the preparation, the squared norms of these rows."""

    products: BlockVector


class DualSettings(AlgorithmSettings):
    """Settings that both have in common; each adds `local`, and `certificate_every` with its own default."""

    profile: ClassVar[Profile] = Profile(
        summary="HyFDCA: dual coordinate ascent over rows and columns, to the centralized optimum",
        partitions=ANY_PARTITION,
        losses=tuple(LOSSES),
        encrypted=("dual variables and their changes", "inner products, row norms"),
        sealed=("each party's contribution to the model, and the model", "each party's sums of losses and conjugates"),
        visible={
            "P, D and the accuracy or mean squared error, over all samples": "in clear, at most once a round",
        },
        certified=True,
    )

    positive_weight: float = Field(
        default=1.0, ge=1e-3, le=1e3, description="Weight in P of a sample with the label +1; one with -1 counts 1."
    )

    classes: Annotated[tuple[str | int, ...], Field(strict=False)] = Field(
        default=(),
        description="The names of three or more classes: a model for each, one-vs-rest; needs local = corrective.",
    )

    @field_validator("classes")
    @classmethod
    def _several_classes(cls, names: tuple[str | int, ...]) -> tuple[str | int, ...]:
        if names and not 3 <= len(names) <= MAX_CLASSES:
            raise ValueError(
                f"name 3 to {MAX_CLASSES} classes; a run of two classes needs no names, but labels -1 and +1 "
                "(`positive` and `negative` in shard.toml)"
            )
        class_codes([class_name(name) for name in names])
        return names

    @model_validator(mode="after")
    def _classes_to_weight(self) -> Self:
        if not LOSSES[self.loss].regression:
            return self
        if self.positive_weight != 1.0:
            raise ValueError(f"positive_weight: {self.loss} predicts numbers and has no classes; leave it out")
        if self.classes:
            raise ValueError(f"classes: {self.loss} predicts numbers and has no classes; leave them out")
        return self

    @property
    def loss_function(self) -> Loss:
        loss = super().loss_function
        return loss if self.positive_weight == 1.0 else ClassWeighted(loss, self.positive_weight)

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(class_name(name) for name in self.classes)

    @property
    def alpha_format(self) -> VectorFormat:
        """The format of vectors of dual variables and of their changes."""
        return alpha_format(self.loss_function)

    def check_labels(self, y: Array) -> None:
        if self.classes:
            check_classes(y, self.class_names)
            return
        super().check_labels(y)
        if self.loss_function.regression and (np.abs(y) > LARGEST_TARGET).any():
            raise InvalidInput(
                f"y: numbers to predict must not exceed {LARGEST_TARGET:g} in magnitude; divide them by a common unit, "
                "such as their standard deviation, which must be the same at every party"
            )
