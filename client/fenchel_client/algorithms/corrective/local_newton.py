"""The local problem of a corrective step, solved by a proximal Newton method.

Problem
    max over a of  −Σ_i [l_i*(−a_i) + a_i z_i] − κ/2 ‖Fᵀ(a − α)‖²,
    with α the present dual variables, z_i the predictions of their model, F (n, d) the rows as far as they are known,
    and κ the factor by which a change of Fᵀα changes the model. With v = κFᵀ(a − α) this problem is the dual of
    min over v of  1/(2κ) ‖v‖² + Σ_i [l_i(z_i + f_i·v) + α_i f_i·v].
Method
    Newton's method in v. Where l* has no curvature (hinge, ε-insensitive), a proximal term s/2 ‖a − ã‖² supplies it: s
    starts at the mean of κ‖f_i‖² and is divided by five after each of a few outer steps. The solution of an outer step
    is the next ã. a is always one dual step away from ã, hence feasible whenever the method stops.
Shapes
    F (n, d) dense or CSR; y, alpha and z (n,).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.losses import Loss
from fenchel_common.objectives import Matrix, squared_row_norms

Array = NDArray[np.float64]

OUTER_STEPS: Final = 3
NEWTON_STEPS: Final = 8
HALVINGS: Final = 20
PROXIMITY_FALL: Final = 5.0
SUFFICIENT_DECREASE: Final = 1e-4
SETTLED: Final = 1e-9  # the Newton steps end when the merit's slope, divided by the samples, is below this
DENSE_WIDTH: Final = 512  # the most columns of F for which the Hessian is formed and factored
DENSE_ENTRIES: Final = 1 << 24  # the most entries of a sparse F that is made dense for the Hessian
CG_TOLERANCE: Final = 1e-6
CG_STEPS: Final = 200


def local_point(F: Matrix, y: Array, alpha: Array, z: Array, *, kappa: float, loss: Loss) -> Array:
    """A feasible a, near the solution of the local problem."""
    if isinstance(F, csr_array) and F.shape[1] <= DENSE_WIDTH and F.shape[0] * F.shape[1] <= DENSE_ENTRIES:
        # A Hessian of this width is factored faster than conjugate gradients reach its solution.
        F = F.toarray()
    norms = squared_row_norms(F)
    if not norms.any():
        return alpha.copy()
    smooth = loss.conjugate_modulus > 0.0
    proximity = 0.0 if smooth else kappa * float(norms.mean())
    v, moved, centre = np.zeros(F.shape[1]), np.zeros(len(y)), alpha
    for _ in range(1 if smooth else OUTER_STEPS):
        step = _Step(F, y, alpha, z, centre, kappa, np.full(len(y), proximity), loss)
        v, moved, centre = step.solve(v, moved)
        proximity /= PROXIMITY_FALL
    return centre


class _Step:
    """One outer step: the local problem with its proximal term around `centre`."""

    def __init__(
        self, F: Matrix, y: Array, alpha: Array, z: Array, centre: Array, kappa: float, proximity: Array, loss: Loss
    ) -> None:
        self._F, self._y, self._alpha, self._z = F, y, alpha, z
        self._centre, self._kappa, self._proximity, self._loss = centre, kappa, proximity, loss

    def solve(self, v: Array, moved: Array) -> tuple[Array, Array, Array]:
        """v, F·v and a after the Newton steps that begin at v; `moved` is F·v at the beginning."""
        value, a = self._merit(v, moved)
        for _ in range(NEWTON_STEPS):
            gradient = v / self._kappa + np.asarray(self._F.T @ (self._alpha - a), dtype=np.float64)
            direction = self._direction(a, gradient)
            slope = float(gradient @ direction)
            if -slope <= SETTLED * len(a):
                break
            along = np.asarray(self._F @ direction, dtype=np.float64)
            length = 1.0
            for _ in range(HALVINGS):
                merit, candidate = self._merit(v + length * direction, moved + length * along)
                if merit <= value + SUFFICIENT_DECREASE * length * slope:
                    break
                length /= 2.0
            else:
                break
            v, moved, value, a = v + length * direction, moved + length * along, merit, candidate
        return v, moved, a

    def _merit(self, v: Array, moved: Array) -> tuple[float, Array]:
        reached = self._z + moved
        step = self._loss.dual_step(self._centre, self._y, reached, self._proximity)
        # The end of the interval, not a rounding error beside it.
        a = self._loss.feasible(self._centre + step, self._y)
        inner = -self._loss.conjugate(a, self._y) - a * reached - self._proximity / 2.0 * step**2
        return float(v @ v / (2.0 * self._kappa) + inner.sum() + self._alpha @ moved), a

    def _direction(self, a: Array, gradient: Array) -> Array:
        curvature = self._loss.conjugate_curvature(a, self._y)
        inside = np.flatnonzero(np.isfinite(curvature))
        rows, weights = self._F[inside], 1.0 / (self._proximity[inside] + curvature[inside])
        width = len(gradient)
        if not isinstance(rows, csr_array) and width <= DENSE_WIDTH:
            hessian = (rows.T * weights) @ rows + np.eye(width) / self._kappa
            return np.asarray(np.linalg.solve(hessian, -gradient), dtype=np.float64)

        def times_hessian(vector: Array) -> Array:
            return np.asarray(vector / self._kappa + rows.T @ (weights * (rows @ vector)), dtype=np.float64)

        # Imported here: it costs every party ten megabytes, and small models do without it.
        from scipy.sparse.linalg import LinearOperator, cg

        operator = LinearOperator((width, width), matvec=times_hessian, dtype=np.float64)
        direction, _ = cg(operator, -gradient, rtol=CG_TOLERANCE, maxiter=CG_STEPS)
        return np.asarray(direction, dtype=np.float64)
