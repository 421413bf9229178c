"""Robust federated learning without a federation: problems with exact solutions, and the algorithms as plain loops."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.descent import LocalObjective, descend
from fenchel_client.algorithms.averaging.drfa import steps_with_snapshot
from fenchel_client.algorithms.averaging.scaffpd import local_update
from fenchel_common.algorithms.averaging.scaffpd import Pace
from fenchel_common.losses.multinomial import Multinomial
from fenchel_common.losses.squared import Squared
from fenchel_server.algorithms.averaging.scaffpd import extrapolated_dual_step
from fenchel_server.algorithms.averaging.simplex import Ambiguity

Array = NDArray[np.float64]
Clients = Sequence[LocalObjective]


class SquaredScores(Multinomial):
    """l(z) = 1/2 Σ_c (z_c − [c = y])²: the squared loss of classes, as in F.1 of the SCAFF-PD paper."""

    def value(self, z: Array, y: Array) -> Array:
        return np.asarray(0.5 * (self.subgradient(z, y) ** 2).sum(axis=1), dtype=np.float64)

    def subgradient(self, z: Array, y: Array) -> Array:
        u: Array = -z
        u[np.arange(len(y)), y.astype(np.int64)] += 1.0
        return u


def robust_regression(sigma: float, *, seed: int = 0, ridge: float = 0.1) -> list[LocalObjective]:
    """SCAFF-PD, C.1: N = 5, d = 10, m = 100, with y = ⟨a, x̂ + δ_i⟩ and δ_i of deviation σ."""
    rng = np.random.default_rng(seed)
    centre = rng.standard_normal(10)
    clients = []
    for _ in range(5):
        rows = rng.standard_normal((100, 10))
        y = rows @ (centre + sigma * rng.standard_normal(10))
        clients.append(LocalObjective(rows, y, Squared(), ridge))
    return clients


@dataclass
class Course:
    """The end of a run, and ‖x^r − x*‖² after each round."""

    x: Array
    weights: Array
    errors: list[float] = field(default_factory=list)

    def rounds_to(self, error: float) -> int:
        """The first round with at most this distance; one more than all rounds if there is none."""
        reached = np.flatnonzero(np.array(self.errors) <= error)
        return int(reached[0]) if len(reached) else len(self.errors) + 1


def scaffpd(
    clients: Clients,
    ambiguity: Ambiguity,
    pace: Pace,
    *,
    rounds: int,
    steps: int,
    solution: Array | None = None,
    batch: int | None = None,
    seed: int = 0,
) -> Course:
    """Algorithm 1 with η_g = 1."""
    rng = np.random.default_rng(seed)
    course = Course(np.zeros(clients[0].length), np.full(len(clients), 1.0 / len(clients)))
    previous = None
    for _ in range(rounds):
        _note(course, solution)
        losses = np.array([client.value(course.x) for client in clients])
        course.weights = extrapolated_dual_step(
            ambiguity,
            course.weights,
            losses,
            losses if previous is None else previous,
            sigma=pace.sigma,
            theta=pace.theta,
        )
        previous = losses
        control = course.weights @ np.array([client.gradient(course.x) for client in clients])
        step = pace.tau / steps
        changes = [
            local_update(client, course.x, control, step=step, steps=steps, batch=batch, rng=rng) for client in clients
        ]
        course.x = course.x - pace.tau * (course.weights @ np.array(changes))
        pace = pace.next()
    _note(course, solution)
    return course


def drfa(
    clients: Clients,
    ambiguity: Ambiguity,
    *,
    rounds: int,
    steps: int,
    step: float,
    sigma: float,
    solution: Array | None = None,
    seed: int = 0,
) -> Course:
    """DRFA without the noise of drawing clients: all of them, by their weights."""
    rng = np.random.default_rng(seed)
    course = Course(np.zeros(clients[0].length), np.full(len(clients), 1.0 / len(clients)))
    for _ in range(rounds):
        _note(course, solution)
        drawn = int(rng.integers(1, steps + 1))
        pairs = [
            steps_with_snapshot(client, course.x, snapshot_step=drawn, step=step, steps=steps) for client in clients
        ]
        snapshot = course.weights @ np.array([gradient for _, gradient in pairs])
        course.x = course.weights @ np.array([end for end, _ in pairs])
        losses = np.array([client.value(snapshot) for client in clients])
        course.weights = ambiguity.dual_step(course.weights, losses, sigma)
    _note(course, solution)
    return course


def fedavg(clients: Clients, *, rounds: int, steps: int, step: float) -> Array:
    rows = np.array([len(client.y) for client in clients], dtype=np.float64)
    x = np.zeros(clients[0].length)
    for _ in range(rounds):
        x = (rows / rows.sum()) @ np.array([descend(client, x, step=step, steps=steps) for client in clients])
    return x


def scaffold(clients: Clients, *, rounds: int, steps: int, step: float) -> Array:
    x = control = np.zeros(clients[0].length)
    own = np.zeros((len(clients), len(x)))
    for _ in range(rounds):
        ends = np.array(
            [
                descend(client, x, step=step, steps=steps, correction=control - own[number])
                for number, client in enumerate(clients)
            ]
        )
        own = own - control + (x - ends) / (steps * step)
        control, x = own.mean(axis=0), ends.mean(axis=0)
    return x


def _note(course: Course, solution: Array | None) -> None:
    if solution is not None:
        course.errors.append(float(((course.x - solution) ** 2).sum()))
