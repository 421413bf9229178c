"""Long bodies as streams of chunks, so that no message limit is met and memory stays flat.

A body is announced by its size and SHA-256, then sent in chunks of exactly `CHUNK_BYTES`, the last one shorter. The
receiver enforces its own size limit on the announcement, before it stores a single byte. After that it checks
the order of the chunks, the length of each, the total and the hash.
"""

import hashlib
import io
from collections.abc import Iterator

from fenchel.v1 import federation_pb2
from fenchel_common.errors import BodyDamaged, BodyTooLarge, ProtocolViolation

CHUNK_BYTES = 1024 * 1024
MAX_BODY_BYTES = 256 * 1024 * 1024
MAX_MESSAGE_BYTES = CHUNK_BYTES + 64 * 1024
"""No message of the protocol is longer than a chunk and its framing."""
WINDOW_BYTES = 4 * 1024 * 1024
"""The most bytes that are sent and not yet read by the receiver: 16 MB/s at a round trip of 257.5 ms."""
FLOW_CONTROL = (
    # A fixed window. The one gRPC adapts by itself grows without regard to how slowly the receiver reads.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
)

_SHA256_BYTES = 32


def body_to_proto(body: bytes) -> federation_pb2.Body:
    """The announcement, which is sent before the chunks."""
    return federation_pb2.Body(size=len(body), sha256=hashlib.sha256(body).digest())


def chunks_to_proto(body: bytes) -> Iterator[federation_pb2.Chunk]:
    """The chunks of a body, each copied out of it only when it is asked for."""
    view = memoryview(body)
    for index, start in enumerate(range(0, len(view), CHUNK_BYTES)):
        yield federation_pb2.Chunk(index=index, data=bytes(view[start : start + CHUNK_BYTES]))


class BodyReader:
    """Joins the chunks of one announced body; `what` is its name in error messages.

    With `keep=False` the chunks are checked for order and length and then dropped. A receiver skips a body that it does
    not wait for in this way.
    """

    def __init__(
        self, announced: federation_pb2.Body, *, limit_bytes: int, what: str = "a body", keep: bool = True
    ) -> None:
        if announced.size > limit_bytes:
            raise BodyTooLarge(f"{what} has {announced.size} bytes, over the limit of {limit_bytes} bytes")
        if len(announced.sha256) != _SHA256_BYTES:
            raise ProtocolViolation(f"a body's sha256 has {len(announced.sha256)} bytes, not {_SHA256_BYTES}")
        self._size = announced.size
        self._sha256 = announced.sha256
        self.kept = keep
        self._received = 0
        self._next_index = 0
        self._hash = hashlib.sha256()
        # CPython's BytesIO writes into the zeros it was given and hands them out without a copy: the body exists once,
        # and memory that is only announced, never filled, costs nothing (the zeros are not yet backed by pages).
        self._buffer = io.BytesIO(bytes(announced.size if keep else 0))

    @property
    def complete(self) -> bool:
        return self._received == self._size

    def add(self, chunk: federation_pb2.Chunk) -> None:
        """Takes the next chunk; raises `ProtocolViolation` if it is not the one expected."""
        if chunk.index != self._next_index:
            raise ProtocolViolation(f"chunk {chunk.index} where chunk {self._next_index} is due")
        due = min(CHUNK_BYTES, self._size - self._received)
        if due == 0:
            raise ProtocolViolation(f"a chunk beyond the announced {self._size} bytes")
        if len(chunk.data) != due:
            raise ProtocolViolation(f"chunk {chunk.index} has {len(chunk.data)} bytes where {due} are due")
        self._received += due
        self._next_index += 1
        if self.kept:
            self._hash.update(chunk.data)
            self._buffer.write(chunk.data)

    def body(self) -> bytes:
        """The whole body. Call it when `complete`; raises `BodyDamaged` if the hash is not the announced one."""
        if not self.complete or not self.kept:
            raise ProtocolViolation(f"the body is not whole: {self._received} of {self._size} bytes")
        if self._hash.digest() != self._sha256:
            raise BodyDamaged("the body does not hash to the announced sha256")
        return self._buffer.getvalue()
