"""The points that a party remembers, the best of their combinations, and what a round settles of them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective import points as remembered
from fenchel_client.algorithms.corrective.points import (
    ANCHOR,
    BEST,
    MODEL,
    POINT,
    POINTS,
    VERTEX,
    Combination,
    Entry,
    Memory,
    Name,
    best_combination,
    combined,
    empty_memory,
    extended,
)
from fenchel_client.algorithms.corrective.settlement import (
    dual_value,
    interpolated,
    largest_squared_norm,
    primal_values,
    settled,
)
from fenchel_common.algorithms.corrective.messages import MEMORY, STEPS
from fenchel_common.losses import loss_named
from fenchel_common.objectives import dual
from support.problems import Problem, problem

Array = NDArray[np.float64]
LAMBDA = 0.05


def named(kind: int) -> Name:
    return (ANCHOR, 0) if kind == 0 else (POINT, 9) if kind == 1 else (VERTEX, kind)


def entry_of(case: Problem, alpha: Array) -> Entry:
    X, count = np.asarray(case.data.X), len(alpha)
    weights = X.T @ alpha / (case.lambda_ * count)
    value = -float(case.loss.conjugate(alpha, case.data.y).mean())
    return Entry(weights, X @ weights, alpha, value)


def memory_of(case: Problem, points: list[Array]) -> Memory:
    entries = {named(number): entry_of(case, alpha) for number, alpha in enumerate(points)}
    W = np.array([entry.weights for entry in entries.values()])
    A = np.array(points)
    return Memory(3, entries, W @ W.T, A @ A.T / len(points[0]))


def some_points(case: Problem, count: int, seed: int) -> list[Array]:
    """Feasible dual variables, corners among them."""
    rng = np.random.default_rng(seed)
    b = rng.uniform(size=(count, len(case.data.y)))
    b[rng.uniform(size=b.shape) < 0.3] = 0.0
    b[rng.uniform(size=b.shape) < 0.2] = 1.0
    return list(case.data.y * b)


def bound(case: Problem, memory: Memory, weights: Array) -> float:
    """The left side of the inequality of strong convexity in `points`."""
    entries = list(memory.entries.values())
    W, P = np.array([entry.weights for entry in entries]), np.array([entry.alpha for entry in entries])
    values = np.array([entry.conjugate_part for entry in entries])
    w, p, modulus = weights @ W, weights @ P, case.loss.conjugate_modulus
    spread = weights @ (P**2).sum(axis=1) - float(p @ p)
    return float(-case.lambda_ / 2.0 * (w @ w) + weights @ values + modulus / (2.0 * P.shape[1]) * spread)


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "logistic"])
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_of_the_corrective_step_is_a_true_one(loss: str, seed: int) -> None:
    """−λ/2‖Σβw‖² + Σβc + μ/(2N)(Σβ‖p‖² − ‖Σβp‖²) ≤ D(Σβp), with equality where l* is a parabola or a line."""
    case = problem(rows=60, lambda_=LAMBDA, loss=loss)
    memory = memory_of(case, some_points(case, 6, seed))
    rng = np.random.default_rng(seed)
    for weights in [*rng.dirichlet(np.ones(6), size=20), *rng.dirichlet(np.full(6, 0.1), size=20), *np.eye(6)]:
        alpha = weights @ np.array([entry.alpha for entry in memory.entries.values()])
        reached = case.dual(alpha)
        assert bound(case, memory, weights) <= reached + 1e-12
        if loss != "logistic":
            assert bound(case, memory, weights) == pytest.approx(reached, abs=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "logistic"])
def test_the_best_combination_reaches_the_best_of_the_bound(loss: str) -> None:
    case = problem(rows=60, lambda_=LAMBDA, loss=loss)
    memory = memory_of(case, some_points(case, 6, 1))
    chosen = best_combination(memory, lambda_=LAMBDA, modulus=case.loss.conjugate_modulus)
    assert chosen.names == memory.names
    assert chosen.weights.sum() == pytest.approx(1.0, abs=1e-14)
    best = bound(case, memory, chosen.weights)
    assert best > case.dual(memory.anchor.alpha)
    rng = np.random.default_rng(0)
    for weights in [*rng.dirichlet(np.full(6, 0.5), size=200), *np.eye(6)]:
        assert bound(case, memory, weights) <= best + 1e-12
    assert case.dual(chosen.weights @ np.array([p.alpha for p in memory.entries.values()])) >= best - 1e-12


def test_the_modulus_is_that_of_the_conjugate() -> None:
    """l* − μ/2 (·)² is convex, and no larger μ will do."""
    b = np.linspace(0.001, 0.999, 999)
    for name, modulus in [("hinge", 0.0), ("smoothed_hinge", 1.0), ("logistic", 4.0)]:
        loss = loss_named(name)
        assert loss.conjugate_modulus == modulus
        assert loss.conjugate_curvature(b, np.ones_like(b)).min() == pytest.approx(modulus, abs=1e-3)


def test_points_that_are_all_worse_leave_the_anchor() -> None:
    case = problem(rows=60, lambda_=LAMBDA)
    worse = -np.where(np.asarray(case.data.X) @ np.ones(8) > 0.0, 1.0, -1.0)
    memory = memory_of(case, [np.zeros(60), np.where(worse == case.data.y, case.data.y, 0.0)])
    poor = {name: replace(entry, conjugate_part=-1.0) for name, entry in memory.entries.items() if name != (ANCHOR, 0)}
    memory = replace(memory, entries={**memory.entries, **poor})
    chosen = best_combination(memory, lambda_=LAMBDA, modulus=0.0)
    np.testing.assert_array_equal(chosen.weights, [1.0, 0.0])


@pytest.mark.parametrize("returned", [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [float("nan")] * 3, [3.0, -1.0, -1.0]])
def test_weights_that_do_not_reach_the_anchor_are_not_used(
    monkeypatch: pytest.MonkeyPatch, returned: list[float]
) -> None:
    case = problem(rows=60, lambda_=LAMBDA)
    good = some_points(case, 40, 2)
    points = sorted(good, key=case.dual)[-1:] + sorted(good, key=case.dual)[:2]
    memory = memory_of(case, points)
    monkeypatch.setattr(remembered, "maximise_over_simplex", lambda _G, _h: np.array(returned))
    np.testing.assert_array_equal(best_combination(memory, lambda_=LAMBDA, modulus=0.0).weights, [1.0, 0.0, 0.0])


def test_dust_is_swept_from_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(rows=60, lambda_=LAMBDA)
    memory = memory_of(case, [np.zeros(60), *some_points(case, 2, 3)])
    monkeypatch.setattr(remembered, "maximise_over_simplex", lambda _G, _h: np.array([0.9, 0.1, 1e-13]))
    weights = best_combination(memory, lambda_=LAMBDA, modulus=0.0).weights
    assert weights[2] == 0.0
    assert weights.sum() == 1.0


def test_models_are_no_points() -> None:
    case = problem(rows=60, lambda_=LAMBDA)
    memory = memory_of(case, some_points(case, 3, 1))
    model = {(MODEL, 4): replace(entry_of(case, some_points(case, 1, 7)[0]), alpha=np.zeros(0))}
    larger = extended(memory, model, gram=np.full((1, 4), 0.25), spread=np.zeros((1, 4)))
    with_model, without = (best_combination(each, lambda_=LAMBDA, modulus=0.0) for each in (larger, memory))
    assert with_model.names == without.names
    np.testing.assert_array_equal(with_model.weights, without.weights)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_combination_is_known_as_its_points_are(loss: str) -> None:
    """Weights, predictions, dual variables, Gram matrix and D, all without another look at the data."""
    case = problem(rows=60, lambda_=LAMBDA, loss=loss)
    memory = memory_of(case, some_points(case, 5, 4))
    chosen = best_combination(memory, lambda_=LAMBDA, modulus=case.loss.conjugate_modulus)
    after = combined(memory, chosen, 8, feasible=lambda values: values)
    entry = after.entries[(MODEL, 8)]
    expected = entry_of(case, entry.alpha)
    np.testing.assert_allclose(entry.weights, expected.weights, atol=1e-12)
    np.testing.assert_allclose(entry.predictions, expected.predictions, atol=1e-12)
    W = np.array([each.weights for each in after.entries.values()])
    np.testing.assert_allclose(after.gram, W @ W.T, atol=1e-10)
    P = np.array([each.alpha for each in after.entries.values()])
    np.testing.assert_allclose(after.spread, P @ P.T / 60, atol=1e-12)
    X, y = case.data.X, case.data.y
    assert dual_value(after, (MODEL, 8), conjugate_part=expected.conjugate_part, lambda_=LAMBDA) == pytest.approx(
        dual(X, y, entry.alpha, loss=case.loss, lambda_=LAMBDA), abs=1e-12
    )


def test_the_bytes_of_a_combination_tell_weights_apart_that_differ_in_the_last_bit() -> None:
    names = ((ANCHOR, 0), (POINT, 3))
    first = Combination(names, np.array([0.5, 0.5]))
    assert first.to_bytes() == Combination(names, np.array([0.5, 0.5])).to_bytes()
    assert first.to_bytes() != Combination(names, np.array([0.5, np.nextafter(0.5, 1.0)])).to_bytes()
    assert first.to_bytes() != Combination(((ANCHOR, 0), (VERTEX, 3)), np.array([0.5, 0.5])).to_bytes()


NO_POINT = Entry(np.zeros(2), np.zeros(3), np.zeros(0))


def grown(rounds: int, *, accepted: bool) -> Memory:
    """A memory after some rounds, each with a point and a vertex."""
    rng = np.random.default_rng(0)
    first = {(ANCHOR, 0): Entry(np.zeros(2), np.zeros(3), np.zeros(3)), (BEST, 0): NO_POINT}
    memory = extended(empty_memory(0), first, gram=np.zeros((2, 2)), spread=np.zeros((2, 2)))
    for round_id in range(1, rounds + 1):
        latest = memory.rounds_of(MODEL)[-1:]
        new = {
            (kind, number): Entry(rng.standard_normal(2), np.zeros(3), rng.uniform(size=3), 0.1)
            for number in latest
            for kind in (POINT, VERTEX)
        }
        size = len(memory.entries) + len(new)
        memory = extended(memory, new, gram=np.full((len(new), size), 1.0), spread=np.zeros((len(new), size)))
        names = tuple(name for name in memory.entries if name[0] in POINTS)
        weights = np.full(len(names), 1.0 / len(names))
        memory = combined(memory, Combination(names, weights), round_id, feasible=lambda values: values)
        memory = settled(memory, round_id, conjugate_part=0.25, accepted=accepted, step=4)
    return memory


def test_an_accepted_combination_is_the_new_anchor_and_a_refused_one_is_not() -> None:
    taken, kept = grown(4, accepted=True), grown(4, accepted=False)
    assert (taken.anchor_round, kept.anchor_round) == (4, 0)
    assert taken.anchor.conjugate_part == 0.25
    assert taken.anchor.alpha.any()
    assert not kept.anchor.alpha.any()
    for memory in (taken, kept):
        assert memory.rounds_of(MODEL) == (1, 2, 3, 4)
        assert memory.rounds_of(VERTEX) == (1, 2, 3)
        assert memory.rounds_of(POINT) == ()
        assert memory.names[:2] == ((ANCHOR, 0), (BEST, 0))
        assert all(len(memory.entries[(MODEL, number)].alpha) == 0 for number in (1, 2, 3, 4))
    np.testing.assert_array_equal(taken.entries[(MODEL, 4)].weights, taken.anchor.weights)


def test_only_the_last_models_and_their_vertices_are_kept() -> None:
    memory = grown(MEMORY + 5, accepted=True)
    assert memory.rounds_of(MODEL) == tuple(range(6, MEMORY + 6))
    assert memory.rounds_of(VERTEX) == tuple(range(6, MEMORY + 5))
    assert memory.gram.shape == memory.spread.shape == (2 * MEMORY + 1, 2 * MEMORY + 1)
    np.testing.assert_array_equal(memory.gram, memory.gram.T)


def test_new_rows_border_the_gram_matrix_on_both_sides() -> None:
    memory = Memory(2, {(ANCHOR, 0): Entry(np.zeros(1), np.zeros(1), np.zeros(1))}, np.zeros((1, 1)), np.zeros((1, 1)))
    new = {(POINT, 2): Entry(np.ones(1), np.ones(1), np.ones(1))}
    larger = extended(memory, new, gram=np.array([[3.0, 4.0]]), spread=np.array([[5.0, 6.0]]))
    np.testing.assert_array_equal(larger.gram, [[0.0, 3.0], [3.0, 4.0]])
    np.testing.assert_array_equal(larger.spread, [[0.0, 5.0], [5.0, 6.0]])
    assert larger.rows([(POINT, 2), (ANCHOR, 0)]) == [1, 0]
    assert larger.anchor_round == 2


def with_best(case: Problem, seed: int) -> tuple[Memory, Entry, Entry]:
    """A memory whose best model belongs to other dual variables than the model of round 4."""
    anchor, best, model = (entry_of(case, alpha) for alpha in some_points(case, 3, seed))
    best = Entry(best.weights, best.predictions, np.zeros(0))
    entries = {(ANCHOR, 0): anchor, (BEST, 0): best, (MODEL, 4): model}
    W = np.array([entry.weights for entry in entries.values()])
    return Memory(3, entries, W @ W.T, np.zeros((3, 3))), best, model


def test_the_way_to_a_model_begins_at_the_best_one_and_ends_there_to_the_last_bit() -> None:
    start, end = np.array([0.1, -0.3]), np.array([0.7, 1e9])
    np.testing.assert_array_equal(interpolated(start, end, 0), start)
    np.testing.assert_array_equal(interpolated(start, end, STEPS), end)
    np.testing.assert_allclose(interpolated(start, end, STEPS // 4), 0.75 * start + 0.25 * end, rtol=1e-15)


def test_p_on_the_way_is_that_of_the_models_there() -> None:
    """Equation (1) of the HyFDCA paper."""
    case = problem(rows=20, columns=5, lambda_=LAMBDA)
    memory, best, model = with_best(case, 1)
    ways = [interpolated(best.predictions, model.predictions, step) for step in range(STEPS + 1)]
    losses = [float(case.loss.value(z, case.data.y).mean()) for z in ways]
    found = primal_values(memory, 4, losses=losses, lambda_=LAMBDA)
    models = [interpolated(best.weights, model.weights, step) for step in range(STEPS + 1)]
    np.testing.assert_allclose(found, [case.primal(w) for w in models], rtol=1e-12)
    for step in (0, 5, STEPS):
        largest = max(float(w @ w) for w in (models[step], models[STEPS], memory.anchor.weights))
        assert largest_squared_norm(memory, 4, step) == pytest.approx(largest, rel=1e-12)


@pytest.mark.parametrize("step", [0, 7, STEPS])
def test_the_best_model_moves_to_its_step_and_the_gram_matrix_with_it(step: int) -> None:
    case = problem(rows=20, columns=5, lambda_=LAMBDA)
    memory, best, model = with_best(case, 2)
    after = settled(memory, 4, conjugate_part=0.0, accepted=False, step=step)
    assert after.names == ((ANCHOR, 0), (BEST, 0), (MODEL, 4))
    entry = after.best
    np.testing.assert_array_equal(entry.weights, interpolated(best.weights, model.weights, step))
    np.testing.assert_array_equal(entry.predictions, interpolated(best.predictions, model.predictions, step))
    W = np.array([each.weights for each in after.entries.values()])
    np.testing.assert_allclose(after.gram, W @ W.T, rtol=1e-12)


def test_the_best_model_is_no_point_of_the_program() -> None:
    memory, _, _ = with_best(problem(rows=20, columns=5, lambda_=LAMBDA), 3)
    assert best_combination(memory, lambda_=LAMBDA, modulus=0.0).names == ((ANCHOR, 0),)
