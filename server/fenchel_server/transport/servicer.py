"""Translates between the messages of a connection and the mailbox.

A connection has two threads: gRPC's own runs `Attend`, which sends the items of the outbox; the other reads. Both end
when the call ends.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError

from fenchel.v1 import federation_pb2, federation_pb2_grpc
from fenchel.v1.federation_pb2 import (
    VERDICT_ACCEPTED,
    VERDICT_DUPLICATE,
    VERDICT_NOT_OPEN,
    ClientMessage,
    Heartbeat,
    ServerMessage,
)
from fenchel.v1.federation_pb2 import Receipt as ReceiptMessage
from fenchel.v1.federation_pb2 import Welcome as WelcomeMessage
from fenchel_common.dismissal import Dismissal
from fenchel_common.errors import (
    BodyTooLarge,
    PeerSilent,
    ProtocolVersionMismatch,
    ProtocolViolation,
)
from fenchel_common.identity import Roster
from fenchel_common.wire.chunks import MAX_BODY_BYTES
from fenchel_common.wire.frames import (
    PROTOCOL_VERSION,
    TaskKey,
    dismissal_to_proto,
    key_from_proto,
    key_to_proto,
    task_frames,
)
from fenchel_server.transport.auth import Authoriser
from fenchel_server.transport.mailbox import Mailbox
from fenchel_server.transport.outbox import (
    Delivery,
    Item,
    Outbox,
    OutboxClosed,
    Receipt,
    Verdict,
    Welcome,
)
from fenchel_server.transport.quota import Streams
from fenchel_server.transport.resultreader import ResultReader
from fenchel_server.transport.status import abort

SERVICE_NAME: str = federation_pb2.DESCRIPTOR.services_by_name["Federation"].full_name
MAX_INCARNATION_CHARACTERS = 64
MAX_IDLE_MESSAGES = 100
"""The most heartbeats and unawaited results that a client may send within the time for one heartbeat."""

VERDICTS = {
    Verdict.ACCEPTED: VERDICT_ACCEPTED,
    Verdict.DUPLICATE: VERDICT_DUPLICATE,
    Verdict.NOT_OPEN: VERDICT_NOT_OPEN,
}

Judge = Callable[[], Roster]
"""Judges the caller of a connection again, and gives the roster in use; raises an error to end the connection."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """The bounds of a connection."""

    max_body_bytes: int = MAX_BODY_BYTES
    heartbeat_s: float = 15.0
    silence_s: float = 50.0
    """A client without a sign of life for so long counts as gone: three heartbeats and some delay."""
    handshake_s: float = 20.0
    """A caller that has not completed the TLS handshake by then is disconnected."""
    hello_s: float = 20.0
    dismissal_s: float = 5.0


class FederationServicer(federation_pb2_grpc.FederationServicer):
    """The service, which has one call, `Attend`."""

    def __init__(self, mailbox: Mailbox, authoriser: Authoriser, limits: TransportLimits) -> None:
        self._mailbox = mailbox
        self._authoriser = authoriser
        self._limits = limits
        self._streams = Streams()

    def Attend(  # noqa: N802 - the name that the generated base class has
        self, request_iterator: Iterator[ClientMessage], context: grpc.ServicerContext
    ) -> Iterator[ServerMessage]:
        outbox = Outbox(self._authoriser.party(context))

        def judge() -> Roster:
            self._authoriser.party(context)
            return self._authoriser.roster()

        def ended() -> None:
            outbox.close()
            if self._mailbox.detach(outbox):
                logger.info("%s has left: its connection ended", outbox.client)
            self._streams.leave(outbox.client, context)

        self._streams.enter(outbox.client, context)
        if not context.add_callback(ended):
            self._streams.leave(outbox.client, context)
            return
        reader = _Reader(self._mailbox, outbox, self._limits, judge)
        threading.Thread(target=reader.run, args=(request_iterator,), name=f"read {outbox.client}", daemon=True).start()
        try:
            yield from self._outgoing(outbox, judge)
        except OutboxClosed:
            return
        except Exception as error:
            # Detach before the connection ends, so that the client is not present any more when its end is noticed.
            if self._mailbox.detach(outbox):
                logger.warning("%s is disconnected: %s", outbox.client, error)
            abort(context, error, roster_version=self._authoriser.roster().version)

    def _outgoing(self, outbox: Outbox, judge: Judge) -> Iterator[ServerMessage]:
        welcome = outbox.take(timeout_s=self._limits.hello_s)
        if welcome is None:
            raise PeerSilent(f"no hello within {self._limits.hello_s:g} s")
        yield from self._messages(outbox, welcome)
        while True:
            yield from self._next_messages(outbox, judge)

    def _next_messages(self, outbox: Outbox, judge: Judge) -> Iterator[ServerMessage]:
        # A generator of its own, so that no variable keeps a long task in memory after it was sent.
        item = outbox.take(timeout_s=self._limits.heartbeat_s)
        if item is None and self._mailbox.silent(outbox):
            raise PeerSilent(f"nothing was heard from {outbox.client} for {self._limits.silence_s:g} s")
        # Before each message: a party whose certificate was revoked or replaced gets nothing more.
        judge()
        yield from self._messages(outbox, item)

    def _messages(self, outbox: Outbox, item: Item | None) -> Iterator[ServerMessage]:
        if isinstance(item, Delivery):
            if self._mailbox.awaits(outbox.client, item.key):
                for frame in task_frames(item.key, item.body):
                    self._mailbox.count(outbox.client, item.key, down=frame.ByteSize())
                    yield frame
                    if frame.chunk.index:
                        self._mailbox.progressed(outbox.client)
            return
        message = self._message(item)
        self._mailbox.count(outbox.client, None, down=message.ByteSize())
        yield message

    def _message(self, item: Welcome | Receipt | Dismissal | None) -> ServerMessage:
        match item:
            case Welcome(in_hand_awaited=awaited):
                return ServerMessage(
                    welcome=WelcomeMessage(
                        protocol_version=PROTOCOL_VERSION,
                        max_body_bytes=self._limits.max_body_bytes,
                        heartbeat_ms=round(self._limits.heartbeat_s * 1000),
                        in_hand_awaited=awaited,
                        roster_version=self._authoriser.roster().version,
                    )
                )
            case Receipt(key=key, verdict=verdict):
                return ServerMessage(receipt=ReceiptMessage(key=key_to_proto(key), verdict=VERDICTS[verdict]))
            case Dismissal():
                return ServerMessage(dismissal=dismissal_to_proto(item))
            case None:
                return ServerMessage(heartbeat=Heartbeat())


def decode(encoded: bytes) -> ClientMessage:
    """The message in `encoded`; bytes that are no message give an empty one, which the reader refuses."""
    try:
        return ClientMessage.FromString(encoded)
    except DecodeError:
        return ClientMessage()


def add_to_server(servicer: FederationServicer, server: grpc.Server) -> None:
    """Registers the service like the generated function does, but with `decode` for incoming messages."""
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.Attend, request_deserializer=decode, response_serializer=ServerMessage.SerializeToString
    )
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE_NAME, {"Attend": handler})])


class _Reader:
    """Reads the messages of one client."""

    def __init__(self, mailbox: Mailbox, outbox: Outbox, limits: TransportLimits, judge: Judge) -> None:
        self._mailbox = mailbox
        self._outbox = outbox
        self._judge = judge
        self._client = outbox.client
        self._limits = limits
        self._results = ResultReader(mailbox, outbox.client, most_bytes=limits.max_body_bytes, close=self._close_result)
        self._idle_messages = 0
        self._idle_since_s = time.monotonic()

    def run(self, messages: Iterator[ClientMessage]) -> None:
        """Reads until the client ends the stream or breaks a rule."""
        try:
            self._greet(next(messages, None))
            for message in messages:
                self._mailbox.heard(self._outbox)
                self._take(message)
            self._outbox.close()
        except grpc.RpcError:
            self._outbox.close()
        except (BodyTooLarge, ProtocolViolation) as error:
            logger.warning("%s: %s", self._client, error)
            self._results.reject(error)
            self._outbox.fail(error)
        except Exception as error:
            self._outbox.fail(error)

    def _greet(self, message: ClientMessage | None) -> None:
        if message is None or message.WhichOneof("kind") != "hello":
            raise ProtocolViolation("the first message must be a hello")
        hello = message.hello
        if hello.protocol_version != PROTOCOL_VERSION:
            raise ProtocolVersionMismatch(
                f"the server speaks version {PROTOCOL_VERSION} of the protocol, the client of {self._client}"
                f" version {hello.protocol_version}; install the same Fenchel version on both sides"
            )
        if not 1 <= len(hello.incarnation) <= MAX_INCARNATION_CHARACTERS:
            raise ProtocolViolation(f"the incarnation must have 1 to {MAX_INCARNATION_CHARACTERS} characters")
        self._compare_rosters(hello.roster_version)
        self._mailbox.count(self._client, None, up=message.ByteSize())
        in_hand = key_from_proto(hello.in_hand) if hello.HasField("in_hand") else None
        self._mailbox.attach(self._outbox, incarnation=hello.incarnation, in_hand=in_hand)
        logger.info("%s is attached", self._client)

    def _compare_rosters(self, theirs: int) -> None:
        ours = self._judge().version
        if theirs > ours:
            logger.warning(
                "this server's kit is old: its roster is version %d, that of %s is version %d; get the newest kit from"
                " the operator and replace the old one with it; the server needs no restart",
                ours,
                self._client,
                theirs,
            )
        elif theirs < ours:
            logger.warning(
                "the kit of %s is old: its roster is version %d, this server's is version %d",
                self._client,
                theirs,
                ours,
            )

    def _take(self, message: ClientMessage) -> None:
        kind = message.WhichOneof("kind")
        if kind == "result":
            # Judged here as well: if the client reads nothing, the sending thread waits and judges nobody.
            self._judge()
        if kind in ("result", "chunk"):
            self._results.take(message)
            return
        self._mailbox.count(self._client, None, up=message.ByteSize())
        if kind == "heartbeat":
            self._count_idle_message()
            if message.heartbeat.working:
                self._mailbox.progressed(self._client)
        else:
            raise ProtocolViolation(f"a message of kind {kind!r} is not expected here")

    def _close_result(self, key: TaskKey, verdict: Verdict) -> None:
        if verdict is not Verdict.ACCEPTED:
            logger.info("%s: result of %s is ignored: %s", self._client, key, verdict.value)
            self._count_idle_message()
        self._outbox.put(Receipt(key, verdict))

    def _count_idle_message(self) -> None:
        now_s = time.monotonic()
        if now_s - self._idle_since_s > self._limits.heartbeat_s:
            self._idle_since_s, self._idle_messages = now_s, 0
        self._idle_messages += 1
        if self._idle_messages > MAX_IDLE_MESSAGES:
            raise ProtocolViolation(
                f"more than {MAX_IDLE_MESSAGES} heartbeats and unawaited results within {self._limits.heartbeat_s:g} s"
            )
