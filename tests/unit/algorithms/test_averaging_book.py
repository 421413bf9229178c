"""A party opens exactly the sums that the records name: nothing left out, doubled, exchanged, stale or made up."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

from fenchel_common.algorithms.averaging.rails import CHECKPOINT_AFTER, LOCAL, MEASURED, MODEL, SURVEY, Result, Task
from fenchel_common.blocks import BlockSum, BlockVector
from fenchel_common.crypto.vectors import Vector
from fenchel_common.crypto.words import PlainVector
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidInput, TagMismatch
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire.averaging import result_from_bytes, task_from_bytes, task_to_bytes
from fenchel_common.wire.averaging_snapshot import Base
from fenchel_server.contract import PhaseRequest, RoundReport
from support.averaging import Averaging
from support.drift import DATA, book_of, drift, states
from support.halves import half_a_round

FIRST, SECOND, THIRD = (ClientId(f"party-0{number}") for number in range(3))
STEP = "step"


def given(run: Averaging, round_id: int) -> dict[ClientId, BlockVector]:
    """Each client's contribution to the sums of a round."""
    found: dict[ClientId, BlockVector] = {}
    for number, phase, client, _, body in run.messages:
        if (number, phase) == (round_id, LOCAL):
            found[client] = result_of(run, client, body).vectors[STEP]
    return found


def result_of(run: Averaging, client: ClientId, body: bytes) -> Result:
    plan = run.server._current().plan if run.server._round is not None else None
    return result_from_bytes(body, run.clients[client]._scope, coordinates=None if plan is None else plan.coordinates)


def with_sums(run: Averaging, sums: BlockVector) -> None:
    """Exchanges the sums in the newest entry of the server's log."""
    entries = run.server._log.entries
    entries[-1] = replace(entries[-1], sums={STEP: sums})


def summed_vector(vectors: Iterable[BlockVector]) -> BlockVector:
    whole = reduce(BlockSum.plus, map(BlockSum.of, vectors)).whole()
    assert whole is not None
    return whole


def altered(vector: BlockVector, *, by: int = 1) -> BlockVector:
    plain = vector.vector
    assert isinstance(plain, PlainVector)
    return replace(vector, vector=replace(plain, integers=plain.integers + by))


FAULTS: dict[str, Callable[[Averaging], None]] = {
    "one left out": lambda run: with_sums(run, summed_vector([given(run, 2)[name] for name in (FIRST, SECOND)])),
    "one doubled": lambda run: with_sums(run, summed_vector([*given(run, 2).values(), given(run, 2)[FIRST]])),
    "one in the place of another": lambda run: with_sums(run, summed_vector([given(run, 2)[FIRST]] * 3)),
    "one of an earlier round": lambda run: with_sums(
        run, summed_vector([given(run, 1)[FIRST], given(run, 2)[SECOND], given(run, 2)[THIRD]])
    ),
    "all of an earlier round": lambda run: with_sums(run, summed_vector(given(run, 1).values())),
    "a value changed": lambda run: with_sums(run, altered(summed_vector(given(run, 2).values()))),
    "a multiple": lambda run: with_sums(run, summed_vector([summed_vector(given(run, 2).values())] * 2)),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_sums_other_than_those_on_record_do_not_open(fault: Callable[[Averaging], None]) -> None:
    run = drift()
    run.round()
    run.round()
    fault(run)
    with pytest.raises(TagMismatch):
        run.round()
    run.restart(FIRST)
    with pytest.raises(TagMismatch):
        run.participants[FIRST].final_model(run.server.last_state(FIRST))


def entry_repeated(task: Task) -> Task:
    return replace(task, state=replace(task.state, entries=task.state.entries * 2))


def entry_left_out(task: Task) -> Task:
    return replace(task, state=replace(task.state, entries=()))


def another_start(task: Task) -> Task:
    return replace(task, state=replace(task.state, reset=True))


@pytest.mark.parametrize("change", [entry_repeated, entry_left_out, another_start])
def test_a_party_applies_each_entry_once_and_leaves_none_out(change: Callable[[Task], Task]) -> None:
    run = drift()
    run.round()
    run.round()
    step = run.server.begin_round(RoundId(3), run.names, frozenset(), attempt=run.attempt)
    run.participants[FIRST].transcript.take(0, run.server._transcript.records)
    half = run.clients[FIRST]
    task = task_from_bytes(run.participants[FIRST]._body(step.tasks[FIRST]), half._scope)
    assert len(task.state.entries) == 1, "the entry of the first round is applied, and not sent again"
    with pytest.raises(InvalidInput, match=r"state\.(entries|kept)"):
        half.answer(step.phase, task_to_bytes(change(task)), book_of(run, FIRST))
    assert run.answers(RoundId(3), step)[FIRST], "the memory is as it was"


def test_a_checkpoint_must_come_from_the_first_party_that_trained() -> None:
    run = drift()
    for _ in range(CHECKPOINT_AFTER + 1):
        run.round()
    (base,) = run.server._log.base.values()
    run.states()
    assert {one.stamp.party for one in book_of(run, SECOND).log.base.values()} == {FIRST}
    run.restart(SECOND)
    expected = run.participants[SECOND].final_model(run.server.last_state(SECOND))
    # What another party gave in the same round, instead of the first one's restatement.
    other = given(run, CHECKPOINT_AFTER + 1)[THIRD]
    for faulty in (dict.fromkeys(base.state, other), {name: altered(one) for name, one in base.state.items()}):
        run.server._log.base[0] = Base(base.round_id, faulty)
        run.restart(SECOND)
        with pytest.raises(TagMismatch):
            run.participants[SECOND].final_model(run.server.last_state(SECOND))
    run.server._log.base[0] = base
    run.restart(SECOND)
    assert np.array_equal(run.participants[SECOND].final_model(run.server.last_state(SECOND)), expected)


def test_memory_that_the_server_keeps_must_be_the_partys_own_and_its_latest() -> None:
    run = drift()
    run.round()
    early = dict(run.server._log.kept)
    run.round()
    kept, committed = dict(run.server._log.kept), run.server.snapshot()
    for faulty in (early[FIRST], kept[SECOND], {"own": altered(kept[FIRST]["own"])}):
        run.restore(committed)
        run.server._log.kept[FIRST] = dict(faulty)
        with pytest.raises(TagMismatch):
            run.round(restarted=run.names)
    run.restore(committed)
    run.round(restarted=run.names)


def figures_of(run: Averaging, round_id: int) -> list[Vector]:
    """The figures that clients gave in `local`."""
    bodies = [(who, body) for at, phase, who, _, body in run.messages if (at, phase) == (round_id, LOCAL)]
    found = [result_of(run, client, body).figures for client, body in bodies]
    return [figures for figures in found if figures is not None]


def measuring(run: Averaging) -> PhaseRequest:
    """The request for the opening of the figures of round 3."""
    run.round()
    run.round()
    step = half_a_round(run, 3, until=MEASURED)
    assert isinstance(step, PhaseRequest)
    return step


def test_figures_are_opened_only_as_the_sum_of_all_parties() -> None:
    run = drift()
    step = measuring(run)
    figures = figures_of(run, 3)
    half = run.clients[FIRST]
    body = run.participants[FIRST]._body(step.tasks[FIRST])
    task = task_from_bytes(body, half._scope)
    assert half.answer(MEASURED, body, book_of(run, FIRST))
    assert len(figures) == 3
    for faulty in (figures[0], figures[0].plus(figures[1]), figures[0].summed_with([*figures[1:], figures[1]])):
        with pytest.raises(TagMismatch):
            half.answer(MEASURED, task_to_bytes(replace(task, figures=faulty)), book_of(run, FIRST))


def test_figures_are_not_opened_without_a_party_although_the_server_asks() -> None:
    run = drift()
    run.absent = lambda round_id, phase, client: (round_id, phase, client) == (3, LOCAL, SECOND)
    for _ in range(2):
        run.round()
    step: PhaseRequest | RoundReport = run.server.begin_round(RoundId(3), run.names, frozenset(), attempt=run.attempt)
    assert isinstance(step, PhaseRequest)
    step = run.server.advance(step.phase, run.answers(RoundId(3), step))
    assert isinstance(step, PhaseRequest)
    answers = run.answers(RoundId(3), step)
    del answers[SECOND]
    figures = [result_of(run, client, _body(run, answers[client])).figures for client in (FIRST, THIRD)]
    run.server.advance(LOCAL, answers)
    run.participants[FIRST].transcript.take(0, run.server._transcript.records)
    partial = figures[0]
    assert partial is not None
    assert figures[1] is not None
    task = task_to_bytes(Task(figures=partial.plus(figures[1])))
    with pytest.raises(InvalidInput, match="all parties"):
        run.clients[FIRST].answer(MEASURED, task, book_of(run, FIRST))


def _body(run: Averaging, result: bytes) -> bytes:
    return bytes(run.server._transcript.opened(FIRST, result))


def test_figures_that_do_not_cover_all_samples_are_not_told() -> None:
    """In a federation with shared samples, a server that skips the phase `measure` has authentic figures of some."""
    run = Averaging.of("fedavg", partition(DATA, grid=(2, 2)), {"measure_every": 1})
    step = run.server.begin_round(RoundId(1), run.names, frozenset(), attempt=run.attempt)
    asked = run.server.advance(step.phase, run.answers(RoundId(1), step))
    assert isinstance(asked, PhaseRequest)
    run.participants[FIRST].transcript.take(0, run.server._transcript.records)
    early = task_to_bytes(Task(figures=run.server._current().figures))
    with pytest.raises(InvalidInput, match="all samples"):
        run.clients[FIRST].answer(MEASURED, early, book_of(run, FIRST))


def test_inner_products_open_only_as_the_sum_of_all_holders() -> None:
    run = Averaging.of("fedavg", partition(DATA, grid=(2, 2)), {"measure_every": 1})
    run.round()
    step = run.server.begin_round(RoundId(2), run.names, frozenset(), attempt=run.attempt)
    answers = run.answers(RoundId(2), step)
    products = {client: result_of(run, client, _body(run, answers[client])).products for client in answers}
    asked = run.server.advance(step.phase, answers)
    assert isinstance(asked, PhaseRequest)
    run.participants[FIRST].transcript.take(0, run.server._transcript.records)
    half = run.clients[FIRST]
    due = task_from_bytes(run.participants[FIRST]._body(asked.tasks[FIRST]), half._scope)
    assert half.answer(asked.phase, task_to_bytes(due), book_of(run, FIRST))
    own = products[FIRST]
    assert own is not None
    assert due.products is not None
    for faulty in (own.restricted_to(due.products.blocks), altered(due.products)):
        with pytest.raises(TagMismatch):
            half.answer(asked.phase, task_to_bytes(replace(due, products=faulty)), book_of(run, FIRST))


def test_random_kills_and_absences_never_lock_an_honest_run() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        run = drift(sparse=bool(seed % 2))
        run.absent = lambda _round, _phase, _client, rng=rng: bool(rng.random() < 0.1)  # type: ignore[misc]  # bound early
        lost: frozenset[ClientId] = frozenset()
        for number in range(1, CHECKPOINT_AFTER + 4):
            committed = run.server.snapshot()
            if rng.random() < 0.3:
                half_a_round(run, number, until=str(rng.choice([SURVEY, LOCAL, MEASURED, ""])))
                run.restore(committed)
                lost = run.names
            for client in sorted(run.names):
                if rng.random() < 0.2:
                    run.restart(client)
                    lost |= {client}
            run.round(restarted=lost)
            lost = frozenset()
        models = [state[MODEL] for state in states(run).values()]
        assert all(np.array_equal(model, models[0]) for model in models)
