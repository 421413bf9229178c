"""Stochastic (sub)gradient steps on a party's own rows and columns."""

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.averaging.fedavg import LocalSgdSettings
from fenchel_common.ids import RoundId
from fenchel_common.objectives import Matrix

Array = NDArray[np.float64]


def local_sgd(
    X: Matrix,
    y: Array,
    start: Array,
    *,
    settings: LocalSgdSettings,
    round_id: RoundId,
    rng: np.random.Generator,
    anchor: Array | None = None,
    mu: float = 0.0,
) -> Array:
    """Steps of the round's size γ_t on 1/n Σ l_i(x_i·w) + λ/2 ‖w‖² + μ/2 ‖w − anchor‖².

    Each step takes `settings.batch` rows; the rows come in random passes, so that in each pass every row is taken once.

    Parameters
    ----------
    X
        (n, m), the party's own columns alone: x_i·w is the prediction of its local model.
    start
        (m,) the weights before the first step.
    """
    count, batch = X.shape[0], settings.batch
    loss, step, steps = settings.loss_function, settings.step_size(round_id), settings.steps_over(count)
    drawn = steps * batch
    passes = [rng.permutation(count) for _ in range(-(-drawn // count))]
    order = np.concatenate(passes)[:drawn].reshape(steps, batch)
    w = start.copy()
    for rows in order:
        part = X[rows]
        pull = np.asarray(part.T @ loss.subgradient(part @ w, y[rows]), dtype=np.float64) / batch
        gradient = settings.lambda_ * w - pull
        if anchor is not None:
            gradient += mu * (w - anchor)
        w -= step * gradient
    return w
