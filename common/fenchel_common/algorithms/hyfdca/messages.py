"""HyFDCA's messages: what both halves agree on.

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
from typing import Final

from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.vectors import Vector

SYNC: Final = "sync"
INNER_PRODUCT_AFTER: Final = "inner_product_after"


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

    contribution: BlockVector
    figures: Figures | None = None


@dataclass(frozen=True, slots=True)
class ProductTask:
    state: StateUpdate
    blocks: tuple[int, ...]


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
