"""The transport that other tests rely on keeps the contract of the real one."""

from collections.abc import Callable

from fenchel_client.task import Task
from fenchel_common.errors import Refusal
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_server.rounds.transport import PhaseId, Transport
from support.inprocess import InProcessTransport

NORTH, SOUTH = ClientId("north"), ClientId("south")


def phase(name: str, round_id: int = 1) -> PhaseId:
    return PhaseId(RunId("run"), RoundId(round_id), name)


def echo(prefix: bytes) -> Callable[[Task], bytes]:
    return lambda task: prefix + task.body


def test_it_answers_for_every_handler_and_counts_round_trips_and_bytes() -> None:
    transport = InProcessTransport({NORTH: echo(b"n"), SOUTH: echo(b"s")})
    as_transport: Transport = transport
    first = as_transport.gather(phase("a"), {NORTH: b"1", SOUTH: b"2"}, deadline_s=1)
    transport.gather(phase("b"), {NORTH: b""}, deadline_s=1)
    transport.gather(phase("a", round_id=2), {}, deadline_s=1)

    assert first.results == {NORTH: b"n1", SOUTH: b"s2"}
    assert first.bytes_up == first.bytes_down + 2
    assert (transport.round_trips(1), transport.round_trips(2)) == (2, 1)
    assert transport.bytes_up > first.bytes_up


def test_clients_can_be_made_absent_refuse_leave_and_restart() -> None:
    def refuse(task: Task) -> bytes:
        raise Refusal("row 17 is bad", public_reason="a row is bad")

    transport = InProcessTransport(
        {NORTH: echo(b""), SOUTH: refuse},
        absent=lambda at, client: "asleep" if (at.phase, client) == ("b", NORTH) else None,
    )
    assert transport.gather(phase("a"), {SOUTH: b""}, deadline_s=1).absences[SOUTH].reason == "refused: a row is bad"
    assert transport.gather(phase("b"), {NORTH: b""}, deadline_s=1).absences[NORTH].reason == "asleep"

    before = transport.incarnation(SOUTH)
    transport.leave(SOUTH)
    assert transport.present() == {NORTH}
    assert "not connected" in transport.gather(phase("c"), {SOUTH: b""}, deadline_s=1).absences[SOUTH].reason
    transport.restart(SOUTH, echo(b"new "))
    assert transport.incarnation(SOUTH) != before
    assert transport.gather(phase("d"), {SOUTH: b"life"}, deadline_s=1).results == {SOUTH: b"new life"}
