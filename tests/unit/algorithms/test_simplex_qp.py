"""The small quadratic program over the simplex: its optimum, and the same bits everywhere."""

import ast
import inspect
import math
from fractions import Fraction
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective import points, simplex_qp
from fenchel_client.algorithms.corrective.simplex_qp import TOLERANCE, dot, maximise_over_simplex, times

Array = NDArray[np.float64]


def made(seed: int, size: int, rank: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((size, rank))
    return W @ W.T, rng.standard_normal(size)


def value(G: Array, h: Array, b: Array) -> float:
    return float(h @ b - 0.5 * b @ G @ b)


def shortfall(G: Array, h: Array, b: Array) -> float:
    """By how much the Karush-Kuhn-Tucker conditions fail: the most that any corner gains, of the problem's scale."""
    gradient = h - G @ b
    return float(gradient.max() - gradient @ b) / float(np.abs(h).max() + np.abs(G).max())


@pytest.mark.parametrize("size", [1, 2, 5, 20, 60])
@pytest.mark.parametrize("rank", [1, 4, 40])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_reached(size: int, rank: int, seed: int) -> None:
    """At the optimum no feasible direction gains: the gradient's mean over b is its largest entry."""
    G, h = made(seed, size, rank)
    b = maximise_over_simplex(G, h)
    assert b.min() >= 0.0
    assert math.fsum(b.tolist()) == pytest.approx(1.0, abs=1e-14)
    assert shortfall(G, h, b) <= 1e-10


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("spread", [1e-4, 1e4])
def test_the_optimum_is_reached_whatever_the_units(scale: float, spread: float) -> None:
    """Points of an ill-conditioned run: nearly parallel models, of very different lengths."""
    G, h = made(2, 25, 8)
    lengths = np.geomspace(1.0, spread, 25)
    G, h = scale * G * np.outer(lengths, lengths), scale * h
    assert shortfall(G, h, maximise_over_simplex(G, h)) <= 1e-10


@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_does_not_depend_on_the_start(seed: int) -> None:
    G, h = made(seed, 12, 30)
    first = maximise_over_simplex(G, h)
    for start in range(1, 12):
        np.testing.assert_allclose(maximise_over_simplex(G, h, start=start), first, atol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 1e-15, 1e-9])
def test_points_that_coincide_or_nearly_so_are_no_trouble(shift: float) -> None:
    G, h = made(0, 6, 3)
    twice = np.tile(np.arange(6), 2)
    G_twice, h_twice = G[np.ix_(twice, twice)], h[twice] + shift * np.arange(12)
    b = maximise_over_simplex(G_twice, h_twice)
    alone = maximise_over_simplex(G, h)
    assert value(G, h, b[:6] + b[6:]) == pytest.approx(value(G, h, alone), abs=1e-7)
    assert b.min() >= 0.0


def test_it_stops_when_told_at_a_feasible_point_that_is_not_worse_than_before() -> None:
    G, h = made(1, 22, 30)
    before = value(G, h, np.eye(22)[3])
    for steps in range(12):
        b = maximise_over_simplex(G, h, start=3, maximum_steps=steps)
        assert b.min() >= 0.0
        assert b.sum() == pytest.approx(1.0, abs=1e-12)
        assert value(G, h, b) >= before - 1e-12
        before = value(G, h, b)


def test_a_problem_of_zeros_stays_where_it_is() -> None:
    b = maximise_over_simplex(np.zeros((3, 3)), np.zeros(3), start=1)
    np.testing.assert_array_equal(b, [0.0, 1.0, 0.0])


def test_a_linear_problem_ends_in_its_best_corner() -> None:
    b = maximise_over_simplex(np.zeros((4, 4)), np.array([0.1, 0.3, 0.7, 0.2]))
    np.testing.assert_allclose(b, [0.0, 0.0, 1.0, 0.0], atol=1e-12)


def exact_best(G: Array, h: Array) -> Fraction:
    """The maximum in rational arithmetic, by looking at every support."""
    size = len(h)
    exact = [[Fraction(float(entry)) for entry in row] for row in G]
    gains = [Fraction(float(entry)) for entry in h]
    best: Fraction | None = None
    for mask in range(1, 1 << size):
        chosen = [position for position in range(size) if mask >> position & 1]
        b = stationary([[exact[i][j] for j in chosen] for i in chosen], [gains[i] for i in chosen])
        if b is None or min(b) < 0:
            continue
        square = sum(
            (b[p] * b[q] * exact[i][j] for p, i in enumerate(chosen) for q, j in enumerate(chosen)), Fraction(0)
        )
        reached = sum((b[p] * gains[i] for p, i in enumerate(chosen)), Fraction(0)) - square / 2
        best = reached if best is None or reached > best else best
    assert best is not None
    return best


def stationary(G: list[list[Fraction]], h: list[Fraction]) -> list[Fraction] | None:
    """The solution of Gb + ν1 = h, Σb = 1 by elimination; None if it is not unique."""
    one, zero = Fraction(1), Fraction(0)
    rows = [[*row, one, gain] for row, gain in zip(G, h, strict=True)] + [[one] * len(h) + [zero, one]]
    for step in range(len(rows)):
        pivot = next((row for row in range(step, len(rows)) if rows[row][step] != 0), None)
        if pivot is None:
            return None
        rows[step], rows[pivot] = rows[pivot], rows[step]
        rows[step] = [entry / rows[step][step] for entry in rows[step]]
        for other in range(len(rows)):
            if other != step:
                factor = rows[other][step]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[step], strict=True)]
    return [row[-1] for row in rows[:-1]]


@pytest.mark.parametrize("seed", range(4))
def test_the_maximum_is_that_of_rational_arithmetic(seed: int) -> None:
    G, h = made(seed, 5, 6)
    b = maximise_over_simplex(G, h)
    exact = exact_best(G, h)
    assert abs(float(exact) - value(G, h, b)) <= 1e-12 * (1.0 + abs(float(exact)))


def test_inner_products_are_rounded_once() -> None:
    left, right = np.array([1e16, 1.0, -1e16, 3.0]), np.ones(4)
    assert dot(left, right) == 4.0
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal(50), rng.standard_normal(50)
    products = [Fraction(product) for product in (left * right).tolist()]
    assert dot(left, right) == float(sum(products))
    assert dot(left, right) == dot(left[::-1], right[::-1])
    np.testing.assert_array_equal(times(np.vstack([left, right]), right), [dot(left, right), dot(right, right)])


@pytest.mark.parametrize("module", [simplex_qp, points])
def test_no_linear_algebra_library_takes_part(module: ModuleType) -> None:
    """BLAS sums in an order of its own, which differs between machines: no `@`, dot, einsum, linalg or pairwise sum."""
    tree = ast.parse(inspect.getsource(module))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not used & {"dot", "vdot", "inner", "matmul", "einsum", "tensordot", "linalg", "sum", "mean", "cumsum"}
    assert not any(isinstance(node, ast.MatMult) for node in ast.walk(tree))


def test_the_same_program_gives_the_same_bits_in_any_memory_layout() -> None:
    """A party may hold its matrices in another order of memory than the next."""
    G, h = made(4, 30, 12)
    expected = maximise_over_simplex(G, h)
    padded = np.zeros((60, 90))
    padded[::2, ::3] = G
    for other in (np.asfortranarray(G), padded[::2, ::3]):
        np.testing.assert_array_equal(maximise_over_simplex(other, h), expected)


def test_the_promised_tolerance_is_met_on_random_programs() -> None:
    rng = np.random.default_rng(9)
    for _ in range(40):
        size, rank = int(rng.integers(2, 30)), int(rng.integers(1, 30))
        G, h = made(int(rng.integers(1 << 30)), size, rank)
        assert shortfall(G, h, maximise_over_simplex(G, h)) <= 1e4 * TOLERANCE
