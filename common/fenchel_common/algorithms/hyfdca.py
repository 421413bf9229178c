"""HyFDCA's settings and messages: what both halves agree on.

One round, phase by phase (the tasks and results of a phase are the dataclasses beside its name)::

    sync                 PrimalTask   → PrimalResult    parties whose α or share of w is out of date
    inner_product        ProductTask  → ProductResult   enc(x_{k,i}·w_k) of shared blocks (Algorithm 2)
    local_dual           DualTask     → DualResult      enc(γ_t/|B_n|·Δα_{k,i}) (Algorithms 3 and 5), figures
    primal               PrimalTask   → PrimalResult    X_kᵀα/(λN) (Algorithm 4), and the sum of the figures opened
    inner_product_after  ProductTask  → ProductResult   refreshes what the server keeps of parties that may leave

A block travels as one ciphertext of S slots; slots beyond its size are zero. Vectors by sample are encrypted in every
run but a plain one; vectors by feature and figures in a sealed one. All of them are fixed-point numbers whatever the
privacy level, so that a run gives the same bits at each.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from fenchel_common import defaults
from fenchel_common.algorithms.settings import ANY_PARTITION, AlgorithmSettings, Profile
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector

ALPHA_FORMAT: Final = VectorFormat(bound=2.0)
"""For α and its changes: |α| ≤ 1 however many rounds add to it, and one change is at most 1."""
PRODUCT_FORMAT: Final = VectorFormat()
"""For inner products, squared row norms, parts of the model and figures."""

SYNC: Final = "sync"
INNER_PRODUCT: Final = "inner_product"
LOCAL_DUAL: Final = "local_dual"
PRIMAL: Final = "primal"
INNER_PRODUCT_AFTER: Final = "inner_product_after"


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


@dataclass(frozen=True, slots=True)
class SampleRange:
    """The samples in slots start to stop − 1 of a block."""

    block: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """What a task changes in the client's state, before anything else: forget all, then take these.

    `model` is w on the client's features; blocks that it does not have are zero.
    """

    reset: bool = False
    model: BlockVector | None = None
    alpha: BlockVector | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What P and D are made of, for the w and α that entered the round: (1/N) Σ l, (1/N) Σ l*, λ/2 ‖w‖².

    They are summed as one vector, in this order; parties give shares of them.
    """

    mean_loss: float
    mean_conjugate: float
    accuracy: float
    regulariser: float


FIGURE_COUNT: Final = 4


@dataclass(frozen=True, slots=True)
class PrimalTask:
    """`totals`: the sum of all shares of the figures, which the client opens."""

    state: StateUpdate
    totals: Vector | None = None


@dataclass(frozen=True, slots=True)
class PrimalResult:
    """X_kᵀα/(λN) in all blocks of the client's features: always whole, as which entries moved tells of the rows."""

    share: BlockVector
    figures: Figures | None = None


@dataclass(frozen=True, slots=True)
class ProductTask:
    state: StateUpdate
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProductResult:
    products: BlockVector


@dataclass(frozen=True, slots=True)
class DualTask:
    """The samples to update and what the step needs.

    Attributes
    ----------
    norms
        ‖x_i‖² of all shared blocks; given once.
    products
        x_i·w of the shared blocks that are updated, or whose losses are reported.
    divisors
        |B_n| for each of `ranges`.
    step_scale
        c_k.
    report_blocks, norm_blocks
        Blocks of samples and of features for which this client gives its share of the figures.
    with_losses
        Whether the figures have losses and accuracy, or only what D needs.
    """

    state: StateUpdate
    norms: BlockVector | None
    products: BlockVector | None
    ranges: tuple[SampleRange, ...]
    divisors: tuple[int, ...]
    gamma: float
    step_scale: float
    report_blocks: tuple[int, ...] = ()
    norm_blocks: tuple[int, ...] = ()
    with_losses: bool = False

    @property
    def asks_figures(self) -> bool:
        return bool(self.report_blocks or self.norm_blocks)


@dataclass(frozen=True, slots=True)
class DualResult:
    """`figures`: a share of each, if the task asked for them."""

    changes: BlockVector | None
    figures: Vector | None
