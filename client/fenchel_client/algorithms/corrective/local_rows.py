"""The local problem of a corrective step, on the rows as far as a party knows them.

The problem needs the kernel x_i·x_{i'} of whole rows, and the party has only its own columns. But for every remembered
model w_j the party knows u_ij = x_i·w_j − x_{k,i}·w_{k,j}: the product of the other parties' part of row i with their
part of w_j. With the Gram matrix G of these parts of the models, U G⁻¹ Uᵀ is the kernel of the rows' projections onto
the span of these parts, never more than the true kernel. F = [X_k, U G^(−1/2)] therefore describes the rows better with
each round. The ratio of the true squared row norms to those of F makes up for the rest.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective.local_newton import local_point
from fenchel_client.algorithms.corrective.points import MODEL, Entry, Memory
from fenchel_client.algorithms.rows import PartyRows, Positions
from fenchel_client.rowpieces import LocalRows, Others
from fenchel_common.losses import Loss

Array = NDArray[np.float64]

SMALLEST_EIGENVALUE: Final = 1e-9
"""The least eigenvalue of the Gram matrix, relative to its trace, whose direction is more than rounding error."""


def found_locally(
    own: PartyRows,
    memory: Memory,
    current: Entry,
    *,
    live: Positions,
    norms: Array,
    strength: float,
    loss: Loss,
    constant: float = 0.0,
) -> Array:
    """Feasible dual variables of the live samples, near the solution of the local problem.

    Parameters
    ----------
    current
        The combined dual variables of the round, at which the local problem is posed.
    live
        The positions of the live samples.
    norms
        ‖x_i‖² of the whole rows.
    strength
        κ of the local problem, if F were the whole rows.
    constant
        The value of the constant feature in every whole row, if the run has one.
    """
    rows = described_rows(own, memory, live, constant=constant)
    known = float(rows.squared_norms().sum())
    completion = float(norms[live].sum()) / known if known > 0.0 else 1.0
    return local_point(
        rows,
        own.labels()[live],
        current.alpha[live],
        current.predictions[live],
        kappa=strength * max(completion, 1.0),
        loss=loss,
    )


def described_rows(own: PartyRows, memory: Memory, live: Positions, *, constant: float = 0.0) -> LocalRows:
    """F on the live rows: the party's own columns, and the other columns' projections onto the remembered models.

    Own columns include the constant feature of all rows, also of those for which an earlier party gives it.
    """
    if not own.shared:
        return own.held.described(live, None, None)
    filled = None if own.intercept is None else (own.intercept, constant)
    return own.held.described(live, _others(own, memory, live), filled)


def _others(own: PartyRows, memory: Memory, live: Positions) -> Others | None:
    """What the remembered models tell of the columns of others; None if they tell nothing."""
    names = [(MODEL, round_id) for round_id in memory.rounds_of(MODEL)]
    rows = memory.rows(names)
    gram = memory.gram[np.ix_(rows, rows)]
    weights = np.array([memory.entries[name].weights for name in names])
    if own.features_apart:
        gram = gram - weights @ weights.T
    eigenvalues, directions = np.linalg.eigh(gram)
    kept = eigenvalues > SMALLEST_EIGENVALUE * max(float(np.trace(gram)), 0.0)
    if not kept.any():
        return None
    basis = directions[:, kept] / np.sqrt(eigenvalues[kept])
    return Others(weights, np.array([memory.entries[name].predictions[live] for name in names]), basis)
