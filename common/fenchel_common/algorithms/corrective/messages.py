"""HyFDCA with corrective steps (`local = "corrective"`): the messages between its two halves.

A *point* is a feasible vector of dual variables of all samples. Every client remembers these points:

    anchor   α, the dual variables on record
    point    p, the average of the clients' solutions of their local problems
    vertex   v_j ∈ −∂l(X·q_j), one for each of the last rounds; every label holder computes it from x_i·q_j

where the model q_j is one step from the best model towards the model of round j. The *best model* is the one at which P
was least so far.

Of every point each client knows its values on the client's own samples, its model w = 1/(λN) Σ_i α_i x_i on the
client's own features, and x_i·w of the client's own samples. All clients know c = −1/N Σ_i l*(−α_i) and the Gram matrix
of the models w. With these, every client computes the weights with which the points are combined. All clients find the
same weights. In a sealed run the server knows none of these numbers. A round has three phases:

    inner_product   RoundStart → Products       enc(x_{k,i}·w_k) of the new points, a contribution to their Gram rows
    local_dual      DualTask   → DualResult     the combination; enc of the local problem's solution divided by |B_n|
    primal          PrimalTask → PrimalResult   X_kᵀp and X_kᵀv, and Σ l* of p and v

The point and vertex of a round are *pending* until the next round brings the sums of X_kᵀp and X_kᵀv. The first task
that a client gets in a round carries the `RoundStart`. Vectors by sample are encrypted in every run but a plain one.
Vectors by feature and vectors of numbers are encrypted in a sealed run only.
"""

from dataclasses import dataclass
from typing import Final

from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector

POINT_PRODUCT_FORMAT: Final = VectorFormat(bound=2.0**24)
"""For inner products with points: those of a vertex grow with 1/λ, and only a sample's holders add to them."""
MEMORY: Final = 20
"""The number of models that a client remembers, each with its inner products and its vertex."""
STEPS: Final = 16
"""P is compared at the ends of so many equal steps from the best model to the model of the round."""
FIGURE_COUNT: Final = 2 * (STEPS + 1) + 3
"""The length of `DualResult.figures`."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The anchor's dual variables, the anchor's model and the best model; missing blocks are zero."""

    alpha: BlockVector | None
    weights: BlockVector | None
    model: BlockVector | None


@dataclass(frozen=True, slots=True)
class RoundStart:
    """With which memory, and on which blocks, a client begins a round.

    Attributes
    ----------
    memory_round
        The client continues with the memory that it stored at the end of this round.
    anchor_round
        The round whose dual variables are the anchor; 0 before the first.
    collapse
        Whether the client forgets all but the anchor and the best model, and rounds these two to fixed point.
    restored
        The anchor and the best model, in a collapse, for a client that has lost its memory.
    live_blocks
        The client's live blocks: blocks of samples all of whose holders take part in the round.
    report_blocks, feature_blocks
        The live blocks of samples, and the blocks of features, for which this client alone reports.
    point, vertex
        By feature: the models of the pending points, or the differences of these models from the anchor's.
    conjugates_and_products
        The sum of all clients' `PrimalResult.conjugates_and_products` of the round before.
    """

    memory_round: int
    anchor_round: int
    collapse: bool
    restored: Anchor | None
    live_blocks: tuple[int, ...]
    report_blocks: tuple[int, ...]
    feature_blocks: tuple[int, ...]
    point: BlockVector | None = None
    vertex: BlockVector | None = None
    conjugates_and_products: Vector | None = None


@dataclass(frozen=True, slots=True)
class Products:
    """One client's contribution to the inner products of two new models, or the sum of all contributions.

    The new models are those of point and vertex, or after a collapse the anchor's model and the best model.

    Attributes
    ----------
    point, vertex
        By sample of shared live blocks: x_i·w of the first and of the second new model.
    gram
        The new rows of the Gram matrix.
    """

    point: BlockVector | None
    vertex: BlockVector | None
    gram: Vector


@dataclass(frozen=True, slots=True)
class DualTask:
    """The client combines the points and solves its local problem.

    Attributes
    ----------
    round_start
        Only where every client has whole rows: such a run has no phase `inner_product`.
    norms
        ‖x_i‖² of the client's shared blocks, unless the client knows them.
    products
        The sums of the clients' `Products`; None where every client has whole rows.
    divisors
        |B_n|, the number of label holders, of each live block.
    scale
        The number of all live samples, divided by the number of this client's live samples.
    certify_only
        Whether the round certifies the model, and the client solves no local problem.
    """

    round_start: RoundStart | None
    round_id: int
    norms: BlockVector | None
    products: Products | None
    divisors: tuple[int, ...]
    scale: float
    certify_only: bool = False


@dataclass(frozen=True, slots=True)
class DualResult:
    """A client's solution of its local problem, and its contribution to the figures at the combined dual variables.

    Attributes
    ----------
    point
        The solution of the local problem, divided by |B_n|.
    figures
        Sums over the client's `report_blocks`, divided by N: of losses and then of correct predictions at the
        `STEPS` + 1 models from the best one to that of the round, of conjugates, of row norms and of α_i².
    alpha, weights
        The combined dual variables on `report_blocks`, and their model on `feature_blocks`.
    combination
        A hash of the weights with which the client combined the points. All clients must send the same hash.
    """

    point: BlockVector | None
    figures: Vector
    alpha: BlockVector | None
    weights: BlockVector | None
    combination: bytes


@dataclass(frozen=True, slots=True)
class PrimalTask:
    """The client opens the figures, chooses the anchor and the best model, and measures the new points.

    Attributes
    ----------
    point
        The sum of the clients' `DualResult.point` on the client's live blocks; None in a round that certifies only.
    figures
        The sum of all clients' `DualResult.figures`.
    relative
        Whether the result gives models as differences from the anchor's model, because not all samples are live.
    vertex
        Whether the result has a vertex.
    report
        Whether the result has the objectives.
    """

    round_id: int
    point: BlockVector | None
    figures: Vector
    relative: bool
    vertex: bool
    report: bool


@dataclass(frozen=True, slots=True)
class Objectives:
    """What a client computes from the opened figures of a round; the server makes a certificate of it.

    Attributes
    ----------
    primal, accuracy
        P and the accuracy of the best model; with a loss of regression, its mean squared error.
    dual
        D at the anchor.
    squared_norm
        The largest of three: ‖w‖² of the best model, of the anchor's model, of the model of the combination.
    row_norm
        The mean of ‖x_i‖.
    """

    primal: float
    dual: float
    accuracy: float
    squared_norm: float
    row_norm: float


@dataclass(frozen=True, slots=True)
class PrimalResult:
    """A client's contribution to the new points, and what the client chose.

    Attributes
    ----------
    point, vertex
        By feature: X_kᵀp/(λN) and X_kᵀv/(λN), or the same of the differences from the anchor.
    conjugates_and_products
        Sums over the client's `report_blocks`, divided by N: l* of each new point and, if l* is strongly convex, for
        each new point its inner products with all entries of the memory and with all new points.
    model
        The best model on `feature_blocks`.
    objectives
        In clear, if the task asks for them.
    accepted
        Whether the combined dual variables are the anchor from now on.
    """

    point: BlockVector | None
    vertex: BlockVector | None
    conjugates_and_products: Vector | None
    model: BlockVector | None
    objectives: Objectives | None
    accepted: bool
