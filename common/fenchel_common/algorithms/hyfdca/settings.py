"""HyFDCA's settings."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from fenchel_common import defaults
from fenchel_common.algorithms.settings import ANY_PARTITION, AlgorithmSettings, Profile


class HyfdcaSettings(AlgorithmSettings):
    """Settings of a HyFDCA run, checked.

    Under `theory`, `h = "auto"` is as many as the smallest client has. Under `paper` it starts at a tenth and follows
    the dual objective: it shrinks when D falls and grows while D rises.
    """

    profile: ClassVar[Profile] = Profile(
        summary="HyFDCA: dual coordinate ascent over rows and columns, to the centralized optimum",
        partitions=ANY_PARTITION,
        losses=("hinge", "smoothed_hinge", "logistic"),
        encrypted=("dual variables and their changes", "inner products, row norms"),
        sealed=("each party's share of the model, and the model", "each party's sums of losses and conjugates"),
        visible={
            "P, D and the accuracy, over all samples": "in clear, at most once a round",
        },
        certified=True,
    )

    local: Literal["paper", "theory", "corrective"] = Field(
        default=defaults.LOCAL,
        description="corrective: no dials, monotone. paper: Algorithm 5, the practical variant. theory: Algorithm 3.",
    )
    h: Literal["auto"] | int | float = Field(
        default="auto",
        description="Samples that each client updates a round: a whole number, a fraction (with a point), or auto.",
    )
    second_inner_product: bool | None = Field(
        default=None, description="Whether a round ends with inner_product_after; by default unless all take part."
    )
    certificate_every: int | None = Field(
        default=None,
        ge=0,
        description="Rounds between two certificates, which ask all clients; 0: the last one only. By default 5, or "
        "1 where they cost nothing (corrective).",
    )
    gamma: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None, description="Overrides γ_t, above 0 and at most 1."
    )

    @field_validator("h", mode="before")
    @classmethod
    def _possible_h(cls, h: object) -> object:
        whole = isinstance(h, int) and not isinstance(h, bool) and h >= 1
        if h == "auto" or whole or (isinstance(h, float) and 0.0 < h <= 1.0):
            return h
        raise ValueError("use auto, a whole number of samples from 1, or a fraction above 0.0 and at most 1.0")

    @model_validator(mode="after")
    def _fits_corrective(self) -> Self:
        if self.local == "corrective":
            given = {"h": self.h != "auto", "gamma": self.gamma is not None}
            given["second_inner_product"] = self.second_inner_product is not None
            if unused := [name for name, used in given.items() if used]:
                raise ValueError(
                    f'{unused[0]}: corrective steps have no such setting; leave it out, or use local = "paper"'
                )
            if self.participation_rule.kind != "all":
                raise ValueError('participation: corrective steps need all; use local = "paper" for a part of them')
        return self

    @property
    def certificates_every(self) -> int:
        if self.certificate_every is None:
            return 1 if self.local == "corrective" else 5
        return self.certificate_every

    @property
    def asks_products_twice(self) -> bool:
        if self.second_inner_product is None:
            return self.participation_rule.kind != "all"
        return self.second_inner_product
