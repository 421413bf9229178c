"""The mailbox and its phases: every result once, every client accounted for, nothing waits longer than the deadline."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from fenchel_common.ids import RoundId, RunId
from fenchel_common.wire.frames import MAX_REASON_CHARACTERS, TaskKey
from fenchel_server.rounds.transport import Exchange
from fenchel_server.transport.mailbox import Mailbox
from fenchel_server.transport.outbox import Delivery, Verdict, Welcome
from support.mailboxes import KEY, NEXT_KEY, NORTH, PHASE, SOUTH, Clock, Gathering, attach, reach_the_task, received


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def mailbox(clock: Clock) -> Mailbox:
    return Mailbox(silence_s=30, clock=clock)


def test_a_phase_gives_each_client_its_task_and_returns_when_all_have_answered(mailbox: Mailbox) -> None:
    north, south = attach(mailbox, NORTH), attach(mailbox, SOUTH)
    gathering = Gathering(mailbox, {NORTH: b"n", SOUTH: b"s"})
    assert [received(north), received(north)] == [Welcome(in_hand_awaited=False), Delivery(KEY, b"n")]
    assert [received(south), received(south)] == [Welcome(in_hand_awaited=False), Delivery(KEY, b"s")]

    assert mailbox.hand_in(NORTH, KEY, b"from north") is Verdict.ACCEPTED
    assert mailbox.hand_in(SOUTH, KEY, b"from south") is Verdict.ACCEPTED

    outcome = gathering.outcome()
    assert outcome.results == {NORTH: b"from north", SOUTH: b"from south"}
    assert outcome.absences == {}


def test_a_result_has_the_limit_of_its_client_while_it_is_owed(mailbox: Mailbox) -> None:
    north = attach(mailbox, NORTH)
    with ThreadPoolExecutor(1) as pool:
        tasks = {NORTH: b"n", SOUTH: b"s"}
        future = pool.submit(mailbox.gather, PHASE, tasks, deadline_s=10, limits={NORTH: 7})
        reach_the_task(north)
        assert mailbox.result_limit(NORTH, KEY) == 7
        assert mailbox.result_limit(SOUTH, KEY) is None
        mailbox.hand_in(NORTH, KEY, b"from north")
        assert mailbox.result_limit(NORTH, KEY) is None
        mailbox.give_up(SOUTH, KEY, "no")
        assert future.result(20).results == {NORTH: b"from north"}


def test_a_phase_without_tasks_is_over_at_once(mailbox: Mailbox) -> None:
    assert mailbox.gather(PHASE, {}, deadline_s=10).results == {}


def test_the_first_result_counts_and_its_duplicates_are_ignored(mailbox: Mailbox) -> None:
    north = attach(mailbox, NORTH)
    gathering = Gathering(mailbox, {NORTH: b"", SOUTH: b""})
    reach_the_task(north)
    mailbox.hand_in(NORTH, KEY, b"first")

    assert mailbox.verdict(NORTH, KEY) is Verdict.DUPLICATE
    assert mailbox.hand_in(NORTH, KEY, b"second") is Verdict.DUPLICATE
    mailbox.hand_in(SOUTH, KEY, b"")
    assert gathering.outcome().results[NORTH] == b"first"
    assert mailbox.hand_in(NORTH, KEY, b"third") is Verdict.DUPLICATE


@pytest.mark.parametrize(
    "key",
    [
        TaskKey(RunId("other"), RoundId(3), "inner_product"),
        TaskKey(RunId("run"), RoundId(2), "inner_product"),
        TaskKey(RunId("run"), RoundId(3), "primal"),
        TaskKey(RunId("run"), RoundId(3), "inner_product", attempt=1),
    ],
)
def test_a_result_of_a_task_that_is_not_open_is_told_so_and_changes_nothing(mailbox: Mailbox, key: TaskKey) -> None:
    north = attach(mailbox, NORTH)
    gathering = Gathering(mailbox, {NORTH: b""})
    reach_the_task(north)

    assert mailbox.hand_in(NORTH, key, b"stray") is Verdict.NOT_OPEN
    mailbox.hand_in(NORTH, KEY, b"right")
    assert gathering.outcome().results == {NORTH: b"right"}


def test_a_client_that_has_no_task_in_the_phase_cannot_hand_in_for_one_that_has(mailbox: Mailbox) -> None:
    attach(mailbox, SOUTH)
    north = attach(mailbox, NORTH)
    gathering = Gathering(mailbox, {NORTH: b""})
    reach_the_task(north)

    assert mailbox.hand_in(SOUTH, KEY, b"forged") is Verdict.NOT_OPEN
    mailbox.hand_in(NORTH, KEY, b"own")
    assert gathering.outcome().results == {NORTH: b"own"}


def test_clients_that_do_not_answer_are_absent_with_their_reason_at_the_deadline(mailbox: Mailbox) -> None:
    attach(mailbox, NORTH)
    outcome = mailbox.gather(PHASE, {NORTH: b"", SOUTH: b""}, deadline_s=0.05)

    assert outcome.results == {}
    assert outcome.absences[NORTH].reason == "no result within 0.05 s"
    assert outcome.absences[SOUTH].reason == "no result within 0.05 s (not connected)"
    assert mailbox.hand_in(NORTH, KEY, b"late") is Verdict.NOT_OPEN


def test_a_task_that_was_not_sent_by_the_deadline_is_withdrawn(mailbox: Mailbox) -> None:
    north = attach(mailbox, NORTH)
    mailbox.gather(PHASE, {NORTH: b"task"}, deadline_s=0.01)

    assert isinstance(received(north), Welcome)
    assert north.take(timeout_s=0) is None


def test_a_refusal_is_an_absence_with_its_public_reason_on_one_bounded_line(mailbox: Mailbox) -> None:
    north = attach(mailbox, NORTH)
    gathering = Gathering(mailbox, {NORTH: b""})
    reach_the_task(north)
    mailbox.give_up(NORTH, KEY, "refused: bad\nlabels\x1b[31m" + "x" * 10_000)

    reason = gathering.outcome().absences[NORTH].reason
    assert reason.startswith("refused: bad labels [31m")
    assert len(reason) == MAX_REASON_CHARACTERS
    assert mailbox.give_up(NORTH, KEY, "again") is Verdict.DUPLICATE


def test_bytes_of_an_open_task_count_for_its_phase_and_all_bytes_for_the_total(mailbox: Mailbox) -> None:
    north = attach(mailbox, NORTH)
    mailbox.count(NORTH, None, up=1)
    gathering = Gathering(mailbox, {NORTH: b""})
    reach_the_task(north)
    mailbox.count(NORTH, KEY, down=10)
    mailbox.count(NORTH, NEXT_KEY, up=100)
    mailbox.count(NORTH, KEY, up=1000)
    mailbox.hand_in(NORTH, KEY, b"")

    outcome = gathering.outcome()
    assert (outcome.bytes_up, outcome.bytes_down) == (1000, 10)
    assert (mailbox.traffic().bytes_up, mailbox.traffic().bytes_down) == (1101, 10)


def test_each_clients_time_ends_with_its_own_result(mailbox: Mailbox, clock: Clock) -> None:
    north, south = attach(mailbox, NORTH), attach(mailbox, SOUTH)
    gathering = Gathering(mailbox, {NORTH: b"", SOUTH: b""})
    reach_the_task(north)
    reach_the_task(south)
    mailbox.count(NORTH, KEY, up=3, down=4)
    clock.now_s = 2.0
    mailbox.hand_in(NORTH, KEY, b"early")
    clock.now_s = 5.0
    mailbox.hand_in(SOUTH, KEY, b"late")

    outcome = gathering.outcome()
    assert outcome.exchanges == {NORTH: Exchange(2.0, 3, 4), SOUTH: Exchange(5.0, 0, 0)}
    assert outcome.seconds == 5.0


def test_a_second_phase_at_the_same_time_is_a_mistake_of_the_caller(mailbox: Mailbox) -> None:
    north = attach(mailbox, NORTH)
    gathering = Gathering(mailbox, {NORTH: b""})
    reach_the_task(north)

    with pytest.raises(RuntimeError, match="phases cannot overlap"):
        mailbox.gather(PHASE, {NORTH: b""}, deadline_s=1)
    mailbox.hand_in(NORTH, KEY, b"")
    assert gathering.outcome().results == {NORTH: b""}
