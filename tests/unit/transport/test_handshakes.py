"""Callers that never prove who they are: counted, and told now and then."""

import logging

import pytest

from fenchel_server.transport.handshakes import REPEAT_S, Handshakes


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def handshakes(clock: Clock) -> Handshakes:
    return Handshakes(patience_s=20.0, clock=clock)


def told(handshakes: Handshakes, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        handshakes.tell()
    return [message.split(" connections")[0] for message in caplog.messages]


def test_a_caller_that_makes_a_call_is_not_told(
    handshakes: Handshakes, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    handshakes.begin()
    for _ in range(3):
        handshakes.succeed("ipv4:192.0.2.1:5000")
    clock.now += 21.0
    assert told(handshakes, caplog) == []


def test_callers_that_make_no_call_are_told_after_a_while_and_not_again_at_once(
    handshakes: Handshakes, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        handshakes.begin()
    handshakes.succeed("ipv4:192.0.2.1:5000")
    assert told(handshakes, caplog) == []
    clock.now += 21.0
    assert told(handshakes, caplog) == ["2"]
    handshakes.begin()
    clock.now += 21.0
    assert told(handshakes, caplog) == []
    clock.now += REPEAT_S
    assert told(handshakes, caplog) == ["1"]
