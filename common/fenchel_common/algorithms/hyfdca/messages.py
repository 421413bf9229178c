"""HyFDCA's messages between its two halves.

One round, phase by phase (the tasks and results of a phase are the dataclasses beside its name)::

    sync                 PrimalTask   → PrimalResult    parties whose α or contribution to w is out of date
    inner_product        ProductTask  → ProductResult   enc(x_{k,i}·w_k) of shared blocks (Algorithm 2)
    local_dual           DualTask     → DualResult      enc(γ_t/|B_n|·Δα_{k,i}) (Algorithms 3 and 5), figures
    primal               PrimalTask   → PrimalResult    X_kᵀα/(λN) (Algorithm 4), and the sum of the figures opened
    inner_product_after  ProductTask  → ProductResult   refreshes the products on record of parties that may leave

A task has only sums for its client to open. Which samples the client updates, which blocks it gives and what it reports
on follow from the records of the run (`rounds.RoundRules`).

A block travels as one ciphertext of S slots; slots beyond its size are zero. Vectors by sample are encrypted in every
run but a plain one; vectors by feature and vectors of numbers in a sealed one. All of them are fixed-point numbers at
every privacy level, so that a run gives the same bits at each.
"""

from dataclasses import dataclass
from typing import Final

from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.vectors import Vector

SYNC: Final = "sync"
INNER_PRODUCT_AFTER: Final = "inner_product_after"
PHASES: Final = (SYNC, INNER_PRODUCT, LOCAL_DUAL, PRIMAL, INNER_PRODUCT_AFTER)
"""The phases of a round, in order; a round can lack any of them."""


@dataclass(frozen=True, slots=True)
class SampleRange:
    """The samples in slots start to stop − 1 of a block."""

    block: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Figures:
    """(1/N) Σ l, (1/N) Σ l*, the accuracy and λ/2 ‖w‖², for the w and α that entered the round.

    With a loss of regression the mean squared error stands in the place of the accuracy.
    """

    mean_loss: float
    mean_conjugate: float
    accuracy: float
    regulariser: float


FIGURE_COUNT: Final = 5
"""Each party gives a vector of so many contributions: to the `Figures`, in order, and to the number of samples."""
SAMPLES_UNIT: Final = 2.0**16
"""The number of samples is counted in this unit: it is exact, and within the bound of a vector."""


@dataclass(frozen=True, slots=True)
class PrimalTask:
    """Dual variables that have changed, and the sum of all contributions to the figures; None if there is none."""

    alpha: BlockVector | None = None
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
    """w on the client's features, in which missing blocks are zero; None if the client has it, or if w is zero."""

    model: BlockVector | None = None


@dataclass(frozen=True, slots=True)
class DualTask:
    """The sums that the client's steps and its contributions to the figures need.

    Attributes
    ----------
    model
        As in `ProductTask`.
    norms
        ‖x_i‖² of all shared blocks; given once.
    products
        x_i·w of those shared blocks that the client updates or reports on.
    """

    model: BlockVector | None = None
    norms: BlockVector | None = None
    products: BlockVector | None = None


@dataclass(frozen=True, slots=True)
class DualResult:
    """A client's steps and contributions; each is None in a round in which the client gives none.

    Attributes
    ----------
    changes
        Changes of dual variables in the drawn blocks.
    restated
        The dual variables that entered the round, in the blocks that the client reports on.
    figures
        The client's contribution to each of the figures, and the number of samples that it reports on.
    """

    changes: BlockVector | None = None
    restated: BlockVector | None = None
    figures: Vector | None = None


@dataclass(frozen=True, slots=True)
class LastState:
    """The model of the run's end on a client's features; missing blocks are zero, None if all are."""

    model: BlockVector | None = None
