"""The round machine, as transcripts, from the set-up of a run to its end."""

import pytest

from fenchel_common.ids import RoundId
from fenchel_server.rounds.events import (
    Advance,
    BeginAttempt,
    BeginFinish,
    BeginRound,
    BeginSetup,
    Broke,
    Close,
    CommitRound,
    CommitSetup,
    Gather,
    SetupReady,
    Started,
)
from fenchel_server.rounds.machine import step
from fenchel_server.rounds.phases import Rules, RunState, Stage
from fenchel_server.rounds.stopping import Progress
from fenchel_server.store import Ending, RunStatus
from support.roundsteps import (
    ALL,
    NONE,
    NORTH,
    SOUTH,
    WEST,
    begin_round,
    closed,
    gathered,
    in_round_one,
    play,
    present,
    ready,
    requested,
    rules,
    wait,
)


def test_a_run_from_its_set_up_to_its_end() -> None:
    converged = Ending(RunStatus.COMPLETED, "the gap is small enough")
    end = play(
        RunState(rules()),
        [
            (Started(RoundId(0), Progress()), (BeginAttempt(), wait(enough=3, grace_s=30.0))),
            (present(*ALL), (BeginSetup(),)),
            (requested("key_make", NORTH), (Gather(RoundId(0), "key_make"),)),
            (gathered("key_make", NORTH), (Advance("key_make"),)),
            (requested("key_take", SOUTH, WEST), (Gather(RoundId(0), "key_take"),)),
            (gathered("key_take", SOUTH, WEST), (Advance("key_take"),)),
            (SetupReady(), (CommitSetup(), wait(enough=2, grace_s=0.0))),
            (present(*ALL), (begin_round(1, ALL, NONE),)),
            (requested("primal"), (Gather(RoundId(1), "primal"),)),
            (gathered("primal", *ALL), (Advance("primal"),)),
            (ready(1), (CommitRound(RoundId(1)), wait(enough=2, grace_s=0.0))),
            (present(*ALL), (begin_round(2, ALL, NONE),)),
            (requested("primal"), (Gather(RoundId(2), "primal"),)),
            (gathered("primal", *ALL), (Advance("primal"),)),
            (ready(2, ending=converged), (CommitRound(RoundId(2), converged), BeginFinish())),
            (requested("finish"), (Gather(RoundId(3), "finish"),)),
            (gathered("finish", NORTH, SOUTH, west="no result within 30 s"),
             (Close(converged, {WEST: "no result within 30 s"}),)),
        ],
    )  # fmt: skip
    assert end.stage is Stage.ENDED


def test_a_resumed_run_knows_of_no_restart_and_leaves_it_to_the_algorithm_to_trust_nobody() -> None:
    play(
        RunState(rules()),
        [
            (Started(RoundId(7), Progress(6, 60.0)), (BeginAttempt(), wait(enough=2, grace_s=30.0))),
            (present(*ALL), (begin_round(7, ALL, NONE),)),
        ],
    )


def test_a_run_that_was_killed_after_its_last_commit_only_finishes() -> None:
    done = Ending(RunStatus.COMPLETED, "all 6 rounds are done")
    play(
        RunState(rules()),
        [
            (Started(RoundId(7), Progress(6, 60.0), done), (BeginAttempt(), BeginFinish())),
            (requested("finish"), (Gather(RoundId(7), "finish"),)),
            (gathered("finish", *ALL), (Close(done),)),
        ],
    )


def test_a_run_that_was_killed_after_it_diverged_is_closed() -> None:
    diverged = Ending(RunStatus.DIVERGED, "the gap grows")
    play(RunState(rules()), [(Started(RoundId(7), Progress(6, 60.0), diverged), (BeginAttempt(), Close(diverged)))])


def test_a_stop_request_is_honoured_at_a_phase_boundary() -> None:
    play(in_round_one(rules()), [(gathered("inner_product", *ALL, stop="enough"), closed(RunStatus.STOPPED, "enough"))])


def test_a_stop_request_is_honoured_while_waiting_for_clients() -> None:
    play(
        RunState(rules()),
        [
            (Started(RoundId(3), Progress(2, 2.0)), (BeginAttempt(), wait(enough=2, grace_s=30.0))),
            (present(NORTH, stop="enough"), closed(RunStatus.STOPPED, "enough")),
        ],
    )


@pytest.mark.parametrize(
    ("given", "reason"),
    [(rules(rounds=1), "all 1 rounds are done"), (rules(seconds=0.5), "0.5 seconds of training are over")],
)
def test_a_limit_is_followed_by_a_closing_round_that_certifies_the_model(given: Rules, reason: str) -> None:
    done = Ending(RunStatus.COMPLETED, reason)
    play(
        in_round_one(given),
        [
            (gathered("inner_product", *ALL), (Advance("inner_product"),)),
            (ready(1), (CommitRound(RoundId(1)), wait(enough=2, grace_s=0.0))),
            (present(*ALL), (BeginRound(RoundId(2), ALL, NONE, closing=True),)),
            (ready(2), (CommitRound(RoundId(2), done), BeginFinish())),
        ],
    )


def test_seconds_of_earlier_servers_count() -> None:
    play(
        RunState(rules(seconds=50.0)),
        [
            (Started(RoundId(7), Progress(6, 60.0)), (BeginAttempt(), wait(enough=2, grace_s=30.0))),
            (present(*ALL), (BeginRound(RoundId(7), ALL, NONE, closing=True),)),
        ],
    )


def test_divergence_is_committed_and_ends_the_run_without_handing_out_a_model() -> None:
    diverged = Ending(RunStatus.DIVERGED, "the gap grows; set h to fewer samples")
    play(in_round_one(rules()), [(ready(1, ending=diverged), (CommitRound(RoundId(1), diverged), Close(diverged)))])


@pytest.mark.parametrize("gap", [float("nan"), float("inf")])
def test_a_figure_that_is_no_number_is_divergence_whatever_the_algorithm_says(gap: float) -> None:
    fine = Ending(RunStatus.COMPLETED, "fine")
    _, effects = step(in_round_one(rules()), ready(1, gap=gap, ending=fine))
    commit, close = effects
    assert isinstance(commit, CommitRound)
    assert isinstance(close, Close)
    assert close.ending.status is RunStatus.DIVERGED
    assert commit.ending == close.ending


def test_an_error_of_the_algorithm_fails_the_run_with_its_reason() -> None:
    play(in_round_one(rules()), [(Broke("label_holders: none"), closed(RunStatus.FAILED, "label_holders: none"))])


def test_a_step_changes_neither_its_state_nor_its_event() -> None:
    state, event = in_round_one(rules()), gathered("inner_product", NORTH, south="late", west="late")
    before = (repr(state), repr(event))
    assert step(state, event) == step(state, event)
    assert (repr(state), repr(event)) == before


def test_an_event_that_cannot_happen_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="SetupReady cannot happen while training"):
        step(in_round_one(rules()), SetupReady())
