"""HyFDCA with corrective steps (`local = "corrective"`): what both halves agree on.

There are known points, feasible dual variables of all samples:

    anchor   α, the dual variables as they stand
    point    p, the average of what the clients found in their local problems
    vertex   v_j ∈ −∂l(X·q_j), one for each of the last rounds; every label holder can tell it from x_i·q_j

where q_j is one step towards the round's model from the best model, at which P was least so far.

Of every point each client knows its values on its own samples, w = 1/(λN) Σ_i α_i x_i on its own features and x_i·w of
its own samples; all clients know c = −1/N Σ_i l*(−α_i) and the Gram matrix of the w. So every client finds by itself
the weights with which the points are combined, the same ones, and the server knows none of this:

    inner_product   ProductTask → ProductResult   enc(x_{k,i}·w_k) of the new points, a share of their Gram rows
    local_dual      DualTask    → DualResult      the combination; enc of the local problem's solution divided by |B_n|
    primal          PrimalTask  → PrimalResult    X_kᵀp and X_kᵀv, Σ l* of both

The first of these that a client gets in a round carries the `Opening`. Vectors by sample are encrypted in every run but
a plain one; vectors by feature and figures in a sealed one.
"""

from dataclasses import dataclass
from typing import Final

from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector

POINT_PRODUCT_FORMAT: Final = VectorFormat(bound=2.0**24)
"""For inner products with points: those of a vertex grow with 1/λ, and only a sample's holders add to them."""
MEMORY: Final = 20
"""Models that are kept, with the inner products and the vertex of each."""
STEPS: Final = 16
"""P is compared at so many equal steps from the best model so far to the new one."""
FIGURES: Final = 2 * (STEPS + 1) + 3
"""Losses and correct predictions at each step; conjugates, row norms and squares of the dual variables."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The anchor's dual variables and its model, and the best model; blocks that are not given are zero."""

    alpha: BlockVector | None
    weights: BlockVector | None
    model: BlockVector | None


@dataclass(frozen=True, slots=True)
class Opening:
    """What a client does first in a round.

    Attributes
    ----------
    after
        The round after which the client's memory is taken up.
    anchor
        The round that made the anchor.
    collapse
        Forget all points but the anchor; it and the best model become what their ciphertexts hold.
    lost
        These, for a client without memory.
    live_blocks
        The client's blocks that take part.
    report_blocks, feature_blocks
        Blocks of samples and of features for which this client answers.
    point, vertex
        By feature: w of the new points, or its difference from the anchor's.
    conjugates
        Σ l* of both, divided by the number of samples.
    """

    after: int
    anchor: int
    collapse: bool
    lost: Anchor | None
    live_blocks: tuple[int, ...]
    report_blocks: tuple[int, ...]
    feature_blocks: tuple[int, ...]
    point: BlockVector | None = None
    vertex: BlockVector | None = None
    conjugates: Vector | None = None


@dataclass(frozen=True, slots=True)
class Products:
    """Inner products of the new point and vertex (of anchor and best model after a collapse), and the new Gram rows."""

    point: BlockVector | None
    vertex: BlockVector | None
    gram: Vector


@dataclass(frozen=True, slots=True)
class DualTask:
    """The combination and the local problem.

    Attributes
    ----------
    opening
        If the client had no inner_product.
    products
        The sums of what inner_product gave.
    divisors
        |B_n| of each live block.
    scale
        How many times the client's own samples all samples of the round are.
    certify_only
        There is no local problem to solve.
    """

    opening: Opening | None
    round_id: int
    norms: BlockVector | None
    products: Products | None
    divisors: tuple[int, ...]
    scale: float
    certify_only: bool = False


@dataclass(frozen=True, slots=True)
class DualResult:
    """`figures` are this client's part of `FIGURES` sums, all divided by N.

    `combination` is a hash of the weights, which all clients find by themselves.
    """

    point: BlockVector | None
    figures: Vector
    alpha: BlockVector | None
    weights: BlockVector | None
    combination: bytes


@dataclass(frozen=True, slots=True)
class PrimalTask:
    """`relative`: tell weights as differences from the anchor's. `report`: tell the opened figures."""

    round_id: int
    point: BlockVector | None
    figures: Vector
    relative: bool
    vertex: bool
    report: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """Of the whole federation, at the best model and the dual variables that entered the round.

    `squared_norm` is the largest one of the best model's, w(α)'s and the anchor's.
    """

    primal: float
    dual: float
    accuracy: float
    squared_norm: float
    row_norm: float


@dataclass(frozen=True, slots=True)
class PrimalResult:
    """`model` is the best model, on the blocks of features for which the client answers."""

    point: BlockVector | None
    vertex: BlockVector | None
    conjugates: Vector | None
    model: BlockVector | None
    figures: Figures | None
    accepted: bool
