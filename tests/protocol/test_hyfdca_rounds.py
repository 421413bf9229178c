"""HyFDCA's rounds: phases, convergence, certificates, clients that come and go, snapshots."""

import numpy as np
import pytest

from fenchel.v1 import hyfdca_pb2
from fenchel_common.algorithms.hyfdca import HyfdcaSettings
from fenchel_common.crypto.vectors import PlainVector
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.objectives import duality_gap
from fenchel_server.algorithms.base import Outcome
from fenchel_server.cohorts import OverlapRule
from support.keys import cipher
from support.problems import Problem, problem
from support.simulation import Absent, Simulation

CASE = {"rows": 120, "columns": 8, "lambda_": 0.05}
FIRST, LAST = ClientId("party-00"), ClientId("party-03")
GRIDS = [(2, 2), (4, 1), (1, 4)]


def settings(case: Problem, **values: object) -> HyfdcaSettings:
    return HyfdcaSettings.parse({"loss": case.loss.name, "lambda": case.lambda_, **values})


def simulation(case: Problem, grid: tuple[int, int] = (2, 2), **values: object) -> Simulation:
    return Simulation.of(partition(case.data, grid=grid), settings(case, **values))


def absent_in(round_id: int, phase: str, client: ClientId) -> Absent:
    return lambda at, during, who: (at, during, who) == (round_id, phase, client)


@pytest.mark.parametrize("local", ["paper", "theory"])
@pytest.mark.parametrize(
    ("grid", "phases"),
    [
        ((2, 2), ["inner_product", "local_dual", "primal"]),
        ((1, 4), ["inner_product", "local_dual", "primal"]),
        ((4, 1), ["local_dual", "primal"]),
    ],
)
def test_full_participation_takes_three_round_trips_and_two_without_shared_samples(
    grid: tuple[int, int], phases: list[str], local: str
) -> None:
    """Section 3.1: "each iteration only has three RTC", "which reduces each iteration to two RTC"."""
    run = simulation(problem(**CASE), grid, local=local, stop={"gap": None}, certificate_every=2)
    run.run(6)
    for round_id in range(1, 7):
        assert [phase for at, phase in run.phases if at == round_id] == phases


@pytest.mark.parametrize("participation", ["fraction:0.5", "cyclic:2"])
def test_partial_participation_syncs_first_and_refreshes_inner_products_last(participation: str) -> None:
    """Algorithm 1, in full."""
    run = simulation(problem(**CASE), participation=participation, certificate_every=0)
    run.run(8)
    every_phase = ["sync", "inner_product", "local_dual", "primal", "inner_product_after"]
    rounds = [[phase for at, phase in run.phases if at == round_id] for round_id in range(1, 9)]
    assert rounds[0] == every_phase[1:]
    assert every_phase in rounds
    assert all(phases in (every_phase, every_phase[1:]) for phases in rounds)


def test_the_second_inner_product_can_be_left_out() -> None:
    """Section 5: it "is omitted for experiments"."""
    run = simulation(problem(**CASE), participation="cyclic:2", second_inner_product=False)
    run.run(6)
    assert "inner_product_after" not in {phase for _, phase in run.phases}


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "logistic"])
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("participation", ["all", "fraction:0.75", "cyclic:2"])
def test_a_run_ends_at_the_centralized_optimum(loss: str, grid: tuple[int, int], participation: str) -> None:
    case = problem(**CASE, loss=loss)
    run = simulation(case, grid, participation=participation, stop={"gap": 1e-4, "rounds": 400})
    report = run.run()
    error = case.primal(run.weights(case.data.features)) - case.optimum
    assert report.outcome is Outcome.CONVERGED
    assert report.metrics.gap is not None
    assert -1e-12 <= error <= report.metrics.gap <= 1e-4


def test_the_theory_method_comes_near_the_optimum() -> None:
    case = problem(lambda_=1.0)
    run = simulation(case, local="theory", stop={"gap": 1e-2, "rounds": 300})
    assert run.run().outcome is Outcome.CONVERGED


@pytest.mark.parametrize("grid", GRIDS)
def test_every_certificate_bounds_the_error_and_is_the_true_gap_up_to_its_stated_error(grid: tuple[int, int]) -> None:
    case = problem(**CASE)
    run = simulation(case, grid, certificate_every=1, stop={"gap": 1e-6, "rounds": 30})
    for _ in range(30):
        w, alpha = run.weights(case.data.features), run.alpha(case.ids)
        metrics = run.round().metrics
        assert metrics.gap is not None
        assert metrics.gap_error is not None
        assert metrics.gap >= case.primal(w) - case.optimum
        true_gap = duality_gap(case.data.X, case.data.y, alpha, loss=case.loss, lambda_=case.lambda_, w=w)
        assert abs(metrics.gap - metrics.gap_error - true_gap) <= metrics.gap_error + 1e-12
        correct = np.where(case.data.X @ w >= 0.0, 1.0, -1.0) == case.data.y
        assert metrics.accuracy == pytest.approx(correct.mean())


def test_the_model_at_the_end_is_the_one_that_was_certified() -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": 1e-3, "rounds": 400})
    while True:
        before = run.server.model()
        if run.round().outcome is not None:
            break
    np.testing.assert_array_equal(run.server.model(), before)


def test_after_the_last_round_a_closing_round_certifies_and_changes_nothing() -> None:
    run = simulation(problem(**CASE), stop={"gap": None, "rounds": 3}, certificate_every=0)
    run.run(3)
    before = run.server.model()
    report = run.round()
    assert report.outcome is Outcome.FINISHED
    assert report.metrics.gap is not None
    assert report.metrics.samples_updated == 0
    np.testing.assert_array_equal(run.server.model(), before)


def test_alpha_never_leaves_the_domain_of_the_conjugate() -> None:
    case = problem(**CASE)
    run = simulation(case, (1, 4), h=7)
    for _ in range(60):
        run.round()
        b = case.data.y * run.alpha(case.ids)
        assert b.min() >= 0.0
        assert b.max() <= 1.0


def test_too_many_samples_a_round_are_reported_as_divergence_with_the_cure() -> None:
    """The erratum on the practical variant: H is not a free dial."""
    case = problem(rows=120, columns=4, lambda_=1e-3)
    report = simulation(case, h=1.0, certificate_every=1).run()
    assert report.outcome is Outcome.DIVERGED
    assert "set h to fewer samples" in report.reason


def test_the_automatic_number_of_samples_converges_where_half_of_them_is_too_many() -> None:
    case = problem(rows=400, columns=4, lambda_=1e-3)
    assert simulation(case, h=0.5, stop={"gap": 1e-3, "rounds": 200}).run().outcome is not Outcome.CONVERGED
    assert simulation(case, stop={"gap": 1e-3, "rounds": 200}).run().outcome is Outcome.CONVERGED


def test_parties_without_labels_help_but_neither_update_nor_report() -> None:
    case = problem(**CASE)
    run = Simulation.of(
        partition(case.data, grid=(2, 2), labels="first"), settings(case, stop={"gap": 1e-4, "rounds": 400})
    )
    assert run.run().outcome is Outcome.CONVERGED
    asked = {client for _, phase, client, _, _ in run.messages if phase == "local_dual"}
    assert asked == {ClientId("party-00"), ClientId("party-02")}


def test_cached_inner_products_of_clients_that_left_are_those_of_the_present_model() -> None:
    """Proof of Theorem 4.11, point 2: in the vertical setting the server's sum is the true x_i·w."""
    case = problem(**CASE)
    run = simulation(case, (1, 4), participation="cyclic:2", certificate_every=0)
    for _ in range(12):
        run.round()
        w = run.weights(case.data.features)
        row = {sample: place for place, sample in enumerate(case.ids)}
        layout, shard = run.alignment.clients[FIRST], run.shards[FIRST]
        if len(run.reports) < 2:
            continue  # the second set has not given any yet
        for block in layout.block_ids:
            products = run.server._state.products_of([int(block)])
            assert products is not None
            rows = [row[shard.ids[place]] for place in layout.rows_of([int(block)])]
            expected = case.data.X[rows] @ w
            np.testing.assert_allclose(run.cipher.decrypt(products.vector)[: len(rows)], expected, atol=4 * 2.0**-33)


def test_only_changed_entries_travel() -> None:
    """Each row touches one column only, so a round that updates few samples changes few weights."""
    rng = np.random.default_rng(0)
    count = 64
    X = np.eye(count)
    y = np.where(rng.random(count) < 0.5, 1.0, -1.0)
    features = tuple(f"x{column:02d}" for column in range(count))
    shard = Shard(tuple(str(row) for row in range(count)), features, X, y)
    values = {"lambda": 0.1, "h": 2, "certificate_every": 0, "stop": {"gap": None}}
    run = Simulation.of([shard], HyfdcaSettings.parse(values))
    run.run(4)
    sizes = [len(result) for at, phase, _, _, result in run.messages if at == 4 and phase == "primal"]
    assert max(sizes) < 100 < 8 * count


def test_a_client_absent_in_primal_is_stale_until_it_syncs_and_no_certificate_is_given_meanwhile() -> None:
    case = problem(**CASE)
    run = simulation(case, certificate_every=1, stop={"gap": None})
    run.absent = lambda at, phase, who: who == LAST and ((at, phase) == (2, "primal") or at == 3)
    assert run.round().metrics.stale == ()
    second = run.round().metrics
    assert second.stale == (LAST,)
    assert "primal" in second.absences[LAST]
    third = run.round().metrics
    assert third.gap is None
    assert "no certificate" in third.note
    assert "sync" in third.absences[LAST]
    fourth = run.round().metrics
    assert next(phase for at, phase in run.phases if at == 4) == "sync"
    assert fourth.gap is not None
    assert fourth.stale == ()
    w = run.weights(case.data.features)
    np.testing.assert_allclose(
        w, case.data.X.T @ run.alpha(case.ids) / (case.lambda_ * len(case.ids)), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("phase", ["inner_product", "local_dual", "primal"])
def test_a_client_that_misses_one_phase_does_not_stop_the_run(phase: str) -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": 1e-4, "rounds": 400})
    run.absent = absent_in(3, phase, FIRST)
    assert run.run().outcome is Outcome.CONVERGED
    assert phase in run.reports[2].metrics.absences[FIRST]


@pytest.mark.parametrize("participation", ["all", "fraction:0.75"])
def test_a_run_converges_through_a_storm_of_absences_and_restarts(participation: str) -> None:
    case = problem(**CASE)
    run = simulation(case, participation=participation, certificate_every=1, stop={"gap": 1e-4, "rounds": 600})
    rng = np.random.default_rng(5)
    run.absent = lambda at, _phase, _who: at <= 60 and rng.random() < 0.1
    for _ in range(60):
        restarted = frozenset(client for client in sorted(run.names) if rng.random() < 0.1)
        for client in restarted:
            run.restart(client)
        available = frozenset(client for client in sorted(run.names) if rng.random() < 0.9)
        if run.round(available=available, restarted=restarted).outcome is not None:
            break
    if run.reports[-1].outcome is None:
        run.run()
    assert run.reports[-1].outcome is Outcome.CONVERGED
    assert case.primal(run.weights(case.data.features)) - case.optimum <= 1e-4


def test_an_absent_client_is_named_and_the_others_go_on() -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": None})
    report = run.round(available=run.names - {LAST})
    assert report.metrics.absences == {LAST: "not there when the round began"}
    assert report.metrics.samples_updated > 0


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_share_that_is_not_a_sane_number_is_rejected_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": None})
    run.round()
    honest = run.answer

    def tampered(round_id: RoundId, phase: str, client: ClientId, task: bytes) -> bytes:
        result = honest(round_id, phase, client, task)
        if (round_id, phase, client) != (2, "primal", LAST):
            return result
        message = hyfdca_pb2.HyfdcaPrimalResult.FromString(result)
        values = np.frombuffer(message.share.values, dtype="<f8").copy()
        values[0] = value
        message.share.values = values.tobytes()
        return message.SerializeToString()

    monkeypatch.setattr(run, "answer", tampered)
    second = run.round()
    assert second.metrics.absences[LAST].startswith("primal: rejected: share.values")
    assert second.metrics.stale == (LAST,)
    assert np.isfinite(run.server.model()).all()
    third = run.round()
    assert third.metrics.stale == ()
    w = case.data.X.T @ run.alpha(case.ids) / (case.lambda_ * len(case.ids))
    np.testing.assert_allclose(run.weights(case.data.features), w, rtol=0, atol=1e-12)


@pytest.mark.parametrize("body", [b"", b"\xff\xff\xff", b"\x0a\x02\x08\x01"])
@pytest.mark.parametrize("phase", ["inner_product", "local_dual", "primal"])
def test_a_result_that_is_no_answer_is_rejected_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, phase: str, body: bytes
) -> None:
    run = simulation(problem(**CASE), stop={"gap": None}, h=40)
    honest = run.answer

    def tampered(round_id: RoundId, at: str, client: ClientId, task: bytes) -> bytes:
        result = honest(round_id, at, client, task)
        return body if (round_id, at, client) == (2, phase, FIRST) else result

    monkeypatch.setattr(run, "answer", tampered)
    run.round()
    assert run.round().metrics.absences[FIRST].startswith(f"{phase}: rejected: ")
    assert run.round().metrics.absences == {}


@pytest.mark.parametrize("participation", ["all", "fraction:0.5", "cyclic:2"])
@pytest.mark.parametrize("grid", GRIDS)
def test_a_run_restored_after_every_round_equals_an_undisturbed_one(grid: tuple[int, int], participation: str) -> None:
    case = problem(**CASE)
    calm = simulation(case, grid, participation=participation, stop={"gap": None})
    shaken = simulation(case, grid, participation=participation, stop={"gap": None})
    for round_id in range(1, 13):
        calm.round()
        shaken.restore(shaken.server.snapshot())
        if round_id % 3 == 0:
            for client in sorted(shaken.names):
                shaken.restart(client)
        shaken.round()
        assert calm.reports[-1].metrics == shaken.reports[-1].metrics
        np.testing.assert_array_equal(calm.server.model(), shaken.server.model())
        np.testing.assert_array_equal(calm.alpha(case.ids), shaken.alpha(case.ids))


def test_a_snapshot_restores_to_the_same_snapshot() -> None:
    run = simulation(problem(**CASE), participation="cyclic:2")
    run.run(7)
    snapshot = run.server.snapshot()
    run.restore(snapshot)
    assert run.server.snapshot() == snapshot


@pytest.mark.parametrize("phase", ["sync", "inner_product", "local_dual", "primal", "inner_product_after"])
def test_a_server_lost_in_any_phase_resumes_with_the_same_result(phase: str) -> None:
    """The clients have already taken in what the lost server sent them; the repeated round overwrites it."""
    case = problem(**CASE)
    calm = simulation(case, participation="cyclic:2", stop={"gap": None})
    shaken = simulation(case, participation="cyclic:2", stop={"gap": None})
    calm.run(8)
    shaken.run(4)
    snapshot = shaken.server.snapshot()

    class Lost(Exception):
        pass

    def lose(at: RoundId, during: str, _who: ClientId) -> bool:
        if (at, during) == (5, phase):
            raise Lost
        return False

    shaken.absent = lose
    with pytest.raises(Lost):
        shaken.round()
    shaken.absent = calm.absent
    shaken.restore(snapshot)
    shaken.run(8)
    np.testing.assert_array_equal(calm.server.model(), shaken.server.model())


def test_a_run_repeats_with_its_seed_and_differs_with_another() -> None:
    case = problem(**CASE)
    models = []
    for seed in (1, 1, 2):
        run = simulation(case, seed=seed, stop={"gap": None})
        run.run(5)
        models.append(run.server.model())
    np.testing.assert_array_equal(models[0], models[1])
    assert not np.array_equal(models[0], models[2])


@pytest.mark.parametrize("grid", GRIDS)
def test_encrypted_and_plain_runs_of_one_seed_are_equal_bit_for_bit(grid: tuple[int, int]) -> None:
    case = problem(**CASE)
    shards, chosen = partition(case.data, grid=grid), settings(case, certificate_every=2, stop={"gap": None})
    paillier = cipher()
    encrypted = Simulation.of(shards, chosen, cipher=paillier, key=paillier.key.public_key)
    plain = Simulation.of(shards, chosen)
    for _ in range(3):
        assert encrypted.round().metrics == plain.round().metrics
    np.testing.assert_array_equal(encrypted.server.model(), plain.server.model())
    assert not any(isinstance(vector, PlainVector) for vector in encrypted.server._state.alpha.values())


def test_overlapping_features_count_once_with_the_first_rule() -> None:
    case = problem(**CASE)
    left, right = partition(case.data, grid=(1, 2))
    order = [left.ids.index(sample) for sample in right.ids]
    assert isinstance(left.X, np.ndarray)
    assert isinstance(right.X, np.ndarray)
    wider = Shard(right.ids, (*right.features, left.features[0]), np.column_stack([right.X, left.X[order, 0]]), right.y)
    run = Simulation.of([left, wider], settings(case, stop={"gap": 1e-4, "rounds": 400}), overlap=OverlapRule.FIRST)
    assert run.run().outcome is Outcome.CONVERGED
    assert abs(case.primal(run.weights(case.data.features)) - case.optimum) <= 1e-4


def test_rounds_and_phases_out_of_order_are_refused() -> None:
    run = simulation(problem(**CASE))
    with pytest.raises(InvalidInput, match="round_id"):
        run.server.open_round(RoundId(2), run.names, frozenset())
    with pytest.raises(InvalidInput, match="no round is open"):
        run.server.advance("primal", {})
    run.server.open_round(RoundId(1), run.names, frozenset())
    with pytest.raises(InvalidInput, match="not the open phase"):
        run.server.advance("primal", {})
