"""The round machine, as transcripts: what happened, and what the machine wanted done about it."""

import pytest

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import RoundMetrics
from fenchel_server.rounds.events import (
    Advance,
    AwaitClients,
    Broke,
    ClientsPresent,
    Close,
    CommitRound,
    CommitSetup,
    Effect,
    Event,
    Gather,
    OpenAttempt,
    OpenFinish,
    OpenRound,
    OpenSetup,
    PhaseGathered,
    PhaseOpened,
    ResultRefused,
    RoundReady,
    SetupReady,
    Started,
)
from fenchel_server.rounds.machine import step
from fenchel_server.rounds.phases import Rules, RunState, Stage
from fenchel_server.rounds.stopping import Limits, Progress
from fenchel_server.store import Ending, RunStatus

NORTH, SOUTH, WEST = ClientId("north"), ClientId("south"), ClientId("west")
ALL = frozenset({NORTH, SOUTH, WEST})
NONE: frozenset[ClientId] = frozenset()

Transcript = list[tuple[Event, tuple[Effect, ...]]]


def rules(*, quorum: int = 2, attempts: int = 2, rounds: int | None = 100, seconds: float | None = None) -> Rules:
    limits = Limits(rounds=rounds, seconds=seconds)
    return Rules(ALL, quorum=quorum, attempts=attempts, deadline_s=30.0, wait_s=600.0, limits=limits)


def play(state: RunState, transcript: Transcript) -> RunState:
    for event, expected in transcript:
        state, effects = step(state, event)
        assert effects == expected, f"after {event}"
    return state


def present(*clients: ClientId, life: str = "a", stop: str | None = None) -> ClientsPresent:
    return ClientsPresent(dict.fromkeys(clients, life), stop)


def opened(phase: str, *asked: ClientId) -> PhaseOpened:
    return PhaseOpened(phase, frozenset(asked or ALL))


def gathered(phase: str, *answered: ClientId, stop: str | None = None, **absent: str) -> PhaseGathered:
    reasons = {ClientId(client): reason for client, reason in absent.items()}
    return PhaseGathered(phase, frozenset(answered), reasons, stop)


def ready(round_id: int, *, gap: float | None = None, ending: Ending | None = None, seconds: float = 1.0) -> RoundReady:
    return RoundReady(RoundMetrics(round=RoundId(round_id), gap=gap), seconds, ending)


def wait(*, enough: int, grace_s: float) -> AwaitClients:
    return AwaitClients(ALL, enough=enough, grace_s=grace_s, timeout_s=600.0)


def open_round(round_id: int, available: frozenset[ClientId], restarted: frozenset[ClientId]) -> OpenRound:
    return OpenRound(RoundId(round_id), available, restarted)


def closed(status: RunStatus, reason: str) -> tuple[Close]:
    return (Close(Ending(status, reason)),)


def in_round_one(given: Rules) -> RunState:
    """A run whose set-up was committed by an earlier server, in the first phase of round 1."""
    return play(
        RunState(given),
        [
            (Started(RoundId(1), Progress()), (OpenAttempt(), wait(enough=given.quorum, grace_s=30.0))),
            (present(*ALL), (open_round(1, ALL, NONE),)),
            (opened("inner_product"), (Gather(RoundId(1), "inner_product"),)),
        ],
    )


def test_a_run_from_its_set_up_to_its_end() -> None:
    converged = Ending(RunStatus.COMPLETED, "the gap is small enough")
    end = play(
        RunState(rules()),
        [
            (Started(RoundId(0), Progress()), (OpenAttempt(), wait(enough=3, grace_s=30.0))),
            (present(*ALL), (OpenSetup(),)),
            (opened("key_make", NORTH), (Gather(RoundId(0), "key_make"),)),
            (gathered("key_make", NORTH), (Advance("key_make"),)),
            (opened("key_take", SOUTH, WEST), (Gather(RoundId(0), "key_take"),)),
            (gathered("key_take", SOUTH, WEST), (Advance("key_take"),)),
            (SetupReady(), (CommitSetup(), wait(enough=2, grace_s=0.0))),
            (present(*ALL), (open_round(1, ALL, NONE),)),
            (opened("primal"), (Gather(RoundId(1), "primal"),)),
            (gathered("primal", *ALL), (Advance("primal"),)),
            (ready(1), (CommitRound(RoundId(1)), wait(enough=2, grace_s=0.0))),
            (present(*ALL), (open_round(2, ALL, NONE),)),
            (opened("primal"), (Gather(RoundId(2), "primal"),)),
            (gathered("primal", *ALL), (Advance("primal"),)),
            (ready(2, ending=converged), (CommitRound(RoundId(2), converged), OpenFinish())),
            (opened("finish"), (Gather(RoundId(3), "finish"),)),
            (gathered("finish", NORTH, SOUTH, west="no result within 30 s"),
             (Close(converged, {WEST: "no result within 30 s"}),)),
        ],
    )  # fmt: skip
    assert end.stage is Stage.ENDED


def test_a_resumed_run_knows_of_no_restart_and_leaves_it_to_the_algorithm_to_trust_nobody() -> None:
    play(
        RunState(rules()),
        [
            (Started(RoundId(7), Progress(6, 60.0)), (OpenAttempt(), wait(enough=2, grace_s=30.0))),
            (present(*ALL), (open_round(7, ALL, NONE),)),
        ],
    )


def test_a_run_that_was_killed_after_its_last_commit_only_finishes() -> None:
    done = Ending(RunStatus.COMPLETED, "all 6 rounds are done")
    play(
        RunState(rules()),
        [
            (Started(RoundId(7), Progress(6, 60.0), done), (OpenAttempt(), OpenFinish())),
            (opened("finish"), (Gather(RoundId(7), "finish"),)),
            (gathered("finish", *ALL), (Close(done),)),
        ],
    )


def test_a_run_that_was_killed_after_it_diverged_is_closed() -> None:
    diverged = Ending(RunStatus.DIVERGED, "the gap grows")
    play(RunState(rules()), [(Started(RoundId(7), Progress(6, 60.0), diverged), (OpenAttempt(), Close(diverged)))])


def test_a_client_with_a_new_incarnation_is_restarted() -> None:
    play(
        in_round_one(rules()),
        [
            (gathered("inner_product", *ALL), (Advance("inner_product"),)),
            (ready(1), (CommitRound(RoundId(1)), wait(enough=2, grace_s=0.0))),
            (ClientsPresent({NORTH: "a", SOUTH: "b", WEST: "a"}), (open_round(2, ALL, frozenset({SOUTH})),)),
        ],
    )


def test_a_client_that_missed_a_round_without_restarting_keeps_its_state() -> None:
    play(
        in_round_one(rules()),
        [
            (gathered("inner_product", NORTH, SOUTH, west="gone"), (Advance("inner_product"),)),
            (ready(1), (CommitRound(RoundId(1)), wait(enough=2, grace_s=0.0))),
            (present(NORTH, SOUTH), (open_round(2, frozenset({NORTH, SOUTH}), NONE),)),
            (opened("primal", NORTH, SOUTH), (Gather(RoundId(2), "primal"),)),
            (gathered("primal", NORTH, SOUTH), (Advance("primal"),)),
            (ready(2), (CommitRound(RoundId(2)), wait(enough=2, grace_s=0.0))),
            (present(*ALL), (open_round(3, ALL, NONE),)),
        ],
    )


def test_a_round_goes_on_without_a_client_while_the_quorum_holds() -> None:
    play(in_round_one(rules()), [(gathered("inner_product", NORTH, SOUTH, west="gone"), (Advance("inner_product"),))])


def test_absences_of_several_phases_add_up_against_the_quorum() -> None:
    play(
        in_round_one(rules()),
        [
            (gathered("inner_product", NORTH, SOUTH, west="gone"), (Advance("inner_product"),)),
            (opened("primal", NORTH, SOUTH), (Gather(RoundId(1), "primal"),)),
            (gathered("primal", NORTH, south="gone"), (OpenAttempt(), wait(enough=2, grace_s=30.0))),
        ],
    )


def test_an_abandoned_round_is_tried_again_from_the_last_commit_and_then_paused() -> None:
    end = play(
        in_round_one(rules()),
        [
            (gathered("inner_product", NORTH, south="late", west="x"), (OpenAttempt(), wait(enough=2, grace_s=30.0))),
            (present(*ALL), (open_round(1, ALL, NONE),)),
            (opened("inner_product"), (Gather(RoundId(1), "inner_product"),)),
            (gathered("inner_product", NORTH, south="late", west="gone"),
             closed(RunStatus.STOPPED, "paused: waiting for south (late), west (gone)")),
        ],
    )  # fmt: skip
    assert end.stage is Stage.ENDED


def test_tries_are_counted_for_each_round_alone() -> None:
    play(
        in_round_one(rules()),
        [
            (
                gathered("inner_product", NORTH, south="late", west="late"),
                (OpenAttempt(), wait(enough=2, grace_s=30.0)),
            ),
            (present(*ALL), (open_round(1, ALL, NONE),)),
            (ready(1), (CommitRound(RoundId(1)), wait(enough=2, grace_s=0.0))),
            (present(NORTH), (OpenAttempt(), wait(enough=2, grace_s=30.0))),
        ],
    )


def test_a_client_that_failed_a_try_is_left_out_of_the_next_if_the_others_suffice() -> None:
    play(
        in_round_one(rules(quorum=2)),
        [
            (ResultRefused(WEST, "not a number"), (OpenAttempt(), wait(enough=2, grace_s=30.0))),
            (present(*ALL), (open_round(1, frozenset({NORTH, SOUTH}), NONE),)),
        ],
    )


def test_a_client_that_failed_a_try_is_tried_again_if_the_quorum_needs_it() -> None:
    play(
        in_round_one(rules(quorum=3)),
        [
            (ResultRefused(WEST, "not a number"), (OpenAttempt(), wait(enough=3, grace_s=30.0))),
            (present(*ALL), (open_round(1, ALL, NONE),)),
            (ResultRefused(WEST, "not a number"),
             closed(RunStatus.STOPPED, "paused: waiting for west (rejected: not a number)")),
        ],
    )  # fmt: skip


def test_a_run_whose_clients_never_come_is_paused_with_their_names() -> None:
    play(
        RunState(rules()),
        [
            (Started(RoundId(0), Progress()), (OpenAttempt(), wait(enough=3, grace_s=30.0))),
            (present(NORTH, SOUTH), (OpenAttempt(), wait(enough=3, grace_s=30.0))),
            (
                present(NORTH),
                closed(RunStatus.STOPPED, "paused: waiting for south (not attached), west (not attached)"),
            ),
        ],
    )


def test_the_set_up_needs_every_client_that_it_asks() -> None:
    play(
        RunState(rules()),
        [
            (Started(RoundId(0), Progress()), (OpenAttempt(), wait(enough=3, grace_s=30.0))),
            (present(*ALL), (OpenSetup(),)),
            (opened("align"), (Gather(RoundId(0), "align"),)),
            (gathered("align", NORTH, SOUTH, west="restarted"), (OpenAttempt(), wait(enough=3, grace_s=30.0))),
            (present(*ALL), (OpenSetup(),)),
        ],
    )


def test_a_refusal_in_the_set_up_is_on_record_when_the_tries_are_used_up() -> None:
    """It is tried again first, because a party that restarted amid the set-up refuses too, and that is cured by it."""
    play(
        RunState(rules(attempts=1)),
        [
            (Started(RoundId(0), Progress()), (OpenAttempt(), wait(enough=3, grace_s=30.0))),
            (present(*ALL), (OpenSetup(),)),
            (opened("align"), (Gather(RoundId(0), "align"),)),
            (gathered("align", NORTH, SOUTH, west="refused: duplicate ids"),
             closed(RunStatus.STOPPED, "paused: waiting for west (refused: duplicate ids)")),
        ],
    )  # fmt: skip


def test_a_stop_request_is_honoured_at_a_phase_boundary() -> None:
    play(in_round_one(rules()), [(gathered("inner_product", *ALL, stop="enough"), closed(RunStatus.STOPPED, "enough"))])


def test_a_stop_request_is_honoured_while_waiting_for_clients() -> None:
    play(
        RunState(rules()),
        [
            (Started(RoundId(3), Progress(2, 2.0)), (OpenAttempt(), wait(enough=2, grace_s=30.0))),
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
            (present(*ALL), (OpenRound(RoundId(2), ALL, NONE, closing=True),)),
            (ready(2), (CommitRound(RoundId(2), done), OpenFinish())),
        ],
    )


def test_seconds_of_earlier_servers_count() -> None:
    play(
        RunState(rules(seconds=50.0)),
        [
            (Started(RoundId(7), Progress(6, 60.0)), (OpenAttempt(), wait(enough=2, grace_s=30.0))),
            (present(*ALL), (OpenRound(RoundId(7), ALL, NONE, closing=True),)),
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
