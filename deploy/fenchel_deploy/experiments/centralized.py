"""The centralized optimum, with which federations are compared: the same problem, solved with all data together.

Objective
    P(w) = λ/2 ‖w‖² + 1/N Σ l_i(x_i·w), without an intercept, as in the HyFDCA paper.
Method
    Proximal point iterations on the dual, each solved by a semismooth Newton method in w. Given α̃, an iteration
    maximises D(α) − s/(2N) ‖α − α̃‖². For fixed w the best α_i is a one-dimensional dual step of curvature s from
    α̃_i, α_i(w); what remains is the root of λw − 1/N Σ α_i(w) x_i, which is the gradient of a convex function
    with the generalised Hessian λI + 1/N Σ x_i x_iᵀ/(s + l*''(−α_i)) over the samples inside their interval. The
    Newton systems are factored, or solved by conjugate gradients if they are wide; s falls tenfold an iteration. For
    the hinge loss, whose dual is a quadratic program, this ends after finitely many iterations; a coordinate method
    would take very many iterations.
Stopping rule
    The duality gap, computed by `fenchel_common.objectives`, is at most `TOLERANCE` times P.
Shapes
    X (N, M) dense or CSR, y and alpha (N,), w (M,).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

from fenchel_common.errors import FenchelError
from fenchel_common.losses import Loss
from fenchel_common.objectives import Matrix, dual, primal, primal_point

Array = NDArray[np.float64]

TOLERANCE: Final = 1e-9
FIRST_PROXIMITY: Final = 1.0
LAST_PROXIMITY: Final = 1e-3  # much smaller ones magnify the rounding of inner products in α
MAXIMUM_OUTER: Final = 60
MAXIMUM_NEWTON: Final = 80
MAXIMUM_HALVINGS: Final = 40
SUFFICIENT_DECREASE: Final = 1e-4
ROUNDING: Final = 1e-22
FACTORED_WIDTH: Final = 1024


@dataclass(frozen=True, slots=True, eq=False)
class CentralizedSolution:
    """A model with its certificate: P(w*) lies between `dual` and `primal`."""

    w: Array
    alpha: Array
    primal: float
    dual: float
    gap: float


def solve_centralized(X: Matrix, y: Array, *, loss: Loss, lambda_: float) -> CentralizedSolution:
    """The minimiser of P, to a certified relative gap of 1e-9."""
    loss.check_labels(y)
    w, alpha = np.zeros(X.shape[1]), np.zeros(len(y))
    proximity = FIRST_PROXIMITY
    for _ in range(MAXIMUM_OUTER):
        w, alpha = _proximal_point(X, y, w, alpha, loss=loss, lambda_=lambda_, proximity=proximity)
        solution = _certified(X, y, w, alpha, loss=loss, lambda_=lambda_)
        if solution.gap <= TOLERANCE * solution.primal:
            return solution
        proximity = max(LAST_PROXIMITY, proximity / 10.0)
    raise FenchelError(f"the centralized reference was not reached: relative gap {solution.gap / solution.primal:.1e}")


def _certified(X: Matrix, y: Array, w: Array, alpha: Array, *, loss: Loss, lambda_: float) -> CentralizedSolution:
    """The better of w and w(α); a column of large values magnifies the rounding of α in w(α)."""
    points = [w, primal_point(X, alpha, lambda_=lambda_)]
    values = [primal(X, y, point, loss=loss, lambda_=lambda_) for point in points]
    upper, w = min(zip(values, points, strict=True), key=lambda pair: pair[0])
    lower = dual(X, y, alpha, loss=loss, lambda_=lambda_)
    return CentralizedSolution(w, alpha, upper, lower, upper - lower)


def _proximal_point(
    X: Matrix, y: Array, w: Array, centre: Array, *, loss: Loss, lambda_: float, proximity: float
) -> tuple[Array, Array]:
    """w and α of the dual problem with the penalty s/(2N) ‖α − centre‖²."""
    count = len(y)
    penalty = np.full(count, proximity)
    products = np.asarray(X @ w, dtype=np.float64)
    value, alpha = _merit(y, w, products, centre, penalty, loss=loss, lambda_=lambda_)
    for _ in range(MAXIMUM_NEWTON):
        gradient = lambda_ * w - np.asarray(X.T @ alpha, dtype=np.float64) / count
        direction = _newton_direction(X, y, alpha, gradient, penalty, loss=loss, lambda_=lambda_)
        slope = float(gradient @ direction)
        if -slope <= ROUNDING * abs(value):
            break
        moved = np.asarray(X @ direction, dtype=np.float64)
        length = 1.0
        for _ in range(MAXIMUM_HALVINGS):
            point, reached = w + length * direction, products + length * moved
            merit, best = _merit(y, point, reached, centre, penalty, loss=loss, lambda_=lambda_)
            if merit <= value + SUFFICIENT_DECREASE * length * slope:
                break
            length /= 2.0
        else:
            break  # any further gain is below the merit's rounding error
        w, products, value, alpha = point, reached, merit, best
    return w, alpha


def _merit(
    y: Array, w: Array, products: Array, centre: Array, penalty: Array, *, loss: Loss, lambda_: float
) -> tuple[float, Array]:
    """λ/2 ‖w‖² + 1/N Σ max_α [−l*(−α) − α·x·w − s/2 (α − α̃)²] and the maximising α."""
    step = loss.dual_step(centre, y, products, penalty)
    alpha = centre + step
    inner = -loss.conjugate(alpha, y) - alpha * products - penalty / 2.0 * step**2
    return float(lambda_ / 2.0 * (w @ w) + inner.mean()), alpha


def _newton_direction(
    X: Matrix, y: Array, alpha: Array, gradient: Array, penalty: Array, *, loss: Loss, lambda_: float
) -> Array:
    # Zero where a small change of the prediction leaves α as it is.
    weights = 1.0 / (penalty + loss.conjugate_curvature(alpha, y)) / len(y)
    width = X.shape[1]
    if width <= FACTORED_WIDTH:
        rows = X[np.flatnonzero(weights)]
        dense = rows.toarray() if isinstance(rows, csr_array) else rows
        system = (dense.T * weights[weights != 0.0]) @ dense + lambda_ * np.eye(width)
        return np.asarray(np.linalg.solve(system, -gradient), dtype=np.float64)

    def times_hessian(vector: Array) -> Array:
        return np.asarray(lambda_ * vector + X.T @ (weights * (X @ vector)), dtype=np.float64)

    hessian = LinearOperator((width, width), matvec=times_hessian, dtype=np.float64)
    direction, _ = cg(hessian, -gradient, rtol=1e-10, maxiter=20 * width)
    return np.asarray(direction, dtype=np.float64)
