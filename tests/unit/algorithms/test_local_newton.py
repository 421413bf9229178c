"""The local problem of a corrective step."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_client.algorithms.corrective import local_newton
from fenchel_client.algorithms.corrective.local_newton import local_point
from fenchel_common.losses import LOSSES, Loss

Array = NDArray[np.float64]


def made(seed: int = 0) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((30, 6)) / np.sqrt(6)
    y = np.where(rng.random(30) < 0.5, -1.0, 1.0)
    return F, y, y * rng.random(30), rng.standard_normal(30)


def objective(F: Array, y: Array, alpha: Array, z: Array, a: Array, *, kappa: float, loss: Loss) -> float:
    moved = F.T @ (a - alpha)
    return float(-(loss.conjugate(a, y) + a * z).sum() - kappa / 2.0 * moved @ moved)


def coordinate_ascent(F: Array, y: Array, alpha: Array, z: Array, *, kappa: float, loss: Loss) -> Array:
    """The exact maximiser, one coordinate after the other."""
    a, moved = alpha.copy(), np.zeros(F.shape[1])
    for _ in range(40):
        for i in range(len(y)):
            at = slice(i, i + 1)
            ip = z[at] + kappa * (F[i] @ moved)
            step = loss.dual_step(a[at], y[at], ip, np.array([kappa * (F[i] @ F[i])]))
            a[at] += step
            moved += step[0] * F[i]
    return a


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("kappa", [0.01, 0.3, 10.0])
def test_the_point_is_feasible_and_as_good_as_many_passes_of_coordinate_ascent(loss: Loss, kappa: float) -> None:
    F, y, alpha, z = made()
    found = local_point(F, y, alpha, z, kappa=kappa, loss=loss)
    exact = coordinate_ascent(F, y, alpha, z, kappa=kappa, loss=loss)
    assert np.isfinite(loss.conjugate(found, y)).all()
    best = objective(F, y, alpha, z, exact, kappa=kappa, loss=loss)
    start = objective(F, y, alpha, z, alpha, kappa=kappa, loss=loss)
    reached = objective(F, y, alpha, z, found, kappa=kappa, loss=loss)
    assert reached - start >= 0.95 * (best - start)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_sparse_and_wide_rows_give_the_same_point(monkeypatch: pytest.MonkeyPatch, loss: Loss) -> None:
    F, y, alpha, z = made(1)
    dense = local_point(F, y, alpha, z, kappa=0.5, loss=loss)
    sparse = local_point(csr_array(F), y, alpha, z, kappa=0.5, loss=loss)
    monkeypatch.setattr(local_newton, "DENSE_WIDTH", 2)
    wide = local_point(F, y, alpha, z, kappa=0.5, loss=loss)
    np.testing.assert_allclose(sparse, dense, atol=1e-3)
    np.testing.assert_allclose(wide, dense, atol=1e-3)


def test_rows_of_which_nothing_is_known_stay_where_they_are() -> None:
    F, y, alpha, z = made()
    np.testing.assert_array_equal(local_point(0.0 * F, y, alpha, z, kappa=1.0, loss=LOSSES["hinge"]), alpha)
