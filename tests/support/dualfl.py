"""DualFL by its pure functions alone, on all rows together and in double precision: no rails, no fixed point."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.dualfl import control_variate, local_step
from fenchel_client.algorithms.averaging.local_problem import LocalProblem
from fenchel_client.algorithms.averaging.local_solvers import lbfgs
from fenchel_common.algorithms.averaging.dualfl import DualflSettings, gap_bound, next_momentum

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """The rows of each of K parties."""

    X: tuple[Array, ...]
    y: tuple[Array, ...]

    @classmethod
    def split(cls, X: Array, y: Array, clients: int, *, by_label: bool = False) -> "Parts":
        """Rows in turn, or sorted by label so that the parties are as unlike as can be."""
        order = np.argsort(y, kind="stable") if by_label else np.arange(len(y))
        pieces = np.array_split(order, clients) if by_label else [order[j::clients] for j in range(clients)]
        return cls(tuple(X[piece] for piece in pieces), tuple(y[piece] for piece in pieces))

    @property
    def fraction(self) -> float:
        return len(self.X) / sum(len(y) for y in self.y)

    def whole(self, settings: DualflSettings, *, mu: float | None = None) -> LocalProblem:
        """The objective E of all rows as one problem."""
        X, y = np.concatenate(self.X), np.concatenate(self.y)
        shape = (X.shape[1],) if settings.width == 1 else (X.shape[1], settings.width)
        convexity = settings.strong_convexity if mu is None else mu
        return LocalProblem(X, y, settings.local_loss, 1.0 / len(y), convexity, np.zeros(shape))

    def energy(self, settings: DualflSettings, theta: Array, *, mu: float | None = None) -> float:
        whole = self.whole(settings, mu=mu)
        point = theta.reshape(whole.shift.shape)
        return whole.value(point, whole.loss.value(whole.predictions(point), whole.y))

    def minimiser(self, settings: DualflSettings) -> Array:
        """θ* of a smooth problem, by one solver on all rows."""
        whole = self.whole(settings)
        solved = lbfgs(whole, whole.shift, tolerance=1e-15, iterations=20_000)
        assert solved.gap < 1e-12
        return solved.theta.reshape(-1)


@dataclass(frozen=True)
class Epoch:
    """θ^(n+1) and, by client: ζ^(n), v^(n+1) = ζ^(n) − θ_j^(n+1), the local gaps and iterations."""

    theta: Array
    variates: Array
    duals: Array
    beta: float
    gaps: tuple[float, ...]
    iterations: tuple[int, ...]
    met: bool


def epochs(parts: Parts, settings: DualflSettings, rho: float, *, tolerance: float | None = None) -> Iterator[Epoch]:
    """Algorithm 1, round after round without end; local problems as exact as the criteria ask, or to `tolerance`."""
    clients = len(parts.X)
    length = parts.X[0].shape[1] * settings.width
    theta, previous = np.zeros(length), np.zeros(length)
    duals, changes = np.zeros((clients, length)), np.zeros((clients, length))
    t, beta, n = 1.0, 0.0, 0
    while True:
        bound = settings.gap_factor * gap_bound(n, clients=clients, rho=rho, nu=settings.duality, gamma=settings.gamma)
        variates = np.array([control_variate(duals[j], changes[j], theta, previous, beta) for j in range(clients)])
        solved = [
            local_step(
                settings,
                parts.X[j],
                parts.y[j],
                variates[j],
                duals[j],
                loss_weight=parts.fraction,
                tolerance=bound if tolerance is None else tolerance,
            )
            for j in range(clients)
        ]
        following = variates - np.array([local.theta for local in solved])
        changes, duals = following - duals, following
        theta, previous = -duals.mean(axis=0), theta
        t, beta = next_momentum(t, rho)
        n += 1
        yield Epoch(
            theta,
            variates,
            duals,
            beta,
            tuple(local.gap for local in solved),
            tuple(local.iterations for local in solved),
            all(local.met for local in solved),
        )


def errors(
    parts: Parts, settings: DualflSettings, rho: float, rounds: int, optimum: Array, **options: float
) -> Sequence[float]:
    """‖θ^(n) − θ*‖² for n = 1 … rounds."""
    steps = epochs(parts, settings, rho, **options)
    return [float(np.sum((epoch.theta - optimum) ** 2)) for _, epoch in zip(range(rounds), steps, strict=False)]
