"""The base class of losses: the primal value, the dual value and the exact one-dimensional dual step.

The problem and its dual, for samples x_i with labels y_i ∈ {−1, +1} (equations 1 and 2 of the HyFDCA paper)::

    P(w) = λ/2 ‖w‖² + 1/N Σ l_i(x_i·w)
    D(α) = −λ/2 ‖w(α)‖² − 1/N Σ l_i*(−α_i),    w(α) = 1/(λN) Σ α_i x_i

A margin loss is l_i(z) = φ(y_i z). Its conjugate at −α depends on b = y_i α alone, and is finite for 0 ≤ b ≤ 1 when φ
is decreasing and 1-Lipschitz. A subclass therefore gives φ, −φ', φ* and one scalar maximisation, all in terms of
the margin m = y z and of b.

Signs follow the proofs of the paper: the "subgradient" u satisfies l(z) = −l*(−u) − u z, that is −u ∈ ∂l(z).
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import InvalidInput

Array = NDArray[np.float64]

# A dual variable that is a sum of fixed-point numbers may leave [0, 1] by a unit or two of 2^-32. It then counts as the
# nearer end of the interval; a dual variable further out is infeasible, and its conjugate is infinite.
FEASIBILITY_SLACK: Final = 2.0**-31


class Loss(ABC):
    """A convex, non-negative, 1-Lipschitz loss of the margin.

    All methods are pure functions. They take and return arrays of one shape (n,), whose numbers must be finite; labels
    y must have passed `check_labels`. A subclass sets `name` and `lipschitz` and implements the abstract methods, which
    the public methods call with margins m = y·z and with b = y·α.
    """

    name: ClassVar[str]
    lipschitz: ClassVar[float]
    """The steepest slope of l. Certificates and the noise on a released model depend on it, so each loss states it."""
    conjugate_modulus: ClassVar[float] = 0.0
    """The least second derivative of l*: how strongly convex it is."""

    def value(self, z: Array, y: Array) -> Array:
        """l(z) for predictions z."""
        return self._margin_value(y * z)

    def subgradient(self, z: Array, y: Array) -> Array:
        """u with −u ∈ ∂l(z): the dual variable that fits the prediction z."""
        return y * self._margin_descent(y * z)

    def conjugate(self, alpha: Array, y: Array) -> Array:
        """l*(−α); infinite outside the domain, up to `FEASIBILITY_SLACK`."""
        b = y * alpha
        feasible = (b >= -FEASIBILITY_SLACK) & (b <= 1.0 + FEASIBILITY_SLACK)
        return np.where(feasible, self._margin_conjugate(np.clip(b, 0.0, 1.0)), np.inf)

    def conjugate_curvature(self, alpha: Array, y: Array) -> Array:
        """The second derivative of l*(−α) in α inside the domain; infinite where it has none."""
        return self._margin_conjugate_curvature(np.clip(y * alpha, 0.0, 1.0))

    def dual_step(self, alpha: Array, y: Array, ip: Array, curvature: Array) -> Array:
        """The Δ that maximises −l*(−(α+Δ)) − Δ·ip − curvature/2·Δ².

        Parameters
        ----------
        ip
            x·w, the prediction that the step starts from.
        curvature
            ‖x‖²/(λN) in the practical variant (Algorithm 5, line 6); zero is allowed.
        """
        return y * self._best_dual(y * alpha, y * ip, curvature) - alpha

    def theory_step(self, alpha: Array, y: Array, ip: Array, curvature: Array, scale: float | Array) -> Array:
        """The s ∈ [0, 1] of Algorithm 3, for the direction d = scale·(u − α).

        It maximises −l*(−(α+s·d)) − s·d·ip − curvature/2·(s·d)² with scale = c_k·γ_t and curvature = ‖x‖²/λ. As a
        function of Δ = s·d this is the concave objective of `dual_step`, so its maximiser on the segment from 0 to
        d is the point of the segment nearest to the unconstrained one.
        """
        direction = scale * (self.subgradient(ip, y) - alpha)
        best = self.dual_step(alpha, y, ip, curvature)
        moving = direction != 0.0
        return np.clip(np.divide(best, direction, out=np.zeros_like(best), where=moving), 0.0, 1.0)

    def check_labels(self, labels: Array) -> None:
        """Refuses labels that this loss cannot take, as `InvalidInput`, without showing them. Called before a run."""
        if not np.isin(labels, (-1.0, 1.0)).all():
            raise InvalidInput(
                f"y: the {self.name} loss takes the labels -1 and +1 only; map the two classes to these values"
            )

    @abstractmethod
    def _margin_value(self, margin: Array) -> Array:
        """φ(m), for any finite m."""

    @abstractmethod
    def _margin_descent(self, margin: Array) -> Array:
        """−φ'(m), or one of its values where φ has a kink; between 0 and 1."""

    @abstractmethod
    def _margin_conjugate(self, b: Array) -> Array:
        """φ*(−b). The caller ensures 0 ≤ b ≤ 1."""

    @abstractmethod
    def _margin_conjugate_curvature(self, b: Array) -> Array:
        """The second derivative of φ*(−b); infinite where it has none. The caller ensures 0 ≤ b ≤ 1."""

    @abstractmethod
    def _best_dual(self, b: Array, margin: Array, curvature: Array) -> Array:
        """The t in [0, 1] that maximises −φ*(−t) − (t − b)·m − curvature/2·(t − b)².

        b may lie outside [0, 1] by `FEASIBILITY_SLACK`; curvature is at least 0. May raise `FenchelError` if an
        iterative method does not converge.
        """
