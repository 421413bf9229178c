"""HyFDCA's messages between its two halves.

One round, phase by phase (the tasks and results of a phase are the dataclasses beside its name)::

    sync                 PrimalTask   → PrimalResult    parties whose α or contribution to w is out of date
    inner_product        ProductTask  → ProductResult   enc(x_{k,i}·w_k) of shared blocks (Algorithm 2)
    local_dual           DualTask     → DualResult      enc(γ_t/|B_n|·Δα_{k,i}) (Algorithms 3 and 5), figures
    primal               PrimalTask   → PrimalResult    X_kᵀα/(λN) (Algorithm 4), and the sum of the figures opened
    inner_product_after  ProductTask  → ProductResult   refreshes the products on record of parties that may leave

A block travels as one ciphertext of S slots; slots beyond its size are zero. Vectors by sample are encrypted in every
run but a plain one; vectors by feature and vectors of numbers in a sealed one. All of them are fixed-point numbers at
every privacy level, so that a run gives the same bits at each.
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
    """The changes that a task makes to the client's state before its work.

    With `reset` the client first forgets everything. `model` is w on the client's features, in which missing blocks are
    zero; `alpha` are dual variables of the client's samples. The client takes both if they are not None.
    """

    reset: bool = False
    model: BlockVector | None = None
    alpha: BlockVector | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """(1/N) Σ l, (1/N) Σ l*, the accuracy and λ/2 ‖w‖², for the w and α that entered the round.

    With a loss of regression the mean squared error stands in the place of the accuracy. The figures are summed as one
    vector, in this order; each party gives its contribution to them.
    """

    mean_loss: float
    mean_conjugate: float
    accuracy: float
    regulariser: float


FIGURE_COUNT: Final = 4


@dataclass(frozen=True, slots=True)
class PrimalTask:
    """`totals` is the sum of all contributions to the figures, which the client opens; None if there is none."""

    state: StateUpdate
    totals: Vector | None = None


@dataclass(frozen=True, slots=True)
class PrimalResult:
    """The client's contribution to the model and, if the task had totals, the opened figures.

    The contribution is X_kᵀα/(λN) in all blocks of the client's features, because the choice of some entries would tell
    about the rows.
    """

    contribution: BlockVector
    figures: Figures | None = None


@dataclass(frozen=True, slots=True)
class ProductTask:
    """The client computes x_i·w of the samples in `blocks`, with its own features."""

    state: StateUpdate
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DualTask:
    """The samples that the client updates, and the numbers that the step needs.

    Attributes
    ----------
    norms
        ‖x_i‖² of all shared blocks; given once.
    products
        x_i·w of those shared blocks that the client updates or reports on.
    divisors
        |B_n| for each of `ranges`.
    step_scale
        c_k.
    report_blocks, norm_blocks
        Blocks of samples and of features for which this client gives a contribution to the figures.
    with_losses
        Whether the figures have losses and accuracy, or only the sums that D needs.
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
    """Changes of dual variables, and a contribution to each of the figures if the task asked for them."""

    changes: BlockVector | None
    figures: Vector | None
