"""Protobuf messages, taken apart and put together by hand."""

from collections.abc import Iterator

from google.protobuf.message import Message

from fenchel.v1 import hyfdca_pb2, vectors_pb2


def vectors_in(message: Message) -> Iterator[tuple[str, vectors_pb2.Vector]]:
    """Every vector in a message, with the field that it is in."""
    for field, value in message.ListFields():
        if isinstance(value, vectors_pb2.Vector):
            yield field.name, value
        elif isinstance(value, hyfdca_pb2.BlockVector):
            yield field.name, value.vector
        elif isinstance(value, Message):
            yield from vectors_in(value)


def varint(number: int) -> bytes:
    """The number as a varint: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
