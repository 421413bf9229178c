"""Whom a robust average serves better: a Dirichlet split of images over clients (C.2 and F.1 of the SCAFF-PD paper).

The setting is that of Table 3, the paper's one data set of ten classes: 20 clients, α = 0.05, a linear model with the
squared loss, 30 % of the clients without 70 % of their training rows, χ² penalty with ρ = 0.1. The images themselves
take the place of a network's features.

Ridge (1e-4, 1e-3, 1e-2) and local step (1/4, 1/2, 1; ten of them in a round) were chosen for each method by itself, by
the best worst-20 % accuracy on held-out rows of other splits (seeds 100 to 104; for MNIST the ridge of 1e-2 and the
step of 1/4 on 100 to 102 alone); σ = 0.3 was chosen by the distance to the saddle point.

The gain is that of the objective, not of the rounds taken: on the splits 200 to 209 of digits the exact optima, each at
its best ridge, have a worst-20 % accuracy of 82.5 (robust), 81.3 (mean over clients) and 78.8 (mean over rows), and on
those of MNIST 70.1, 65.7 and 67.6. It needs a model that cannot fit all clients: with the multinomial loss at ridges
of 1e-5 and 1e-4 the robust optimum of digits is not better than the mean over clients (86.4 against 86.4, 87.0 against
87.3), and that of MNIST by a point at most.
"""

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.descent import LocalObjective
from fenchel_common.algorithms.averaging.scaffpd import Pace
from fenchel_common.data.heterogeneous import Rows, dirichlet_rows, thinned_rows
from fenchel_server.algorithms.averaging.descent import accuracy_spread
from fenchel_server.algorithms.averaging.simplex import Ambiguity
from support.robust import SquaredScores, fedavg, scaffold, scaffpd

Array = NDArray[np.float64]
Images = tuple[Array, Array]
Tuned = dict[str, tuple[float, float]]
"""Ridge and local step of each method."""

LOCAL_STEPS = 10


def conditioned(X: Array) -> Array:
    """Centred, with a mean squared row norm of 1."""
    X = X - X.mean(axis=0)
    return np.asarray(X / np.sqrt((X**2).sum(axis=1).mean()), dtype=np.float64)


@lru_cache(maxsize=1)
def digits() -> Images:
    """All 1797, in 8×8 pixels, as they are shipped."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return conditioned(bunch.data), bunch.target.astype(np.float64)


@lru_cache(maxsize=1)
def mnist_images() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    folder = os.environ.get("FENCHEL_DATA")
    if folder is None:
        pytest.skip("FENCHEL_DATA does not name the folder with mnist.npz")
    with np.load(Path(folder) / "mnist.npz") as data:
        images = np.concatenate((data["x_train"], data["x_test"]))
        return images, np.concatenate((data["y_train"], data["y_test"]))


def mnist(seed: int) -> Images:
    """4000 of the images, in 14×14 pixels."""
    images, labels = mnist_images()
    rows = np.random.default_rng([seed, 77]).permutation(len(labels))[:4000]
    pooled = images[rows].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(rows), -1)
    return conditioned(pooled / 255.0), labels[rows].astype(np.float64)


def split_rows(y: Array, seed: int) -> tuple[list[Rows], list[Rows]]:
    """Rows to train on and rows to test on, of each client: half and half, before 30 % of them are thinned."""
    rng = np.random.default_rng([seed, 9])
    split = [rng.permutation(rows) for rows in dirichlet_rows(y, 20, alpha=0.05, seed=seed)]
    held_out = [rows[: len(rows) // 2] for rows in split]
    return thinned_rows([rows[len(rows) // 2 :] for rows in split], seed=seed), held_out


def trained(method: str, train: list[LocalObjective], *, step: float, rounds: int) -> Array:
    if method == "fedavg":
        return fedavg(train, rounds=rounds, steps=LOCAL_STEPS, step=step)
    if method == "scaffold":
        return scaffold(train, rounds=rounds, steps=LOCAL_STEPS, step=step)
    pace = Pace(tau=LOCAL_STEPS * step, sigma=0.3, theta=1.0)
    return scaffpd(train, Ambiguity(0.1), pace, rounds=rounds, steps=LOCAL_STEPS).x


def spreads(load: Callable[[int], Images], tuned: Tuned, *, rounds: int, splits: int) -> dict[str, tuple[float, float]]:
    """Average and worst-20 % accuracy of each method on the test rows, in per cent, means over the splits."""
    found: dict[str, list[tuple[float, float]]] = {method: [] for method in tuned}
    for seed in range(200, 200 + splits):
        X, y = load(seed)
        train_rows, test_rows = split_rows(y, seed)
        test = [LocalObjective(X[rows], y[rows], SquaredScores(10), 0.0, 10) for rows in test_rows]
        for method, (ridge, step) in tuned.items():
            train = [LocalObjective(X[rows], y[rows], SquaredScores(10), ridge, 10) for rows in train_rows]
            x = trained(method, train, step=step, rounds=rounds)
            spread = accuracy_spread([client.correct(x) / len(client.y) for client in test])
            found[method].append((100.0 * spread["average_accuracy"], 100.0 * spread["worst_20_accuracy"]))
    return {method: (fmean(a for a, _ in pairs), fmean(w for _, w in pairs)) for method, pairs in found.items()}


def check_table_3(found: dict[str, tuple[float, float]]) -> None:
    average, worst = found["scaffpd"]
    for method in ("fedavg", "scaffold"):
        assert worst > found[method][1] + 1.0, found
        assert average > found[method][0] - 1.0, found


def test_the_worst_fifth_of_the_clients_gain_on_digits_and_the_average_does_not_lose() -> None:
    """Table 3. Average and worst-20 % over the splits 200 to 209, of which five are run here:

    SCAFF-PD 92.4 and 82.3, FedAvg 91.0 and 75.9, SCAFFOLD 92.1 and 80.7. SCAFF-PD is the better one for the worst fifth
    on 8 of the 10 splits beside SCAFFOLD and on 9 beside FedAvg.
    """
    tuned = {"fedavg": (1e-4, 0.5), "scaffold": (1e-4, 0.5), "scaffpd": (1e-4, 1.0)}
    check_table_3(spreads(lambda _: digits(), tuned, rounds=60, splits=5))


def test_the_worst_fifth_of_the_clients_gain_on_mnist_and_the_average_does_not_lose() -> None:
    """Table 3. Average and worst-20 % over the splits 200 to 209, of which three are run here:

    SCAFF-PD 83.1 and 70.6, FedAvg 81.3 and 64.2, SCAFFOLD 81.9 and 65.6. SCAFF-PD is the better one for the worst fifth
    on 9 of the 10 splits beside SCAFFOLD and on 8 beside FedAvg. A step of 2 was a little better for SCAFFOLD on the
    splits that it was tuned on, and made it diverge on one of these ten.
    """
    tuned = dict.fromkeys(("fedavg", "scaffold", "scaffpd"), (1e-4, 1.0))
    check_table_3(spreads(mnist, tuned, rounds=40, splits=3))


def test_the_spread_is_over_the_sorted_clients() -> None:
    """C.2, footnote 1."""
    spread = accuracy_spread([0.9, 0.1, 0.5, 0.7, 0.3, 1.0, 0.6, 0.2, 0.8, 0.4])
    assert spread["average_accuracy"] == pytest.approx(0.55)
    assert spread["worst_20_accuracy"] == pytest.approx(0.15)
    assert spread["best_20_accuracy"] == pytest.approx(0.95)


def test_a_dirichlet_split_deals_out_every_row_once_and_thins_three_clients_of_ten() -> None:
    _, y = digits()
    split = dirichlet_rows(y, 10, alpha=0.1, seed=0)
    assert sorted(np.concatenate(split)) == list(range(len(y)))
    fractions = [np.bincount(y[rows].astype(np.int64), minlength=10).max() / len(rows) for rows in split]
    assert np.mean(fractions) > 0.4
    thinned = thinned_rows(split, seed=0)
    ratios = sorted(len(after) / len(before) for after, before in zip(thinned, split, strict=True))
    assert ratios[3:] == [1.0] * 7
    np.testing.assert_allclose(ratios[:3], 0.3, atol=0.03)
    assert all(set(after) <= set(before) for after, before in zip(thinned, split, strict=True))
