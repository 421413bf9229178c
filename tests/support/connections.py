"""Servers, sessions and hand-made clients over real mutual TLS on loopback."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from fenchel.v1 import federation_pb2_grpc
from fenchel.v1.federation_pb2 import ClientMessage, Hello, ServerMessage
from fenchel_client.connection import TaskLimit
from fenchel_client.retry import Backoff
from fenchel_client.session import IdleFactory, Session, SessionEnd
from fenchel_client.task import Handler, Task
from fenchel_client.transport.channel import open_channel
from fenchel_client.transport.dial import GrpcDial
from fenchel_common.errors import FenchelError
from fenchel_common.identity import Address, Kit
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.wire.chunks import MAX_BODY_BYTES
from fenchel_common.wire.frames import PROTOCOL_VERSION, TaskKey, key_to_proto
from fenchel_common.wire.status import error_of_call
from fenchel_server.rounds.transport import Gathered, PhaseId, Transport
from fenchel_server.transport import TransportLimits, listen

JOIN_S = 20.0
RUN = RunId("run")


def phase(name: str, round_id: int = 1, attempt: int = 0) -> PhaseId:
    return PhaseId(RUN, RoundId(round_id), name, attempt)


def key(name: str, round_id: int = 1, attempt: int = 0) -> TaskKey:
    return TaskKey(RUN, RoundId(round_id), name, attempt)


def echo(task: Task) -> bytes:
    return task.body


class Server:
    """A started server; leaving the context stops it, as abruptly as a crash does for its clients."""

    def __init__(
        self, kit: Kit, *, port: int = 0, limits: TransportLimits | None = None, insecure: bool = False
    ) -> None:
        self.transport = listen(kit, address=Address("localhost", port), limits=limits, insecure=insecure)
        self.port = self.transport.port
        self.address = Address("localhost", self.port)

    def stop(self) -> None:
        self.transport.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Attending:
    """A session that runs in a thread; leaving the context stops it."""

    def __init__(
        self,
        kit: Path | Kit,
        handler: Handler,
        address: Address,
        *,
        insecure: bool = False,
        limit: TaskLimit = lambda _: MAX_BODY_BYTES,
        idle: IdleFactory | None = None,
    ) -> None:
        loaded = kit if isinstance(kit, Kit) else Kit.load(kit)
        self.session = Session(
            loaded,
            handler,
            idle=idle,
            dial=GrpcDial(address, insecure=insecure),
            backoff=Backoff(initial_s=0.02, max_s=0.2),
            limit=limit,
        )
        self._ended: queue.SimpleQueue[SessionEnd | FenchelError] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._ended.put(self.session.run())
        except FenchelError as error:
            self._ended.put(error)

    def end(self) -> SessionEnd | FenchelError:
        """How the session ended, once it has."""
        return self._ended.get(timeout=JOIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.session.stop()
        self._thread.join(JOIN_S)
        assert not self._thread.is_alive()


def channel_with(kit: Kit, authority_pem: bytes, address: Address, *, with_certificate: bool = True) -> grpc.Channel:
    """A channel without any of the checks that a party makes of itself."""
    credentials = grpc.ssl_channel_credentials(
        root_certificates=authority_pem,
        private_key=kit.key_pem if with_certificate else None,
        certificate_chain=kit.certificate_pem if with_certificate else None,
    )
    options = (("grpc.use_local_subchannel_pool", 1),)
    return grpc.secure_channel(str(address), credentials, options=options)


class RawClient:
    """A client that sends exactly the messages that a test gives it."""

    def __init__(
        self,
        kit: Kit,
        address: Address,
        *,
        channel: grpc.Channel | None = None,
        metadata: tuple[tuple[str, str], ...] = (),
        insecure: bool = False,
    ) -> None:
        self.sent: list[ClientMessage] = []
        self._queue: queue.SimpleQueue[ClientMessage | None] = queue.SimpleQueue()
        self._channel = channel or open_channel(kit, address=address, insecure=insecure)
        stub = federation_pb2_grpc.FederationStub(self._channel)
        self.call = stub.Attend(iter(self._queue.get, None), metadata=metadata, timeout=JOIN_S)

    def send(self, *messages: ClientMessage) -> None:
        for message in messages:
            self.sent.append(message)
            self._queue.put(message)

    def hello(
        self,
        *,
        incarnation: str = "1",
        version: int = PROTOCOL_VERSION,
        in_hand: TaskKey | None = None,
    ) -> None:
        self.send(
            ClientMessage(
                hello=Hello(
                    protocol_version=version,
                    incarnation=incarnation,
                    in_hand=key_to_proto(in_hand) if in_hand else None,
                )
            )
        )

    def receive(self, kind: str | None = None) -> ServerMessage:
        """The next message, or the next one of that kind."""
        for message in self.call:
            if kind in (None, message.WhichOneof("kind")):
                return message
        raise AssertionError(f"the server ended the call before it sent {kind or 'anything'}")

    def refusal(self) -> tuple[grpc.StatusCode, FenchelError]:
        """The status with which the server ended the call, and the error that it stands for."""
        try:
            for _ in self.call:
                pass
        except grpc.RpcError:
            return self.call.code(), error_of_call(self.call)
        raise AssertionError("the server ended the call without an error")

    def close(self) -> None:
        self.call.cancel()
        self._queue.put(None)
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def gathering(
    transport: Transport, name: str, tasks: dict[ClientId, bytes], *, deadline_s: float = JOIN_S
) -> Iterator[list[Gathered]]:
    """A phase that is under way during the block; its outcome is in the list afterwards."""
    outcome: list[Gathered] = []
    thread = threading.Thread(
        target=lambda: outcome.append(transport.gather(phase(name), tasks, deadline_s=deadline_s)), daemon=True
    )
    thread.start()
    yield outcome
    thread.join(deadline_s + JOIN_S)
    assert outcome, "the phase did not end"
