"""The local problem of a corrective step."""

import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_client import rowpieces
from fenchel_client.algorithms.corrective import local_newton
from fenchel_client.algorithms.corrective.local_newton import local_point
from fenchel_client.rowpieces import in_pieces
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
    found = local_point(in_pieces(F), y, alpha, z, kappa=kappa, loss=loss)
    exact = coordinate_ascent(F, y, alpha, z, kappa=kappa, loss=loss)
    assert np.isfinite(loss.conjugate(found, y)).all()
    best = objective(F, y, alpha, z, exact, kappa=kappa, loss=loss)
    start = objective(F, y, alpha, z, alpha, kappa=kappa, loss=loss)
    reached = objective(F, y, alpha, z, found, kappa=kappa, loss=loss)
    assert reached - start >= 0.95 * (best - start)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_sparse_and_wide_rows_give_the_same_point(monkeypatch: pytest.MonkeyPatch, loss: Loss) -> None:
    F, y, alpha, z = made(1)
    dense = local_point(in_pieces(F), y, alpha, z, kappa=0.5, loss=loss)
    sparse = local_point(in_pieces(csr_array(F)), y, alpha, z, kappa=0.5, loss=loss)
    monkeypatch.setattr(rowpieces, "DENSE_WIDTH", 2)
    wide = local_point(in_pieces(F), y, alpha, z, kappa=0.5, loss=loss)
    np.testing.assert_allclose(sparse, dense, atol=1e-3)
    np.testing.assert_allclose(wide, dense, atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_more_columns_than_rows_and_empty_columns_give_as_good_a_point(
    monkeypatch: pytest.MonkeyPatch, loss: Loss
) -> None:
    monkeypatch.setattr(rowpieces, "DENSE_WIDTH", 2)
    rng = np.random.default_rng(5)
    _, y, alpha, z = made(5)
    F = np.where(rng.random((30, 200)) < 0.1, rng.standard_normal((30, 200)), 0.0)
    F[:, rng.permutation(200)[:80]] = 0.0
    found = local_point(in_pieces(csr_array(F)), y, alpha, z, kappa=0.5, loss=loss)
    np.testing.assert_allclose(local_point(in_pieces(F), y, alpha, z, kappa=0.5, loss=loss), found, atol=1e-3)
    exact = coordinate_ascent(F, y, alpha, z, kappa=0.5, loss=loss)
    points = (alpha, found, exact)
    start, reached, best = (objective(F, y, alpha, z, a, kappa=0.5, loss=loss) for a in points)
    assert reached - start >= 0.95 * (best - start)


def test_rows_at_the_ends_of_their_intervals_need_no_system() -> None:
    F, y, alpha, z = made(6)
    wide = csr_array(np.hstack([F, np.zeros((30, 60)), np.eye(30)]))
    monotone = local_point(in_pieces(wide), y, alpha, 100.0 * y + 0.0 * z, kappa=1e-3, loss=LOSSES["hinge"])
    np.testing.assert_array_equal(monotone, np.zeros(30))


def test_rows_of_which_nothing_is_known_stay_where_they_are() -> None:
    F, y, alpha, z = made()
    np.testing.assert_array_equal(local_point(in_pieces(0.0 * F), y, alpha, z, kappa=1.0, loss=LOSSES["hinge"]), alpha)


def many(seed: int = 2) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((400, 8)) / np.sqrt(8)
    y = np.where(rng.random(400) < 0.5, -1.0, 1.0)
    return F, y, y * rng.random(400), rng.standard_normal(400)


@pytest.mark.parametrize("name", ["logistic", "smoothed_hinge", "squared_hinge", "squared", "huber"])
def test_with_a_smooth_loss_no_point_gains_more_than_the_stated_share_beyond_the_one_found(name: str) -> None:
    (F, y, alpha, z), loss, kappa = many(), LOSSES[name], 0.05
    found = local_point(in_pieces(F), y, alpha, z, kappa=kappa, loss=loss)
    start, reached = (objective(F, y, alpha, z, a, kappa=kappa, loss=loss) for a in (alpha, found))
    v = kappa * F.T @ (found - alpha)
    bound = float(v @ v / (2.0 * kappa) + loss.value(z + F @ v, y).sum() + alpha @ (F @ v))
    exact = objective(F, y, alpha, z, coordinate_ascent(F, y, alpha, z, kappa=kappa, loss=loss), kappa=kappa, loss=loss)
    assert exact <= bound
    assert exact - reached <= local_newton.SHARE * (reached - start)


def test_newton_steps_end_as_soon_as_a_better_point_gains_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    direction = local_newton._Step._direction

    def counted(step: local_newton._Step, a: Array, gradient: Array) -> Array:
        nonlocal taken
        taken += 1
        return direction(step, a, gradient)

    monkeypatch.setattr(local_newton._Step, "_direction", counted)
    F, y, alpha, z = many()
    local_point(in_pieces(F), y, alpha, z, kappa=0.05, loss=LOSSES["logistic"])
    first, taken = taken, 0
    monkeypatch.setattr(local_newton, "SHARE", 0.0)
    monkeypatch.setattr(local_newton, "SETTLED", 0.0)
    local_point(in_pieces(F), y, alpha, z, kappa=0.05, loss=LOSSES["logistic"])
    assert 0 < first < taken


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("kappa", [0.01, 10.0, 1e4])
def test_the_point_is_never_worse_than_the_present_one(
    loss: Loss, kappa: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_newton, "NEWTON_STEPS", 1)
    F, y, alpha, z = made(3)
    found = local_point(in_pieces(F), y, alpha, z, kappa=kappa, loss=loss)
    start, reached = (objective(F, y, alpha, z, a, kappa=kappa, loss=loss) for a in (alpha, found))
    assert reached >= start
    assert found is not alpha


def test_the_hessian_is_formed_without_a_copy_of_all_rows() -> None:
    rng = np.random.default_rng(4)
    F = np.asfortranarray(rng.standard_normal((40_000, 64)))
    y = np.where(rng.random(40_000) < 0.5, -1.0, 1.0)
    tracemalloc.start()
    try:
        local_point(in_pieces(F), y, np.zeros(40_000), np.zeros(40_000), kappa=1e-4, loss=LOSSES["logistic"])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < F.nbytes / 2
