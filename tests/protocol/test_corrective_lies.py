"""Corrective HyFDCA with a server that tells stories: other records, old sums, another anchor, another model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel.v1 import corrective_pb2 as pb
from fenchel_common.algorithms.corrective.messages import PrimalChoices, RoundChoices
from fenchel_common.errors import FenchelError, InvalidInput, Refusal, TagMismatch
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.records import Record
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.corrective import (
    primal_choices_to_bytes,
    round_choices_from_bytes,
    round_choices_to_bytes,
)
from fenchel_common.wire.records import round_task_from_bytes, round_task_to_bytes
from support.corrective import CASE, FIRST, LAST, SECOND, chained, settings, simulation
from support.forgeries import vector_in, with_body, with_records
from support.halves import changed
from support.problems import problem
from support.simulation import Simulation

SMALL = {**CASE, "rows": 40}
TASKS: dict[str, Any] = {
    "inner_product": pb.CorrectiveProductTask,
    "local_dual": pb.CorrectiveDualTask,
    "primal": pb.CorrectivePrimalTask,
}


def begun_run(rounds: int = 1) -> Simulation:
    run = simulation(problem(**SMALL))
    run.run(rounds)
    return run


def last_record(run: Simulation, change: Callable[[Record], Record]) -> Callable[[bytes], bytes]:
    return with_records(lambda records: [*records[:-1], change(records[-1])], run.alignment.federation.clients)


@pytest.mark.parametrize("phase", ["local_dual", "primal"])
def test_a_record_that_leaves_out_a_contributor_opens_no_sum(phase: str) -> None:
    """Whether the server says so to one party or to all."""
    for told in ({FIRST}, None):
        run = begun_run()
        for client in told or run.names:
            run.forging[(2, phase, client)] = last_record(run, lambda record: replace(record, given=record.given[1:]))
        with pytest.raises(InvalidInput, match=f"the contribution of {FIRST} is missing"):
            run.round()
        assert run.phases[-1] == (2, phase)


@pytest.mark.parametrize("phase", ["local_dual", "primal"])
def test_a_contribution_that_its_party_did_not_make_is_refused(phase: str) -> None:
    def invented(record: Record) -> Record:
        first, second, *others = record.given
        return replace(record, given=(first, replace(second, nonce=first.nonce), *others))

    run = begun_run()
    run.forging[(2, phase, FIRST)] = last_record(run, invented)
    with pytest.raises(Refusal, match="has not confirmed"):
        run.round()


@pytest.mark.parametrize(
    "other",
    [{"closing": True}, {"participants": frozenset({FIRST, SECOND}), "live_samples": 20}],
    ids=["closing", "others absent"],
)
def test_a_party_that_is_told_other_choices_than_the_others_ends_the_round_for_all(other: dict[str, Any]) -> None:
    """Its contribution is under another view: no other party takes the record of it, and it takes none of theirs."""
    run = begun_run()
    run.forging[(2, "inner_product", FIRST)] = last_record(run, lambda record: with_choices(run, record, **other))
    run.restart(LAST)
    run.lenient = True
    metrics = run.round(restarted=frozenset({LAST})).metrics
    assert metrics.absences == dict.fromkeys(run.names, "local_dual: no result")


def with_choices(run: Simulation, record: Record, **changes: Any) -> Record:
    """The beginning of a round with other choices."""
    clients = run.alignment.federation.clients
    told: RoundChoices = replace(round_choices_from_bytes(record.choices, clients), **changes)
    return replace(record, choices=round_choices_to_bytes(told, clients))


@pytest.mark.parametrize("live_samples", [39, 41])
def test_a_number_of_samples_that_cannot_be_is_refused_with_its_reason(live_samples: int) -> None:
    run = begun_run()
    run.forging[(2, "inner_product", FIRST)] = last_record(
        run, lambda record: with_choices(run, record, live_samples=live_samples)
    )
    with pytest.raises(Refusal) as caught:
        run.round()
    assert caught.value.public_reason.startswith("it refused a choice of the server: record: live_samples")


def test_a_number_of_live_samples_that_the_parties_do_not_report_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without LAST, a party knows only its own live samples, until the figures of all are summed."""
    run = begun_run()

    def lying(choices: RoundChoices, clients: Sequence[ClientId]) -> bytes:
        return round_choices_to_bytes(replace(choices, live_samples=30), clients)

    monkeypatch.setattr(wire, "round_choices_to_bytes", lying)
    with pytest.raises(InvalidInput, match="another number of samples"):
        run.round(available=run.names - {LAST})
    assert run.phases[-1] == (2, "primal")


def test_products_cannot_be_left_out_where_parties_have_other_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """A party that works alone for a while would take the products of its own features for those of all features."""
    case, shards = chained()
    run = Simulation.of(shards, settings(case))
    run.run(1)
    monkeypatch.setattr(FederationLayout, "partition", "horizontal")
    with pytest.raises(InvalidInput, match="products: are missing"):
        run.round(available=frozenset({FIRST}))


def lying_about(monkeypatch: pytest.MonkeyPatch, told: PrimalChoices) -> None:
    """From now on all records of `primal` say this, whatever happened."""
    monkeypatch.setattr(wire, "primal_choices_to_bytes", lambda _choices: primal_choices_to_bytes(told))


@pytest.mark.parametrize("remembering", [True, False])
def test_a_new_anchor_is_not_taken_for_the_one_that_the_record_says_was_kept(
    monkeypatch: pytest.MonkeyPatch, remembering: bool
) -> None:
    run = begun_run(2)
    with monkeypatch.context() as patch:
        lying_about(patch, PrimalChoices(accepted=False, reported=True))
        run.round()
    if remembering:
        with pytest.raises(InvalidInput, match="accepted: is not what this party found"):
            run.round()
        return
    for client in run.names:
        run.restart(client)
    with pytest.raises(TagMismatch):
        run.round(restarted=run.names)


def test_a_best_model_is_not_taken_if_the_record_says_that_it_was_not_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = begun_run(2)
    lying_about(monkeypatch, PrimalChoices(accepted=True, reported=False))
    run.round()
    with pytest.raises(TagMismatch):
        run.model()


@pytest.mark.parametrize(
    ("phase", "field"),
    [
        ("inner_product", "round_start.point"),
        ("inner_product", "round_start.vertex"),
        ("inner_product", "round_start.conjugates_and_products"),
        ("local_dual", "point"),
        ("local_dual", "vertex"),
        ("primal", "point"),
        ("primal", "figures"),
    ],
)
def test_a_sum_of_the_round_before_is_not_opened_again(phase: str, field: str) -> None:
    run = begun_run(3)
    before = next(task for at, during, who, task, _ in run.messages if (at, during, who) == (3, phase, FIRST))

    def replay(message: Any) -> None:
        vector_in(message, field).CopyFrom(vector_in(TASKS[phase].FromString(before), field))

    run.forging[(4, phase, FIRST)] = with_body(changed(TASKS[phase], replay))
    with pytest.raises(TagMismatch):
        run.round()
    assert run.phases[-1] == (4, phase)


@pytest.mark.parametrize("field", ["alpha", "weights", "model"])
def test_who_has_forgotten_takes_no_older_anchor_or_model_and_no_part_of_one(field: str) -> None:
    older: list[pb.CorrectiveAnchor] = []

    def keep(message: Any) -> None:
        older.append(message.round_start.restored)

    def replay(message: Any) -> None:
        vector_in(message.round_start.restored, field).CopyFrom(vector_in(older[0], field))

    def withhold(message: Any) -> None:
        message.round_start.restored.ClearField(field)

    for lie, error in ((replay, TagMismatch), (withhold, InvalidInput)):
        run = begun_run(2)
        older.clear()
        for round_id, change in ((3, keep), (5, lie)):
            run.forging[(round_id, "inner_product", FIRST)] = with_body(changed(TASKS["inner_product"], change))
        run.restart(FIRST)
        run.round(restarted=frozenset({FIRST}))
        run.round()
        run.restart(FIRST)
        with pytest.raises(error):
            run.round(restarted=frozenset({FIRST}))


def finished(run: Simulation, state: bytes) -> NDArray[np.float64]:
    """The model that FIRST takes from a state, with all records of the run."""
    first, records, _ = round_task_from_bytes(run.server.last_state(FIRST))
    return run.participants[FIRST].final_model(round_task_to_bytes(state, first=first, records=records))


def test_a_run_does_not_finish_with_the_model_of_another_round() -> None:
    run = begun_run()
    states = []
    for _ in range(3):
        states.append(round_task_from_bytes(run.server.last_state(FIRST))[2])
        run.round()
    for state in states:
        with pytest.raises(TagMismatch):
            finished(run, state)
    finished(run, round_task_from_bytes(run.server.last_state(FIRST))[2])


def test_a_run_does_not_finish_with_zeros_with_a_part_or_with_the_model_of_the_anchor() -> None:
    run = begun_run(3)
    state = pb.CorrectiveModel.FromString(round_task_from_bytes(run.server.last_state(FIRST))[2])
    with pytest.raises(InvalidInput, match="have a model on record"):
        finished(run, pb.CorrectiveModel().SerializeToString())
    run.restart(FIRST)
    run.round(restarted=frozenset({FIRST}))
    task = next(task for at, during, who, task, _ in run.messages if (at, during, who) == (4, "inner_product", FIRST))
    state.weights.CopyFrom(pb.CorrectiveProductTask.FromString(task).round_start.restored.weights)
    with pytest.raises(TagMismatch):
        finished(run, state.SerializeToString())


def test_a_server_that_keeps_the_last_record_back_can_give_the_model_before_it_and_no_other() -> None:
    """That is the last model that the party knows to be on record."""
    run = begun_run(2)
    before = run.server.last_state(FIRST)
    expected = run.participants[FIRST].final_model(before)
    run.round()
    body = round_task_from_bytes(run.server.last_state(FIRST))[2]
    with pytest.raises(TagMismatch):
        run.participants[FIRST].final_model(round_task_to_bytes(body, first=0, records=[]))
    kept_back = round_task_to_bytes(round_task_from_bytes(before)[2], first=0, records=[])
    np.testing.assert_array_equal(run.participants[FIRST].final_model(kept_back), expected)


def test_a_server_does_not_repeat_a_round_in_the_same_attempt() -> None:
    run = begun_run(2)
    committed = run.server.snapshot()
    run.round()
    run.reports.pop()
    run.restore(committed)
    run.attempt -= 1
    with pytest.raises(Refusal, match="another story"):
        run.round()


def test_a_server_from_an_older_backup_cannot_go_on() -> None:
    run = begun_run(2)
    backup = run.server.snapshot()
    run.run(5)
    del run.reports[2:]
    run.restore(backup)
    with pytest.raises(Refusal, match="older backup"):
        run.round()


def test_who_was_told_another_story_is_not_told_the_true_one_afterwards() -> None:
    run = begun_run(2)
    run.lenient = True

    def lie(records: list[Record]) -> list[Record]:
        ended = replace(records[-2], choices=primal_choices_to_bytes(PrimalChoices(accepted=False, reported=True)))
        return [*records[:-2], ended, records[-1]]

    run.forging[(3, "inner_product", FIRST)] = with_records(lie, run.alignment.federation.clients)
    for _ in range(3):
        assert FIRST in run.round().metrics.absences
    run.lenient = False
    with pytest.raises(FenchelError, match="another story"):
        run.round()
