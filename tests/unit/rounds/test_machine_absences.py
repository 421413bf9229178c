"""The round machine when clients are absent, restarted or refuse: who is asked again, and when the run is paused."""

from fenchel_common.ids import RoundId
from fenchel_server.rounds.events import (
    Advance,
    BeginAttempt,
    BeginSetup,
    ClientsPresent,
    CommitRound,
    Gather,
    ResultRefused,
    Started,
)
from fenchel_server.rounds.phases import RunState, Stage
from fenchel_server.rounds.stopping import Progress
from fenchel_server.store import RunStatus
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


def test_a_client_with_a_new_incarnation_is_restarted() -> None:
    play(
        in_round_one(rules()),
        [
            (gathered("inner_product", *ALL), (Advance("inner_product"),)),
            (ready(1), (CommitRound(RoundId(1)), wait(enough=2, grace_s=0.0))),
            (ClientsPresent({NORTH: "a", SOUTH: "b", WEST: "a"}), (begin_round(2, ALL, frozenset({SOUTH})),)),
        ],
    )


def test_a_client_that_missed_a_round_without_restarting_keeps_its_state() -> None:
    play(
        in_round_one(rules()),
        [
            (gathered("inner_product", NORTH, SOUTH, west="gone"), (Advance("inner_product"),)),
            (ready(1), (CommitRound(RoundId(1)), wait(enough=2, grace_s=0.0))),
            (present(NORTH, SOUTH), (begin_round(2, frozenset({NORTH, SOUTH}), NONE),)),
            (requested("primal", NORTH, SOUTH), (Gather(RoundId(2), "primal"),)),
            (gathered("primal", NORTH, SOUTH), (Advance("primal"),)),
            (ready(2), (CommitRound(RoundId(2)), wait(enough=2, grace_s=0.0))),
            (present(*ALL), (begin_round(3, ALL, NONE),)),
        ],
    )


def test_a_round_goes_on_without_a_client_while_the_quorum_holds() -> None:
    play(in_round_one(rules()), [(gathered("inner_product", NORTH, SOUTH, west="gone"), (Advance("inner_product"),))])


def test_absences_of_several_phases_add_up_against_the_quorum() -> None:
    play(
        in_round_one(rules()),
        [
            (gathered("inner_product", NORTH, SOUTH, west="gone"), (Advance("inner_product"),)),
            (requested("primal", NORTH, SOUTH), (Gather(RoundId(1), "primal"),)),
            (gathered("primal", NORTH, south="gone"), (BeginAttempt(), wait(enough=2, grace_s=30.0))),
        ],
    )


def test_an_abandoned_round_is_tried_again_from_the_last_commit_and_then_paused() -> None:
    end = play(
        in_round_one(rules()),
        [
            (gathered("inner_product", NORTH, south="late", west="x"), (BeginAttempt(), wait(enough=2, grace_s=30.0))),
            (present(*ALL), (begin_round(1, ALL, NONE),)),
            (requested("inner_product"), (Gather(RoundId(1), "inner_product"),)),
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
                (BeginAttempt(), wait(enough=2, grace_s=30.0)),
            ),
            (present(*ALL), (begin_round(1, ALL, NONE),)),
            (ready(1), (CommitRound(RoundId(1)), wait(enough=2, grace_s=0.0))),
            (present(NORTH), (BeginAttempt(), wait(enough=2, grace_s=30.0))),
        ],
    )


def test_a_client_that_failed_a_try_is_left_out_of_the_next_if_the_others_suffice() -> None:
    play(
        in_round_one(rules(quorum=2)),
        [
            (ResultRefused(WEST, "not a number"), (BeginAttempt(), wait(enough=2, grace_s=30.0))),
            (present(*ALL), (begin_round(1, frozenset({NORTH, SOUTH}), NONE),)),
        ],
    )


def test_a_client_that_failed_the_first_try_and_has_restarted_is_in_the_second_and_not_in_the_third() -> None:
    there = dict.fromkeys(ALL, "a")
    anew, again = {**there, WEST: "b"}, {**there, WEST: "c"}
    play(
        in_round_one(rules(quorum=2, attempts=3)),
        [
            (gathered("inner_product", NORTH, west="restarted"), (Advance("inner_product"),)),
            (ResultRefused(WEST, "restarted"), (BeginAttempt(), wait(enough=2, grace_s=30.0))),
            (ClientsPresent(anew), (begin_round(1, ALL, NONE),)),
            (ResultRefused(WEST, "restarted"), (BeginAttempt(), wait(enough=2, grace_s=30.0))),
            (ClientsPresent(again), (begin_round(1, ALL - {WEST}, NONE),)),
        ],
    )


def test_a_client_that_failed_a_try_is_tried_again_if_the_quorum_needs_it() -> None:
    play(
        in_round_one(rules(quorum=3)),
        [
            (ResultRefused(WEST, "not a number"), (BeginAttempt(), wait(enough=3, grace_s=30.0))),
            (present(*ALL), (begin_round(1, ALL, NONE),)),
            (ResultRefused(WEST, "not a number"),
             closed(RunStatus.STOPPED, "paused: waiting for west (rejected: not a number)")),
        ],
    )  # fmt: skip


def test_a_run_whose_clients_never_come_is_paused_with_their_names() -> None:
    play(
        RunState(rules()),
        [
            (Started(RoundId(0), Progress()), (BeginAttempt(), wait(enough=3, grace_s=30.0))),
            (present(NORTH, SOUTH), (BeginAttempt(), wait(enough=3, grace_s=30.0))),
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
            (Started(RoundId(0), Progress()), (BeginAttempt(), wait(enough=3, grace_s=30.0))),
            (present(*ALL), (BeginSetup(),)),
            (requested("align"), (Gather(RoundId(0), "align"),)),
            (gathered("align", NORTH, SOUTH, west="restarted"), (BeginAttempt(), wait(enough=3, grace_s=30.0))),
            (present(*ALL), (BeginSetup(),)),
        ],
    )


def test_a_refusal_in_the_set_up_is_on_record_when_the_tries_are_used_up() -> None:
    """It is tried again first, because a party that restarted amid the set-up refuses too, and that is cured by it."""
    play(
        RunState(rules(attempts=1)),
        [
            (Started(RoundId(0), Progress()), (BeginAttempt(), wait(enough=3, grace_s=30.0))),
            (present(*ALL), (BeginSetup(),)),
            (requested("align"), (Gather(RoundId(0), "align"),)),
            (gathered("align", NORTH, SOUTH, west="refused: duplicate ids"),
             closed(RunStatus.STOPPED, "paused: waiting for west (refused: duplicate ids)")),
        ],
    )  # fmt: skip
