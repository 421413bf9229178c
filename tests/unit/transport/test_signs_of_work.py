"""What a client's heartbeats say of its work."""

import time

import grpc
import pytest

from fenchel_client.desk import Assignment, Desk
from fenchel_client.transport import link
from fenchel_common.wire.chunks import MAX_BODY_BYTES
from support.connections import key


class Clock:
    """The CPU time of this process, as the test sets it."""

    def __init__(self) -> None:
        self.now_s = 3.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "process_time", found)
    return found


def test_a_party_works_if_it_has_a_task_and_spends_time_on_it(clock: Clock) -> None:
    desk = Desk()
    with grpc.insecure_channel("localhost:1") as channel:  # nobody listens there
        own = link.Link(channel, desk, incarnation="1", roster_version=1, limit=lambda _: MAX_BODY_BYTES)
        clock.now_s += 10.0
        assert not own._works(), "it has no task"
        desk.offer(Assignment(key("p"), b""))
        assert not own._works(), "it has done nothing since the heartbeat before"
        clock.now_s += link.WORK_S
        assert own._works()
        clock.now_s += link.WORK_S / 10
        assert not own._works(), "a heartbeat takes so much by itself"
