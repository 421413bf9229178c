"""The mailbox and its connections: who is present, who takes over, what a client that comes again is given."""

import pytest

from fenchel_common.dismissal import Dismissal, Misfit, UnfitData
from fenchel_common.errors import ProtocolViolation, ServerUnavailable, SessionSuperseded
from fenchel_server.transport.mailbox import Mailbox
from fenchel_server.transport.outbox import (
    MAX_WAITING,
    Delivery,
    Outbox,
    OutboxClosed,
    Receipt,
    Verdict,
    Welcome,
)
from support.mailboxes import KEY, NEXT_KEY, NORTH, PHASE, SOUTH, Clock, Gathering, attach, reach_the_task, received


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def mailbox(clock: Clock) -> Mailbox:
    return Mailbox(silence_s=30, clock=clock)


def test_a_client_that_comes_during_the_phase_gets_its_task(mailbox: Mailbox) -> None:
    south = attach(mailbox, SOUTH)
    gathering = Gathering(mailbox, {NORTH: b"task", SOUTH: b""})
    reach_the_task(south)
    north = attach(mailbox, NORTH)

    assert [received(north), received(north)] == [Welcome(in_hand_awaited=False), Delivery(KEY, b"task")]
    mailbox.hand_in(NORTH, KEY, b"result")
    mailbox.hand_in(SOUTH, KEY, b"")
    assert gathering.outcome().results == {NORTH: b"result", SOUTH: b""}


def test_the_same_process_may_reconnect_and_hand_in_without_getting_the_task_again(mailbox: Mailbox) -> None:
    first = attach(mailbox, NORTH)
    gathering = Gathering(mailbox, {NORTH: b"task"})
    reach_the_task(first)
    mailbox.detach(first)
    second = attach(mailbox, NORTH, in_hand=KEY)

    assert received(second) == Welcome(in_hand_awaited=True)
    assert second.take(timeout_s=0) is None
    mailbox.hand_in(NORTH, KEY, b"result")
    assert gathering.outcome().results == {NORTH: b"result"}


def test_the_same_process_gets_the_task_again_if_it_was_lost_on_the_way(mailbox: Mailbox) -> None:
    first = attach(mailbox, NORTH)
    gathering = Gathering(mailbox, {NORTH: b"task"})
    reach_the_task(first)
    second = attach(mailbox, NORTH, in_hand=NEXT_KEY)

    assert [received(second), received(second)] == [Welcome(in_hand_awaited=False), Delivery(KEY, b"task")]
    mailbox.hand_in(NORTH, KEY, b"result")
    gathering.outcome()


def test_a_process_that_restarts_with_a_task_pending_is_absent_at_once(mailbox: Mailbox) -> None:
    first = attach(mailbox, NORTH, incarnation="1")
    gathering = Gathering(mailbox, {NORTH: b"task"}, deadline_s=60)
    reach_the_task(first)
    second = attach(mailbox, NORTH, incarnation="2")

    assert gathering.outcome().absences[NORTH].reason == "restarted"
    assert mailbox.incarnation(NORTH) == "2"
    assert received(second) == Welcome(in_hand_awaited=False)
    assert second.take(timeout_s=0) is None
    assert mailbox.hand_in(NORTH, KEY, b"from the old process") is Verdict.NOT_OPEN


def test_a_process_that_restarted_after_its_result_still_counts(mailbox: Mailbox) -> None:
    first = attach(mailbox, NORTH, incarnation="1")
    gathering = Gathering(mailbox, {NORTH: b"", SOUTH: b""})
    reach_the_task(first)
    mailbox.hand_in(NORTH, KEY, b"result")
    attach(mailbox, NORTH, incarnation="2")
    mailbox.hand_in(SOUTH, KEY, b"")

    assert gathering.outcome().results[NORTH] == b"result"


def test_the_newest_connection_wins_and_the_end_of_an_older_one_changes_nothing(mailbox: Mailbox) -> None:
    first, second = attach(mailbox, NORTH), attach(mailbox, NORTH)
    mailbox.detach(first)
    assert mailbox.present() == {NORTH}
    mailbox.detach(second)
    assert mailbox.present() == frozenset()


def test_a_connection_that_ended_before_its_hello_was_read_is_not_attached(mailbox: Mailbox) -> None:
    outbox = Outbox(NORTH)
    outbox.close()
    mailbox.attach(outbox, incarnation="1", in_hand=None)

    assert mailbox.present() == frozenset()
    assert mailbox.incarnation(NORTH) is None


def test_an_older_connection_ends_for_good_only_if_another_process_took_over(mailbox: Mailbox) -> None:
    connections = [attach(mailbox, NORTH, incarnation) for incarnation in ("1", "1", "2")]

    with pytest.raises(ServerUnavailable):
        connections[0].take(timeout_s=0)
    with pytest.raises(SessionSuperseded, match="they use the same kit"):
        connections[1].take(timeout_s=0)


def test_a_client_that_is_silent_too_long_is_not_present_until_it_is_heard_again(
    mailbox: Mailbox, clock: Clock
) -> None:
    north = attach(mailbox, NORTH)
    clock.now_s = 31
    assert mailbox.present() == frozenset()
    assert mailbox.silent(north)

    mailbox.heard(north)
    assert mailbox.present() == {NORTH}
    assert not mailbox.silent(north)


def test_wait_for_returns_who_is_there_when_all_are_or_when_time_is_out(mailbox: Mailbox) -> None:
    attach(mailbox, NORTH)
    assert mailbox.wait_for(frozenset({NORTH}), timeout_s=10) == {NORTH}
    assert mailbox.wait_for(frozenset({NORTH, SOUTH}), timeout_s=0.01) == {NORTH}


def test_dismissal_reaches_those_present_and_those_who_come_later(mailbox: Mailbox) -> None:
    north = attach(mailbox, NORTH)
    unfit = UnfitData(Misfit.NO_SAMPLE_USED)
    mailbox.dismiss("converged", unfit={SOUTH: unfit}, timeout_s=0)
    south = attach(mailbox, SOUTH)

    for outbox, expected in ((north, Dismissal("converged")), (south, Dismissal("converged", unfit))):
        assert [received(outbox), received(outbox)] == [Welcome(in_hand_awaited=False), expected]
        with pytest.raises(OutboxClosed):
            outbox.take(timeout_s=0)


def test_dismissal_ends_an_open_phase_and_later_ones_at_once(mailbox: Mailbox) -> None:
    north = attach(mailbox, NORTH)
    gathering = Gathering(mailbox, {NORTH: b""}, deadline_s=60)
    reach_the_task(north)
    mailbox.dismiss("stopped by the operator", unfit={}, timeout_s=0)

    assert gathering.outcome().absences[NORTH].reason == "dismissed: stopped by the operator"
    assert mailbox.gather(PHASE, {NORTH: b""}, deadline_s=60).absences.keys() == {NORTH}


def test_a_client_that_hands_in_and_never_reads_is_cut_off_at_a_bound() -> None:
    outbox = Outbox(NORTH)
    for _ in range(MAX_WAITING + 1):
        outbox.put(Receipt(KEY, Verdict.DUPLICATE))

    with pytest.raises(ProtocolViolation, match="wait to be read"):
        outbox.take(timeout_s=0)
