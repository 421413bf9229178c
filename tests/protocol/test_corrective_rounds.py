"""HyFDCA with corrective steps: D never falls, few rounds, clients that come and go, snapshots."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel.v1 import corrective_pb2
from fenchel_client.algorithms.corrective import CorrectiveClient
from fenchel_client.crypto.keys import KeyKind
from fenchel_common.algorithms.corrective import MEMORY, Combination
from fenchel_common.algorithms.hyfdca import HyfdcaSettings
from fenchel_common.crypto.vectors import PlainCipher
from fenchel_common.data.datasets import load_dataset
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_deploy.bench.rounds import Sweep, run
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_server.algorithms import hull
from fenchel_server.algorithms.base import Outcome, RoundReport
from fenchel_server.algorithms.corrective import CorrectiveServer
from fenchel_server.cohorts import OverlapRule
from fenchel_server.rounds.requests import PhaseRequest
from support.keys import cipher, private_key
from support.problems import Problem, problem
from support.simulation import Simulation

Array = NDArray[np.float64]
CASE: dict[str, Any] = {"rows": 120, "columns": 8, "lambda_": 0.01}
GRIDS = [(2, 2), (4, 1), (1, 4), (2, 4)]
LOSSES = ["hinge", "smoothed_hinge", "logistic"]
FIRST, SECOND, LAST = ClientId("party-00"), ClientId("party-01"), ClientId("party-03")


def settings(case: Problem, **values: object) -> HyfdcaSettings:
    return HyfdcaSettings.parse({"loss": case.loss.name, "lambda": case.lambda_, "local": "corrective", **values})


def simulation(case: Problem, grid: tuple[int, int] = (2, 2), **values: object) -> Simulation:
    return Simulation.of(partition(case.data, grid=grid), settings(case, **values))


def server_of(run: Simulation) -> CorrectiveServer:
    assert isinstance(run.server, CorrectiveServer)
    return run.server


def chained() -> tuple[Problem, list[Shard]]:
    """Three parties in a chain: the first two share some rows, the last two others, and each has rows of its own."""
    case = problem(**CASE)
    parts = [(slice(70), slice(3)), (slice(40, 100), slice(3, 6)), (slice(80, 120), slice(6, 8))]
    full, X = np.asarray(case.data.X), np.zeros(case.data.X.shape)
    for rows, columns in parts:
        X[rows, columns] = full[rows, columns]
    data = replace(case.data, X=X)
    optimum = solve_centralized(X, data.y, loss=case.loss, lambda_=case.lambda_).primal
    shards = [
        Shard(tuple(case.ids[rows]), data.features[columns], X[rows, columns], data.y[rows]) for rows, columns in parts
    ]
    return Problem(data, case.loss, case.lambda_, optimum), shards


@pytest.mark.parametrize(
    ("grid", "phases"),
    [
        ((2, 2), ["inner_product", "local_dual", "primal"]),
        ((1, 4), ["inner_product", "local_dual", "primal"]),
        ((4, 1), ["local_dual", "primal"]),
    ],
)
def test_a_round_takes_three_round_trips_and_two_without_shared_samples(
    grid: tuple[int, int], phases: list[str]
) -> None:
    run = simulation(problem(**CASE), grid, stop={"gap": None})
    run.run(5)
    for round_id in range(1, 6):
        assert [phase for at, phase in run.phases if at == round_id] == phases


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("grid", GRIDS)
def test_a_run_ends_at_the_centralized_optimum_and_d_never_falls(loss: str, grid: tuple[int, int]) -> None:
    case = problem(**CASE, loss=loss)
    run = simulation(case, grid, stop={"gap": 1e-5, "rounds": 100})
    before = 0.0
    while run.round().outcome is None:
        dual = case.dual(run.alpha(case.ids))
        assert dual >= before - 1e-15
        before = dual
    report = run.reports[-1]
    assert report.outcome is Outcome.CONVERGED
    error = case.primal(run.weights(case.data.features)) - case.optimum
    assert report.metrics.gap is not None
    assert -1e-9 <= error <= report.metrics.gap <= 1e-5


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_promised_for_the_next_round_is_reached_up_to_fixed_point(loss: str) -> None:
    """The corrective step bounds D at the combined α from below, for any convex loss."""
    case = problem(**CASE, loss=loss)
    run = simulation(case, stop={"gap": None})
    for _ in range(8):
        promised = run.round().metrics.dual_after
        assert promised is not None
        certified = run.round().metrics.dual
        assert certified is not None
        assert certified >= promised - 1e-8


def test_every_certificate_bounds_the_error() -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": None})
    for _ in range(12):
        w = run.weights(case.data.features)
        metrics = run.round().metrics
        assert metrics.gap is not None
        assert metrics.gap >= case.primal(w) - case.optimum
        assert metrics.dual is not None
        assert metrics.dual <= case.optimum + 1e-12


def test_the_model_at_the_end_is_the_one_that_was_certified() -> None:
    run = simulation(problem(**CASE), stop={"gap": 1e-3, "rounds": 100})
    while True:
        before = run.server.model()
        if run.round().outcome is not None:
            break
    np.testing.assert_array_equal(run.server.model(), before)
    run.restore(run.server.snapshot())
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
    run = simulation(case, (1, 4), stop={"gap": None})
    for _ in range(15):
        run.round()
        b = case.data.y * run.alpha(case.ids)
        assert b.min() >= 0.0
        assert b.max() <= 1.0


def test_it_needs_a_tenth_of_the_rounds_of_the_best_tuned_paper_variant() -> None:
    sweep = Sweep(lambdas=[1e-3], grids=[(4, 4)], columns=["contiguous"], methods=["paper", "corrective"])
    summary = run(sweep, folder=None, repeat_encrypted=False, tell=lambda _: None)["summary"]
    assert summary["median_ratio"] <= 0.1
    assert summary["corrective_monotone"]
    assert summary["corrective_diverged"] == 0


def test_it_converges_where_the_paper_variant_diverges() -> None:
    case = problem(rows=120, columns=4, lambda_=1e-3)
    paper = HyfdcaSettings.parse({"lambda": case.lambda_, "h": 1.0, "certificate_every": 1})
    assert Simulation.of(partition(case.data, grid=(2, 2)), paper).run().outcome is Outcome.DIVERGED
    assert simulation(case, stop={"gap": 1e-4, "rounds": 100}).run().outcome is Outcome.CONVERGED


@pytest.mark.parametrize("kind", ["worst", "useless"])
def test_weights_that_do_not_help_are_not_used(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Whatever the small program returns, D is kept: here it puts all weight on the last vertex, or on nothing new."""
    case = problem(**CASE)
    run = simulation(case, stop={"gap": None})

    def adversary(_G: Array, h: Array, groups: Sequence[NDArray[np.int64]], _start: Sequence[int]) -> Array:
        b = np.zeros(len(h))
        b[[int(entries[-1 if kind == "worst" else 0]) for entries in groups]] = 1.0
        return b

    run.run(3)
    monkeypatch.setattr(hull, "maximise_over_simplices", adversary)
    before = case.dual(run.alpha(case.ids))
    for _ in range(4):
        run.round()
        dual = case.dual(run.alpha(case.ids))
        assert dual >= before - 1e-15
        before = dual


def test_a_new_alpha_with_a_lower_d_than_promised_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients' own figures decide: weights that pass the server's test by mistake do not become the anchor."""
    case = problem(**CASE)
    run = simulation(case, stop={"gap": None})
    run.run(3)
    server = server_of(run)
    group = server._state.hulls[0]
    assert group.pending is not None
    newest = max(group.vertices)
    for each in server._state.hulls:
        each.pending = Combination(4, 0.0, 0.0, {newest: 1.0})
    before = run.alpha(case.ids)
    run.round()
    np.testing.assert_array_equal(run.alpha(case.ids), before)
    assert run.run(8).metrics.absences == {}


def test_parties_without_labels_help_but_neither_solve_nor_report() -> None:
    case = problem(**CASE)
    shards = partition(case.data, grid=(2, 2), labels="first")
    run = Simulation.of(shards, settings(case, stop={"gap": 1e-3, "rounds": 100}))
    assert run.run().outcome is Outcome.CONVERGED
    asked = {client for _, phase, client, _, _ in run.messages if phase == "local_dual"}
    assert asked == {ClientId("party-00"), ClientId("party-02")}


def test_parties_that_overlap_in_part_reach_the_optimum() -> None:
    case, shards = chained()
    run = Simulation.of(shards, settings(case, stop={"gap": 1e-4, "rounds": 150}))
    assert len(server_of(run)._state.groups) == 1
    assert run.run().outcome is Outcome.CONVERGED
    assert case.primal(run.weights(case.data.features)) - case.optimum <= 1e-4


def test_a_feature_that_two_parties_hold_is_counted_once() -> None:
    case = problem(**CASE)
    X, y, names = np.asarray(case.data.X), case.data.y, case.data.features
    left = Shard(tuple(case.ids), names[:5], X[:, :5], y)
    right = Shard(tuple(case.ids), names[4:], X[:, 4:], y)
    run = Simulation.of([left, right], settings(case, stop={"gap": 1e-4, "rounds": 100}), overlap=OverlapRule.FIRST)
    assert run.run().outcome is Outcome.CONVERGED
    assert case.primal(run.weights(names)) - case.optimum <= 1e-4


def test_blocks_with_an_absent_holder_keep_their_alpha_and_the_others_go_on() -> None:
    """The guarantee with absent clients: D is exact and does not fall, and frozen blocks do not move at all."""
    case = problem(**CASE)
    run = simulation(case, stop={"gap": None})
    run.run(3)
    frozen = [case.ids.index(sample) for sample in run.shards[LAST].ids]
    alpha = run.alpha(case.ids)
    before = case.dual(alpha)
    for _ in range(6):
        metrics = run.round(available=run.names - {LAST}).metrics
        assert metrics.absences == {LAST: "not there when the round began"}
        now = run.alpha(case.ids)
        np.testing.assert_array_equal(now[frozen], alpha[frozen])
        assert case.dual(now) >= before - 1e-15
        before = case.dual(now)
    assert not np.array_equal(now, alpha)
    anchors = [each.anchor for each in server_of(run)._state.hulls]
    assert server_of(run)._state.corrector.value(anchors) == pytest.approx(case.dual(now), abs=1e-12)
    assert run.round().metrics.gap is not None


def test_in_a_chain_of_parties_the_blocks_without_the_absent_one_go_on() -> None:
    case, shards = chained()
    run = Simulation.of(shards, settings(case, stop={"gap": None}))
    run.run(4)
    last = ClientId("party-02")
    before = run.alpha(case.ids)
    for _ in range(4):
        run.round(available=run.names - {last})
        anchors = [each.anchor for each in server_of(run)._state.hulls]
        assert server_of(run)._state.corrector.value(anchors) == pytest.approx(
            case.dual(run.alpha(case.ids)), abs=1e-12
        )
    held = [case.ids.index(sample) for sample in run.shards[last].ids]
    moved = run.alpha(case.ids) != before
    assert not moved[held].any()
    assert moved.any()
    while run.round().metrics.gap is None or (run.reports[-1].metrics.gap or 1.0) > 1e-3:
        assert len(run.reports) < 80


def test_a_vertical_federation_stands_still_while_one_is_absent_and_goes_on_afterwards() -> None:
    case = problem(**CASE)
    run = simulation(case, (1, 4), stop={"gap": None})
    run.run(3)
    before = run.alpha(case.ids)
    report = run.round(available=run.names - {LAST})
    assert report.metrics.samples_updated == 0
    np.testing.assert_array_equal(run.alpha(case.ids), before)
    run.round()
    assert not np.array_equal(run.alpha(case.ids), before)


@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
@pytest.mark.parametrize("phase", ["inner_product", "local_dual", "primal"])
def test_a_client_that_fails_in_any_phase_never_lowers_d(phase: str, grid: tuple[int, int]) -> None:
    case = problem(**CASE)
    run = simulation(case, grid, stop={"gap": 1e-4, "rounds": 100})
    run.absent = lambda at, during, who: at in (2, 5) and during == phase and who == FIRST
    before = 0.0
    while run.round().outcome is None:
        dual = case.dual(run.alpha(case.ids))
        assert dual >= before - 1e-15
        before = dual
    assert run.reports[-1].outcome is Outcome.CONVERGED
    if phase in {during for _, during in run.phases}:
        assert phase in run.reports[1].metrics.absences[FIRST]


def test_a_round_in_which_a_client_fails_to_open_is_void_and_says_so() -> None:
    case = problem(**CASE)
    run = simulation(case, stop={"gap": None})
    run.run(3)
    model, alpha = run.server.model(), run.alpha(case.ids)
    run.absent = lambda at, phase, who: (at, phase, who) == (4, "inner_product", LAST)
    assert "void" in run.round().metrics.note
    np.testing.assert_array_equal(run.server.model(), model)
    np.testing.assert_array_equal(run.alpha(case.ids), alpha)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_d_never_falls_through_a_storm_of_absences_and_restarts(loss: str) -> None:
    case = problem(**CASE, loss=loss)
    run = simulation(case, stop={"gap": 1e-4, "rounds": 400})
    rng = np.random.default_rng(5)
    run.absent = lambda at, _phase, _who: at <= 40 and rng.random() < 0.03
    before = 0.0
    for _ in range(40):
        restarted = frozenset(client for client in sorted(run.names) if rng.random() < 0.1)
        for client in restarted:
            run.restart(client)
        available = frozenset(client for client in sorted(run.names) if rng.random() < 0.9)
        if run.round(available=available, restarted=restarted).outcome is not None:
            break
        dual = case.dual(run.alpha(case.ids))
        assert dual >= before - 1e-15
        before = dual
    if run.reports[-1].outcome is None:
        run.run()
    assert run.reports[-1].outcome is Outcome.CONVERGED


@pytest.mark.parametrize("grid", GRIDS)
def test_a_run_restored_after_every_round_equals_an_undisturbed_one(grid: tuple[int, int]) -> None:
    case = problem(**CASE)
    calm = simulation(case, grid, stop={"gap": None})
    shaken = simulation(case, grid, stop={"gap": None})
    for round_id in range(1, 10):
        calm.round()
        shaken.restore(shaken.server.snapshot())
        if round_id % 3 == 0:
            for client in sorted(shaken.names):
                shaken.restart(client)
        shaken.round()
        assert calm.reports[-1].metrics == shaken.reports[-1].metrics
        np.testing.assert_array_equal(calm.server.model(), shaken.server.model())
        np.testing.assert_array_equal(calm.alpha(case.ids), shaken.alpha(case.ids))


@pytest.mark.parametrize("phase", ["inner_product", "local_dual", "primal"])
def test_a_server_lost_in_any_phase_resumes_with_the_same_result(phase: str) -> None:
    case = problem(**CASE)
    calm, lost = simulation(case, stop={"gap": None}), simulation(case, stop={"gap": None})
    calm.run(6)
    lost.run(3)
    snapshot = lost.server.snapshot()
    step: PhaseRequest | RoundReport = lost.server.open_round(RoundId(4), lost.names, frozenset())
    while isinstance(step, PhaseRequest) and step.phase != phase:
        results = {client: lost.clients[client].answer(step.phase, body) for client, body in step.tasks.items()}
        step = lost.server.advance(step.phase, results)
    lost.restore(snapshot)
    lost.run(6)
    np.testing.assert_array_equal(calm.server.model(), lost.server.model())
    np.testing.assert_array_equal(calm.alpha(case.ids), lost.alpha(case.ids))


def test_a_snapshot_restores_to_the_same_snapshot() -> None:
    run = simulation(problem(**CASE), stop={"gap": None})
    for round_id in range(1, 8):
        run.round(available=run.names - {LAST} if round_id in (4, 5) else None)
        snapshot = run.server.snapshot()
        run.restore(snapshot)
        assert run.server.snapshot() == snapshot


def test_a_restarted_client_gets_the_points_and_the_rest_of_the_round_is_as_if_nothing_had_happened() -> None:
    case = problem(**CASE)
    calm, shaken = simulation(case, stop={"gap": None}), simulation(case, stop={"gap": None})
    for _ in range(8):
        calm.round()
        shaken.restart(SECOND)
        shaken.round(restarted=frozenset({SECOND}))
        np.testing.assert_array_equal(calm.server.model(), shaken.server.model())


def test_memory_is_bounded_however_long_the_run() -> None:
    run = simulation(problem(**CASE), stop={"gap": None})
    sizes = []
    for _ in range(MEMORY + 15):
        run.round()
        sizes.append(len(run.server.snapshot()))
    assert sizes[-1] <= 1.05 * sizes[MEMORY + 1]
    assert all(len(each.vertices) <= MEMORY for each in server_of(run)._state.hulls)
    clients = [client for client in run.clients.values() if isinstance(client, CorrectiveClient)]
    assert max(len(client._models) for client in clients) <= MEMORY


def test_an_encrypted_run_gives_the_same_bits_as_one_in_clear() -> None:
    case = problem(rows=60, columns=6, lambda_=0.05)
    shards = partition(case.data, grid=(2, 2))
    chosen = settings(case, stop={"gap": None})
    encrypted = Simulation.of(
        shards, chosen, cipher=cipher(512, KeyKind.STANDARD), key=private_key(512, KeyKind.STANDARD).public_key
    )
    plain = Simulation.of(shards, chosen, cipher=PlainCipher(512), key=512)
    for _ in range(4):
        encrypted.round()
        plain.round()
        np.testing.assert_array_equal(encrypted.server.model(), plain.server.model())


@pytest.mark.parametrize("body", [b"", b"\xff\xff\xff", b"\x0a\x02\x08\x01"])
@pytest.mark.parametrize("phase", ["inner_product", "local_dual", "primal"])
def test_a_result_that_is_no_answer_is_rejected_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, phase: str, body: bytes
) -> None:
    run = simulation(problem(**CASE), stop={"gap": None})
    honest = run.answer

    def tampered(round_id: RoundId, at: str, client: ClientId, task: bytes) -> bytes:
        result = honest(round_id, at, client, task)
        return body if (round_id, at, client) == (2, phase, FIRST) else result

    monkeypatch.setattr(run, "answer", tampered)
    run.round()
    assert run.round().metrics.absences[FIRST].startswith(f"{phase}: rejected: ")
    assert run.round().metrics.absences == {}


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_share_that_is_not_a_sane_number_is_rejected(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    run = simulation(problem(**CASE), stop={"gap": None})
    honest = run.answer

    def tampered(round_id: RoundId, phase: str, client: ClientId, task: bytes) -> bytes:
        result = honest(round_id, phase, client, task)
        if (round_id, phase, client) != (2, "primal", LAST):
            return result
        message = corrective_pb2.CorrectivePrimalResult.FromString(result)
        values = np.frombuffer(message.point.share, dtype="<f8").copy()
        values[0] = value
        message.point.share = values.tobytes()
        return bytes(message.SerializeToString())

    monkeypatch.setattr(run, "answer", tampered)
    run.round()
    assert "share" in run.round().metrics.absences[LAST]
    assert np.isfinite(run.server.model()).all()
    assert run.round().metrics.absences == {}


def test_a_client_refuses_points_and_models_that_it_does_not_have() -> None:
    run = simulation(problem(**CASE), stop={"gap": None})
    run.run(3)
    request = run.server.open_round(RoundId(4), run.names, frozenset())
    run.restart(FIRST)
    with pytest.raises(InvalidInput, match="anchor"):
        run.clients[FIRST].answer(request.phase, request.tasks[FIRST])


def test_the_demonstration_data_take_few_rounds() -> None:
    data = load_dataset("breast_cancer")
    chosen = HyfdcaSettings.parse({"local": "corrective", "lambda": 1e-2, "stop": {"gap": 1e-4, "rounds": 50}})
    run = Simulation.of(partition(data, grid=(2, 2)), chosen)
    assert run.run().outcome is Outcome.CONVERGED
    assert len(run.reports) <= 12
