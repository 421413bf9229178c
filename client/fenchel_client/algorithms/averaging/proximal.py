"""The client half of DualFL and of the algorithms that it is compared with: local problems, vectors (m·width,)."""

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.local_problem import LocalProblem
from fenchel_client.algorithms.averaging.local_solvers import SOLVERS, LocalSolution
from fenchel_client.algorithms.averaging.rails import AveragingClient
from fenchel_common.algorithms.averaging.proximal import ConsensusSettings, ProximalSettings, ToleratedSettings
from fenchel_common.objectives import Matrix, correct_predictions

Array = NDArray[np.float64]
C = TypeVar("C", bound=ConsensusSettings)
T = TypeVar("T", bound=ToleratedSettings)


def solve(
    settings: ProximalSettings,
    X: Matrix,
    y: Array,
    *,
    scale: float,
    mu: float,
    shift: Array,
    start: Array,
    tolerance: float,
) -> LocalSolution:
    """The minimiser of scale·Σ l_i(x_i·θ) + μ/2 ‖θ‖² − ⟨shift, θ⟩ by the solver of the settings; vectors (m·width,)."""
    shape = (X.shape[1],) if settings.width == 1 else (X.shape[1], settings.width)
    problem = LocalProblem(X=X, y=y, loss=settings.local_loss, scale=scale, mu=mu, shift=shift.reshape(shape))
    solver = SOLVERS[settings.solver]
    solved = solver(problem, start.reshape(shape), tolerance=tolerance, iterations=settings.local_iterations)
    return replace(solved, theta=solved.theta.reshape(-1))


class ConsensusClient(AveragingClient[C]):
    """The client half of an algorithm with `ConsensusSettings`, for losses of a margin and of classes."""

    def losses(self, predictions: Array, y: Array) -> tuple[float, int]:
        if self.settings.width == 1:
            return super().losses(predictions, y)
        return float(self.settings.local_loss.value(predictions, y).sum()), correct_predictions(predictions, y)


class ToleratedClient(ConsensusClient[T]):
    """The client half of an algorithm whose local problems are solved to the gap of the settings."""

    def solved(self, *, scale: float, mu: float, shift: Array, start: Array) -> Array:
        """The solution, (m·width,), of the problem of `solve` over this party's rows."""
        solved = solve(
            self.settings,
            self.X,
            self.labels(),
            scale=scale,
            mu=mu,
            shift=shift,
            start=start,
            tolerance=self.settings.local_gap,
        )
        return solved.theta
