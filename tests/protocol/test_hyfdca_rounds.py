"""HyFDCA's rounds: phases, convergence, certificates, what travels."""

import numpy as np
import pytest

from fenchel.v1 import hyfdca_pb2
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.errors import AlignmentError, InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.objectives import primal_point
from fenchel_deploy.papers.splits import nonzeros
from fenchel_server.algorithms.hyfdca.round import MEASURED_ALONE
from fenchel_server.algorithms.hyfdca.server import HyfdcaServer
from fenchel_server.cohorts import OverlapRule
from fenchel_server.contract import Outcome
from support.halves import forged
from support.hyfdca import CASE, FIRST, GRIDS, LAST, settings, simulation
from support.listed import numbers_in
from support.problems import problem
from support.simulation import Simulation, read_unchecked


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


@pytest.mark.parametrize("participation", ["fraction:0.5", "cyclic:2"])
def test_measuring_does_not_train_in_a_run_of_some_parties(participation: str) -> None:
    """A certificate asks all parties, and so has a round of its own; the others have those whose turn it is."""
    case = problem(**CASE)
    run = simulation(case, participation=participation, certificate_every=3, stop={"gap": None})
    alone = simulation(case, participation=participation, certificate_every=0, stop={"gap": None})
    trained = []
    for round_id in range(1, 10):
        before = run.alpha(case.ids)
        metrics = run.round().metrics
        if round_id % 3:
            assert metrics.gap is None
            trained.append(metrics.participants)
            continue
        assert metrics.gap is not None
        assert metrics.participants == tuple(sorted(run.names))
        assert metrics.samples_updated == 0
        assert MEASURED_ALONE in metrics.note
        np.testing.assert_array_equal(run.alpha(case.ids), before)
    assert trained == [alone.round().metrics.participants for _ in range(6)]
    run.run(11)
    metrics = run.round(available=run.names - {LAST}).metrics
    assert (metrics.gap, set(metrics.absences)) == (None, {LAST})


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
    """Of the w that entered the round, and of the α that it stands for: the α before the round."""
    case = problem(**CASE)
    run = simulation(case, grid, certificate_every=1, stop={"gap": 1e-6, "rounds": 30})
    for _ in range(30):
        alpha = run.alpha(case.ids)
        metrics = run.round().metrics
        w = run.weights(case.data.features)
        assert metrics.gap is not None
        assert metrics.gap_error is not None
        assert metrics.gap >= case.primal(w) - case.optimum
        true_gap = case.primal(w) - case.dual(alpha)
        assert abs(metrics.gap - metrics.gap_error - true_gap) <= metrics.gap_error + 1e-15
        correct = np.where(case.data.X @ w >= 0.0, 1.0, -1.0) == case.data.y
        assert metrics.accuracy == pytest.approx(correct.mean())


@pytest.mark.parametrize("grid", GRIDS)
def test_the_model_is_the_sum_of_the_rounded_shares_of_the_dual_variables_that_entered_the_round(
    grid: tuple[int, int],
) -> None:
    """|w̃ − w(α)| ≤ holders·2^-33 for every feature."""
    case = problem(**CASE)
    run = simulation(case, grid, stop={"gap": None})
    holders = {
        run.alignment.federation.features[feature]: len(block.holders)
        for block in run.alignment.federation.feature_blocks
        for feature in block.features
    }
    for _ in range(8):
        alpha = run.alpha(case.ids)
        run.round()
        off = np.abs(run.weights(case.data.features) - primal_point(case.data.X, alpha, lambda_=case.lambda_))
        assert (off <= [holders[name] * 2.0**-33 for name in case.data.features]).all()


def test_the_model_at_the_end_is_the_one_that_was_certified() -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": 1e-3, "rounds": 400})
    report = run.run()
    assert report.metrics.primal is not None
    assert report.metrics.gap_error is not None
    certified = case.primal(run.weights(case.data.features))
    assert abs(report.metrics.primal - certified) <= report.metrics.gap_error
    run.restore(run.server.snapshot())
    assert case.primal(run.weights(case.data.features)) == certified


def test_after_the_last_round_a_closing_round_certifies_and_changes_nothing() -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": None, "rounds": 3}, certificate_every=0)
    run.run(3)
    alpha = run.alpha(case.ids)
    report = run.round()
    assert report.outcome is Outcome.FINISHED
    assert report.metrics.gap is not None
    assert report.metrics.samples_updated == 0
    np.testing.assert_array_equal(run.alpha(case.ids), alpha)
    w = primal_point(case.data.X, alpha, lambda_=case.lambda_)
    np.testing.assert_allclose(run.weights(case.data.features), w, rtol=0, atol=4 * 2.0**-33)
    assert [phase for at, phase in run.phases if at == 4] == ["inner_product", "local_dual", "primal"]
    assert {client for at, phase, client, _, _ in run.messages if (at, phase) == (4, "primal")} == run.names


def test_a_closing_round_without_all_clients_ends_the_run_without_a_certificate() -> None:
    run = simulation(problem(**CASE), stop={"gap": None, "rounds": 2}, certificate_every=0)
    run.run(2)
    report = run.round(available=run.names - {LAST})
    assert report.outcome is Outcome.FINISHED
    assert report.metrics.gap is None
    assert "no certificate" in report.metrics.note


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
    for _, phase, client, body, answer in run.messages:
        if phase == "local_dual" and client not in (ClientId("party-00"), ClientId("party-02")):
            task, result = hyfdca_pb2.HyfdcaDualTask.FromString(body), hyfdca_pb2.HyfdcaDualResult.FromString(answer)
            assert not task.HasField("norms")
            assert not task.HasField("products")
            assert not result.HasField("changes")
            assert not result.HasField("restated")
            loss, conjugate, correct, _, samples = np.frombuffer(result.figures.plain.values, dtype="<i8")
            assert (loss, conjugate, correct, samples) == (0, 0, 0, 0)


def test_cached_inner_products_of_clients_that_left_are_those_of_the_present_model() -> None:
    """Proof of Theorem 4.11, point 2: in the vertical setting the server's sum is the true x_i·w."""
    case = problem(**CASE)
    run = simulation(case, (1, 4), participation="cyclic:2", certificate_every=0)
    for _ in range(12):
        run.round()
        assert isinstance(run.server, HyfdcaServer)
        state = run.server._state
        w, contributions = np.zeros(len(case.data.features)), state.summed_contributions()
        for block in run.alignment.federation.feature_blocks:
            if block.id in contributions:
                w[block.features] = read_unchecked(run.ciphers[FIRST], contributions[block.id])[: len(block.features)]
        row = {sample: position for position, sample in enumerate(case.ids)}
        layout, shard = run.alignment.clients[FIRST], run.shards[FIRST]
        if len(run.reports) < 2:
            continue  # the second set has not given any yet
        for block in layout.block_ids:
            products = state.products_of([int(block)])
            assert products is not None
            rows = [row[shard.ids[position]] for position in layout.rows_of([int(block)])]
            expected = case.data.X[rows] @ w
            values = read_unchecked(run.ciphers[FIRST], products.vector)[: len(rows)]
            np.testing.assert_allclose(values, expected, atol=4 * 2.0**-33)


def test_a_share_is_as_long_whatever_has_changed() -> None:
    """Each row touches one column only: the changed entries alone would name the rows that were updated."""
    rng = np.random.default_rng(0)
    count = 64
    y = np.where(rng.random(count) < 0.5, 1.0, -1.0)
    features = tuple(f"x{column:02d}" for column in range(count))
    shard = Shard(tuple(str(row) for row in range(count)), features, np.eye(count), y)
    for h in (2, 60):
        values = {
            "local": "paper",
            "privacy": "paper",
            "lambda": 0.1,
            "h": h,
            "certificate_every": 0,
            "stop": {"gap": None},
        }
        run = Simulation.of([shard], HyfdcaSettings.parse(values))
        run.run(4)
        for _, phase, _, _, result in run.messages:
            if phase == "primal":
                contribution = hyfdca_pb2.HyfdcaPrimalResult.FromString(result).contribution
                assert numbers_in(contribution.blocks) == [0, 1, 2]
                assert len(contribution.vector.plain.values) == 8 * 3 * 30


def test_the_model_travels_whole_and_only_to_those_who_lack_it() -> None:
    """With a second SecureInnerProduct the clients know the model that enters the next round already."""
    run = simulation(problem(**CASE), stop={"gap": None}, second_inner_product=True, certificate_every=0)
    run.run(4)
    told = set()
    for at, phase, client, body, _ in run.messages:
        if phase.startswith("inner_product"):
            task = hyfdca_pb2.HyfdcaProductTask.FromString(body)
            if task.HasField("model"):
                assert numbers_in(task.model.blocks) == list(run.alignment.clients[client].feature_blocks)
                told.add((at, phase, client))
    assert told == {(at, "inner_product_after", client) for at in range(1, 5) for client in run.names}


def test_a_run_repeats_with_its_seed_and_differs_with_another() -> None:
    case = problem(**CASE)
    models = []
    for seed in (1, 1, 2):
        run = simulation(case, seed=seed, stop={"gap": None})
        run.run(5)
        models.append(run.model())
    np.testing.assert_array_equal(models[0], models[1])
    assert not np.array_equal(models[0], models[2])


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


def test_with_unit_row_norms_nobody_is_told_norms_and_a_server_that_sends_them_is_refused() -> None:
    run = simulation(problem(**CASE), stop={"gap": None}, certificate_every=0, row_norm="unit")
    run.round()
    bodies = [body for _, phase, _, body, _ in run.messages if phase == "local_dual"]
    assert len(bodies) == 4
    assert not any(hyfdca_pb2.HyfdcaDualTask.FromString(body).HasField("norms") for body in bodies)
    measured = simulation(problem(**CASE), stop={"gap": None}, certificate_every=0)
    measured.round()
    told = next(body for _, phase, _, body, _ in measured.messages if phase == "local_dual")
    norms = hyfdca_pb2.HyfdcaDualTask.FromString(told).norms
    run.forging[2, "local_dual", FIRST] = forged(
        hyfdca_pb2.HyfdcaDualTask, lambda message: message.norms.CopyFrom(norms)
    )
    with pytest.raises(InvalidInput, match="norms: the steps of this run do not use them"):
        run.round()


@pytest.mark.parametrize("row_norm", ["measured", "unit"])
def test_values_of_a_sample_that_several_parties_hold_in_parts_are_added_up(row_norm: str) -> None:
    """Supplement 7.2: of each sample every party of a group has a part of the values that are not zero."""
    case = problem(**CASE)
    shards = nonzeros(case.data, (2, 3), seed=0)
    assert set(shards[0].features) & set(shards[1].features)
    chosen = settings(case, stop={"gap": 1e-4, "rounds": 800}, row_norm=row_norm)
    run = Simulation.of(shards, chosen, overlap=OverlapRule.SUM)
    assert run.run().outcome is Outcome.CONVERGED
    assert abs(case.primal(run.weights(case.data.features)) - case.optimum) <= 1e-4
    with pytest.raises(AlignmentError, match='or overlap = "sum"'):
        Simulation.of(shards, chosen)


def test_rounds_and_phases_out_of_order_are_refused() -> None:
    run = simulation(problem(**CASE))
    with pytest.raises(InvalidInput, match="round_id"):
        run.server.begin_round(RoundId(2), run.names, frozenset(), attempt=1)
    with pytest.raises(InvalidInput, match="no round is under way"):
        run.server.advance("primal", {})
    run.server.begin_round(RoundId(1), run.names, frozenset(), attempt=1)
    with pytest.raises(InvalidInput, match="is not under way"):
        run.server.advance("primal", {})
