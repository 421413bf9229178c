"""The primal and dual objectives, for a whole data set in one place.

Weak duality makes P(w) − D(α) ≥ P(w) − P(w*) for every w and feasible α, so a gap certifies a model without knowledge
of the optimum. Shapes: X (N, M) dense or CSR, y (N,), w (M,), alpha (N,).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.losses import Loss

Array = NDArray[np.float64]
Matrix = Array | csr_array


def primal(X: Matrix, y: Array, w: Array, *, loss: Loss, lambda_: float) -> float:
    """P(w) = λ/2 ‖w‖² + 1/N Σ l_i(x_i·w)."""
    return float(lambda_ / 2.0 * (w @ w) + loss.value(X @ w, y).mean())


def primal_point(X: Matrix, alpha: Array, *, lambda_: float) -> Array:
    """w(α) = 1/(λN) Σ α_i x_i."""
    return np.asarray(X.T @ alpha, dtype=np.float64) / (lambda_ * len(alpha))


def dual(X: Matrix, y: Array, alpha: Array, *, loss: Loss, lambda_: float) -> float:
    """D(α) = −λ/2 ‖w(α)‖² − 1/N Σ l_i*(−α_i); minus infinity for an infeasible α."""
    w = primal_point(X, alpha, lambda_=lambda_)
    return float(-lambda_ / 2.0 * (w @ w) - loss.conjugate(alpha, y).mean())


def correct_predictions(scores: Array, y: Array) -> int:
    """The number of correct predictions.

    A score of shape (N,) predicts +1 from zero upwards and −1 below; scores of shape (N, classes) predict the class
    with the largest score.
    """
    predicted = np.where(scores >= 0.0, 1.0, -1.0) if scores.ndim == 1 else scores.argmax(axis=1)
    return int(np.count_nonzero(predicted == y))


def squared_row_norms(X: Matrix) -> Array:
    """(N,) ‖x_i‖²."""
    if isinstance(X, csr_array):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).reshape(-1)
    return np.asarray(np.einsum("ij,ij->i", X, X), dtype=np.float64)
