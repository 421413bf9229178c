"""What a party knows of its rows beyond its own columns: never too much, and in the end everything."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_client.algorithms.corrective.local_rows import described_rows, found_locally
from fenchel_client.algorithms.corrective.points import ANCHOR, MODEL, Entry, Memory, Name
from fenchel_client.algorithms.rows import PartyRows
from fenchel_client.rowpieces import LocalRows
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_server.cohorts import OverlapRule
from support.corrective import halves_of, settings
from support.problems import Problem, problem
from support.simulation import Simulation

Array = NDArray[np.float64]
CASE = problem(rows=40, columns=6, lambda_=0.05)


def first_of(shards: list[Shard], *, overlap: OverlapRule = OverlapRule.ERROR) -> tuple[PartyRows, Array]:
    """The first party's rows, and the whole rows in its order."""
    run = Simulation.of(shards, settings(CASE), overlap=overlap)
    name = min(run.names)
    row_of = {sample: row for row, sample in enumerate(CASE.ids)}
    rows = [row_of[shards[0].ids[row]] for row in run.alignment.clients[name].rows]
    return halves_of(run)[name]._rows, np.asarray(CASE.data.X)[rows]


def memory_with(own: PartyRows, whole: Array, models: int, *, seed: int = 0) -> Memory:
    """As after some rounds: models with their parts on own columns, predictions of whole rows, and Gram matrix."""
    W = np.random.default_rng(seed).standard_normal((models, whole.shape[1]))
    entries: dict[Name, Entry] = {(ANCHOR, 0): Entry(np.zeros(own.width), np.zeros(own.count), np.zeros(own.count))}
    for number, w in enumerate(W):
        entries[(MODEL, number)] = Entry(w[: own.width], whole @ w, np.zeros(0))
    gram = np.zeros((models + 1, models + 1))
    gram[1:, 1:] = W @ W.T
    return Memory(0, entries, gram, np.zeros_like(gram))


def dense(rows: Array | csr_array | LocalRows) -> Array:
    if isinstance(rows, np.ndarray):
        return rows
    if isinstance(rows, csr_array):
        return rows.toarray()
    return np.column_stack([rows.times(unit) for unit in np.eye(rows.shape[1])])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("models", [1, 2, 3, 6])
def test_the_described_kernel_is_at_most_the_true_one_and_complete_once_models_span(models: int, sparse: bool) -> None:
    """U G⁻¹ Uᵀ is the kernel of projections of rows onto the models' span: X_k X_kᵀ ≤ F Fᵀ ≤ X Xᵀ."""
    shards = partition(CASE.data, grid=(1, 2))
    if sparse:
        shards = [replace(shard, X=csr_array(shard.X)) for shard in shards]
    own, whole = first_of(shards)
    live = np.arange(own.count)
    F = dense(described_rows(own, memory_with(own, whole, models), live))
    columns = dense(own.X)
    assert np.linalg.eigvalsh(whole @ whole.T - F @ F.T).min() >= -1e-9
    assert np.linalg.eigvalsh(F @ F.T - columns @ columns.T).min() >= -1e-9
    if models >= whole.shape[1] - own.width:
        np.testing.assert_allclose(F @ F.T, whole @ whole.T, atol=1e-8)
    else:
        assert np.trace(F @ F.T) < np.trace(whole @ whole.T) - 1e-3


def test_without_models_or_shared_rows_the_own_columns_are_all() -> None:
    own, whole = first_of(partition(CASE.data, grid=(1, 2)))
    np.testing.assert_array_equal(dense(described_rows(own, memory_with(own, whole, 0), np.arange(5))), own.X[:5])
    alone, rows = first_of(partition(CASE.data, grid=(2, 1)))
    described = described_rows(alone, memory_with(alone, rows, 3), np.arange(alone.count))
    np.testing.assert_array_equal(dense(described), alone.X)


def test_models_that_repeat_each_other_add_nothing_and_do_no_harm() -> None:
    own, whole = first_of(partition(CASE.data, grid=(1, 2)))
    memory = memory_with(own, whole, 2)
    entries = dict(memory.entries)
    entries[(MODEL, 2)] = entries[(MODEL, 1)]
    again = [0, 1, 2, 2]
    doubled = Memory(0, entries, memory.gram[np.ix_(again, again)], memory.spread[np.ix_(again, again)])
    live = np.arange(own.count)
    F, G = (dense(described_rows(own, each, live)) for each in (memory, doubled))
    np.testing.assert_allclose(F @ F.T, G @ G.T, atol=1e-8)


def test_a_feature_that_another_party_gives_is_not_taken_for_known() -> None:
    """Two parties hold a feature, one gives it: what is described is still at most the true kernel."""
    X, y, names = np.asarray(CASE.data.X), CASE.data.y, CASE.data.features
    right = Shard(tuple(CASE.ids), names[:4], X[:, :4], y)
    left = Shard(tuple(CASE.ids), names[3:], X[:, 3:], y)
    run = Simulation.of([right, left], settings(CASE), overlap=OverlapRule.FIRST)
    second = max(run.names)
    own = halves_of(run)[second]._rows
    assert not own.features_apart
    row_of = {sample: row for row, sample in enumerate(CASE.ids)}
    whole = X[[row_of[left.ids[row]] for row in run.alignment.clients[second].rows]]
    turned = whole[:, [3, 4, 5, 0, 1, 2]]
    F = dense(described_rows(own, memory_with(own, turned, 4), np.arange(own.count)))
    assert np.linalg.eigvalsh(whole @ whole.T - F @ F.T).min() >= -1e-9


def raised(case: Problem, whole: Array, y: Array, alpha: Array) -> float:
    count = len(case.ids)
    w = whole.T @ alpha / (case.lambda_ * count)
    return float(-case.lambda_ / 2.0 * (w @ w) - case.loss.conjugate(alpha, y).sum() / count)


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "logistic"])
def test_what_is_found_locally_is_feasible_and_raises_d(loss: str) -> None:
    """One party with all rows and, by its models, all columns: its point alone is nearly the best there is."""
    case = problem(rows=40, columns=6, lambda_=0.05, loss=loss)
    own, whole = first_of(partition(case.data, grid=(1, 2)))
    memory = memory_with(own, whole, 6)
    current = Entry(np.zeros(own.width), np.zeros(own.count), np.zeros(own.count))
    found = found_locally(
        own,
        memory,
        current,
        live=np.arange(own.count),
        norms=(whole**2).sum(axis=1),
        strength=1.0 / (case.lambda_ * own.sample_count),
        loss=case.loss,
    )
    assert (own.labels() * found).min() >= 0.0
    assert (own.labels() * found).max() <= 1.0
    assert raised(case, whole, own.labels(), found) >= 0.95 * case.optimum


def test_only_live_samples_are_found() -> None:
    own, whole = first_of(partition(CASE.data, grid=(1, 2)))
    live = own.positions_of(list(own.positions)[:1])
    current = Entry(np.zeros(own.width), np.zeros(own.count), np.zeros(own.count))
    found = found_locally(
        own,
        memory_with(own, whole, 2),
        current,
        live=live,
        norms=(whole**2).sum(axis=1),
        strength=1.0,
        loss=CASE.loss,
    )
    assert found.shape == live.shape
