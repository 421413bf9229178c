"""SCAFF-PD and its comparators over whole federations: beside the open algorithms, encrypted, disturbed."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_client.algorithms.averaging.descent import LocalObjective
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.averaging.scaffpd import Pace, ScaffpdSettings
from fenchel_common.algorithms.fitting import check_partition
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.datasets import Dataset
from fenchel_common.data.heterogeneous import row_shards, stratified_rows
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidConfig, InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.losses import loss_named
from fenchel_deploy.papers.saddle import saddle_point
from fenchel_server.algorithms.averaging.qffl import curvature
from fenchel_server.algorithms.averaging.simplex import Ambiguity
from support.averaging import Averaging
from support.keys import SMALL_BITS, cipher, run_key
from support.problems import problem
from support.robust import fedavg, robust_regression, scaffold, scaffpd

Array = NDArray[np.float64]

ALGORITHMS = ("scaffpd", "scaffold", "afl", "drfa", "qffl", "fedprox", "deltafl")
SMALL = problem(rows=60, columns=6, loss="logistic", lambda_=0.1)
# Unequal parties: the second has most of one class, and the third few rows.
ORDER = np.argsort(SMALL.data.y + 0.9 * np.random.default_rng(0).standard_normal(60))
SHARDS = row_shards(SMALL.data, [ORDER[:28], ORDER[28:50], ORDER[50:]])
OBJECTIVES = [LocalObjective(shard.X, shard.y, loss_named("logistic"), 0.1) for shard in SHARDS if shard.y is not None]
KEY = run_key(2 * SMALL_BITS)
CIPHER = cipher(2 * SMALL_BITS)
SECOND = ClientId("party-01")


def small_run(algorithm: str, *, sealed: bool = False, masked: bool = False, **values: object) -> Averaging:
    settings = {"lambda": 0.1, "local_steps": 4, "measure_every": 2, **values}
    if sealed:
        return Averaging.of(algorithm, SHARDS, settings, cipher=CIPHER, key=KEY)
    key = RunKey.of_masks(KEY.bits) if masked else RunKey.in_clear(KEY.bits)
    return Averaging.of(algorithm, SHARDS, settings, key=key)


def model_of(run: Averaging, features: Sequence[str] = SMALL.data.features) -> Array:
    return run.weights(features)


def trained(algorithm: str, rounds: int, **values: object) -> Array:
    run = small_run(algorithm, sealed=False, masked=False, **values)
    run.run(rounds)
    return model_of(run)


def test_scaffpd_does_what_algorithms_1_and_2_say() -> None:
    """Ten rounds of the paper are twenty here; in floating point beside fixed point."""
    found = trained("scaffpd", 20, rho=0.2, dual_step=0.5, extrapolation=0.7)
    course = scaffpd(OBJECTIVES, Ambiguity(0.2), Pace(tau=4.0, sigma=0.5, theta=0.7), rounds=10, steps=4)
    np.testing.assert_allclose(found, course.x, atol=1e-7)
    assert course.weights.max() > 1.1 / 3.0


def test_scaffpd_follows_condition_3_1_from_round_to_round() -> None:
    found = trained("scaffpd", 16, rule="concave", rho=0.0, dual_step=0.5)
    start = Pace(tau=4.0, sigma=0.5, theta=1.0, strong_convexity=0.1)
    course = scaffpd(OBJECTIVES, Ambiguity(0.0), start, rounds=8, steps=4)
    np.testing.assert_allclose(found, course.x, atol=1e-7)


def test_scaffpd_bounds_the_weights_by_the_cvar_set() -> None:
    run = small_run("scaffpd", ambiguity="cvar", alpha=0.9, dual_step=5.0)
    figures = run.run(12).metrics.figures
    assert figures["largest_weight"] == pytest.approx(1.0 / (0.9 * 3))


def regression_shards() -> tuple[list[Shard], list[LocalObjective]]:
    clients = robust_regression(0.1)
    X = np.concatenate([np.asarray(client.X) for client in clients])
    y = np.concatenate([client.y for client in clients])
    data = Dataset("regression", X, y, tuple(f"x{column}" for column in range(10)))
    return row_shards(data, [np.arange(100 * number, 100 * number + 100) for number in range(5)]), clients


def test_a_federation_reaches_the_saddle_point_of_the_robust_regression() -> None:
    """C.1, N = 5, d = 10, m = 100, J = 100, ρ = 0.05, down to the fixed-point numbers of the model."""
    shards, clients = regression_shards()
    values = {
        "loss": "squared",
        "lambda": 0.1,
        "local_steps": 100,
        "step": 3e-3,
        "dual_step": 10.0,
        "extrapolation": 0.5,
        "rho": 0.05,
        "measure_every": 0,
    }
    run = Averaging.of("scaffpd", shards, values)
    run.run(60)
    solution, _ = saddle_point(clients, Ambiguity(0.05))
    w = run.weights([f"x{column}" for column in range(10)])
    assert np.abs(w - solution).max() < 1e-6


def test_regression_tells_the_mean_squared_error_and_no_accuracy() -> None:
    shards, clients = regression_shards()
    run = Averaging.of("afl", shards, {"loss": "squared", "lambda": 0.1, "step": 3e-3, "measure_every": 2})
    metrics = run.run(3).metrics
    w = run.weights([f"x{column}" for column in range(10)])
    errors = np.concatenate([np.asarray(client.X) @ w - client.y for client in clients])
    assert metrics.accuracy is None
    assert metrics.figures["rmse"] == pytest.approx(float(np.sqrt((errors**2).mean())), rel=1e-6)
    assert not any("accuracy" in name for name in metrics.figures)


def test_scaffold_and_fedprox_do_what_their_papers_say() -> None:
    np.testing.assert_allclose(trained("scaffold", 8), scaffold(OBJECTIVES, rounds=8, steps=4, step=1.0), atol=1e-7)
    np.testing.assert_allclose(
        trained("fedprox", 8, mu=0.0), fedavg(OBJECTIVES, rounds=8, steps=4, step=1.0), atol=1e-7
    )
    near, far = trained("fedprox", 1, mu=5.0, step=0.1), trained("fedprox", 1, mu=0.0, step=0.1)
    assert np.linalg.norm(near) < np.linalg.norm(far)


def test_scaffold_reaches_the_optimum_of_the_mean_where_fedavg_drifts() -> None:
    """At the mean's optimum the gradients of the parties cancel."""

    def residual(x: Array) -> float:
        return float(np.linalg.norm(np.mean([client.gradient(x) for client in OBJECTIVES], axis=0)))

    assert residual(trained("scaffold", 40, measure_every=0)) < 1e-5
    assert residual(trained("fedprox", 40, mu=0.0, measure_every=0)) > 1e-3


def test_afl_weighs_by_the_losses_of_the_round_before() -> None:
    """Mohri et al.: x^{t+1} by λ^t, λ^{t+1} = Proj(λ^t + γ L(x^t)); the first round is the plain mean."""
    x, weights = np.zeros(6), np.full(3, 1.0 / 3.0)
    for _ in range(6):
        ends = [x] * 3
        for number, client in enumerate(OBJECTIVES):
            for _ in range(4):
                ends[number] = ends[number] - client.gradient(ends[number])
        risen = Ambiguity().dual_step(weights, np.array([client.value(x) for client in OBJECTIVES]), 0.5)
        x, weights = weights @ np.array(ends), risen
    np.testing.assert_allclose(trained("afl", 6, dual_step=0.5), x, atol=1e-7)


def test_the_robust_ones_have_a_smaller_worst_loss_than_the_mean() -> None:
    def worst(x: Array) -> float:
        return max(client.value(x) for client in OBJECTIVES)

    mean = worst(trained("scaffold", 25, measure_every=0))
    assert worst(trained("scaffpd", 50, rho=0.01, dual_step=1.0, measure_every=0)) < mean - 0.01
    for algorithm in ("afl", "drfa"):
        assert worst(trained(algorithm, 40, rho=0.01, step=0.3, dual_step=0.3, measure_every=0)) < mean


def test_drfa_draws_parties_by_their_weights() -> None:
    run = small_run("drfa", sampled=2)
    reports = [run.round() for _ in range(8)]
    sizes = [len(report.metrics.participants) for report in reports]
    assert max(sizes) <= 2
    assert {client for report in reports for client in report.metrics.participants} == run.names


def test_qffl_steps_by_the_printed_fraction() -> None:
    """q-FedAvg: x − Σ F^q Δ / Σ (q F^{q−1} ‖Δ‖² + F^q/η)."""
    top, bottom = np.zeros(6), 0.0
    for client in OBJECTIVES:
        u = np.zeros(6)
        for _ in range(4):
            u = u - client.gradient(u)
        loss = client.value(np.zeros(6))
        top += loss**2 * -u
        bottom += curvature(loss, float(u @ u), q=2.0, step=1.0)
        assert curvature(loss, float(u @ u), q=2.0, step=1.0) == pytest.approx(2 * loss * u @ u + loss**2)
    np.testing.assert_allclose(trained("qffl", 1, q=2.0), -top / bottom, atol=1e-8)


def test_a_loss_that_no_client_can_have_does_not_stop_qffl() -> None:
    assert curvature(-1.0, -1.0, q=0.5, step=1.0) >= 0.0


def test_delta_fl_trains_the_parties_with_the_largest_losses() -> None:
    run = small_run("deltafl", alpha=0.3)
    for _ in range(4):
        run.round()
    before = model_of(run)
    losses = [client.value(before) for client in OBJECTIVES]
    first = ClientId(f"party-{int(np.argmax(losses)):02d}")
    report = run.round(restarted=run.names)
    assert first in report.metrics.participants
    assert len(report.metrics.participants) < 3


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_run_with_every_cipher_is_bit_for_bit_the_run_in_clear(algorithm: str) -> None:
    clear, *hidden = (
        small_run(algorithm, batch=8, sealed=sealed, masked=masked)
        for sealed, masked in ((False, False), (True, False), (False, True))
    )
    clear.run(4)
    for run in hidden:
        run.run(4)
        assert np.array_equal(model_of(clear), model_of(run))
        assert clear.reports[-1].metrics.figures == run.reports[-1].metrics.figures
    assert model_of(clear).any()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_restored_server_goes_on_as_if_nothing_had_happened(algorithm: str) -> None:
    undisturbed, run = small_run(algorithm, batch=8), small_run(algorithm, batch=8)
    undisturbed.run(13)
    run.kill_server_in(12)
    for client in sorted(run.names):
        run.restart(client)
    run.round(restarted=run.names)
    run.run(1)
    assert np.array_equal(model_of(run), model_of(undisturbed))
    assert run.reports[-1].metrics.figures == undisturbed.reports[-1].metrics.figures


def test_scaffpd_asks_for_losses_once_in_a_round_of_the_paper() -> None:
    """Algorithm 1 has one dual step a round: three round trips, of which the first tells the losses."""
    run = small_run("scaffpd", measure_every=0)
    run.run(6)
    asked = [[phase for own, phase in run.phases if own == round_id] for round_id in range(1, 8)]
    assert asked == [["survey", "local"], ["local"]] * 3 + [["local", "measured"]]  # the last one measures the model
    np.testing.assert_allclose(
        model_of(run),
        scaffpd(OBJECTIVES, Ambiguity(0.1), Pace(tau=4.0, sigma=1.0, theta=1.0), rounds=3, steps=4).x,
        atol=1e-7,
    )


@pytest.mark.parametrize("algorithm", ["afl", "drfa", "qffl", "deltafl"])
def test_algorithms_that_use_the_losses_ask_for_them_in_every_round(algorithm: str) -> None:
    run = small_run(algorithm, measure_every=0)
    run.run(4)
    assert [round_id for round_id, phase in run.phases if phase == "survey"] == [1, 2, 3, 4]


@pytest.mark.parametrize(("phase", "missed"), [("survey", {3, 7}), ("local", {3, 4, 7})])
def test_scaffpd_goes_on_without_a_party_that_is_away_for_a_while(phase: str, missed: set[int]) -> None:
    """Round 4 takes the corrected steps, and has no survey to miss."""
    run = small_run("scaffpd")
    run.absent = lambda round_id, of, client: client == SECOND and of == phase and round_id in (3, 4, 7)
    reports = [run.round() for _ in range(40)]
    assert {report.metrics.round for report in reports if SECOND not in report.metrics.participants} == missed
    np.testing.assert_allclose(model_of(run), trained("scaffpd", 40), atol=1e-2)


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "fedavg"])
def test_the_spread_of_accuracies_is_measured(algorithm: str) -> None:
    run = small_run(algorithm)
    figures = run.run(6).metrics.figures
    x = model_of(run)
    accuracies = sorted(client.correct(x) / len(client.y) for client in OBJECTIVES)
    assert figures["average_accuracy"] == pytest.approx(np.mean(accuracies))
    assert figures["worst_20_accuracy"] == pytest.approx(accuracies[0])
    assert figures["best_20_accuracy"] == pytest.approx(accuracies[-1])


def test_no_party_has_an_accuracy_of_its_own_where_rows_are_shared() -> None:
    run = Averaging.of("fedavg", partition(SMALL.data, grid=(1, 2)), {"measure_every": 1})
    metrics = run.run(2).metrics
    assert metrics.accuracy is not None
    assert metrics.figures == {}


@pytest.mark.parametrize("algorithm", ["scaffpd", "scaffold", "qffl"])
def test_several_classes_are_trained_by_the_multinomial_loss(algorithm: str) -> None:
    rng = np.random.default_rng(5)
    y = np.repeat([0.0, 1.0, 2.0], 20)
    X = rng.standard_normal((60, 4)) + 2.0 * np.eye(4)[y.astype(int)]
    data = Dataset("three", X, y, ("a", "b", "c", "d"))
    shards = row_shards(data, stratified_rows(y, 3, seed=0))
    values = {"loss": "multinomial", "classes": 3, "step": 0.3, "measure_every": 0}
    run = Averaging.of(algorithm, shards, values)
    report = run.run(30)
    assert report.metrics.accuracy is not None
    assert report.metrics.accuracy > 0.85
    assert run.weights(data.features).shape == (4, 3)


def test_labels_that_do_not_fit_the_loss_are_refused() -> None:
    with pytest.raises(InvalidInput, match="labels 0 to 2"):
        small_run("scaffpd", loss="multinomial", classes=3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rule": "strongly_concave"}, "needs smoothness and coupling"),
        ({"rule": "strongly_concave", "rho": 0.0}, "needs the chi2 penalty"),
        ({"rule": "concave", "lambda": 0.0}, "strongly convex"),
        ({"global_step": 0.5}, "greater than or equal to 1"),
    ],
)
def test_rules_without_what_they_need_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        ScaffpdSettings.parse(values)


def test_condition_3_2_sets_the_pace_of_a_run() -> None:
    settings = ScaffpdSettings.parse(
        {"rule": "strongly_concave", "lambda": 0.5, "rho": 0.1, "smoothness": 2.0, "coupling": 1.0}
    )
    expected = Pace.strongly_concave(mu_x=0.5, mu_dual=0.3, smoothness=2.0, coupling=1.0)
    assert expected == expected.next()
    first = settings.first_pace(3)
    assert (first.tau, first.sigma, first.theta) == pytest.approx((expected.tau, expected.sigma, expected.theta))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_whole_rows_are_needed_and_every_setting_is_described(algorithm: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"{algorithm} takes horizontal shards.*hyfdca"):
        check_partition(algorithm, "hybrid")
    assert all(meaning for _, meaning in SETTINGS[algorithm].parameters().values())
