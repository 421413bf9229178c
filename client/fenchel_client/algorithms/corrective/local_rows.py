"""The local problem of a corrective step on what a party knows of its rows.

The problem wants the kernel x_i·x_{i'} of whole rows, and the party has only its own columns. But of the other columns
it knows u_ij = x_i·w_j − x_{k,i}·w_{k,j}: the rest of row i along the rest of each remembered model. With the Gram
matrix G of these rests, U G⁻¹ Uᵀ is the kernel of the rows' projections onto their span, never more than the true one.
F = [X_k, U G^(−1/2)] therefore describes the rows better with each round; what it still lacks is made up for by one
factor, the ratio of the true squared row norms to those of F.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from fenchel_client.algorithms.corrective.hull import MODEL, Memory, Place
from fenchel_client.algorithms.corrective.local_newton import local_point
from fenchel_client.algorithms.duals import labels_of
from fenchel_client.algorithms.rows import PartyRows, Positions
from fenchel_common.data.shard import Matrix
from fenchel_common.losses import Loss
from fenchel_common.objectives import squared_row_norms

Array = NDArray[np.float64]

SMALLEST_EIGENVALUE: Final = 1e-9
"""Of the Gram matrix, relative to its largest: below it, the rounding of inner products would drown the direction."""


def found_locally(
    own: PartyRows, memory: Memory, place: Place, *, live: Positions, norms: Array, strength: float, loss: Loss
) -> Array:
    """A feasible point of the live samples, near the best of the local problem at `place`.

    Parameters
    ----------
    norms
        ‖x_i‖² of the whole rows.
    strength
        How strongly a change of the live dual variables moves predictions, for a whole kernel.
    """
    rows = described_rows(own, memory, live)
    known = float(squared_row_norms(rows).sum())
    completion = float(norms[live].sum()) / known if known > 0.0 else 1.0
    return local_point(
        rows,
        labels_of(own)[live],
        place.values[live],
        place.predictions[live],
        kappa=strength * max(completion, 1.0),
        loss=loss,
    )


def described_rows(own: PartyRows, memory: Memory, live: Positions) -> Matrix:
    """F: the own columns of the live rows, and what the models tell of the others' columns."""
    columns = own.X[live]
    if not own.shared:
        return columns
    names = [(MODEL, number) for number in memory.named(MODEL)]
    rows = memory.rows(names)
    gram = memory.gram[np.ix_(rows, rows)]
    weights = np.array([memory.places[name].weights for name in names])
    if own.features_apart:
        gram = gram - weights @ weights.T
    eigenvalues, directions = np.linalg.eigh(gram)
    kept = eigenvalues > SMALLEST_EIGENVALUE * max(float(np.trace(gram)), 0.0)
    if not kept.any():
        return columns
    rest = np.array([memory.places[name].predictions[live] for name in names]).T - columns @ weights.T
    known = rest @ (directions[:, kept] / np.sqrt(eigenvalues[kept]))
    if isinstance(columns, csr_array):
        return csr_array(hstack([columns, csr_array(known)], format="csr"))
    return np.hstack([columns, known])
