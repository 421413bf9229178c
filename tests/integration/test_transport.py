"""Phases over real mutual TLS: what a run relies on."""

import logging
import os
import subprocess
import sys
import threading
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fenchel.v1.federation_pb2 import (
    VERDICT_ACCEPTED,
    VERDICT_DUPLICATE,
    VERDICT_NOT_OPEN,
    ClientMessage,
    Heartbeat,
)
from fenchel_client.session import EndKind, Session, SessionEnd
from fenchel_client.task import Task
from fenchel_client.transport.channel import open_channel
from fenchel_client.transport.dial import GrpcDial
from fenchel_common.errors import Refusal
from fenchel_common.identity import Address, Kit
from fenchel_common.ids import ClientId
from fenchel_common.wire.chunks import CHUNK_BYTES
from fenchel_common.wire.frames import key_from_proto, refusal_frame, result_frames
from fenchel_server.transport import TransportLimits
from support.connections import Attending, RawClient, Server, gathering, key, phase
from support.inprocess import InProcessTransport
from support.network import Network

NORTH, SOUTH = ClientId("north"), ClientId("south")
BOTH = frozenset({NORTH, SOUTH})
DEADLINE_S = 20.0
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
FEDERATION_SERVICE = "fenchel.v1.Federation"


def reverse(task: Task) -> bytes:
    return task.body[::-1]


def test_phases_of_two_parties_gather_what_each_made_of_its_own_task(kits: dict[str, Path], server: Server) -> None:
    with ExitStack() as stack:
        for party in ("north", "south"):
            stack.enter_context(Attending(kits[party], reverse, server.address))
        assert server.transport.wait_for(BOTH, timeout_s=DEADLINE_S) == BOTH

        several_chunks = bytes(range(256)) * (3 * CHUNK_BYTES // 256) + b"!"
        for name, body in (("empty", b""), ("short", b"abc"), ("long", several_chunks)):
            outcome = server.transport.gather(phase(name), {NORTH: body, SOUTH: b"s" + body}, deadline_s=DEADLINE_S)
            assert outcome.results == {NORTH: body[::-1], SOUTH: body[::-1] + b"s"}
            assert outcome.absences == {}


def test_the_result_is_the_poll_for_the_next_task(kits: dict[str, Path], server: Server) -> None:
    with RawClient(Kit.load(kits["north"]), server.address) as client:
        client.hello()
        client.receive("welcome")
        for name in ("first", "second", "third"):
            with gathering(server.transport, name, {NORTH: b"task"}):
                task = client.receive("task").task
                assert key_from_proto(task.key) == key(name)
                client.receive("chunk")
                client.send(*result_frames(key(name), b"result"))

        assert [message.WhichOneof("kind") for message in client.sent] == ["hello", *["result", "chunk"] * 3]


def test_a_phase_over_a_slow_network_takes_one_round_trip(kits: dict[str, Path], server: Server) -> None:
    one_way_s = 0.06
    with (
        Network(server.port, delay_s=one_way_s) as network,
        Attending(kits["north"], reverse, Address("localhost", network.port)),
    ):
        assert server.transport.wait_for(frozenset({NORTH}), timeout_s=DEADLINE_S)
        seconds = [
            server.transport.gather(phase("p", number), {NORTH: b"abc"}, deadline_s=DEADLINE_S).seconds
            for number in range(8)
        ]

    # The least of them: a busy machine only ever adds to a phase.
    assert 2 * one_way_s <= min(seconds) < 4 * one_way_s, "one round trip has two ways"


def test_a_phase_on_loopback_takes_milliseconds(kits: dict[str, Path], server: Server) -> None:
    with Attending(kits["north"], reverse, server.address), Attending(kits["south"], reverse, server.address):
        server.transport.wait_for(BOTH, timeout_s=DEADLINE_S)
        seconds = [
            server.transport.gather(phase("p", number), {NORTH: b"abc", SOUTH: b"def"}, deadline_s=DEADLINE_S).seconds
            for number in range(100)
        ]

    assert min(seconds) < 0.02


def test_bytes_are_those_of_the_messages_that_carried_tasks_and_results(kits: dict[str, Path], server: Server) -> None:
    in_process = InProcessTransport({NORTH: reverse})
    with Attending(kits["north"], reverse, server.address):
        server.transport.wait_for(frozenset({NORTH}), timeout_s=DEADLINE_S)
        for size in (0, 1000, 2 * CHUNK_BYTES + 1):
            real = server.transport.gather(phase("p", size), {NORTH: bytes(size)}, deadline_s=DEADLINE_S)
            counted = in_process.gather(phase("p", size), {NORTH: bytes(size)}, deadline_s=DEADLINE_S)

            assert (real.bytes_up, real.bytes_down) == (counted.bytes_up, counted.bytes_down)
            assert size < real.bytes_up < size + 200
        total = server.transport.traffic()
        assert total.bytes_up > in_process.bytes_up
        assert total.bytes_down > in_process.bytes_down


def test_a_replayed_result_is_accepted_once_and_ignored_after(kits: dict[str, Path], server: Server) -> None:
    with RawClient(Kit.load(kits["north"]), server.address) as client:
        client.hello()
        with gathering(server.transport, "p", {NORTH: b"task"}) as outcome:
            client.receive("chunk")
            client.send(*result_frames(key("other"), b"stray"))
            assert client.receive("receipt").receipt.verdict == VERDICT_NOT_OPEN
            client.send(*result_frames(key("p"), b"first"))
            assert client.receive("receipt").receipt.verdict == VERDICT_ACCEPTED
        for replayed in (b"first", b"altered"):
            client.send(*result_frames(key("p"), replayed))
            assert client.receive("receipt").receipt.verdict == VERDICT_DUPLICATE
        client.send(refusal_frame(key("p"), "changed my mind"))
        assert client.receive("receipt").receipt.verdict == VERDICT_DUPLICATE

        assert outcome[0].results == {NORTH: b"first"}
        with gathering(server.transport, "next", {NORTH: b"task"}):
            client.receive("task")
            client.send(*result_frames(key("next"), b"goes on"))


def test_a_client_that_works_is_not_cut_off_at_the_deadline_and_one_that_only_lives_is(kits: dict[str, Path]) -> None:
    limits = TransportLimits(heartbeat_s=0.4, silence_s=20.0)
    serving = Kit.load(kits["server"])
    with Server(serving, limits=limits) as server, RawClient(Kit.load(kits["north"]), server.address) as client:
        client.hello()
        client.receive("welcome")

        def live(*, beats: int, working: bool) -> None:
            for _ in range(beats):
                client.receive("heartbeat")
                client.send(ClientMessage(heartbeat=Heartbeat(working=working)))

        with gathering(server.transport, "long", {NORTH: b"task"}, deadline_s=2.0) as outcome:
            client.receive("chunk")
            live(beats=8, working=True)  # for three seconds at least
            client.send(*result_frames(key("long"), b"at last"))
            assert client.receive("receipt").receipt.verdict == VERDICT_ACCEPTED
        assert outcome[0].results == {NORTH: b"at last"}
        with gathering(server.transport, "stuck", {NORTH: b"task"}, deadline_s=2.0) as outcome:
            client.receive("chunk")
            live(beats=6, working=False)
    assert outcome[0].absences[NORTH].reason == "no result within 2 s"


def test_a_client_that_vanishes_in_the_middle_of_a_task_is_absent_by_the_deadline(
    kits: dict[str, Path], server: Server
) -> None:
    with RawClient(Kit.load(kits["north"]), server.address) as client:
        client.hello()
        client.receive("welcome")
        with gathering(server.transport, "p", {NORTH: b"task"}, deadline_s=3.0) as outcome:
            client.receive("task")
            client.close()

    assert outcome[0].absences[NORTH].reason == "no result within 3 s (not connected)"
    assert server.transport.present() == frozenset()


def test_a_killed_client_that_comes_back_as_a_new_process_is_absent_as_restarted(
    kits: dict[str, Path], server: Server
) -> None:
    def start() -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "support.party", str(kits["north"]), str(server.port)]
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)})

    with start() as process:
        assert server.transport.wait_for(frozenset({NORTH}), timeout_s=DEADLINE_S)
        before = server.transport.incarnation(NORTH)
        with gathering(server.transport, "hang", {NORTH: b"task"}, deadline_s=60) as outcome:
            process.kill()
            process.wait()
            restarted = start()
        assert outcome[0].absences[NORTH].reason == "restarted"
    with restarted:
        assert server.transport.incarnation(NORTH) != before
        echoed = server.transport.gather(phase("echo"), {NORTH: b"here again"}, deadline_s=DEADLINE_S)
        assert echoed.results == {NORTH: b"here again"}
        server.transport.dismiss("over")
        assert restarted.wait(DEADLINE_S) == 0


def test_a_connection_lost_while_the_task_is_in_work_costs_no_second_computation(
    kits: dict[str, Path], server: Server
) -> None:
    calls: list[str] = []
    with Network(server.port) as network:

        def handler(task: Task) -> bytes:
            calls.append(task.phase)
            network.cut()
            return b"result of " + task.phase.encode()

        with Attending(kits["north"], handler, Address("localhost", network.port)):
            server.transport.wait_for(frozenset({NORTH}), timeout_s=DEADLINE_S)
            before = server.transport.incarnation(NORTH)
            for name in ("first", "second"):
                outcome = server.transport.gather(phase(name), {NORTH: b""}, deadline_s=DEADLINE_S)
                assert outcome.results == {NORTH: b"result of " + name.encode()}

    assert calls == ["first", "second"]
    assert server.transport.incarnation(NORTH) == before


def test_a_connection_that_falls_silent_is_replaced_by_a_new_one(kits: dict[str, Path]) -> None:
    limits = TransportLimits(heartbeat_s=0.2, silence_s=1.0)
    with (
        Server(Kit.load(kits["server"]), limits=limits) as server,
        Network(server.port) as network,
        Attending(kits["north"], reverse, Address("localhost", network.port)),
    ):
        server.transport.gather(phase("before"), {NORTH: b""}, deadline_s=DEADLINE_S)
        network.freeze()
        outcome = server.transport.gather(phase("p"), {NORTH: b"abc"}, deadline_s=DEADLINE_S)

        assert outcome.results == {NORTH: b"cba"}


def test_clients_find_a_server_again_that_restarts_on_the_same_port(kits: dict[str, Path]) -> None:
    with Server(Kit.load(kits["server"])) as first, Attending(kits["north"], reverse, first.address) as attending:
        for number in range(3):
            with Server(Kit.load(kits["server"]), port=first.port) if number else first as server:
                assert server.transport.wait_for(frozenset({NORTH}), timeout_s=DEADLINE_S)
                outcome = server.transport.gather(phase("p", attempt=number), {NORTH: b"abc"}, deadline_s=DEADLINE_S)
                assert outcome.results == {NORTH: b"cba"}
                if number == 2:
                    server.transport.dismiss("converged")
        assert attending.end() == SessionEnd(EndKind.DISMISSED, "converged")


def test_dismissal_ends_every_session_and_stop_ends_one_even_without_a_server(
    kits: dict[str, Path], server: Server
) -> None:
    with Attending(kits["north"], reverse, server.address) as north:
        server.transport.wait_for(frozenset({NORTH}), timeout_s=DEADLINE_S)
        server.transport.dismiss("gap reached")
        assert north.end() == SessionEnd(EndKind.DISMISSED, "gap reached")
    with Attending(kits["south"], reverse, server.address) as late:
        assert late.end() == SessionEnd(EndKind.DISMISSED, "gap reached")
    server.stop()

    session = Session(Kit.load(kits["south"]), reverse, dial=GrpcDial(server.address))
    threading.Timer(0.3, session.stop).start()
    assert session.run().kind is EndKind.STOPPED


def test_the_idle_context_is_left_before_a_task_is_worked_on(kits: dict[str, Path], server: Server) -> None:
    events: list[str] = []

    class Idle:
        def __enter__(self) -> None:
            events.append("idle")

        def __exit__(self, *_: object) -> None:
            events.append("busy")

    def handler(task: Task) -> bytes:
        events.append(task.phase)
        return b""

    session = Session(Kit.load(kits["north"]), handler, idle=Idle, dial=GrpcDial(server.address))
    thread = threading.Thread(target=session.run)
    thread.start()
    server.transport.gather(phase("work"), {NORTH: b""}, deadline_s=DEADLINE_S)
    session.stop()
    thread.join(DEADLINE_S)

    assert events[:3] == ["idle", "busy", "work"]
    assert events.count("idle") == events.count("busy")


def test_a_refusal_reaches_the_server_in_its_public_words_only(
    kits: dict[str, Path], server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(task: Task) -> bytes:
        if task.phase == "refuse":
            raise Refusal("patient 4711 occurs twice", public_reason="the shard has duplicate ids")
        raise ValueError("label of patient 4711 is 3.5")

    with Attending(kits["north"], handler, server.address), caplog.at_level(logging.ERROR):
        refused = server.transport.gather(phase("refuse"), {NORTH: b""}, deadline_s=DEADLINE_S)
        failed = server.transport.gather(phase("fail"), {NORTH: b""}, deadline_s=DEADLINE_S)

    assert refused.absences[NORTH].reason == "refused: the shard has duplicate ids"
    assert failed.absences[NORTH].reason == "refused: internal error"
    assert "patient 4711 occurs twice" in caplog.text
    assert "label of patient 4711" in caplog.text
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert {record.name for record in errors} == {"fenchel_client.session"}


def test_health_says_serving_only_while_a_round_can_run(kits: dict[str, Path], server: Server) -> None:
    with open_channel(Kit.load(kits["north"]), address=server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        services = ("", FEDERATION_SERVICE)
        watches = [
            stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=DEADLINE_S) for service in services
        ]
        assert [next(watch).status for watch in watches] == [NOT_SERVING, NOT_SERVING]
        for serving, expected in ((True, SERVING), (False, NOT_SERVING), (True, SERVING)):
            server.transport.set_serving(serving)
            assert [next(watch).status for watch in watches] == [expected, expected]
            for service in services:
                checked = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=DEADLINE_S)
                assert checked.status == expected
        server.transport.dismiss("over")
        assert [next(watch).status for watch in watches] == [NOT_SERVING, NOT_SERVING]
        with pytest.raises(grpc.RpcError) as refused:
            stub.Check(health_pb2.HealthCheckRequest(service="fenchel.v1.Other"), timeout=DEADLINE_S)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_party_whose_work_in_advance_fails_stays(kits: dict[str, Path]) -> None:
    def broken() -> AbstractContextManager[object]:
        raise OSError("File name too long")

    kit = Kit.load(kits["north"])
    with Server(Kit.load(kits["server"])) as server, Attending(kit, lambda _: b"here", server.address, idle=broken):
        results = server.transport.gather(phase("p"), {NORTH: b""}, deadline_s=DEADLINE_S).results
    assert results == {NORTH: b"here"}
