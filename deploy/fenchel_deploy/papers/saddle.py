"""The saddle point of a robust problem of quadratic losses, to rounding error, with all parties' rows in one place."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.descent import LocalObjective
from fenchel_common.errors import FenchelError
from fenchel_server.algorithms.averaging.simplex import Ambiguity

Array = NDArray[np.float64]


def saddle_point(clients: Sequence[LocalObjective], ambiguity: Ambiguity) -> tuple[Array, Array]:
    """(x*, λ*) of quadratic losses with a χ² penalty, by Newton's method on max_λ F(x, λ), to rounding error.

    With λ(x) the maximiser, the gradient is Σ λ_i ∇f_i, and the curvature Σ λ_i ∇²f_i plus what the change of λ(x)
    adds: 1/(ρN) times the covariance of the gradients of the clients with λ_i > 0.
    """
    count = len(clients)
    x = np.zeros(clients[0].length)
    curvatures = [2.0 * client.X.T @ client.X / len(client.y) + client.ridge * np.eye(len(x)) for client in clients]

    def worst(at: Array) -> tuple[float, Array]:
        losses = np.array([client.value(at) for client in clients])
        weights = ambiguity.projected(1.0 / count + losses / (ambiguity.rho * count))
        return float(weights @ losses) - ambiguity.penalty(weights), weights

    for _ in range(100):
        value, weights = worst(x)
        slopes = np.array([client.gradient(x) for client in clients])
        gradient = weights @ slopes
        centred = slopes[weights > 0.0] - slopes[weights > 0.0].mean(axis=0)
        curvature = sum(weight * matrix for weight, matrix in zip(weights, curvatures, strict=True))
        step = np.linalg.solve(curvature + centred.T @ centred / (ambiguity.rho * count), gradient)
        if np.linalg.norm(step) < 1e-12:
            return x, weights
        length, fall = 1.0, float(gradient @ step)
        # Where the fall drowns in rounding, the optimum is so near that whole steps lead there.
        while fall > 1e-12 and worst(x - length * step)[0] > value - 0.1 * length * fall:
            length /= 2.0
        x = x - length * step
    raise FenchelError("the saddle point was not reached: Newton's method did not settle")
