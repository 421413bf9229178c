"""A server that leaves the protocol of the averaging rails in what it chooses or invents, against real parties."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fenchel_common.algorithms.averaging.choices import RoundChoices
from fenchel_common.algorithms.averaging.rails import LOCAL, MEASURE, MEASURED, SURVEY
from fenchel_common.data.partition import partition
from fenchel_common.errors import Refusal
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import ROUND, Moment, Record
from fenchel_common.wire.averaging_choices import round_choices_to_bytes
from fenchel_common.wire.records import record_to_bytes
from fenchel_server.algorithms.averaging.plan import Numbers, Plan
from support.averaging import Averaging
from support.drift import DATA, DRIFT, book_of
from support.halves import half_a_round

FIRST, SECOND, THIRD = (ClientId(f"party-0{number}") for number in range(3))


def run_of(algorithm: str, *, grid: tuple[int, int] = (3, 1), **values: object) -> Averaging:
    return Averaging.of(algorithm, partition(DATA, grid=grid), {"lambda": 0.1, "stop": {"rounds": 5}, **values})


def lie_about_weights(run: Averaging, lie: Callable[[float], float], *, victim: ClientId = SECOND) -> None:
    """Makes the server put another weight of one party on record than the algorithm says."""
    honest = run.server.plan

    def plan(round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        due = honest(round_id, trainers, surveys)
        return replace(due, weights={**due.weights, victim: lie(due.weights.get(victim, 1.0))})

    run.server.plan = plan  # type: ignore[method-assign]  # a server that lies


RECOMPUTED: dict[str, tuple[str, dict[str, object]]] = {
    "fedavg by rows": ("fedavg", {}),
    "fedavg, all the same": ("fedavg", {"weighting": "uniform"}),
    "fedprox": ("fedprox", {}),
    "scaffold": ("scaffold", {}),
    "fedsgm": ("fedsgm", {}),
    "feddyn": ("feddyn", {}),
    "feddr": ("feddr", {}),
    "feddualavg": ("feddualavg", {}),
    "deltafl": ("deltafl", {"alpha": 1.0}),
}


@pytest.mark.parametrize(("algorithm", "values"), RECOMPUTED.values(), ids=RECOMPUTED)
@pytest.mark.parametrize("factor", [1e-6, 0.999, 1.001])
def test_a_party_does_not_contribute_with_another_weight_than_its_own(
    algorithm: str, values: dict[str, Any], factor: float
) -> None:
    run = run_of(algorithm, **values)
    run.round()
    lie_about_weights(run, lambda due: due * factor)
    with pytest.raises(Refusal, match=r"plan\.weights"):
        run.round()


@pytest.mark.parametrize(("algorithm", "values"), list(RECOMPUTED.values())[:-1], ids=list(RECOMPUTED)[:-1])
def test_nobody_who_may_train_is_silenced_by_a_weight_of_0(algorithm: str, values: dict[str, Any]) -> None:
    run = run_of(algorithm, **values)
    lie_about_weights(run, lambda _due: 0.0)
    with pytest.raises(Refusal, match=r"plan\.weights"):
        run.round()


def test_a_party_with_a_small_loss_rests_in_deltafl() -> None:
    run = run_of("deltafl", alpha=0.3)
    assert run.round().metrics.participants != (FIRST, SECOND, THIRD)
    run.round()


@pytest.mark.parametrize("grid", [(3, 1), (2, 2)])
def test_a_party_knows_that_it_measured_the_model_on_record(grid: tuple[int, int]) -> None:
    """Also after a restart, by the records; a round that trains changes the model that it measures."""
    run = run_of("fedavg", grid=grid, measure_every=1)
    half = run.clients[FIRST]
    assert not half.measured(book_of(run, FIRST))
    for _ in range(2):
        run.round()
        take_records(run, FIRST)
        assert not half.measured(book_of(run, FIRST))
    run.round(closing=True)
    assert half.measured(book_of(run, FIRST)), "it remembers"
    run.restart(FIRST)
    half = run.clients[FIRST]
    assert not half.measured(book_of(run, FIRST))
    take_records(run, FIRST)
    assert half.measured(book_of(run, FIRST))
    assert book_of(run, FIRST).rounds_done == 2


def take_records(run: Averaging, client: ClientId, *more: bytes) -> None:
    run.participants[client].transcript.take(0, [*run.server._transcript.records, *more])


def test_a_party_measured_nothing_if_another_one_was_missing_or_the_server_did_not_ask() -> None:
    run = run_of("fedavg")
    run.round()
    run.absent = lambda _round, phase, client: (phase, client) == (LOCAL, THIRD)
    run.round(closing=True)
    take_records(run, FIRST)
    assert not run.clients[FIRST].measured(book_of(run, FIRST))

    run = run_of("fedavg")
    run.round()
    half_a_round_closing(run)
    take_records(run, FIRST)
    assert not run.clients[FIRST].measured(book_of(run, FIRST))


def half_a_round_closing(run: Averaging) -> None:
    """The closing round 2 up to the phase in which the figures are opened."""
    step = run.server.begin_round(RoundId(2), run.names, frozenset(), attempt=run.attempt, closing=True)
    run.server.advance(step.phase, run.answers(RoundId(2), step))


def test_an_earlier_measurement_does_not_count_for_a_repeated_closing_round() -> None:
    run = run_of("fedavg")
    run.round()
    committed = run.server.snapshot()
    run.round(closing=True)
    assert run.clients[FIRST].measured(book_of(run, FIRST))
    run.restore(committed)
    half_a_round_closing(run)
    take_records(run, FIRST)
    assert not run.clients[FIRST].measured(book_of(run, FIRST))


def invented(run: Averaging, round_id: int, *, closing: bool = False) -> bytes:
    """The record of a round in which nobody is present."""
    clients = run.alignment.federation.clients
    choices = round_choices_to_bytes(RoundChoices((), (), closing), clients)
    return record_to_bytes(Record(Moment(run.attempt, RoundId(round_id), ROUND), (), choices), clients)


def test_rounds_that_the_server_invents_are_not_done_and_measure_nothing() -> None:
    run = run_of("fedavg")
    run.round()
    take_records(run, FIRST, *(invented(run, round_id) for round_id in (2, 3, 4, 5)))
    assert run.participants[FIRST].transcript.round == 5
    assert book_of(run, FIRST).rounds_done == 1
    take_records(run, SECOND, invented(run, 2, closing=True))
    assert not run.clients[SECOND].measured(book_of(run, SECOND))


def test_a_round_is_done_if_all_that_were_to_train_contributed() -> None:
    run = run_of("fedavg")
    run.absent = lambda round_id, _phase, client: (round_id, client) == (2, THIRD)
    for _ in range(3):
        run.round()
    run.round(available=frozenset({FIRST, SECOND}))
    run.round(closing=True)
    take_records(run, FIRST)
    assert book_of(run, FIRST).rounds_done == 2, "not the one without a contribution, nor the one without a party"


def with_choices(run: Averaging, phase: str, *, round_id: int) -> bytes:
    """The record that ends a phase without contributions, with choices that no server has."""
    record = Record(Moment(run.attempt, RoundId(round_id), phase), (), b"\x08\x01")
    return record_to_bytes(record, run.alignment.federation.clients)


@pytest.mark.parametrize("phase", [SURVEY, LOCAL, MEASURE, MEASURED])
def test_a_record_of_a_phase_without_choices_has_none(phase: str) -> None:
    """Whatever a server adds there would be in the view of those parties alone to which it shows it."""
    run = Averaging.of(DRIFT, partition(DATA, grid=(3, 1)), {"measure_every": 1})
    half_a_round(run, 1, until=phase if phase in (SURVEY, LOCAL) else MEASURED)
    with pytest.raises(Refusal, match="nothing to choose"):
        take_records(run, FIRST, with_choices(run, phase, round_id=1))
