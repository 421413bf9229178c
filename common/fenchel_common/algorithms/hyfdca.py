"""HyFDCA's settings and messages: what both halves agree on.

One round, phase by phase (the tasks and results of a phase are the dataclasses beside its name)::

    sync                 PrimalTask   → PrimalResult    parties whose α or ŵ_k is out of date
    inner_product        ProductTask  → ProductResult   enc(x_{k,i}·w_k) of shared blocks (Algorithm 2)
    local_dual           DualTask     → DualResult      enc(γ_t/|B_n|·Δα_{k,i}) (Algorithms 3 and 5), certificate shares
    primal               PrimalTask   → PrimalResult    ŵ_k = Σ_i α_i x_{k,i} (Algorithm 4)
    inner_product_after  ProductTask  → ProductResult   refreshes what the server keeps of parties that may leave

A block travels as one ciphertext of S slots; slots beyond its size are zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fenchel_common.changes import ArrayChange
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidConfig
from fenchel_common.losses import LOSSES, Loss

ALPHA_FORMAT: Final = VectorFormat(bound=2.0)
"""For α and its changes: |α| ≤ 1 however many rounds add to it, and one change is at most 1."""
PRODUCT_FORMAT: Final = VectorFormat()
"""For inner products and squared row norms."""

SYNC: Final = "sync"
INNER_PRODUCT: Final = "inner_product"
LOCAL_DUAL: Final = "local_dual"
PRIMAL: Final = "primal"
INNER_PRODUCT_AFTER: Final = "inner_product_after"

PositiveFloat = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Participation:
    """Which clients take part in a round: all, a random share p of them, or one of C sets in turn."""

    kind: Literal["all", "fraction", "cyclic"]
    fraction: float = 1.0
    cycle: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        kind, _, number = text.partition(":")
        try:
            if kind == "all" and not number:
                return cls("all")
            if kind == "fraction" and 0.0 < float(number) <= 1.0:
                return cls("fraction", fraction=float(number))
            if kind == "cyclic" and int(number) >= 2:
                return cls("cyclic", cycle=int(number))
        except ValueError:
            pass
        raise ValueError("use all, fraction:P with P above 0 and at most 1, or cyclic:C with C at least 2")


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, strict=True)


class StopRules(_Settings):
    """When a run ends: at the first rule that is met. `seconds` is the driver's to watch."""

    gap: PositiveFloat | None = 1e-4
    rounds: int = Field(default=500, ge=1, le=10_000_000)
    seconds: PositiveFloat | None = None


class HyfdcaSettings(_Settings):
    """Settings of a HyFDCA run, checked.

    Attributes
    ----------
    local
        `paper`: the practical variant (Algorithm 5). `theory`: the method that the theorems speak of (Algorithm 3).
    h
        Samples that each client updates a round: a whole number; a fraction of what it holds, as a number with a
        decimal point above 0.0 and at most 1.0; or `auto`. Under `theory`, `auto` is as many as the smallest client
        has. Under `paper` it starts at a tenth and follows the dual objective: it shrinks when D falls and grows
        while D rises.
    participation
        `all`, `fraction:P` or `cyclic:C`.
    second_inner_product
        Whether a round ends with `inner_product_after`; by default unless participation is `all`.
    certificate_every
        Rounds between two certificates; 0 for none but the last. A certificate asks all present clients.
    gamma
        Overrides γ_t, above 0 and at most 1.
    """

    loss: str = "hinge"
    lambda_: float = Field(default=1e-2, alias="lambda", ge=1e-12, le=1e12)
    local: Literal["paper", "theory"] = "paper"
    h: Literal["auto"] | int | float = "auto"
    participation: str = "all"
    second_inner_product: bool | None = None
    certificate_every: int = Field(default=5, ge=0)
    gamma: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    seed: int = Field(default=0, ge=0, lt=2**63)
    stop: StopRules = StopRules()

    @field_validator("loss")
    @classmethod
    def _known_loss(cls, name: str) -> str:
        if name not in LOSSES:
            raise ValueError(f"choose one of {', '.join(LOSSES)}")
        return name

    @field_validator("h", mode="before")
    @classmethod
    def _possible_h(cls, h: object) -> object:
        whole = isinstance(h, int) and not isinstance(h, bool) and h >= 1
        if h == "auto" or whole or (isinstance(h, float) and 0.0 < h <= 1.0):
            return h
        raise ValueError("use auto, a whole number of samples from 1, or a fraction above 0.0 and at most 1.0")

    @field_validator("participation")
    @classmethod
    def _known_participation(cls, text: str) -> str:
        Participation.parse(text)
        return text

    @property
    def loss_function(self) -> Loss:
        return LOSSES[self.loss]

    @property
    def participation_rule(self) -> Participation:
        return Participation.parse(self.participation)

    @property
    def asks_products_twice(self) -> bool:
        if self.second_inner_product is None:
            return self.participation_rule.kind != "all"
        return self.second_inner_product

    @classmethod
    def parse(cls, values: Mapping[str, object]) -> Self:
        """Settings from a configuration; an error names each wrong field, what is wrong and what may stand there."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise InvalidConfig("; ".join(_problem(cls, dict(detail)) for detail in error.errors())) from None


def _problem(settings: type[HyfdcaSettings], detail: dict[str, object]) -> str:
    place = detail["loc"]
    assert isinstance(place, tuple)
    # A union adds the name of each of its kinds to the place; the field is what precedes it.
    depth = 2 if place[:1] == ("stop",) else 1
    name = ".".join(str(part) for part in place[:depth])
    if detail["type"] == "extra_forbidden":
        model = StopRules if depth == 2 else settings
        known = ", ".join(field.alias or key for key, field in model.model_fields.items())
        return f"{name}: unknown key; the known ones are {known}"
    message = str(detail["msg"]).removeprefix("Value error, ")
    return f"{name}: {message[:1].lower()}{message[1:]}"


@dataclass(frozen=True, slots=True)
class SampleRange:
    """The samples in slots start to stop − 1 of a block."""

    block: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class BlockVector:
    """A vector of whole blocks, S slots each, and the ascending ids of these blocks."""

    blocks: tuple[int, ...]
    vector: Vector


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """What a task changes in the client's state, before anything else: forget all, then take these."""

    reset: bool = False
    model: ArrayChange | None = None
    alpha: BlockVector | None = None


@dataclass(frozen=True, slots=True)
class PrimalTask:
    """`whole`: answer with all of ŵ_k. `conjugate_blocks`: those on which to report Σ l*(−α) of the new α."""

    state: StateUpdate
    whole: bool
    conjugate_blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PrimalResult:
    """ŵ_k as changed since the last one that this client gave, or whole if the task asked so."""

    share: ArrayChange
    conjugate_sum: float = 0.0


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
        x_i·w of the shared blocks that are updated or reported on.
    divisors
        |B_n| for each of `ranges`.
    step_scale
        c_k.
    report_blocks
        Those on which this client gives its share of the certificate.
    """

    state: StateUpdate
    norms: BlockVector | None
    products: BlockVector | None
    ranges: tuple[SampleRange, ...]
    divisors: tuple[int, ...]
    gamma: float
    step_scale: float
    report_blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CertificateShare:
    """One reporter's sums, for the w and α that entered the round."""

    samples: int
    loss_sum: float
    conjugate_sum: float
    correct: int


@dataclass(frozen=True, slots=True)
class DualResult:
    changes: BlockVector | None
    certificate: CertificateShare | None
