"""How long a phase waits for tasks: those that progress are not cut off, those that stand still are."""

import pytest

from fenchel_server.transport.opentask import MOST_DEADLINES, OpenTask, seconds_left

BEGAN_S, DEADLINE_S = 100.0, 10.0


def left(now_s: float, *tasks: OpenTask) -> float:
    return seconds_left(tasks, now_s, began_s=BEGAN_S, deadline_s=DEADLINE_S)


def test_a_phase_without_progress_ends_at_its_deadline() -> None:
    assert left(104.0, OpenTask(b""), OpenTask(b"")) == 6.0
    assert left(110.0, OpenTask(b"")) == 0.0


def test_progress_of_one_open_task_keeps_the_phase_open() -> None:
    assert left(115.0, OpenTask(b""), OpenTask(b"", progressed_s=112.0)) == 7.0
    assert left(122.0, OpenTask(b""), OpenTask(b"", progressed_s=112.0)) == 0.0


@pytest.mark.parametrize("settled", [OpenTask(b"", result=b"it"), OpenTask(b"", absence="refused")])
def test_a_settled_task_is_not_waited_for(settled: OpenTask) -> None:
    settled.progressed_s = 119.0
    assert left(101.0, settled) == 0.0
    assert left(119.0, settled, OpenTask(b"")) == -9.0


def test_a_phase_that_always_progresses_has_a_limit() -> None:
    limit_s = BEGAN_S + MOST_DEADLINES * DEADLINE_S
    assert left(limit_s - 3.0, OpenTask(b"", progressed_s=limit_s - 4.0)) == 3.0


def test_the_reason_of_an_absence_says_whether_the_client_worked() -> None:
    def reason(task: OpenTask, now_s: float) -> str:
        return task.absence_at(now_s, began_s=BEGAN_S, deadline_s=DEADLINE_S)

    assert reason(OpenTask(b""), 110.0) == "no result within 10 s"
    assert reason(OpenTask(b"", progressed_s=112.0), 122.0) == "no result, and no sign of work within 10 s"
    assert reason(OpenTask(b"", progressed_s=399.0), 400.0) == "no result within 300 s, although it works"
