"""Whole connections: what the server makes of a client's messages, the client of a server's, and bodies in chunks."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from fenchel.v1 import federation_pb2
from fenchel.v1.federation_pb2 import Body, ClientMessage, Heartbeat, Hello, Receipt, ServerMessage, Welcome
from fenchel_client.desk import Desk
from fenchel_client.transport.link import Link
from fenchel_common.dismissal import Dismissal, Misfit, UnfitData
from fenchel_common.errors import ServerUnavailable
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.wire.chunks import BodyReader
from fenchel_common.wire.frames import (
    PROTOCOL_VERSION,
    TaskKey,
    dismissal_from_proto,
    dismissal_to_proto,
    key_to_proto,
    refusal_frame,
    result_frames,
    task_frames,
)
from fenchel_server.transport.asking import reply_from_bytes
from fenchel_server.transport.mailbox import Mailbox
from fenchel_server.transport.outbox import Outbox, OutboxClosed
from fenchel_server.transport.resultreader import ResultReader
from fenchel_server.transport.servicer import TransportLimits, _Reader, decode
from fuzz.decoder import Decoder, parsed
from fuzz.wire_decoders import federation

M = TypeVar("M", bound=Message)

LIMIT_BYTES = 64 * 1024
KEY = TaskKey(RunId("run-0123abcd"), RoundId(1), "p")
BODY = b"a body of one chunk"


@functools.lru_cache(maxsize=2)
def _stream_of(kind: type[Message]) -> type[Message]:
    """A message that holds a sequence of messages of a kind, so that a connection can be mutated like one."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"fuzz/{kind.DESCRIPTOR.name}.proto",
        package="fuzz",
        syntax="proto3",
        dependency=[federation_pb2.DESCRIPTOR.name],
    )
    message = file.message_type.add(name=f"{kind.DESCRIPTOR.name}Stream")
    message.field.add(
        name="messages",
        number=1,
        type=descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE,
        type_name=f".{kind.DESCRIPTOR.full_name}",
        label=descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED,
    )
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"fuzz.{message.name}"))


def frames_of(decoder: Decoder, data: bytes) -> list[bytes]:
    """The messages of a stream, each as it would go over a connection; what is no stream is one message."""
    assert decoder.message is not None
    try:
        stream = decoder.message.FromString(data)
    except DecodeError:
        return [data]
    return [message.SerializeToString() for message in _messages(stream, Message)]


def _messages(stream: Message, _kind: type[M]) -> list[M]:
    return list(stream.messages)  # type: ignore[attr-defined]  # made at run time


class _Replay:
    """A channel on which the server says what it was given."""

    def __init__(self, said: Iterable[ServerMessage]) -> None:
        self._said = iter(said)

    def stream_stream(self, *_: object, **__: object) -> Callable[..., "_Replay"]:
        return lambda *_, **__: self

    def __iter__(self) -> Iterator[ServerMessage]:
        return self._said

    def cancel(self) -> None: ...


def stream_decoders() -> list[Decoder]:
    return [attend_decoder(), _link(), _reply(), _body()]


def attend_decoder() -> Decoder:
    """What the server makes of a client's stream, without a network."""
    kind = _stream_of(ClientMessage)
    party = ClientId("north")
    limits = TransportLimits(max_body_bytes=LIMIT_BYTES)
    roster = federation()["server"].roster

    def read(data: bytes) -> None:
        stream = parsed(kind, data)
        outbox, mailbox = Outbox(party), Mailbox(silence_s=60.0)
        said = [decode(message.SerializeToString()) for message in _messages(stream, ClientMessage)]
        _Reader(mailbox, outbox, limits, lambda: roster).run(iter(said))
        try:
            while outbox.take(timeout_s=0.0) is not None:
                pass
        except OutboxClosed:
            return

    hello = ClientMessage(hello=Hello(protocol_version=PROTOCOL_VERSION, incarnation="1", in_hand=key_to_proto(KEY)))
    beat = ClientMessage(heartbeat=Heartbeat())
    honest = kind(messages=[hello, beat, *result_frames(KEY, BODY), refusal_frame(KEY, "no"), *result_frames(KEY, b"")])
    return Decoder("Attend (server)", read, (honest.SerializeToString(),), message=kind)


def _link() -> Decoder:
    kind = _stream_of(ServerMessage)

    def read(data: bytes) -> None:
        said = _messages(parsed(kind, data), ServerMessage)
        channel: grpc.Channel = _Replay(said)  # type: ignore[assignment]  # the one call of it that a link makes
        try:
            Link(channel, Desk(), incarnation="1", roster_version=1, limit=lambda _: LIMIT_BYTES).run()
        except ServerUnavailable:
            return

    welcome = ServerMessage(welcome=Welcome(protocol_version=PROTOCOL_VERSION, heartbeat_ms=1000, max_body_bytes=100))
    receipt = ServerMessage(receipt=Receipt(key=key_to_proto(KEY), verdict=federation_pb2.VERDICT_ACCEPTED))
    beat = ServerMessage(heartbeat=Heartbeat())
    honest = kind(messages=[welcome, beat, *task_frames(KEY, BODY), receipt, *task_frames(KEY, b"")])
    dismissal = Dismissal("all runs are over", UnfitData(Misfit.FEATURES_HELD_TWICE, ("f1", "f2")))
    dismissed = kind(messages=[welcome, ServerMessage(dismissal=dismissal_to_proto(dismissal))])
    seeds = (honest.SerializeToString(), dismissed.SerializeToString())
    return Decoder("Attend (client)", read, seeds, (dismissal_from_proto,), message=kind)


def _reply() -> Decoder:
    """What the server makes of a party's reply, over an engine of requests and replies."""
    kind = _stream_of(ClientMessage)

    def read(data: bytes) -> None:
        said = _messages(parsed(kind, data), ClientMessage)
        reply = reply_from_bytes([message.SerializeToString() for message in said])
        results = ResultReader(
            Mailbox(silence_s=60.0), ClientId("north"), most_bytes=LIMIT_BYTES, close=lambda *_: None
        )
        for message in reply.results:
            results.take(message)

    hello = ClientMessage(hello=Hello(protocol_version=PROTOCOL_VERSION, incarnation="1", in_hand=key_to_proto(KEY)))
    seeds = (kind(messages=[hello, *result_frames(KEY, BODY)]), kind(messages=[hello, refusal_frame(KEY, "no")]))
    encoded = tuple(seed.SerializeToString() for seed in seeds)
    return Decoder("reply (server)", read, encoded, (reply_from_bytes,), message=kind)


def _body() -> Decoder:
    """The announcement is a task's; the chunks follow as messages of the server."""
    kind = _stream_of(ServerMessage)

    def read(data: bytes) -> bytes:
        messages = _messages(parsed(kind, data), ServerMessage)
        reader = BodyReader(messages[0].task.body if messages else Body(), limit_bytes=LIMIT_BYTES)
        for message in messages[1:]:
            reader.add(message.chunk)
        return reader.body()

    whole = kind(messages=task_frames(KEY, BODY))
    empty = kind(messages=task_frames(KEY, b""))
    return Decoder("BodyReader", read, (whole.SerializeToString(), empty.SerializeToString()), message=kind)
