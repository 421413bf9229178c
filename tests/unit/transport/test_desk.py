"""The desk: the newest task counts, a result stays until it is acknowledged, nothing is done twice."""

import threading

from fenchel_client.desk import Assignment, Desk, Outcome
from fenchel_common.ids import RoundId, RunId
from fenchel_common.wire.frames import TaskKey

FIRST = TaskKey(RunId("run"), RoundId(1), "inner_product")
SECOND = TaskKey(RunId("run"), RoundId(1), "local_dual")


def test_a_result_stays_until_it_is_acknowledged() -> None:
    desk = Desk()
    desk.offer(Assignment(FIRST, b"task"))
    assert desk.take(wait=True) == Assignment(FIRST, b"task")
    outcome = Outcome(FIRST, b"result")

    assert desk.finish(outcome)
    assert (desk.in_hand, desk.outcome) == (FIRST, outcome)

    desk.drop(FIRST)
    assert (desk.in_hand, desk.outcome) == (None, None)


def test_a_task_in_hand_is_not_done_again_when_it_is_sent_again() -> None:
    desk = Desk()
    desk.offer(Assignment(FIRST, b"task"))
    desk.take(wait=True)
    desk.offer(Assignment(FIRST, b"task"))
    assert desk.take(wait=False) is None

    desk.finish(Outcome(FIRST, b"result"))
    desk.offer(Assignment(FIRST, b"task"))
    assert desk.take(wait=False) is None
    assert desk.outcome == Outcome(FIRST, b"result")


def test_a_newer_task_replaces_one_that_waits_and_the_result_of_one_in_work() -> None:
    desk = Desk()
    desk.offer(Assignment(FIRST, b"task"))
    desk.take(wait=True)
    desk.offer(Assignment(SECOND, b"newer"))

    assert not desk.finish(Outcome(FIRST, b"late"))
    assert desk.outcome is None
    assert desk.take(wait=False) == Assignment(SECOND, b"newer")


def test_an_acknowledgement_of_another_task_drops_nothing() -> None:
    desk = Desk()
    desk.offer(Assignment(FIRST, b"task"))
    desk.take(wait=True)
    desk.finish(Outcome(FIRST, b"result"))
    desk.drop(SECOND)

    assert desk.outcome == Outcome(FIRST, b"result")


def test_a_declined_task_is_not_overwritten_by_the_result_of_an_older_one() -> None:
    desk = Desk()
    desk.offer(Assignment(FIRST, b"task"))
    desk.take(wait=True)
    desk.decline(Outcome(SECOND, refusal="too large"))

    assert not desk.finish(Outcome(FIRST, b"late"))
    assert desk.outcome == Outcome(SECOND, refusal="too large")


def test_the_end_of_the_session_wakes_whoever_waits() -> None:
    desk = Desk()
    found: list[Assignment | None] = []
    worker = threading.Thread(target=lambda: found.append(desk.take(wait=True)))
    worker.start()
    desk.end()
    worker.join(10)

    assert found == [None]


def test_neither_a_task_nor_a_result_shows_its_bytes() -> None:
    assert "secret" not in repr(Assignment(FIRST, b"secret"))
    assert "secret" not in repr(Outcome(FIRST, b"secret"))
