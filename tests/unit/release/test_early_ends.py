"""A party that releases the model does so only if its own records say that the run met its stopping rule."""

import pytest

from fenchel_client.release import reason_not_to_release
from fenchel_common.ids import ClientId
from fenchel_server.contract import Outcome
from support.corrective import CASE, FIRST, SECOND, simulation
from support.problems import problem
from support.simulation import Simulation

GOAL = 1e-2
STOP = {"gap": GOAL, "rounds": 40}


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
    expected = "a duality gap of 0.01 was not seen here, and the run ended before its 40 rounds"
    assert set(reasons(run).values()) == {expected}
    assert run.run().outcome is Outcome.CONVERGED
    assert set(reasons(run).values()) == {None}


def test_the_gap_is_that_which_the_parties_computed_themselves() -> None:
    run = simulation(problem(**CASE), stop=STOP)
    metrics = run.run().metrics
    assert metrics.primal is not None
    assert metrics.dual is not None
    reasons(run)
    assert {party.certified_gap() for party in run.participants.values()} == {metrics.primal - metrics.dual}


def test_the_last_round_of_the_rule_releases_the_model_whatever_its_gap() -> None:
    run = simulation(problem(**CASE), stop={"gap": None, "rounds": 3}, certificate_every=0)
    for _ in range(2):
        run.round()
        assert set(reasons(run).values()) == {"the run ended before its 3 rounds"}
    run.run(4)
    assert run.reports[-1].outcome is Outcome.FINISHED
    assert set(reasons(run).values()) == {None}


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
    run.run()
    participant = run.participants[FIRST]
    assert reason_not_to_release(participant, run.settings.stop) is not None
    participant.final_model(run.server.last_state(FIRST))
    assert reason_not_to_release(participant, run.settings.stop) is None
