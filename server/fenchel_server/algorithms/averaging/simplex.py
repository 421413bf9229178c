"""Weights of clients, larger for larger losses: projections, and the dual step of robust objectives.

Problem     min_x max_{λ∈Λ} Σ λ_i f_i(x) − ψ(λ) ((1.1) of the SCAFF-PD paper)
χ²          ψ(λ) = ρ/(2N) Σ (Nλ_i − 1)², Λ the simplex (B.2); it is ρN-strongly convex; ρ = 0 is agnostic learning
CVaR        ψ = 0, Λ the part of the simplex where λ_i ≤ 1/(αN)
Dual step   argmin_{λ∈Λ} ψ(λ) − ⟨s, λ⟩ + 1/(2σ) ‖λ − λ^r‖², a Euclidean projection for both
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """ψ and Λ: the χ² penalty with the strength `rho`, and no λ_i above `cap`."""

    rho: float = 0.0
    cap: float = 1.0

    @classmethod
    def cvar(cls, alpha: float, clients: int) -> "Ambiguity":
        """The set whose worst case is the mean loss of the fraction α of the clients with the largest losses."""
        return cls(0.0, min(1.0, 1.0 / (alpha * clients)))

    def dual_step(self, weights: Array, losses: Array, sigma: float) -> Array:
        """λ^{r+1} from λ^r and the (extrapolated) losses s.

        Without the constraint, ρN(λ − 1/N) − s + (λ − λ^r)/σ = 0; with it, the projection of that λ, because the
        quadratic is the same in all directions.
        """
        curvature = self.rho * len(weights) + 1.0 / sigma
        return self.projected((self.rho + losses + weights / sigma) / curvature)

    def projected(self, point: Array) -> Array:
        return project_onto_simplex(point) if self.cap >= 1.0 else project_onto_capped_simplex(point, self.cap)

    def penalty(self, weights: Array) -> float:
        """ψ(λ)"""
        count = len(weights)
        return self.rho / (2.0 * count) * float(((count * weights - 1.0) ** 2).sum())


def project_onto_simplex(point: Array) -> Array:
    """The nearest λ with λ ≥ 0 and Σλ = 1: max(v − t, 0), with t from the sorted values."""
    falling = np.sort(point)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(point) + 1)
    shift = excess[np.flatnonzero(falling > excess)[-1]]
    return np.asarray(np.maximum(point - shift, 0.0), dtype=np.float64)


def project_onto_capped_simplex(point: Array, cap: float) -> Array:
    """The nearest λ with 0 ≤ λ ≤ cap and Σλ = 1: min(max(v − t, 0), cap), which needs cap·N ≥ 1.

    Σ falls with t, is linear between the t at which an entry meets a bound, and t is found exactly between two of them.
    """
    bends = np.sort(np.concatenate((point - cap, point)))
    sums = np.clip(point[None, :] - bends[:, None], 0.0, cap).sum(axis=1)
    # Below all bends the sum is cap·N, above all of them 0; the tolerance is for cap = 1/N.
    last = int(np.flatnonzero(sums >= 1.0 - 1e-12)[-1])
    fall = sums[last] - sums[last + 1]
    shift = bends[last] + (bends[last + 1] - bends[last]) * max(sums[last] - 1.0, 0.0) / fall
    return np.asarray(np.clip(point - shift, 0.0, cap), dtype=np.float64)
