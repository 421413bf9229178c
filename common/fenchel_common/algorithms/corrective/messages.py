"""HyFDCA with corrective steps (`local = "corrective"`): the messages between its two halves.

A *point* is a feasible vector of dual variables of all samples. Every client remembers these points:

    anchor   α, the dual variables on record
    point    p, the average of the clients' solutions of their local problems
    vertex   v_j ∈ −∂l(X·q_j), one for each of the last rounds; every label holder computes it from x_i·q_j

where the model q_j is one step from the best model towards the model of round j. The *best model* is the one at which P
was least so far. If a client has no labels, q_j is halfway between the two, and a label holder of each block tells the
vertex to the clients without labels.

Of every point each client knows its values on the client's own samples, its model w = 1/(λN) Σ_i α_i x_i on the
client's own features, and x_i·w of the client's own samples. All clients know c = −1/N Σ_i l*(−α_i) and the Gram matrix
of the models w. With these, every client computes the weights with which the points are combined. All clients find the
same weights. In a sealed run the server knows none of these numbers. A round has three phases; with the last one of a
run there is a fourth, which `fenchel_common.algorithms.corrective.scores` describes:

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
from fenchel_common.ids import ClientId

POINT_PRODUCT_FORMAT: Final = VectorFormat(bound=2.0**24)
"""For inner products with points: those of a vertex grow with 1/λ, and only a sample's holders add to them."""
MEMORY: Final = 20
"""The number of models that a client remembers, each with its inner products and its vertex."""
STEPS: Final = 16
"""P is compared at the ends of so many equal steps from the best model to the model of the round."""
FIGURE_COUNT: Final = 2 * (STEPS + 1) + 5
"""The length of `DualResult.figures` in a run without an intercept."""
BALANCE_COUNT: Final = 6
"""How many more figures there are in a run with an intercept."""
COUNT_UNIT: Final = 1024.0
"""Numbers of samples are summed in this unit, so that they are within the bound of the format and exact."""

POINT_FIELD: Final = "point"
VERTEX_FIELD: Final = "vertex"
GRAM_FIELD: Final = "gram"
FIGURES_FIELD: Final = "figures"
ALPHA_FIELD: Final = "alpha"
WEIGHTS_FIELD: Final = "weights"
MODEL_FIELD: Final = "model"
NUMBERS_FIELD: Final = "conjugates_and_products"
SCORES_FIELD: Final = "scores"
"""The names of the fields of results that are vectors; tags depend on them."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The anchor's dual variables, the anchor's model and the best model; missing blocks are zero."""

    alpha: BlockVector | None
    weights: BlockVector | None
    model: BlockVector | None


@dataclass(frozen=True, slots=True)
class RoundChoices:
    """The choices of the server with which a round begins; they are on record.

    Attributes
    ----------
    participants
        The clients of live blocks: blocks of samples all of whose holders take part in the round.
    collapse
        Whether the clients forget all but the anchor and the best model, and round these two to fixed point.
    closing
        Whether the round certifies the model, and no client solves a local problem.
    live_samples
        The number of samples in live blocks.
    leg
        The leg of the round in a run with a path (`fenchel_common.selection`).
    """

    participants: frozenset[ClientId]
    collapse: bool
    closing: bool
    live_samples: int
    leg: int = 0


@dataclass(frozen=True, slots=True)
class PrimalChoices:
    """The outcome of a round as the server puts it on record, after `primal`.

    Attributes
    ----------
    accepted
        Whether the combined dual variables are the anchor from now on, as the clients said.
    reported
        Whether all clients that report on a part of the model have done so.
    """

    accepted: bool = False
    reported: bool = False


@dataclass(frozen=True, slots=True)
class RoundStart:
    """The vectors with which a client begins a round.

    Attributes
    ----------
    restored
        The anchor and the best model, in a collapse, for a client that has lost its memory.
    point, vertex
        By feature: the models of the pending points, or the differences of these models from the anchor's.
    conjugates_and_products
        The sum of all clients' `PrimalResult.conjugates_and_products` of the round before.
    """

    restored: Anchor | None = None
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
    """

    round_start: RoundStart | None
    norms: BlockVector | None
    products: Products | None


@dataclass(frozen=True, slots=True)
class DualResult:
    """A client's solution of its local problem, and its contribution to the figures at the combined dual variables.

    Attributes
    ----------
    point
        The solution of the local problem, divided by |B_n|.
    figures
        Sums over the live blocks that the client reports on, divided by N: of losses and then of correct predictions at
        the `STEPS` + 1 models from the best one to that of the round, of conjugates, of row norms and of α_i². Then the
        number of samples in these blocks, and of those of class +1 among them (0 in regression), in units of
        `COUNT_UNIT`. In a run with an intercept then, over the samples with α_i > 0 and over those with α_i < 0: sums
        of |α_i|, of |α_i|·‖x_i‖ and of −l*(−α_i) where it is above zero; ‖x_i‖ is without the constant feature.
    alpha, weights
        The combined dual variables on the live blocks of samples, and their model on the blocks of features, on which
        the client reports.
    combination
        A hash of the weights with which the client combined the points. All clients must send the same hash.
    vertex
        The new vertex, on the live blocks that the client reports on and that a client without labels holds too.
    """

    point: BlockVector | None
    figures: Vector
    alpha: BlockVector | None
    weights: BlockVector | None
    combination: bytes
    vertex: BlockVector | None = None


@dataclass(frozen=True, slots=True)
class PrimalTask:
    """The client opens the figures, chooses the anchor and the best model, and measures the new points.

    Attributes
    ----------
    point
        The sum of the clients' `DualResult.point` on the client's live blocks; None in a round that certifies only.
    figures
        The sum of all clients' `DualResult.figures`.
    vertex
        For a client without labels: the new vertex on its live blocks; None in a round that certifies only.
    """

    point: BlockVector | None
    figures: Vector
    vertex: BlockVector | None = None


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
    product_error
        A bound on the mean error of the best model's predictions by inner products in narrow slots.
    """

    primal: float
    dual: float
    accuracy: float
    squared_norm: float
    row_norm: float
    product_error: float = 0.0


@dataclass(frozen=True, slots=True)
class PrimalResult:
    """A client's contribution to the new points, and what the client chose.

    Attributes
    ----------
    point, vertex
        By feature: X_kᵀp/(λN) and X_kᵀv/(λN), or the same of the differences from the anchor.
    conjugates_and_products
        Sums over the live blocks that the client reports on, divided by N: l* of each new point and, if l* is strongly
        convex, for each new point its inner products with all entries of the memory and with all new points. In a run
        with narrow slots then λ times the length of each of the client's contributions to the new models, and the sum
        over shared samples of ‖x_i‖ times the number of holders, divided by N.
    model
        On the blocks of features on which the client reports, the best model. If not all samples are live P is not
        known, and it is the model that looks best by the live samples, between the best one and that of the round.
    objectives
        In clear, if the round certifies and all parties take part.
    accepted
        Whether the combined dual variables are the anchor from now on.
    scores
        In a round that may end the run: the sums of `fenchel_common.scoresums` over the live blocks that the client
        reports on, at the best model.
    """

    point: BlockVector | None
    vertex: BlockVector | None
    conjugates_and_products: Vector | None
    model: BlockVector | None
    objectives: Objectives | None
    accepted: bool
    scores: Vector | None = None
