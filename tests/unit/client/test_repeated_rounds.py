"""Rounds that a server repeats in a higher attempt, and older ones that it cannot repeat."""

from fenchel_client.transcript import MAX_REPEATS
from fenchel_common.ids import RoundId
from fenchel_common.records import ROUND, Moment
from fenchel_common.setup import LAYOUT
from fenchel_server.algorithms.transcript import Transcript as ServerTranscript
from support.transcripts import CLIENTS, WORK, A, Run, refuses


def test_the_last_round_can_be_repeated_in_a_higher_attempt() -> None:
    run = Run()
    run.round(1)
    committed = run.server.records
    run.round(2)
    run.restored(committed)
    run.round(2)
    for party in CLIENTS:
        run.tell(party)
    assert run.phases_of(A) == [(1, 0, LAYOUT), (1, 1, ROUND), (1, 1, WORK), (2, 2, ROUND), (2, 2, WORK)]
    assert len({run.parties[party].view for party in CLIENTS}) == 1


def test_a_round_that_was_begun_alone_can_be_repeated_too() -> None:
    run = Run()
    run.round(1)
    committed = run.server.records
    run.begin(2)
    run.tell(A)
    run.restored(committed)
    run.round(2)
    run.tell(A)
    assert run.phases_of(A)[-2:] == [(2, 2, ROUND), (2, 2, WORK)]


def test_a_round_is_not_repeated_in_the_same_attempt() -> None:
    run = Run()
    run.round(1)
    committed = run.server.records
    run.round(2)
    run.tell(A)
    run.server = ServerTranscript(CLIENTS, committed)
    run.server.add(Moment(1, RoundId(2), ROUND), choices=b"other")
    refuses(run, A, "another story of earlier rounds")


def test_a_server_restored_from_an_older_backup_is_refused() -> None:
    run = Run()
    run.round(1)
    old = run.server.records
    for round_id in (2, 3, 4):
        run.round(round_id)
    run.tell(A)
    run.restored(old)
    run.begin(2)
    refuses(run, A, "restored from an older backup")
    assert run.phases_of(A)[-1] == (1, 4, WORK)


def test_a_party_does_not_go_back_into_the_middle_of_a_round() -> None:
    run = Run()
    run.begin(1)
    run.phase(1)
    run.phase(1, "more")
    run.tell(A)
    run.restored(run.server.records[:3])
    run.begin(2)
    refuses(run, A, "another story")


def test_only_the_round_under_way_can_be_begun_anew() -> None:
    """A server that could go back a whole round would hear the figures of as many models as it likes."""
    run = Run()
    run.round(1)
    committed = run.server.records
    run.round(2)
    run.begin(3)
    run.tell(A)
    run.restored(committed)
    run.begin(2)
    refuses(run, A, "another story")
    assert run.phases_of(A)[-2:] == [(1, 2, WORK), (1, 3, ROUND)]


def test_a_later_round_does_not_take_the_place_of_the_one_under_way() -> None:
    run = Run()
    run.round(1)
    committed = run.server.records
    run.begin(2)
    run.tell(A)
    run.restored(committed)
    run.begin(3)
    refuses(run, A, "another story")


def test_a_round_is_begun_anew_only_so_often_and_the_next_one_as_often_again() -> None:
    run = Run()
    for round_id in (1, 2):
        committed = run.server.records
        run.begin(round_id)
        run.tell(A)
        for _ in range(MAX_REPEATS):
            run.restored(committed)
            run.begin(round_id)
            run.tell(A)
        run.phase(round_id)
    run.tell(A)
    run.restored(committed)
    run.begin(2)
    refuses(run, A, f"began a round anew {MAX_REPEATS + 1} times")


def test_a_repeated_round_leaves_nothing_of_the_one_before_it() -> None:
    """A party that repeats round 2 cannot be sent to the end of the round 2 that it has forgotten."""
    run = Run()
    run.round(1)
    committed = run.server.records
    run.round(2)
    run.tell(A)
    forgotten = run.server.records
    run.restored(committed)
    run.round(2)
    run.tell(A)
    run.restored(forgotten)
    run.begin(3)
    refuses(run, A, "another story")
