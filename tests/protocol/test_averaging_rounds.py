"""FedAvg and HyFEM over whole federations: beside a plain reference, encrypted, disturbed, short of the optimum."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.rails import AveragingClient
from fenchel_common.algorithms.averaging.fedavg import FedavgSettings
from fenchel_common.algorithms.averaging.rails import LOCAL, MEASURE, MEASURED
from fenchel_common.algorithms.averaging.settings import AveragingSettings
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.datasets import Dataset, load_dataset
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.losses import loss_named
from fenchel_common.objectives import primal
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_server.algorithms.averaging.fedavg import FedavgServer
from fenchel_server.contract import Outcome, PhaseRequest
from support.averaging import Averaging
from support.halves import half_a_round
from support.keys import SMALL_BITS, cipher, run_key
from support.layouts import small_federation_layout
from support.problems import problem
from support.simulation import Simulation

Array = NDArray[np.float64]

ALGORITHMS = ("fedavg", "hyfem")
GRIDS = {"horizontal": (3, 1), "vertical": (1, 3), "hybrid": (2, 2)}
SMALL = problem(rows=60, columns=8, lambda_=0.1)
KEY = run_key(2 * SMALL_BITS)
CIPHER = cipher(2 * SMALL_BITS)
EVERYONE = {ClientId(f"party-{number:02d}") for number in range(4)}
THIRD = ClientId("party-02")


def small_run(algorithm: str, *, grid: tuple[int, int] = (2, 2), **values: object) -> Averaging:
    settings = {"lambda": SMALL.lambda_, "measure_every": 2, **values}
    return Averaging.of(algorithm, partition(SMALL.data, grid=grid), settings)


def model_of(run: Averaging) -> Array:
    return run.weights(SMALL.data.features)


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_measured_objective_is_that_of_the_model_that_the_parties_get(
    algorithm: str, grid: tuple[int, int]
) -> None:
    run = small_run(algorithm, grid=grid)
    report = run.run(6)
    assert report.outcome is Outcome.FINISHED
    assert report.metrics.primal == pytest.approx(SMALL.primal(model_of(run)), abs=1e-8)
    correct = np.where(SMALL.data.X @ model_of(run) >= 0.0, 1.0, -1.0) == SMALL.data.y
    assert report.metrics.accuracy == correct.mean()


@pytest.mark.parametrize(("kind", "trips"), [("horizontal", 2), ("vertical", 3), ("hybrid", 3)])
def test_a_round_is_one_round_trip_and_a_measurement_takes_one_more_or_two_where_samples_are_shared(
    kind: str, trips: int
) -> None:
    """Supplement 7.3: 1.0 round trips an iteration for FedAvg and HyFEM."""
    run = small_run("fedavg", grid=GRIDS[kind])
    for _ in range(4):
        run.round()
    assert [sum(of == number for of, _ in run.phases) for number in (1, 2, 3, 4)] == [1, trips, 1, trips]


def reference_fedavg(run: Averaging, features: Sequence[str], rounds: int) -> Array:
    """Section 2 of the paper, in floating point and in the open: local SGD, concatenation, averages at overlaps."""
    settings = run.settings
    position = {name: index for index, name in enumerate(features)}
    model = np.zeros(len(features))
    for t in range(1, rounds + 1):
        sums, weights = np.zeros(len(features)), np.zeros(len(features))
        for stream, client in enumerate(run.shards):
            half = run.clients[client]
            X, y = np.asarray(half.X), half.labels()
            columns = [position[name] for name in sorted(run.shards[client].features)]
            w = model[columns]
            rng = np.random.default_rng([settings.seed, t, stream])
            for row in rng.permutation(len(y)):
                descent = settings.loss_function.subgradient(np.array([X[row] @ w]), y[[row]])[0]
                w = w - 1.0 / (1.0 + np.sqrt(t)) * (settings.lambda_ * w - descent * X[row])
            sums[columns] += len(y) * w
            weights[columns] += len(y)
        model = sums / weights
    return model


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_fedavg_is_local_sgd_on_own_columns_averaged_at_overlaps(grid: tuple[int, int]) -> None:
    """γ_t = a/(b + √t) with a = b = 1, one pass of batches of one."""
    run = small_run("fedavg", grid=grid, loss="logistic")
    expected = reference_fedavg(run, SMALL.data.features, 3)
    for _ in range(3):
        run.round()
    np.testing.assert_allclose(model_of(run), expected, atol=1e-7)


def test_hyfem_clients_go_on_from_their_own_models_and_the_average_draws_them() -> None:
    """DESIGN: λ/2‖w_k‖² + μ/2‖w_k − w_0|_k‖² beside the client's own loss; one client alone has w_0 = w_k."""
    alone = small_run("hyfem", grid=(1, 1), mu=100.0, a=0.001)
    plain = small_run("fedavg", grid=(1, 1), a=0.001)
    alone.round()
    plain.round()
    assert not np.allclose(model_of(alone), model_of(plain))  # the first w_0 is 0 and draws at w_k within the round
    free, tied = small_run("hyfem", mu=0.0), small_run("hyfem", mu=50.0, a=0.01)
    for run in (free, tied):
        for _ in range(3):
            run.round()

    def spread(run: Averaging) -> float:
        """How far two holders of the same columns are from each other."""
        first, third = (run.clients[ClientId(f"party-{number:02d}")]._memory.kept["model"] for number in (0, 2))
        return float(np.abs(first - third).max() / np.abs(first).max())

    assert spread(tied) < spread(free)


@pytest.mark.parametrize("grid", [(3, 1), (2, 2)], ids=["horizontal", "hybrid"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_runs_with_every_cipher_and_in_clear_agree_bit_for_bit(algorithm: str, grid: tuple[int, int]) -> None:
    shards = partition(SMALL.data, grid=grid)
    values: dict[str, object] = {"lambda": 0.1, "measure_every": 2}
    clear = Averaging.of(algorithm, shards, values, key=RunKey.in_clear(KEY.bits))
    sealed = Averaging.of(algorithm, shards, values, cipher=CIPHER, key=KEY)
    masked = Averaging.of(algorithm, shards, values, key=RunKey.of_masks(KEY.bits))
    for run in (clear, sealed, masked):
        run.run(3)
    for run in (sealed, masked):
        assert np.array_equal(model_of(clear), model_of(run))
        assert [report.metrics for report in clear.reports] == [report.metrics for report in run.reports]


@pytest.mark.parametrize("keep_clients", [True, False], ids=["clients live on", "clients restart too"])
@pytest.mark.parametrize("phase", [LOCAL, MEASURE, MEASURED])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_server_killed_in_any_phase_ends_with_the_result_of_an_undisturbed_run(
    algorithm: str, phase: str, keep_clients: bool
) -> None:
    undisturbed = small_run(algorithm)
    undisturbed.run(5)
    run = small_run(algorithm)
    for _ in range(3):
        run.round()
    committed = run.server.snapshot()
    step = half_a_round(run, 4, until=phase)
    if isinstance(step, PhaseRequest):
        run.answers(RoundId(4), step)
    run.restore(committed)
    for client in () if keep_clients else sorted(run.names):
        run.restart(client)
    run.round(restarted=run.names)
    run.run(1)
    assert np.array_equal(model_of(run), model_of(undisturbed))
    assert [one.metrics.primal for one in run.reports] == [report.metrics.primal for report in undisturbed.reports]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_restarted_client_is_brought_back_from_the_servers_ciphertexts(algorithm: str) -> None:
    undisturbed = small_run(algorithm)
    undisturbed.run(5)
    run = small_run(algorithm)
    for number in range(1, 6):
        client = sorted(run.names)[number % 4]
        run.restart(client)
        run.round(restarted=frozenset({client}))
    run.round(closing=True)
    assert np.array_equal(model_of(run), model_of(undisturbed))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_client_that_fails_a_phase_is_left_out_of_the_average_and_comes_back(algorithm: str) -> None:
    run = small_run(algorithm)
    run.absent = lambda round_id, _phase, client: round_id in (2, 3) and client == THIRD
    reports = [run.round() for _ in range(4)]
    assert [THIRD in report.metrics.participants for report in reports] == [True, False, False, True]
    assert reports[1].metrics.absences == {THIRD: "local: no result"}
    assert reports[1].metrics.primal is None
    assert "not measured" in reports[1].metrics.note
    assert reports[3].metrics.primal is not None


def test_an_average_is_over_those_who_answered() -> None:
    """Two parties hold the same columns; without one of them the other's weights are the model."""
    whole, halved = small_run("fedavg", grid=(2, 1)), small_run("fedavg", grid=(2, 1))
    second = ClientId("party-01")
    whole.round()
    halved.round(available=frozenset({ClientId("party-00")}))
    assert halved.reports[0].metrics.absences == {second: "not there when the round began"}
    alone = Averaging.of("fedavg", [whole.shards[ClientId("party-00")]], {"lambda": 0.1})
    alone.round()
    np.testing.assert_allclose(model_of(halved), model_of(alone), atol=1e-9)
    assert not np.allclose(model_of(halved), model_of(whole), atol=1e-3)


def test_columns_whose_holders_are_all_away_keep_their_weights() -> None:
    run = small_run("fedavg")
    run.round()
    before = model_of(run)
    holders = {ClientId("party-01"), ClientId("party-03")}  # of the second half of the columns
    for client in sorted(run.names):
        run.restart(client)
    run.round(available=frozenset(EVERYONE - holders), restarted=run.names)
    after = model_of(run)
    own = [SMALL.data.features.index(name) for name in run.shards[ClientId("party-01")].features]
    assert np.array_equal(before[own], after[own])
    assert not np.isclose(np.delete(before, own), np.delete(after, own)).any()


def test_parties_without_labels_take_part_in_measurements_alone() -> None:
    shards = partition(SMALL.data, grid=(2, 2), labels="first")
    run = Averaging.of("fedavg", shards, {"lambda": 0.1, "measure_every": 2})
    reports = [run.round() for _ in range(2)]
    asked = {client for of, phase, client, _, _ in run.messages if of == 1}
    assert asked == {name for name, shard in run.shards.items() if shard.y is not None}
    assert reports[1].metrics.primal is not None
    blind = [name for shard in shards if shard.y is None for name in shard.features]
    unlabelled = [SMALL.data.features.index(name) for name in blind]
    assert not model_of(run)[unlabelled].any()


def test_every_sample_needs_a_party_with_its_label() -> None:
    layout = small_federation_layout()  # whose first block has one holder, without labels
    with pytest.raises(InvalidInput, match="label"):
        FedavgServer(FedavgSettings(), layout=layout, key=RunKey.in_clear(2048), preparations={}, records=[])


def test_a_part_of_the_clients_works_in_a_round_and_all_of_them_measure() -> None:
    run = small_run("fedavg", participation="cyclic:2")
    reports = [run.round() for _ in range(2)]
    assert [len(report.metrics.participants) for report in reports] == [2, 2]
    assert not set(reports[0].metrics.participants) & set(reports[1].metrics.participants)
    assert reports[1].metrics.primal is not None


def test_steps_that_are_far_too_large_end_the_run_as_diverged() -> None:
    run = Averaging.of("fedavg", partition(SMALL.data, grid=(2, 2)), {"lambda": 100.0, "a": 1e6})
    report = run.round()
    assert report.outcome is Outcome.DIVERGED
    assert "smaller" in report.reason


def test_the_server_sees_no_weights_in_an_encrypted_run() -> None:
    def shown(run: Averaging) -> list[bool]:
        run.run(1)
        seen = run.server.snapshot().own + b"".join(body + result for *_, body, result in run.messages)
        kept = [half._memory.kept["model"] for half in run.clients.values()]
        return [value.tobytes() in seen for value in np.rint(np.concatenate(kept) * 2.0**32).astype("<i8")]

    shards = partition(SMALL.data, grid=(2, 2))
    assert all(shown(Averaging.of("hyfem", shards, {"lambda": 0.1}, key=RunKey.in_clear(KEY.bits))))
    sealed = Averaging.of("hyfem", shards, {"lambda": 0.1}, cipher=CIPHER, key=KEY)
    assert not any(shown(sealed))
    assert sealed.reports[0].metrics.participants == tuple(sorted(EVERYONE))


def test_a_party_gets_no_block_of_features_that_it_does_not_hold() -> None:
    run = small_run("hyfem")
    run.run(3)
    for client, half in run.clients.items():
        assert isinstance(half, AveragingClient)
        features = run.alignment.federation.client_features[client]
        assert sum(len(positions) for positions in half._memory.coordinates.positions.values()) == len(features)


def shared_covtype() -> Dataset:
    """Covtype, one of the paper's data sets: type 2 against the rest, the first 1500 rows."""
    folder = os.environ.get("FENCHEL_DATA")
    if folder is None:
        pytest.skip("FENCHEL_DATA does not name the folder with covtype.npz")
    with np.load(Path(folder) / "covtype.npz") as arrays:
        R, y = arrays["X"][:1500].astype(np.float64), np.where(arrays["y"][:1500] == 2, 1.0, -1.0)
    R = R[:, R.std(axis=0) > 0.0]
    X = (R - R.mean(axis=0)) / R.std(axis=0)
    X /= np.sqrt((X**2).sum(axis=1).mean())
    return Dataset("covtype", X, y, tuple(f"x{column:02d}" for column in range(X.shape[1])))


@pytest.mark.parametrize(
    "load",
    [lambda: load_dataset("breast_cancer"), lambda: load_dataset("digits"), shared_covtype],
    ids=["breast_cancer", "digits", "covtype"],
)
def test_fedavg_and_hyfem_stop_short_of_the_optimum_that_hyfdca_reaches(load: Callable[[], Dataset]) -> None:
    """Section 5.2, Figure 3, on a hybrid 2×2 grid: HyFDCA gets to the centralized loss, the other two do not.

    They may pass nearer to it on their way than they end: on covtype within 1.9 % in an early round.
    """
    data = load()
    lambda_, loss = 1e-2, loss_named("hinge")
    optimum = solve_centralized(data.X, data.y, loss=loss, lambda_=lambda_).primal
    shards = partition(data, grid=(2, 2))
    steps = {"local": "paper", "lambda": lambda_, "stop": {"gap": 2e-3 * optimum, "rounds": 500}}
    dual = Simulation.of(shards, HyfdcaSettings.parse(steps))
    assert dual.run().outcome is Outcome.CONVERGED
    reached = primal(data.X, data.y, dual.weights(data.features), loss=loss, lambda_=lambda_)
    assert reached <= 1.002 * optimum
    for algorithm in ALGORITHMS:
        run = Averaging.of(algorithm, shards, {"lambda": lambda_, "measure_every": 1, "batch": 4, "a": 0.5})
        run.run(25)
        figures = [report.metrics.primal for report in run.reports[1:] if report.metrics.primal is not None]
        assert len(figures) == 25
        assert min(figures) > 1.01 * optimum
        assert np.mean(figures[-5:]) > 1.04 * optimum  # the paper's figure: the last five losses


def test_fedavg_comes_near_the_optimum_where_rows_are_whole() -> None:
    data = load_dataset("breast_cancer")
    optimum = solve_centralized(data.X, data.y, loss=loss_named("hinge"), lambda_=1e-2).primal
    run = Averaging.of("fedavg", partition(data, grid=(4, 1)), {"lambda": 1e-2, "a": 0.1})
    report = run.run(40)
    assert report.metrics.primal is not None
    assert optimum <= report.metrics.primal <= 1.01 * optimum


def test_settings_of_the_two_are_listed_with_their_meaning() -> None:
    for algorithm in ALGORITHMS:
        settings = small_run(algorithm).settings
        assert isinstance(settings, AveragingSettings)
        assert all(meaning for _, meaning in settings.parameters().values())
