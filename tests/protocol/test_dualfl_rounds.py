"""DualFL over whole federations: at the optimum, encrypted, disturbed, and what the server sees of it."""

from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from fenchel_client.algorithms.averaging.dualfl import NORM_PRECISION
from fenchel_common.algorithms.averaging.dualfl import BETA, CRITERION_MET, DUAL, SMOOTHNESS, DualflSettings
from fenchel_common.algorithms.averaging.rails import LOCAL, MEASURED
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.contract import Outcome
from support.averaging import Averaging
from support.dualfl import Parts, epochs
from support.keys import SMALL_BITS, cipher, run_key
from support.problems import problem

Array = NDArray[np.float64]

SMALL = problem(rows=70, columns=8, loss="logistic", lambda_=0.05)
SHARDS = partition(SMALL.data, grid=(3, 1))
KEY = run_key(2 * SMALL_BITS)
CIPHER = cipher(2 * SMALL_BITS)
THIRD = ClientId("party-02")


def small_run(**values: object) -> Averaging:
    return Averaging.of("dualfl", SHARDS, {"lambda": SMALL.lambda_, "measure_every": 2, **values})


def model_of(run: Averaging) -> Array:
    return run.weights(SMALL.data.features)


def relative_error(run: Averaging) -> float:
    return SMALL.primal(model_of(run)) / SMALL.optimum - 1.0


@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge", "hinge"])
def test_parties_of_unequal_size_reach_the_optimum_of_all_rows(loss: str) -> None:
    """E of (2.1) is P: f_j has the weight of its rows."""
    central = problem(rows=70, columns=8, loss=loss, lambda_=0.05)
    first, second, third = SHARDS
    uneven = [_rows(first, range(5)), _merged(_rows(first, range(5, 24)), second), third]
    run = Averaging.of("dualfl", uneven, {"lambda": 0.05, "loss": loss})
    report = run.run(40)
    assert report.outcome is Outcome.FINISHED
    assert report.metrics.primal == pytest.approx(central.primal(model_of(run)), abs=1e-9)
    assert central.primal(model_of(run)) <= central.optimum * (1.0 + 1e-6)
    assert report.metrics.figures["local_criterion_met"] == 1.0


def _rows(shard: Shard, rows: range) -> Shard:
    chosen = list(rows)
    assert shard.y is not None
    return Shard(tuple(shard.ids[row] for row in chosen), shard.features, shard.X[chosen], shard.y[chosen])


def _merged(one: Shard, other: Shard) -> Shard:
    assert one.y is not None
    assert other.y is not None
    assert isinstance(one.X, np.ndarray)
    assert isinstance(other.X, np.ndarray)
    return Shard(one.ids + other.ids, one.features, np.concatenate([one.X, other.X]), np.concatenate([one.y, other.y]))


def test_a_run_is_algorithm_1_to_fixed_point_precision() -> None:
    run = small_run(rho=0.02)
    halves = [run.clients[client] for client in sorted(run.names)]
    split = Parts(tuple(np.asarray(half.X) for half in halves), tuple(half.labels() for half in halves))
    settings = DualflSettings.parse({"lambda": SMALL.lambda_})
    *_, expected = islice(epochs(split, settings, 0.02), 12)
    for _ in range(12):
        run.round()
    ordered = sorted(range(8), key=lambda position: SMALL.data.features[position])
    assert model_of(run)[ordered] == pytest.approx(expected.theta, abs=1e-7)


def test_rho_is_nu_over_the_largest_smoothness_that_a_party_reports() -> None:
    run = small_run()
    run.run(2)
    squared_norms = [np.linalg.norm(np.asarray(half.X), 2) ** 2 for half in run.clients.values()]
    exact = SMALL.lambda_ / (3.0 / 70.0 * max(squared_norms) * 0.25 + SMALL.lambda_)
    rho = run.reports[-1].metrics.figures["rho"]
    assert isinstance(rho, float)
    assert exact * (1.0 - NORM_PRECISION) <= rho <= exact


def test_a_round_is_one_round_trip() -> None:
    run = small_run()
    run.run(4)
    assert [step for step in run.phases if step[1] != MEASURED] == [(RoundId(number), LOCAL) for number in range(1, 6)]


def test_runs_with_every_cipher_and_in_clear_agree_bit_for_bit() -> None:
    values: dict[str, object] = {"lambda": SMALL.lambda_, "measure_every": 2}
    clear = Averaging.of("dualfl", SHARDS, values, key=RunKey.in_clear(KEY.bits))
    sealed = Averaging.of("dualfl", SHARDS, values, cipher=CIPHER, key=KEY)
    masked = Averaging.of("dualfl", SHARDS, values, key=RunKey.of_masks(KEY.bits))
    for run in (clear, sealed, masked):
        run.run(10)
    for run in (sealed, masked):
        assert np.array_equal(model_of(clear), model_of(run))
        assert [report.metrics for report in clear.reports] == [report.metrics for report in run.reports]


@pytest.mark.parametrize("keep_clients", [True, False], ids=["clients live on", "clients restart too"])
@pytest.mark.parametrize("after", [0, 1, 9, 10])
def test_a_server_killed_in_a_round_ends_with_the_result_of_an_undisturbed_run(after: int, keep_clients: bool) -> None:
    """Also across a checkpoint of the state, and in the first round."""
    undisturbed, run = small_run(), small_run()
    undisturbed.run(12)
    committed = run.kill_server_in(after + 1)
    assert run.server.snapshot() == committed
    for client in () if keep_clients else sorted(run.names):
        run.restart(client)
    run.round(restarted=run.names)
    run.run(12 - after - 1)
    assert np.array_equal(model_of(run), model_of(undisturbed))
    assert [report.metrics for report in run.reports] == [report.metrics for report in undisturbed.reports]


def test_restarted_clients_are_brought_back_from_the_servers_ciphertexts() -> None:
    undisturbed, run = small_run(), small_run()
    undisturbed.run(12)
    for number in range(12):
        client = sorted(run.names)[number % 3]
        run.restart(client)
        run.round(restarted=frozenset({client}))
    run.round(closing=True)
    assert np.array_equal(model_of(run), model_of(undisturbed))


def test_a_party_that_misses_rounds_leaves_no_bias() -> None:
    """With (3.2) over those present Σ ζ_j would not be zero any more, and the end another one than θ*."""
    run = small_run(gap_factor=1e-6)
    run.absent = lambda round_id, _phase, client: round_id in (3, 4, 9) and client == THIRD
    for _ in range(60):
        run.round()
    assert [THIRD in report.metrics.participants for report in run.reports[1:5]] == [True, False, False, True]
    assert relative_error(run) < 1e-9


def test_the_momentum_starts_anew_after_a_round_without_a_party() -> None:
    run = small_run(rho=0.0)
    run.absent = lambda round_id, _phase, client: round_id == 5 and client == THIRD
    betas = []
    for _ in range(8):
        run.round()
        betas.append(run.server.memory[BETA])
    assert betas[0] == betas[4] == betas[5] == 0.0
    assert betas[1] == betas[6] > 0.0
    assert betas[2] == betas[7] > betas[1]


def test_client_sampling_reaches_the_optimum_without_momentum() -> None:
    """Not in the paper (its section 8.1): block coordinate descent on the dual."""
    run = small_run(participation="cyclic:3", gap_factor=1e-6)
    for _ in range(120):
        run.round()
    assert run.server.memory[BETA] == 0.0
    assert relative_error(run) < 1e-6


def test_ten_digits_are_told_apart_by_multinomial_regression() -> None:
    """(7.1), with a column of ones for the biases; the model has one column for each class."""
    digits = load_digits()
    X = np.hstack([digits.data[:300] / 16.0, np.ones((300, 1))])
    y = digits.target[:300].astype(np.float64)
    names = tuple(f"p{column:02d}" for column in range(65))
    ids = [tuple(f"d{row}" for row in range(j, 300, 3)) for j in range(3)]
    shards = [Shard(ids[j], names, X[j::3], y[j::3]) for j in range(3)]
    values: dict[str, object] = {"loss": "multinomial", "classes": 10, "lambda": 1e-2}
    run = Averaging.of("dualfl", shards, values)
    report = run.run(15)
    settings = DualflSettings.parse(values)
    split = Parts((X,), (y,))
    optimum = split.energy(settings, split.minimiser(settings))
    model = run.weights(names)
    assert model.shape == (65, 10)
    reached = split.energy(settings, model.reshape(-1))
    assert report.metrics.primal == pytest.approx(reached, rel=1e-9)
    assert reached <= optimum * (1.0 + 1e-3)
    assert report.metrics.accuracy == np.mean(np.argmax(X @ model, axis=1) == y)


def test_labels_that_do_not_fit_the_loss_are_refused() -> None:
    with pytest.raises(InvalidInput, match="labels 0 to 2"):
        Averaging.of("dualfl", SHARDS, {"loss": "multinomial", "classes": 3})


def test_a_lambda_that_is_too_small_for_the_range_of_the_vectors_ends_the_run_as_diverged() -> None:
    report = small_run(**{"lambda": 1e-11, "local_iterations": 3}).round()
    assert report.outcome is Outcome.DIVERGED


def test_the_server_sees_neither_dual_variables_nor_model_in_an_encrypted_run() -> None:
    def shown(run: Averaging) -> list[bool]:
        run.run(2)
        seen = run.server.snapshot().own + b"".join(body + result for *_, body, result in run.messages)
        secrets = [half._memory.kept[DUAL] for half in run.clients.values()]
        secrets += [value for state in run.states().values() for value in state.values()]
        return [value.tobytes() in seen for value in np.rint(np.concatenate(secrets) * 2.0**32).astype("<i8")]

    clear = Averaging.of("dualfl", SHARDS, {"lambda": 0.1}, key=RunKey.in_clear(KEY.bits))
    assert any(shown(clear))
    sealed = Averaging.of("dualfl", SHARDS, {"lambda": 0.1}, cipher=CIPHER, key=KEY)
    assert not any(shown(sealed))


def test_what_parties_tell_in_clear_is_what_the_profile_says() -> None:
    assert set(DualflSettings.parse({}).vectors.reported) == {CRITERION_MET, SMOOTHNESS}
    assert set(DualflSettings.parse({"rho": 0.01}).vectors.reported) == {CRITERION_MET}
    assert set(DualflSettings.parse({"loss": "hinge"}).vectors.reported) == {CRITERION_MET}
    visible = DualflSettings.profile.visible
    assert any("smoothness" in kind for kind in visible)
    assert any("solved its local problem" in kind for kind in visible)
