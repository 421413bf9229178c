"""The objective f_j and the constraint g_j of a party in FedSGM, each with a (sub)gradient.

A constraint is a function of (w, X, y) that gives g_j(w) and a subgradient there; it should be convex and Lipschitz
(Assumption 1), and is met when the mean over the parties is at most ε::

    def mean_score(w, X, y):
        return float((X @ w).mean()), X.mean(axis=0)

A party may install constraints of its own, by entry points of the group `fenchel.constraints`; the run's configuration
names one. The code of a constraint is the party's own: the server gives the name alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.averaging.fedsgm import FedsgmSettings
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss
from fenchel_common.objectives import Matrix

Array = NDArray[np.float64]
Function = Callable[[Array], tuple[float, Array]]
"""A value and a (sub)gradient at w."""
Constraint = Callable[[Array, Matrix, Array], tuple[float, Array]]

NEYMAN_PEARSON: Final = "neyman_pearson"
GROUP: Final = "fenchel.constraints"


@dataclass(frozen=True, slots=True)
class ConstrainedProblem:
    """f_j and g_j of one party."""

    objective: Function
    constraint: Function


def constrained_problem(settings: FedsgmSettings, X: Matrix, y: Array) -> ConstrainedProblem:
    """The problem that the settings name, on a party's rows."""
    loss, lambda_ = settings.loss_function, settings.lambda_
    if settings.constraint == NEYMAN_PEARSON:
        bounded = y == settings.constrained_label
        if bounded.all() or not bounded.any():
            raise InvalidInput("y: neyman_pearson needs rows of both classes at every party")
        free_rows, free_labels, bounded_rows, bounded_labels = X[~bounded], y[~bounded], X[bounded], y[bounded]
        return ConstrainedProblem(
            objective=lambda w: mean_loss(w, free_rows, free_labels, loss=loss, lambda_=lambda_),
            constraint=lambda w: mean_loss(w, bounded_rows, bounded_labels, loss=loss),
        )
    constraint = constraint_named(settings.constraint)
    return ConstrainedProblem(
        objective=lambda w: mean_loss(w, X, y, loss=loss, lambda_=lambda_),
        constraint=lambda w: constraint(w, X, y),
    )


def mean_loss(w: Array, X: Matrix, y: Array, *, loss: Loss, lambda_: float = 0.0) -> tuple[float, Array]:
    """1/n Σ l_i(x_i·w) + λ/2 ‖w‖² and its subgradient."""
    scores = X @ w
    descent = np.asarray(X.T @ loss.subgradient(scores, y), dtype=np.float64) / len(y)
    value = float(loss.value(scores, y).mean()) + lambda_ / 2.0 * float(w @ w)
    return value, lambda_ * w - descent


def l1_norm(w: Array, X: Matrix, y: Array) -> tuple[float, Array]:
    """‖w‖₁: a sparse model."""
    del X, y
    return float(np.abs(w).sum()), np.sign(w)


CONSTRAINTS: Final[Mapping[str, Constraint]] = {"l1_norm": l1_norm}


def constraint_named(name: str) -> Constraint:
    """The constraint of this name: one of `CONSTRAINTS`, or one that this party has installed."""
    if name in CONSTRAINTS:
        return CONSTRAINTS[name]
    installed = {point.name: point for point in entry_points(group=GROUP)}
    if name not in installed:
        known = ", ".join((NEYMAN_PEARSON, *CONSTRAINTS, *sorted(installed)))
        raise InvalidInput(f"constraint: {name!r:.80} is not installed at this party, which has {known}")
    constraint: Constraint = installed[name].load()
    return constraint
