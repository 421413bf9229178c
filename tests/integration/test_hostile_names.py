"""Runs whose ids are not file names, over real TLS: neither side takes them, and both go on."""

from pathlib import Path

import grpc
import pytest

from fenchel.v1.federation_pb2 import ClientMessage, Result
from fenchel_client.task import Task
from fenchel_common.errors import ProtocolViolation
from fenchel_common.identity import Kit
from fenchel_common.ids import RoundId, RunId
from fenchel_common.wire.frames import key_to_proto
from fenchel_server.rounds.transport import PhaseId
from support.connections import Attending, RawClient, Server, key
from support.hostile_callers import NORTH, SOCKET_S


@pytest.mark.parametrize("run", ["", "..", "../run", "/etc/run", "a/b", "a\\b", "a\0b", "a\nb", ".hidden", "x" * 101])
def test_a_run_that_is_no_name_is_refused_by_the_server(server: Server, south: Kit, run: str) -> None:
    named = key_to_proto(key("p"))
    named.run = run
    with RawClient(south, server.address) as client:
        client.hello()
        client.send(ClientMessage(result=Result(key=named, refusal="no")))
        code, error = client.refusal()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert isinstance(error, ProtocolViolation)
    assert "key.run" in str(error)


@pytest.mark.parametrize("run", ["../outside", "ü" * 80, "x" * 65])
def test_a_server_that_names_a_run_badly_gets_no_answer_and_its_party_stays(kits: dict[str, Path], run: str) -> None:
    handled: list[Task] = []

    def handler(task: Task) -> bytes:
        handled.append(task)
        return b"here"

    bad, good = (PhaseId(RunId(name), RoundId(1), "finish") for name in (run, "good"))
    with Server(Kit.load(kits["server"])) as rogue, Attending(kits["north"], handler, rogue.address):
        assert not rogue.transport.gather(bad, {NORTH: b""}, deadline_s=0.5).results
        assert rogue.transport.gather(good, {NORTH: b""}, deadline_s=SOCKET_S).results == {NORTH: b"here"}
    assert [task.run for task in handled] == ["good"]
