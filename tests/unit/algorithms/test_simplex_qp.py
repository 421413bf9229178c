"""The small quadratic program over simplices."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_server.algorithms.simplex_qp import maximise_over_simplices

Array = NDArray[np.float64]


def made(seed: int, sizes: tuple[int, ...], rank: int) -> tuple[Array, Array, list[NDArray[np.int64]]]:
    rng = np.random.default_rng(seed)
    count = sum(sizes)
    W = rng.standard_normal((count, rank))
    ends = np.cumsum(sizes)
    groups = [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    return W @ W.T, rng.standard_normal(count), groups


def value(G: Array, h: Array, b: Array) -> float:
    return float(h @ b - 0.5 * b @ G @ b)


@pytest.mark.parametrize("sizes", [(1,), (5,), (20,), (3, 4, 5), (22, 22, 22, 22)])
@pytest.mark.parametrize("rank", [1, 4, 40])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_reached(sizes: tuple[int, ...], rank: int, seed: int) -> None:
    """At the optimum no feasible direction gains: the gradient's mean over each simplex is its largest entry."""
    G, h, groups = made(seed, sizes, rank)
    b = maximise_over_simplices(G, h, groups, [int(entries[0]) for entries in groups])
    gradient = h - G @ b
    assert b.min() >= 0.0
    for entries in groups:
        assert b[entries].sum() == pytest.approx(1.0, abs=1e-12)
        assert gradient[entries].max() - gradient[entries] @ b[entries] <= 1e-9 * (1.0 + np.abs(G).max())


def test_points_that_coincide_are_no_trouble() -> None:
    G, h, _ = made(0, (6,), 3)
    twice = np.tile(np.arange(6), 2)
    b = maximise_over_simplices(G[np.ix_(twice, twice)], h[twice], [np.arange(12)], [0])
    alone = maximise_over_simplices(G, h, [np.arange(6)], [0])
    assert value(G, h, b[:6] + b[6:]) == pytest.approx(value(G, h, alone), abs=1e-9)


def test_it_stops_when_told_at_a_feasible_point_that_is_not_worse_than_the_start() -> None:
    G, h, groups = made(1, (22, 22), 30)
    start = [0, 22]
    first = np.zeros(44)
    first[start] = 1.0
    for steps in range(6):
        b = maximise_over_simplices(G, h, groups, start, maximum_steps=steps)
        assert b.min() >= 0.0
        assert value(G, h, b) >= value(G, h, first) - 1e-12


def test_a_problem_of_zeros_stays_where_it_is() -> None:
    b = maximise_over_simplices(np.zeros((3, 3)), np.zeros(3), [np.arange(3)], [1])
    np.testing.assert_array_equal(b, [0.0, 1.0, 0.0])
