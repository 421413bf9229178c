"""A party that releases the model does so only if its own records say that the run met its stopping rule."""

import pytest

from fenchel_client.release import reason_not_to_release
from fenchel_common.algorithms.corrective.messages import RoundChoices
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import ROUND, Moment, Record
from fenchel_common.wire.corrective import round_choices_to_bytes
from fenchel_common.wire.records import record_to_bytes, round_task_from_bytes, round_task_to_bytes
from fenchel_server.contract import Outcome
from support.corrective import CASE, FIRST, LAST, SECOND, simulation
from support.problems import problem
from support.simulation import Simulation

GOAL = 1e-2
STOP = {"gap": GOAL, "rounds": 40}
UNSEEN = "this party did not open figures of all parties about this very model"


def reasons(run: Simulation) -> dict[ClientId, str | None]:
    """Why each party would not release the model that it is given now."""
    given = {}
    for client, participant in run.participants.items():
        participant.final_model(run.server.last_state(client))
        given[client] = reason_not_to_release(participant, run.settings.stop)
    return given


def test_a_run_that_ends_early_releases_nothing_and_one_that_converged_does() -> None:
    run = simulation(problem(**CASE), stop=STOP)
    run.round()
    expected = "the duality gap is not proven to be at most 0.01, and everybody took part in 1 of 40 rounds"
    assert set(reasons(run).values()) == {expected}
    assert run.run().outcome is Outcome.CONVERGED
    assert set(reasons(run).values()) == {None}


def test_the_gap_is_that_which_the_parties_computed_themselves() -> None:
    run = simulation(problem(**CASE), stop=STOP)
    metrics = run.run().metrics
    assert metrics.primal is not None
    assert metrics.dual is not None
    assert all(party.reached(GOAL) and not party.reached(None) for party in run.participants.values())
    reasons(run)
    assert metrics.gap is not None
    (gap,) = {party.certified_gap() for party in run.participants.values()}
    assert gap is not None
    # A party adds the error of the narrow products that it knows, the server that of everything in the figures.
    assert metrics.primal - metrics.dual <= gap <= metrics.gap


def test_a_party_knows_that_a_run_is_about_to_end_once_it_has_computed_the_gap() -> None:
    run = simulation(problem(**CASE), stop=STOP)
    assert not any(party.reached(GOAL) for party in run.participants.values())
    run.round()
    assert not any(party.reached(GOAL) for party in run.participants.values())
    assert all(party.reached(2.0) for party in run.participants.values())


def test_the_last_round_of_the_rule_releases_the_model_whatever_its_gap() -> None:
    run = simulation(problem(**CASE), stop={"gap": None, "rounds": 3}, certificate_every=0)
    for _ in range(2):
        run.round()
        assert set(reasons(run).values()) == {UNSEEN}
    run.run(4)
    assert run.reports[-1].outcome is Outcome.FINISHED
    assert set(reasons(run).values()) == {None}


def test_beginnings_of_rounds_that_the_server_invents_are_no_rounds() -> None:
    """No party takes part in them, so no party has to confirm their records."""
    run = simulation(problem(**CASE), stop={"gap": 1e-6, "rounds": 20})
    run.run(2)
    clients = run.alignment.federation.clients
    choices = round_choices_to_bytes(RoundChoices(frozenset(), collapse=True, closing=False, live_samples=0), clients)
    for client, participant in run.participants.items():
        first, records, body = round_task_from_bytes(run.server.last_state(client))
        invented = [Record(Moment(run.attempt, RoundId(number), ROUND), (), choices) for number in range(3, 21)]
        told = [*records, *(record_to_bytes(record, clients) for record in invented)]
        participant.final_model(round_task_to_bytes(body, first=first, records=told))
        assert participant.transcript.round == 20
        assert reason_not_to_release(participant, run.settings.stop) == UNSEEN


def test_a_party_with_which_the_server_is_alone_releases_nothing() -> None:
    """The model would be that of its rows alone."""
    run = simulation(problem(**CASE), (4, 1), stop={"gap": None, "rounds": 3})
    for _ in range(3):
        run.round(available=frozenset({FIRST}))
    run.round(available=frozenset({FIRST}), closing=True)
    assert reasons(run)[FIRST] == UNSEEN


def test_only_rounds_with_everybody_count() -> None:
    run = simulation(problem(**CASE), stop={"gap": None, "rounds": 3})
    for available in (run.names, run.names - {LAST}, run.names):
        run.round(available=available)
    run.round(closing=True)
    assert set(reasons(run).values()) == {"everybody took part in 2 of 3 rounds"}


@pytest.mark.parametrize("certifying", [True, False])
def test_only_a_gap_of_the_model_on_record_counts(certifying: bool) -> None:
    """A party that has forgotten, or did not open the figures of the last round, has seen no gap of this model."""
    run = simulation(problem(**CASE), stop={"gap": None, "rounds": 60}, certificate_every=1 if certifying else 7)
    run.run(8)
    run.settings = run.settings.model_copy(update={"stop": run.settings.stop.model_copy(update={"gap": 1.0})})
    run.restart(FIRST)
    found = reasons(run)
    assert found[FIRST] is not None
    assert (found[SECOND] is None) == certifying


def test_a_party_whose_answer_to_the_last_round_did_not_count_has_seen_no_gap() -> None:
    run = simulation(problem(**CASE), stop={"gap": None, "rounds": 60})
    run.run(7)
    run.absent = lambda at, phase, client: (at, phase, client) == (8, "primal", SECOND)
    run.round()
    run.settings = run.settings.model_copy(update={"stop": run.settings.stop.model_copy(update={"gap": 1.0})})
    assert reasons(run)[SECOND] is not None


def test_without_the_record_of_the_last_round_its_gap_does_not_count() -> None:
    run = simulation(problem(**CASE), stop=STOP)
    run.absent = lambda _round, phase, client: (phase, client) == ("measured", FIRST)
    run.run()
    participant = run.participants[FIRST]
    assert reason_not_to_release(participant, run.settings.stop) is not None
    participant.final_model(run.server.last_state(FIRST))
    assert reason_not_to_release(participant, run.settings.stop) is None
