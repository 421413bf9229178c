"""The algorithms that DualFL is compared with (its Table 2), over whole federations: FedDyn, FedPD, 5GCS, Scaffnew."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_common.algorithms.averaging.feddyn import GRADIENT
from fenchel_common.algorithms.averaging.fivegcs import DUAL, TOTAL
from fenchel_common.algorithms.averaging.proximal import ToleratedSettings
from fenchel_common.algorithms.averaging.rails import MODEL
from fenchel_common.algorithms.averaging.scaffnew import STEPS, VARIATE, ScaffnewSettings
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidConfig
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.algorithms.averaging.scaffnew import ScaffnewServer
from fenchel_server.contract import Outcome
from support.averaging import Averaging
from support.keys import SMALL_BITS, cipher, run_key
from support.problems import problem

Array = NDArray[np.float64]

TUNED: dict[str, dict[str, object]] = {
    "feddyn": {"alpha": 0.1},
    "fedpd": {"eta": 10.0},
    "5gcs": {"gamma": 10.0},
    "scaffnew": {"step": 2.0, "p": 0.3},
}
SMALL = problem(rows=70, columns=8, loss="logistic", lambda_=0.05)
SHARDS = partition(SMALL.data, grid=(3, 1))
KEY = run_key(2 * SMALL_BITS)
CIPHER = cipher(2 * SMALL_BITS)
THIRD = ClientId("party-02")

each_algorithm = pytest.mark.parametrize("algorithm", TUNED)


def small_run(algorithm: str, **values: object) -> Averaging:
    return Averaging.of(algorithm, SHARDS, {"lambda": 0.05, "measure_every": 2, **TUNED[algorithm], **values})


def model_of(run: Averaging) -> Array:
    return run.weights(SMALL.data.features)


def kept(run: Averaging, name: str) -> Array:
    return np.array([half._memory.kept[name] for half in run.clients.values()])


@each_algorithm
def test_a_run_reaches_the_optimum(algorithm: str) -> None:
    run = small_run(algorithm)
    report = run.run(60)
    assert report.outcome is Outcome.FINISHED
    assert report.metrics.primal == pytest.approx(SMALL.primal(model_of(run)), abs=1e-9)
    assert SMALL.primal(model_of(run)) <= SMALL.optimum * (1.0 + 1e-7)


@each_algorithm
def test_a_party_that_misses_rounds_leaves_no_bias(algorithm: str) -> None:
    run = small_run(algorithm)
    run.absent = lambda round_id, _phase, client: round_id in (3, 4, 9) and client == THIRD
    run.run(100)
    assert SMALL.primal(model_of(run)) <= SMALL.optimum * (1.0 + 1e-7)


@each_algorithm
def test_runs_with_every_cipher_and_in_clear_agree_bit_for_bit(algorithm: str) -> None:
    values: dict[str, object] = {"lambda": 0.05, **TUNED[algorithm]}
    clear = Averaging.of(algorithm, SHARDS, values, key=RunKey.in_clear(KEY.bits))
    sealed = Averaging.of(algorithm, SHARDS, values, cipher=CIPHER, key=KEY)
    masked = Averaging.of(algorithm, SHARDS, values, key=RunKey.of_masks(KEY.bits))
    for run in (clear, sealed, masked):
        run.run(4)
    for run in (sealed, masked):
        assert np.array_equal(model_of(clear), model_of(run))
        assert [report.metrics for report in clear.reports] == [report.metrics for report in run.reports]


@pytest.mark.parametrize("after", [0, 10])
@each_algorithm
def test_a_server_killed_in_a_round_ends_with_the_result_of_an_undisturbed_run(algorithm: str, after: int) -> None:
    undisturbed, run = small_run(algorithm), small_run(algorithm)
    undisturbed.run(12)
    run.kill_server_in(after + 1)
    run.restart(THIRD)
    run.round(restarted=run.names)
    run.run(12 - after - 1)
    assert np.array_equal(model_of(run), model_of(undisturbed))


@each_algorithm
def test_classes_are_taken_too(algorithm: str) -> None:
    rng = np.random.default_rng(0)
    labelled = [
        type(shard)(shard.ids, shard.features, shard.X, rng.integers(0, 3, size=len(shard.ids)).astype(np.float64))
        for shard in SHARDS
    ]
    run = Averaging.of(algorithm, labelled, {"loss": "multinomial", "classes": 3, "lambda": 0.05, **TUNED[algorithm]})
    report = run.run(3)
    assert report.metrics.primal is not None
    assert report.metrics.primal < np.log(3.0)
    assert model_of(run).shape == (8, 3)


def test_feddyn_is_fedpd_with_eta_one_over_alpha() -> None:
    """With all parties: h is the mean of the gradients, and π_j = −g_j."""
    dynamic, primal_dual = small_run("feddyn", alpha=0.2), small_run("fedpd", eta=5.0)
    for run in (dynamic, primal_dual):
        for _ in range(15):
            run.round()
    gradients, multipliers = kept(dynamic, GRADIENT), kept(primal_dual, "multiplier")
    assert gradients == pytest.approx(-multipliers, abs=1e-6)
    assert model_of(dynamic) == pytest.approx(model_of(primal_dual), abs=1e-6)


def test_5gcs_keeps_the_sum_of_the_dual_vectors() -> None:
    """v = Σ u_j, and in the end v = −λ w: the gradient of the losses against that of the ridge."""
    run = small_run("5gcs")
    for _ in range(60):
        run.round()
    duals = kept(run, DUAL)
    run.round(closing=True)
    state = run.states()[THIRD]
    assert state[TOTAL] == pytest.approx(duals.sum(axis=0), abs=1e-9)
    assert state[TOTAL] == pytest.approx(-0.05 * state[MODEL], abs=1e-5)


def test_scaffnew_parties_take_the_same_geometric_number_of_steps() -> None:
    run = small_run("scaffnew", p=0.25)
    server = run.server
    assert isinstance(server, ScaffnewServer)
    drawn = [server.plan(RoundId(number), [], {}).told[STEPS] for number in range(1, 2001)]
    assert min(drawn) == 1.0
    assert np.mean(drawn) == pytest.approx(4.0, rel=0.1)


def test_scaffnew_control_variates_sum_to_zero() -> None:
    run = small_run("scaffnew")
    for _ in range(10):
        run.round()
        assert kept(run, VARIATE).sum(axis=0) == pytest.approx(np.zeros(8), abs=1e-8)


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="p: "):
        ScaffnewSettings.parse({"p": 0.0})
    for algorithm in ("feddyn", "fedpd", "5gcs"):
        settings = small_run(algorithm).settings
        assert isinstance(settings, ToleratedSettings)
        with pytest.raises(InvalidConfig, match="for the hinge use dual"):
            type(settings).parse({"loss": "hinge", "local_solver": "accelerated"})
