"""The problem of FedSGM with the rows of all parties in one place, and its optimum.

Objective
    min f(w) subject to g(w) ≤ ε, where f and g are the means over the parties of f_j and g_j.
Method
    With the constraint `neyman_pearson`, f + ν g is λ/2 ‖w‖² and a sum of weighted losses: a row of party j counts
    1/(K m_j), m_j its rows of the same class, and ν times as much if its class is the constrained one. So for every
    multiplier ν the minimiser w(ν) is found as any centralized optimum is. g(w(ν)) falls as ν rises; ν is found by
    bisection of its logarithm.
Certificate
    w(ν) is feasible, and f* ≥ f(w(ν)) + ν (g(w(ν)) − ε) for every ν. The bisection ends when the two are within
    `TOLERANCE`, relatively.
Shapes
    X (n, M) and y (n,) of each party, w (M,).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from fenchel_client.algorithms.averaging.constraints import NEYMAN_PEARSON, constrained_problem
from fenchel_common.algorithms.averaging.fedsgm import FedsgmSettings
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.data.shard import Matrix, Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.losses.weighted import SMALLEST_WEIGHT, Weighted
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.reference import Optimum

Array = NDArray[np.float64]

FEDSGM: Final = "fedsgm"
TOLERANCE: Final = 1e-4
LEAST_RIDGE: Final = 1e-8
"""λ in place of a smaller one: the minimiser of f + ν g need not exist without."""
MULTIPLIERS: Final = (1e-3, 1e3)
HALVINGS: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class ConstrainedProblem:
    """f and g over the rows of all parties."""

    settings: FedsgmSettings
    parts: tuple[tuple[Matrix, Array], ...]

    @classmethod
    def of(cls, settings: AlgorithmSettings, shards: Iterable[Shard]) -> Self | None:
        """The problem over prepared shards of whole rows; None if the settings are not those of FedSGM."""
        if not isinstance(settings, FedsgmSettings):
            return None
        return cls(settings, tuple((shard.X, shard.y) for shard in shards if shard.y is not None))

    def objective(self, w: Array) -> float:
        """f(w)"""
        return float(np.mean([constrained_problem(self.settings, X, y).objective(w)[0] for X, y in self.parts]))

    def constraint(self, w: Array) -> float:
        """g(w)"""
        return float(np.mean([constrained_problem(self.settings, X, y).constraint(w)[0] for X, y in self.parts]))

    def solved(self) -> Optimum | None:
        """The optimum; None for constraints other than `neyman_pearson`, whose functions may be of any form.

        Raises `InvalidInput` if no w found is feasible.
        """
        if self.settings.constraint != NEYMAN_PEARSON:
            return None
        tolerance = self.settings.tolerance
        low, high = MULTIPLIERS
        free = self._minimiser(low)
        if self.constraint(free) <= tolerance:
            return self._optimum(free)
        best = self._minimiser(high)
        if self.constraint(best) > tolerance:
            raise InvalidInput(f"tolerance: no model was found with a constraint of at most {tolerance:g}; use more")
        for _ in range(HALVINGS):
            middle = float(np.sqrt(low * high))
            w = self._minimiser(middle)
            excess = self.constraint(w) - tolerance
            if excess > 0.0:
                low = middle
                continue
            high, best = middle, w
            if -middle * excess <= TOLERANCE * self.objective(w):
                break
        return self._optimum(best)

    def _optimum(self, w: Array) -> Optimum:
        reached = self.objective(w)
        return Optimum(w, reached, reached)

    def _minimiser(self, multiplier: float) -> Array:
        """The minimiser of f + ν g, times a scale at which no weight is too small."""
        raw = [self._weights(y, multiplier) for _, y in self.parts]
        scale = max(1.0, SMALLEST_WEIGHT / min(float(weights.min()) for weights in raw))
        y = np.column_stack([np.concatenate([y for _, y in self.parts]), np.concatenate(raw) * scale])
        loss = Weighted(self.settings.loss_function, largest=float(y[:, 1].max()))
        ridge = max(self.settings.lambda_, LEAST_RIDGE) * scale
        return solve_centralized(_stacked([X for X, _ in self.parts]), y, loss=loss, lambda_=ridge).w

    def _weights(self, y: Array, multiplier: float) -> Array:
        """What a party's rows count in a mean over all N rows."""
        bounded = y == self.settings.constrained_label
        share = sum(len(labels) for _, labels in self.parts) / len(self.parts)
        own = np.where(bounded, multiplier * share / bounded.sum(), share / (~bounded).sum())
        return np.asarray(own, dtype=np.float64)


def _stacked(parts: Sequence[Matrix]) -> Matrix:
    sparse = [part for part in parts if isinstance(part, csr_array)]
    if sparse:
        return csr_array(vstack(sparse))
    return np.concatenate([part for part in parts if not isinstance(part, csr_array)])
