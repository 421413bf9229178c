"""HyFDCA's settings, with the local steps of its paper."""

import math
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from fenchel_common.algorithms.dual import ABOUT_CERTIFICATES, ABOUT_LOCAL, DualSettings
from fenchel_common.algorithms.family import Family
from fenchel_common.algorithms.hyfdca.family import HYFDCA


class HyfdcaSettings(DualSettings):
    """Settings of a HyFDCA run with `local = "paper"` or `local = "theory"`, checked.

    With `theory`, `h = "auto"` is the number of samples of the smallest client. With `paper` it starts at a tenth of a
    client's samples and follows the dual objective: it shrinks when D falls and grows while D rises.
    """

    family: ClassVar[Family[Any]] = HYFDCA

    local: Literal["paper", "theory"] = Field(description=ABOUT_LOCAL)
    h: Literal["auto"] | int | float = Field(
        default="auto",
        description="Samples that each client updates a round: a whole number, a fraction (with a point), or auto.",
    )
    second_inner_product: bool | None = Field(
        default=None, description="Whether a round ends with inner_product_after; by default if not all take part."
    )
    certificate_every: int = Field(default=5, ge=0, description=ABOUT_CERTIFICATES)
    gamma: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None, description="Overrides γ_t, above 0 and at most 1."
    )
    row_norm: Literal["measured", "unit"] = Field(
        default="measured",
        description="‖x_i‖² in the steps: that of the row, or 1 as the paper prints it, whatever the row's length.",
    )

    @field_validator("h", mode="before")
    @classmethod
    def _possible_h(cls, h: object) -> object:
        whole = isinstance(h, int) and not isinstance(h, bool) and h >= 1
        if h == "auto" or whole or (isinstance(h, float) and 0.0 < h <= 1.0):
            return h
        raise ValueError("use auto, a whole number of samples from 1, or a fraction above 0.0 and at most 1.0")

    @field_validator("classes")
    @classmethod
    def _two_classes(cls, names: tuple[str | int, ...]) -> tuple[str | int, ...]:
        if names:
            raise ValueError("this local method trains on two classes; use local = 'corrective' for several")
        return names

    @model_validator(mode="after")
    def _theorems_hold(self) -> Self:
        if self.local == "theory" and not math.isfinite(self.loss_function.lipschitz):
            raise ValueError(
                f"loss: the theorems behind local = 'theory' assume a bounded slope, which {self.loss} does not have; "
                "use local = 'corrective' or 'paper', or another loss"
            )
        return self

    @model_validator(mode="after")
    def _some_rounds_train(self) -> Self:
        if self.certificate_every == 1 and self.participation_rule.kind != "all":
            raise ValueError(
                "certificate_every: 1 leaves no round to train in, because a certificate takes a round of all parties "
                "that trains nothing unless participation is all; use 2 or more, or 0"
            )
        return self

    @property
    def asks_products_twice(self) -> bool:
        if self.second_inner_product is None:
            return self.participation_rule.kind != "all"
        return self.second_inner_product
