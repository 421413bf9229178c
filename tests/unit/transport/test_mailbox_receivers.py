"""A phase whose results are received as they come: each once, none kept, and all before the phase is over."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_server.rounds.transport import Gathered, Receive
from fenchel_server.transport.mailbox import Mailbox
from fenchel_server.transport.outbox import Verdict
from support.mailboxes import KEY, NORTH, PHASE, SOUTH, attach, reach_the_task

WAIT_S = 20


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox(silence_s=30)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as threads:
        yield threads


def begun(pool: ThreadPoolExecutor, mailbox: Mailbox, receive: Receive, *, deadline_s: float = 10) -> Future[Gathered]:
    """A phase with tasks for two clients, of which one is attached."""
    north, tasks = attach(mailbox, NORTH), {NORTH: b"", SOUTH: b""}
    gathering = pool.submit(mailbox.gather, PHASE, tasks, deadline_s=deadline_s, receive=receive)
    reach_the_task(north)
    return gathering


def test_each_result_is_received_once_when_it_comes_and_is_not_kept(pool: ThreadPoolExecutor, mailbox: Mailbox) -> None:
    received: list[tuple[ClientId, bytes]] = []
    gathering = begun(pool, mailbox, lambda client, result: received.append((client, bytes(result))))
    assert mailbox.hand_in(NORTH, KEY, b"from north") is Verdict.ACCEPTED
    assert received == [(NORTH, b"from north")]
    assert mailbox.hand_in(NORTH, KEY, b"once more") is Verdict.DUPLICATE
    mailbox.give_up(SOUTH, KEY, "no")
    outcome = gathering.result(WAIT_S)
    assert outcome.results == {NORTH: b""}
    assert outcome.absences.keys() == {SOUTH}
    assert received == [(NORTH, b"from north")]


def test_a_phase_is_not_over_while_a_result_that_came_in_time_is_being_received(
    pool: ThreadPoolExecutor, mailbox: Mailbox
) -> None:
    began, go_on, order = threading.Event(), threading.Event(), list[str]()

    def slow(client: ClientId, result: memoryview) -> None:
        began.set()
        assert go_on.wait(WAIT_S)
        order.append("received")

    gathering = begun(pool, mailbox, slow)
    gathering.add_done_callback(lambda _: order.append("over"))
    handed_in = pool.submit(mailbox.hand_in, NORTH, KEY, b"from north")
    assert began.wait(WAIT_S)
    mailbox.give_up(SOUTH, KEY, "no")
    assert mailbox.owed() == {}, "no client owes anything any more, and yet the phase goes on"
    go_on.set()
    assert gathering.result(WAIT_S).results == {NORTH: b""}
    assert handed_in.result(WAIT_S) is Verdict.ACCEPTED
    assert order == ["received", "over"]


def test_an_error_of_the_receiver_ends_the_phase_and_leaves_the_next_one_alone(
    pool: ThreadPoolExecutor, mailbox: Mailbox
) -> None:
    def refusing(client: ClientId, result: memoryview) -> None:
        raise InvalidInput(f"{client}: {len(result)}")

    gathering = begun(pool, mailbox, refusing)
    assert mailbox.hand_in(NORTH, KEY, b"from north") is Verdict.ACCEPTED
    mailbox.give_up(SOUTH, KEY, "no")
    with pytest.raises(InvalidInput, match="north: 10"):
        gathering.result(WAIT_S)
    assert mailbox.gather(PHASE, {}, deadline_s=1).results == {}
