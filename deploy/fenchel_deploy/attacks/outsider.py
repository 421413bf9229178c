"""Someone on the network between the parties and the server, who carries every byte and has no certificate."""

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fenchel_client.session import Session
from fenchel_client.task import Task
from fenchel_client.transport.dial import GrpcDial
from fenchel_common.errors import FederationFailed
from fenchel_common.identity import Address, Kit
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_deploy.attacks.views import Message, Transcript
from fenchel_server.rounds.transport import PhaseId, Transport
from fenchel_server.transport import listen

READ_BYTES: Final = 64 * 1024
WAIT_S: Final = 20.0
CALL_S: Final = 5.0


class Wiretap:
    """Forwards TCP connections to a port of this machine, and keeps a copy of the bytes of each direction."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.upward = bytearray()
        self.downward = bytearray()
        self.address = Address("localhost", int(self._listener.getsockname()[1]))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for end in [self._listener, *self._sockets]:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join(WAIT_S)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(end)
            for source, sink, copy in ((near, far, self.upward), (far, near, self.downward)):
                thread = threading.Thread(target=_carry, args=(source, sink, copy), daemon=True)
                self._threads.append(thread)
                thread.start()


def listen_in(transcript: Transcript, client: ClientId, *, server: Kit, party: Kit, insecure: bool = False) -> bytes:
    """The bytes on the wire between a party and the server in the rounds of one run.

    Server and party are real, over mutual TLS unless `insecure`; they repeat the messages of the recorded run.
    """
    messages = [message for message in transcript.of(client) if message.round_id > 0]
    said = {(message.round_id, message.phase): message.result for message in messages}

    def again(task: Task) -> bytes:
        return said[task.round, task.phase]

    transport = listen(server, address=Address("localhost", 0), insecure=insecure)
    try:
        with Wiretap(transport.port) as tap:
            session = Session(party, again, dial=GrpcDial(tap.address, insecure=insecure))
            thread = threading.Thread(target=session.run, daemon=True)
            thread.start()
            try:
                _converse(transport, transcript.run, client, messages)
            finally:
                session.stop()
                thread.join(WAIT_S)
        return bytes(tap.upward + tap.downward)
    finally:
        transport.stop()


def _converse(transport: Transport, run: RunId, client: ClientId, messages: Sequence[Message]) -> None:
    if not transport.wait_for(frozenset({client}), timeout_s=WAIT_S):
        raise FederationFailed(f"the party to listen to did not connect within {WAIT_S:g} s")
    for message in messages:
        phase = PhaseId(run, RoundId(message.round_id), message.phase, 1)
        gathered = transport.gather(phase, {client: message.task}, deadline_s=WAIT_S)
        if gathered.results.get(client) != message.result:
            raise FederationFailed(f"the party to listen to did not answer {message.phase}")
    transport.dismiss("the run is over")


def calls_let_in(server: Kit, strangers: Sequence[Kit | None], *, member: Kit) -> int:
    """How many of those who call without a certificate (None), or with one of another federation, get an answer.

    The same call must be answered to a member of the federation.
    """
    transport = listen(server, address=Address("localhost", 0))
    try:
        if not _answered(server, member, transport.port):
            raise FederationFailed("the server answered not even a member of its federation")
        return sum(_answered(server, stranger, transport.port) for stranger in strangers)
    finally:
        transport.stop()


def in_clear(captured: bytes, messages: Sequence[Message], *, window: int = 16) -> int:
    """How many pieces of the messages, of `window` bytes each, are found in the captured bytes."""
    stretches = {
        body[start : start + window]
        for message in messages
        for body in (message.task, message.result)
        for start in range(0, len(body) - window + 1, window)
        if len(set(body[start : start + window])) > window // 2
    }
    return sum(stretch in captured for stretch in stretches)


def _answered(server: Kit, stranger: Kit | None, port: int) -> bool:
    roots = server.authority_pem
    key, certificate = (None, None) if stranger is None else (stranger.key_pem, stranger.certificate_pem)
    credentials = grpc.ssl_channel_credentials(roots, key, certificate)
    with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
        try:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=CALL_S)
        except grpc.RpcError:
            return False
        return True


def _carry(source: socket.socket, sink: socket.socket, copy: bytearray) -> None:
    with suppress(OSError):
        while piece := source.recv(READ_BYTES):
            copy += piece
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
