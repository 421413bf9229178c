"""HyFDCA with corrective steps (`local = "corrective"`): what both halves agree on.

Clients that share samples, directly or through others, form a *group*. Of each group there are known points, feasible
dual variables of its samples:

    anchor   α, the dual variables as they stand
    point    p, the average of what its clients found in their local problems
    vertex   v_j ∈ −∂l(X·w_j), one for each of the last models w_j; every label holder can tell it from x_i·w_j

Of every point the server knows w = 1/(λN) Σ_i α_i x_i and c = −1/N Σ_i l*(−α_i), and combines them anew each round:

    inner_product   ProductTask → ProductResult   α from the points and their weights; enc(x_{k,i}·w_k)
    local_dual      DualTask    → DualResult      the local problem; enc of its solution divided by |B_n|
    primal          PrimalTask  → PrimalResult    X_kᵀp and X_kᵀv, Σ l* of both

The first of these that a client gets in a round carries the `Opening`. Arrays by feature are in the order of the
client's features; the gram matrix is (models + 1, models + 1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.hyfdca import BlockVector, CertificateShare
from fenchel_common.changes import ArrayChange

Array = NDArray[np.float64]

MEMORY: Final = 20
"""Models that are kept, with the inner products and the vertex of each."""


@dataclass(frozen=True, slots=True)
class Combination:
    """The weights, of at least 0 and 1 in sum, of the points that the new α is made of. `round_id` names that α."""

    round_id: int
    anchor: float
    point: float
    vertices: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class RememberedModel:
    """w_j on the client's features, the blocks that took part, and x_i·w_j of those that the client shares."""

    id: int
    weights: Array
    blocks: tuple[int, ...]
    products: BlockVector | None


@dataclass(frozen=True, slots=True)
class Memory:
    """All that a client which lost its state must know; blocks of α that are not given are zero."""

    alpha: BlockVector | None
    point: BlockVector | None
    models: tuple[RememberedModel, ...]


@dataclass(frozen=True, slots=True)
class Opening:
    """What a client does first in a round: take memory and model, then make α of the anchor.

    Without a combination α is the anchor itself. On `report_blocks` the client reports Σ l*(−α) and, if α is new,
    enc(α).
    """

    memory: Memory | None
    model: ArrayChange | None
    anchor: int
    combination: Combination | None
    report_blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """Σ_i α_i x_{k,i} over all samples of the client, and what was to be reported."""

    share: Array
    conjugate_sum: float
    alpha: BlockVector | None


@dataclass(frozen=True, slots=True)
class ProductTask:
    opening: Opening
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProductResult:
    opened: Opened
    products: BlockVector


@dataclass(frozen=True, slots=True)
class DualTask:
    """The local problem.

    Attributes
    ----------
    blocks, divisors
        The blocks that take part, and |B_n| of each.
    scale
        How many times the client's own samples all samples of the round are.
    models, gram
        Earlier models that the client remembers, and the inner products of these and the present one.
    certify_only
        There is no local problem to solve.
    """

    opening: Opening | None
    round_id: int
    norms: BlockVector | None
    products: BlockVector | None
    blocks: tuple[int, ...]
    divisors: tuple[int, ...]
    scale: float
    models: tuple[int, ...]
    gram: Array
    certificate_blocks: tuple[int, ...]
    certify_only: bool = False


@dataclass(frozen=True, slots=True)
class DualResult:
    opened: Opened | None
    point: BlockVector | None
    certificate: CertificateShare | None


@dataclass(frozen=True, slots=True)
class PrimalTask:
    """`anchor` and `models` are what to keep; `vertex` asks for that of the present model too."""

    anchor: int
    models: tuple[int, ...]
    point: BlockVector
    report_blocks: tuple[int, ...]
    vertex: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one point: Σ_i p_i x_{k,i} over the client's samples, and Σ l*(−p) over the blocks to report on."""

    share: Array
    conjugate_sum: float = 0.0


@dataclass(frozen=True, slots=True)
class PrimalResult:
    point: Measured
    vertex: Measured | None = None
