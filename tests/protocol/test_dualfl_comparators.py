"""The algorithms that DualFL is compared with (its Table 2), over whole federations.

FedDualAvg, which has no linear rate, is in `test_feddualavg.py`.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_common.algorithms.averaging.apda import DUAL as DUAL_OF_APDA
from fenchel_common.algorithms.averaging.apda import ApdaSettings
from fenchel_common.algorithms.averaging.feddr import REFLECTED, SOLUTION, FeddrSettings
from fenchel_common.algorithms.averaging.feddyn import GRADIENT
from fenchel_common.algorithms.averaging.fivegcs import DUAL, TOTAL
from fenchel_common.algorithms.averaging.proximal import ToleratedSettings
from fenchel_common.algorithms.averaging.rails import MODEL
from fenchel_common.algorithms.averaging.scaffnew import STEPS, VARIATE, ScaffnewSettings
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidConfig
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.losses import LOSSES
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
    "feddr": {"eta": 10.0, "alpha": 1.5},
    "apda": {"eta_x": 10.0, "eta_y": 0.1, "beta_y": 0.1},
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


def test_feddr_without_relaxation_is_fedpd_with_the_same_eta() -> None:
    """With all parties and g = 0: y_j = w − η π_j, so x̂_j = θ_j + η π_j."""
    splitting, primal_dual = (
        small_run("feddr", eta=5.0, alpha=1.0, local_gap=1e-13),
        small_run("fedpd", eta=5.0, local_gap=1e-13),
    )
    for run in (splitting, primal_dual):
        for _ in range(15):
            run.round()
    assert kept(splitting, REFLECTED) - kept(splitting, SOLUTION) == pytest.approx(
        5.0 * kept(primal_dual, "multiplier"), abs=1e-5
    )
    assert model_of(splitting) == pytest.approx(model_of(primal_dual), abs=1e-5)


@pytest.mark.parametrize("iterations", [3, 5000], ids=["inexact", "exact"])
def test_apda_reaches_the_optimum_with_an_inexact_prox_too(iterations: int) -> None:
    """x̂ after three iterations of a local problem is enough, because the step has the gradient at x̂."""
    run = small_run("apda", local_iterations=iterations)
    run.run(100)
    assert SMALL.primal(model_of(run)) <= SMALL.optimum * (1.0 + 1e-7)


def test_apda_multipliers_are_the_gradients_at_the_optimum_and_sum_to_zero() -> None:
    run = small_run("apda")
    for _ in range(60):
        run.round()
    duals = kept(run, DUAL_OF_APDA)
    run.round(closing=True)
    multipliers = duals - run.states()[THIRD][DUAL_OF_APDA]
    assert multipliers.sum(axis=0) == pytest.approx(np.zeros(8), abs=1e-8)
    for multiplier, shard in zip(multipliers, SHARDS, strict=True):
        assert shard.y is not None
        w = model_of(run)
        slope = LOSSES["logistic"].subgradient(shard.X @ w, shard.y)
        own = 0.05 * w - 3.0 / len(SMALL.data.y) * np.asarray(shard.X.T @ slope)
        assert multiplier == pytest.approx(-own, abs=1e-5)


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
    with pytest.raises(InvalidConfig, match="beta_y: must be at most 1/eta_y = 4"):
        ApdaSettings.parse({"eta_y": 0.25, "beta_y": 5.0})
    with pytest.raises(InvalidConfig, match="loss: choose one of logistic, smoothed_hinge, multinomial"):
        ApdaSettings.parse({"loss": "hinge"})
    with pytest.raises(InvalidConfig, match="alpha: "):
        FeddrSettings.parse({"alpha": 2.0})
    with pytest.raises(InvalidConfig, match="p: "):
        ScaffnewSettings.parse({"p": 0.0})
    for algorithm in ("feddyn", "fedpd", "5gcs", "feddr"):
        settings = small_run(algorithm).settings
        assert isinstance(settings, ToleratedSettings)
        with pytest.raises(InvalidConfig, match="for the hinge use dual"):
            type(settings).parse({"loss": "hinge", "local_solver": "accelerated"})
