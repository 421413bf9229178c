"""The local problem of a corrective step, solved by a proximal Newton method.

Problem
    max over a of  d(a) = −Σ_i [l_i*(−a_i) + a_i z_i] − κ/2 ‖Fᵀ(a − α)‖²,
    with α the present dual variables, z_i the predictions of their model, F (n, d) the rows as far as they are known,
    and κ the factor by which a change of Fᵀα changes the model. With v = κFᵀ(a − α) this problem is the dual of
    min over v of  p(v) = 1/(2κ) ‖v‖² + Σ_i [l_i(z_i + f_i·v) + α_i f_i·v].
Method
    Newton's method in v. Where l* has no curvature (hinge, ε-insensitive), a proximal term s/2 ‖a − ã‖² supplies it: s
    starts at the mean of κ‖f_i‖² and is divided by five after each of a few outer steps. The solution of an outer step
    is the next ã if d is larger there. a is always one dual step away from ã, hence feasible whenever the method stops.
    A Newton direction −(1/κ + CᵀWC)⁻¹g, where C has the r rows whose a_i is inside its interval, is one of r numbers
    too: −κg + κCᵀu with (W⁻¹ + κCCᵀ)u = κCg. The smaller of the two systems is solved, by conjugate gradients if both
    are large.
Stopping rule
    The gap p(v) − d(a) is at most `SHARE` of the gain d(a) − d(α), or the steps are used up. By weak duality no point
    then gains more than 1 + `SHARE` times as much as a: a is a Θ-approximate solution (Ma et al., "Adding vs. averaging
    in distributed primal-dual optimization", 2015, Assumption 1). The Newton steps of an outer step end by the same
    rule, with the proximal term in d and p, and ã in the place of α; there the gap is κ/2 ‖∇p(v)‖².
Shapes
    F (n, d), here or at workers; y, alpha and z (n,).
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.rowpieces import LocalRows
from fenchel_common.losses import Loss

Array = NDArray[np.float64]

SHARE: Final = 1e-3
OUTER_STEPS: Final = 3
NEWTON_STEPS: Final = 8
HALVINGS: Final = 20
PROXIMITY_FALL: Final = 5.0
SUFFICIENT_DECREASE: Final = 1e-4
SETTLED: Final = 1e-9  # a slope of the merit, divided by the samples, that promises nothing
CG_TOLERANCE: Final = 1e-6
CG_STEPS: Final = 200


def local_point(F: LocalRows, y: Array, alpha: Array, z: Array, *, kappa: float, loss: Loss) -> Array:
    """A feasible a, near the solution of the local problem; d is never smaller there than at α."""
    norms = F.squared_norms()
    if not norms.any():
        return alpha.copy()
    smooth = loss.conjugate_modulus > 0.0
    proximity = 0.0 if smooth else kappa * float(norms.mean())
    v, moved, centre = np.zeros(F.shape[1]), np.zeros(len(y)), alpha
    at_start = at_centre = -float((loss.conjugate(alpha, y) + alpha * z).sum())
    for _ in range(1 if smooth else OUTER_STEPS):
        step = _Step(F, y, alpha, z, centre, kappa, np.full(len(y), proximity), loss)
        v, moved, a = step.solve(v, moved, known=at_centre)
        proximity /= PROXIMITY_FALL
        pull = F.pull(a - alpha)
        reached = -float((loss.conjugate(a, y) + a * z).sum()) - kappa / 2.0 * float(pull @ pull)
        if reached <= at_centre:
            continue
        centre, at_centre = a, reached
        bound = float(v @ v / (2.0 * kappa) + loss.value(z + moved, y).sum() + alpha @ moved)
        if bound - reached <= SHARE * (reached - at_start):
            break
    return centre if centre is not alpha else alpha.copy()


class _Step:
    """One outer step: the local problem with its proximal term around `centre`."""

    def __init__(
        self, F: LocalRows, y: Array, alpha: Array, z: Array, centre: Array, kappa: float, proximity: Array, loss: Loss
    ) -> None:
        self._F, self._y, self._alpha, self._z = F, y, alpha, z
        self._centre, self._kappa, self._proximity, self._loss = centre, kappa, proximity, loss

    def solve(self, v: Array, moved: Array, *, known: float) -> tuple[Array, Array, Array]:
        """v, F·v and a after the Newton steps that begin at v; `moved` is F·v at the beginning, `known` d(centre)."""
        value, a = self._merit(v, moved)
        for _ in range(NEWTON_STEPS):
            gradient = v / self._kappa + self._F.pull(self._alpha - a)
            gap = self._kappa / 2.0 * float(gradient @ gradient)
            if gap <= SHARE * (value - gap - known):
                break
            direction = self._direction(a, gradient)
            slope = float(gradient @ direction)
            if -slope <= SETTLED * len(a):
                break
            along = self._F.times(direction)
            length, merit, candidate = self._searched(v, moved, direction, along, value=value, slope=slope)
            if merit > value:
                break
            v, moved, value, a = v + length * direction, moved + length * along, merit, candidate
        return v, moved, a

    def _searched(
        self, v: Array, moved: Array, direction: Array, along: Array, *, value: float, slope: float
    ) -> tuple[float, float, Array]:
        """The length of the step along `direction`, halved until it lowers the merit; the merit and a after it."""
        length = 1.0
        for _ in range(HALVINGS):
            merit, a = self._merit(v + length * direction, moved + length * along)
            if merit <= value + SUFFICIENT_DECREASE * length * slope:
                break
            length /= 2.0
        return length, merit, a

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
        weights = 1.0 / (self._proximity[inside] + curvature[inside])
        width = len(gradient)
        if self._F.factored:
            hessian = self._F.curvature(inside, weights, np.eye(width) / self._kappa)
            return np.asarray(np.linalg.solve(hessian, -gradient), dtype=np.float64)
        chosen, kappa = self._F.chosen(inside), self._kappa
        if len(inside) >= width:
            return _solved(lambda vector: vector / kappa + chosen.pull(weights * chosen.times(vector)), -gradient)
        damping = 1.0 / weights
        diagonal = damping + kappa * chosen.squared_norms()
        u = _solved(
            lambda vector: damping * vector + kappa * chosen.times(chosen.pull(vector)),
            kappa * chosen.times(gradient),
            diagonal,
        )
        return np.asarray(kappa * (chosen.pull(u) - gradient), dtype=np.float64)


def _solved(times: Callable[[Array], Array], right: Array, diagonal: Array | None = None) -> Array:
    """The x with `times(x)` = `right`, by conjugate gradients; `diagonal` is that of the system, if it helps."""
    # Imported here: it costs every party ten megabytes, and small models do without it.
    from scipy.sparse.linalg import LinearOperator, cg

    shape = (len(right), len(right))
    operator = LinearOperator(shape, matvec=times, dtype=np.float64)
    inverse = None if diagonal is None else LinearOperator(shape, matvec=lambda x: x / diagonal, dtype=np.float64)
    found, _ = cg(operator, right, rtol=CG_TOLERANCE, maxiter=CG_STEPS, M=inverse)
    return np.asarray(found, dtype=np.float64)
