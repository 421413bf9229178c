"""Figure 1 (b) and (c) of the DualFL paper: multinomial logistic regression on MNIST, on some of its images."""

import os
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_common.algorithms.averaging.dualfl import DualflSettings
from support.dualfl import Parts, epochs

Array = NDArray[np.float64]

IMAGES = 600
ROUNDS = 20
SETTINGS = DualflSettings.parse({"loss": "multinomial", "classes": 10, "lambda": 1e-2, "gap_factor": 1e-2})
TUNED_RHO = 3e-3
"""Table 2."""


@lru_cache(maxsize=1)
def images() -> tuple[Array, Array, float]:
    """Images of 14 by 14 pixels and a column of ones for the biases of (7.1), digits, and E(θ*)."""
    folder = os.environ.get("FENCHEL_DATA")
    if not folder or not (Path(folder) / "mnist.npz").exists():
        pytest.skip("FENCHEL_DATA does not name the folder with mnist.npz")
    with np.load(Path(folder) / "mnist.npz", allow_pickle=False) as archive:
        chosen = np.random.default_rng(0).choice(len(archive["y_train"]), IMAGES, replace=False)
        pixels, digits = archive["x_train"][chosen] / 255.0, archive["y_train"][chosen].astype(np.float64)
    small = pixels.reshape(IMAGES, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(IMAGES, -1)
    X = np.hstack([small, np.ones((IMAGES, 1))])
    whole = Parts.split(X, digits, 1)
    return X, digits, whole.energy(SETTINGS, whole.minimiser(SETTINGS))


@lru_cache(maxsize=16)
def relative_errors(clients: int, rho: float) -> tuple[float, ...]:
    """(E(θ^(n)) − E*)/E*, n = 1 …"""
    X, digits, optimum = images()
    split = Parts.split(X, digits, clients)
    steps = islice(epochs(split, SETTINGS, rho), ROUNDS)
    return tuple(split.energy(SETTINGS, epoch.theta) / optimum - 1.0 for epoch in steps)


def decay(found: tuple[float, ...]) -> float:
    """The factor by which the error falls a round, after the first five."""
    return float((found[-1] / found[4]) ** (1.0 / (ROUNDS - 5)))


@pytest.mark.parametrize("clients", [8, 16])
def test_the_rate_does_not_deteriorate_with_the_number_of_clients(clients: int) -> None:
    """Figure 1 (b)."""
    assert decay(relative_errors(clients, TUNED_RHO)) <= decay(relative_errors(4, TUNED_RHO)) + 0.03
    assert relative_errors(clients, TUNED_RHO)[-1] < 2e-3


@pytest.mark.parametrize("rho", [0.0, 1e-3, 1e-2])
def test_a_rho_far_from_the_tuned_one_costs_little(rho: float) -> None:
    """Figure 1 (c)."""
    tuned, found = relative_errors(8, TUNED_RHO), relative_errors(8, rho)
    assert decay(found) <= decay(tuned) + 0.05
    assert found[-1] <= 2.0 * tuned[-1]
