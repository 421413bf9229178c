"""Solvers of a party's local problem, by name; each ends when the gap of `local_problem` is small enough.

accelerated   optimised gradient method, with restart when the momentum increases the objective, and with a search
              for the step length in both directions: section 7 of the DualFL paper and its references [21] and [10]
lbfgs         limited-memory BFGS
dual          accelerated proximal gradient on the local dual, with the same restart and search; for losses with kinks
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.local_problem import Iterate, LocalProblem
from fenchel_common.losses import Loss

Array = NDArray[np.float64]

SHRINK: Final = 0.5
"""A step that is too long is multiplied by this factor."""
GROW: Final = 1.1
"""Each iteration first tries a step that is longer by this factor."""
MEMORY: Final = 20
"""The number of pairs that lbfgs remembers."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalSolution:
    """θ(α), the bound on its gap, and the number of iterations; `met` tells whether the gap is within the tolerance."""

    theta: Array
    gap: float
    iterations: int
    met: bool


class LocalSolve(Protocol):
    """A solver of local problems; pure."""

    def __call__(self, problem: LocalProblem, start: Array, /, *, tolerance: float, iterations: int) -> LocalSolution:
        """The best solution found from `start`, of the shape of θ, in at most so many iterations.

        It is `met` if its gap is at most `tolerance` or is rounding error. It is returned also if it is not `met`.
        """
        ...


def accelerated(problem: LocalProblem, start: Array, *, tolerance: float, iterations: int) -> LocalSolution:
    """The optimised gradient method.

    y' = x − τ∇(x), x' = y' + (t − 1)/t' (y' − y) + t/t' (y' − x), t' = (1 + √(1 + 4 t² τ_old/τ))/2.
    """
    x, z = start, problem.predictions(start)
    last, last_z = x, z
    t, step = 1.0, 1.0 / problem.mu
    best = LocalSolution(start, np.inf, 0, met=False)
    for iteration in range(1, iterations + 1):
        at = problem.iterate(x, z)
        best = _better(best, problem, at, iteration, tolerance)
        if best.met:
            break
        tried = _descending(problem, at, min(step * GROW, 1.0 / problem.mu))
        moved, moved_z = x - tried * at.gradient, z - tried * at.slope
        if iteration == 1 or np.vdot(at.gradient, moved - last) > 0.0:
            t, step = 1.0, tried
        following = float(1.0 + np.sqrt(1.0 + 4.0 * t * t * step / tried)) / 2.0
        inertia, excess = (t - 1.0) / following, t / following
        x, z, last, last_z = (
            moved + inertia * (moved - last) + excess * (moved - x),
            moved_z + inertia * (moved_z - last_z) + excess * (moved_z - z),
            moved,
            moved_z,
        )
        t, step = following, tried
    return best


def lbfgs(problem: LocalProblem, start: Array, *, tolerance: float, iterations: int) -> LocalSolution:
    """Limited-memory BFGS on the primal, ended by the gap at its iterates."""
    # Imported here: it costs every party tens of megabytes, and most runs do without it.
    from scipy.optimize import OptimizeResult, minimize

    first = problem.iterate(start, problem.predictions(start))
    best = _better(LocalSolution(start, np.inf, 0, met=False), problem, first, 0, tolerance)
    latest, count = first, 0

    def objective(flat: Array) -> tuple[float, Array]:
        nonlocal latest
        if not np.array_equal(flat, latest.theta.reshape(-1)):
            theta = flat.reshape(start.shape).copy()
            latest = problem.iterate(theta, problem.predictions(theta))
        return problem.value(latest.theta, latest.losses), latest.gradient.reshape(-1)

    def watch(intermediate_result: OptimizeResult) -> None:
        nonlocal best, count
        count += 1
        objective(np.asarray(intermediate_result.x, dtype=np.float64))
        best = _better(best, problem, latest, count, tolerance)
        if best.met:
            raise StopIteration

    if not best.met:
        minimize(
            objective,
            start.reshape(-1),
            jac=True,
            method="L-BFGS-B",
            callback=watch,
            options={"maxiter": iterations, "maxfun": 20 * iterations, "maxcor": MEMORY, "ftol": 0.0, "gtol": 0.0},
        )
    return best


def dual(problem: LocalProblem, start: Array, *, tolerance: float, iterations: int) -> LocalSolution:
    """Accelerated proximal gradient on the dual.

    a = α + (t − 1)/t' (α − α_old), α' = a + the dual step of curvature L from a; L is searched for.
    The quadratic part of the dual is q(α) = μ/(2s) ‖θ(α)‖² with the gradient x_i·θ(α), so L is large enough if
    s/μ ‖Σ Δ_i x_i‖² ≤ L ‖Δ‖².
    """
    loss, y = problem.loss, problem.y
    assert isinstance(loss, Loss), "losses of a margin have dual steps"
    ratio = problem.scale / problem.mu
    alpha = loss.subgradient(problem.predictions(start), y)
    z = problem.predictions(problem.point(alpha))
    ahead, ahead_z = alpha, z
    t, curvature = 1.0, ratio
    best = LocalSolution(start, np.inf, 0, met=False)
    for iteration in range(1, iterations + 1):
        curvature /= GROW
        step, direction = _dual_move(problem, loss, ahead, ahead_z, curvature)
        while ratio * float(direction @ direction) > curvature * float(step @ step) * (1.0 + 1e-12):
            curvature /= SHRINK
            step, direction = _dual_move(problem, loss, ahead, ahead_z, curvature)
        moved, moved_z = ahead + step, ahead_z + ratio * problem.predictions(direction)
        losses = loss.value(moved_z, y)
        gap = problem.scale * float((losses + loss.conjugate(moved, y) + moved * moved_z).sum())
        met = gap <= max(tolerance, problem.rounding(losses))
        if gap < best.gap or met:
            best = LocalSolution(problem.point(moved), gap, iteration, met)
        if met:
            break
        if float(step @ (moved - alpha)) < 0.0:
            t = 1.0
        following = float(1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0
        inertia = (t - 1.0) / following
        ahead, ahead_z = moved + inertia * (moved - alpha), moved_z + inertia * (moved_z - z)
        alpha, z, t = moved, moved_z, following
    return best


SOLVERS: Final[Mapping[str, LocalSolve]] = {"accelerated": accelerated, "lbfgs": lbfgs, "dual": dual}


def _better(best: LocalSolution, problem: LocalProblem, at: Iterate, iteration: int, tolerance: float) -> LocalSolution:
    """The best so far, or θ(α) for the α of this iterate: a gradient step of length 1/μ."""
    gap = max(problem.distance(at, 1.0 / problem.mu), 0.0)
    met = gap <= max(tolerance, problem.rounding(at.losses))
    if gap < best.gap or met:
        return LocalSolution(at.theta - at.gradient / problem.mu, gap, iteration, met)
    return best


def _dual_move(problem: LocalProblem, loss: Loss, alpha: Array, z: Array, curvature: float) -> tuple[Array, Array]:
    """The dual step of one curvature for all samples, and Σ Δ_i x_i."""
    step = loss.dual_step(alpha, problem.y, z, np.full(len(z), curvature))
    return step, np.asarray(problem.X.T @ step, dtype=np.float64)


def _descending(problem: LocalProblem, at: Iterate, step: float) -> float:
    """A step τ with h(x') ≤ h(x) + ⟨∇h(x), x' − x⟩ + (1/τ − μ)/2 ‖x' − x‖², tried from the given one downwards."""
    square = float(np.vdot(at.gradient, at.gradient))
    slack = problem.rounding(at.losses)
    while problem.distance(at, step) > step * (1.0 - problem.mu * step) / 2.0 * square + slack:
        step *= SHRINK
    return step
