"""The averaging rails under an algorithm that uses all of them: a survey, chosen coordinates, memory, checkpoints."""

from dataclasses import replace

import numpy as np
import pytest

from fenchel.v1.records_pb2 import RoundResult
from fenchel_client.algorithms.averaging.blocks import CoordinateBlocks
from fenchel_common.algorithms.averaging.rails import (
    CHECKPOINT_AFTER,
    LOCAL,
    MEASURE,
    MEASURED,
    MODEL,
    SURVEY,
    Measurement,
    Result,
)
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidInput, StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire.averaging import result_to_bytes
from fenchel_deploy.inprocess.layouts import aligned
from fenchel_server.algorithms.averaging.log import coordinate_blocks
from fenchel_server.contract import PhaseRequest
from support.averaging import Averaging
from support.drift import DATA, DRIFT, book_of, current_round, drift, states
from support.halves import changed
from support.layouts import A, B, small_federation_layout
from support.problems import problem

ROUNDS = 2 * CHECKPOINT_AFTER + 3


def with_body(result: bytes, body: bytes) -> bytes:
    """A client's result with another body in its envelope."""
    return changed(RoundResult, lambda message: setattr(message, "body", body))(result)


def assert_same(left: Averaging, right: Averaging) -> None:
    for client, state in states(left).items():
        for name, values in state.items():
            np.testing.assert_array_equal(values, states(right)[client][name])


@pytest.mark.parametrize("sparse", [False, True], ids=["all coordinates", "chosen coordinates"])
def test_restarts_and_checkpoints_leave_the_result_as_it_would_have_been(sparse: bool) -> None:
    calm, shaken = drift(sparse=sparse), drift(sparse=sparse)
    for number in range(1, ROUNDS + 1):
        calm.round()
        client = sorted(shaken.names)[number % 3]
        shaken.restart(client)
        if number % 4 == 0:
            shaken.restore(shaken.server.snapshot())
        shaken.round(restarted=shaken.names if number % 4 == 0 else frozenset({client}))
    assert_same(calm, shaken)
    assert [report.metrics for report in calm.reports] == [report.metrics for report in shaken.reports]
    assert calm.server.memory == shaken.server.memory


@pytest.mark.parametrize("sparse", [False, True], ids=["all coordinates", "chosen coordinates"])
def test_checkpoints_keep_the_log_short(sparse: bool) -> None:
    run = drift(sparse=sparse)
    lengths = []
    for _ in range(ROUNDS):
        run.round()
        lengths.append(len(run.server._log.entries))
    assert max(lengths) <= CHECKPOINT_AFTER
    assert len(set(lengths)) > 1


def test_blocks_of_several_cohorts_may_be_restated_in_different_rounds() -> None:
    """The first party holds what the second holds and what the third holds; the first two are away for a while."""
    whole, split = partition(DATA, grid=(2, 1))
    halves = [
        replace(split, features=split.features[columns], X=split.X[:, columns])
        for columns in (slice(3, 6), slice(0, 3))
    ]
    shards = [whole, *halves]
    calm, shaken = Averaging.of(DRIFT, shards), Averaging.of(DRIFT, shards)
    away = {ClientId("party-00"), ClientId("party-01")}
    for run in (calm, shaken):
        run.absent = lambda round_id, _phase, client: round_id in range(5, 14) and client in away
    for number in range(1, ROUNDS + 1):
        calm.round()
        client = sorted(shaken.names)[number % 3]
        shaken.restart(client)
        shaken.round(restarted=frozenset({client}))
    assert_same(calm, shaken)
    first, second = (states(calm)[ClientId(f"party-0{number}")] for number in (0, 1))
    np.testing.assert_array_equal(first["trail"][3:], second["trail"])


def test_chosen_coordinates_alone_travel_and_change() -> None:
    run = drift(sparse=True)
    run.round()
    (entry,) = run.server._log.entries
    assert entry.chosen
    model = states(run)[ClientId("party-00")][MODEL]
    (logged,) = book_of(run, ClientId("party-00")).log.entries
    assert logged.coordinates is not None
    assert np.flatnonzero(model).tolist() == logged.coordinates.tolist()


def test_a_survey_comes_first_and_its_numbers_are_told_back() -> None:
    run = drift()
    run.round()
    assert [phase for _, phase in run.phases] == [SURVEY, LOCAL]
    plan = current_round(run, ClientId("party-00")).plan
    assert plan is not None
    assert plan.told == {"mean": 1.0}
    assert plan.weights == dict(zip(sorted(run.names), (0.25, 0.5, 0.75), strict=True))


def test_a_weighted_mean_is_over_the_weights_of_those_who_answered() -> None:
    run = drift()
    run.absent = lambda _round, phase, client: phase == LOCAL and client == ClientId("party-01")
    run.round()
    run.states()  # the parties get the record of the round
    (entry,) = book_of(run, ClientId("party-00")).log.entries
    assert [entry.weight(block) for block in entry.blocks] == [0.25 + 0.75]


def test_figures_of_the_algorithm_are_part_of_the_record() -> None:
    run = drift()
    reports = [run.round() for _ in range(3)]
    assert [dict(report.metrics.figures) for report in reports] == [{}, {}, {"rows": 40.0}]


def test_coordinates_with_the_same_holders_share_blocks_and_classes_lie_side_by_side() -> None:
    blocks = coordinate_blocks(small_federation_layout(), width=3)
    assert {number: block.holders for number, block in blocks.items()} == {0: (A,), 1: (A,), 2: (A,), 3: (B,), 4: (B,)}
    assert [block.coordinates.tolist() for block in blocks.values()] == [[0, 1], [2, 6], [7, 8], [3, 4], [5]]


@pytest.mark.parametrize(
    "lie",
    [
        Result(),
        Result(reported={"size": float("nan")}),
        Result(reported={"size": 1.0, "more": 2.0}),
        Result(reported={"size": 1.0}, measurement=Measurement(samples=3)),
    ],
    ids=["nothing", "not a number", "unknown number", "unasked measurement"],
)
def test_a_client_that_answers_something_else_is_left_out_with_the_reason(lie: Result) -> None:
    run = drift()
    liar = ClientId("party-02")
    step = run.server.begin_round(RoundId(1), run.names, frozenset(), attempt=run.attempt)
    answers = run.answers(RoundId(1), step)
    local = run.server.advance(step.phase, {**answers, liar: with_body(answers[liar], result_to_bytes(lie))})
    assert isinstance(local, PhaseRequest)
    assert liar not in local.tasks
    assert run.server._current().absences[liar].startswith("survey: rejected: ")


def test_vectors_that_were_not_asked_for_or_are_stale_are_refused() -> None:
    run = drift()
    run.round()
    step = run.server.begin_round(RoundId(2), run.names, frozenset(), attempt=run.attempt)
    surveyed = run.answers(RoundId(2), step)
    local = run.server.advance(step.phase, surveyed)
    assert isinstance(local, PhaseRequest)
    answers = run.answers(RoundId(2), local)
    first, second, third = sorted(answers)
    report = run.server.advance(LOCAL, {first: answers[first], second: b"\xff", third: surveyed[third]})
    assert not isinstance(report, PhaseRequest)
    assert report.metrics.participants == (first,)
    assert set(report.metrics.absences) == {second, third}


@pytest.mark.parametrize("body", [b"", b"\xff\xff", b"\x08\x01"])
def test_a_client_without_memory_refuses_a_task_without_the_state_or_that_is_no_task(body: bytes) -> None:
    run = drift()
    run.round()
    run.server.begin_round(RoundId(2), run.names, frozenset(), attempt=run.attempt)
    client = ClientId("party-00")
    run.restart(client)
    run.participants[client].transcript.take(0, run.server._transcript.records)
    with pytest.raises(InvalidInput):
        run.clients[client].answer(SURVEY, body, book_of(run, client))


@pytest.mark.parametrize("phase", ["inner_product", "round", LOCAL, MEASURE, MEASURED])
def test_a_client_refuses_a_phase_that_its_algorithm_lacks_or_that_is_not_due(phase: str) -> None:
    run = drift()
    run.server.begin_round(RoundId(1), run.names, frozenset(), attempt=run.attempt)
    client = ClientId("party-00")
    run.participants[client].transcript.take(0, run.server._transcript.records)
    with pytest.raises(InvalidInput, match=r"phase|figures"):
        run.clients[client].answer(phase, b"", book_of(run, client))


def test_the_server_refuses_results_of_another_phase_and_rounds_out_of_turn() -> None:
    run = drift()
    with pytest.raises(InvalidInput, match="no round is under way"):
        run.server.advance(LOCAL, {})
    with pytest.raises(InvalidInput, match="cannot follow"):
        run.server.begin_round(RoundId(2), run.names, frozenset(), attempt=1)
    run.server.begin_round(RoundId(1), run.names, frozenset(), attempt=1)
    with pytest.raises(InvalidInput, match="is not under way"):
        run.server.advance(LOCAL, {})


def test_a_damaged_snapshot_is_refused() -> None:
    run = drift()
    run.round()
    snapshot = run.server.snapshot()
    with pytest.raises(StateDamaged):
        run.restore(replace(snapshot, own=snapshot.own[:-3]))
    run.restore(snapshot)
    assert run.server.snapshot() == snapshot


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("grid", [(3, 1), (1, 3), (2, 2)], ids=["horizontal", "vertical", "hybrid"])
def test_every_party_works_out_the_blocks_of_coordinates_that_the_server_has(grid: tuple[int, int], width: int) -> None:
    shards, alignment = aligned(partition(problem(rows=30, columns=70).data, grid=grid), seed=1)
    layout = alignment.federation
    blocks = coordinate_blocks(layout, width=width)
    for client in layout.clients:
        own = CoordinateBlocks.of(alignment.clients[client], width=width)
        assert own.holders == {number: block.holders for number, block in blocks.items() if client in block.holders}
        features = sorted(shards[client].features)
        names = own.names(features, width=width)
        for number, positions in own.positions.items():
            coordinates = blocks[number].coordinates.tolist()
            expected = [f"{layout.features[one // width]}/{one % width}" for one in coordinates]
            assert [names[position] for position in positions] == expected
