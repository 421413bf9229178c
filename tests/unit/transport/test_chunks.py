"""Bodies as chunks: every body comes through whole, and nothing but the announced body does."""

import hashlib

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fenchel.v1.federation_pb2 import Body, Chunk
from fenchel_common.errors import BodyDamaged, BodyTooLarge, ProtocolViolation
from fenchel_common.wire.chunks import (
    CHUNK_BYTES,
    MAX_BODY_BYTES,
    MAX_MESSAGE_BYTES,
    BodyReader,
    body_to_proto,
    chunks_to_proto,
)


def read(announced: Body, chunks: list[Chunk], *, limit_bytes: int = MAX_BODY_BYTES) -> bytes:
    reader = BodyReader(announced, limit_bytes=limit_bytes)
    for chunk in chunks:
        reader.add(chunk)
    return reader.body()


def body_of(size: int) -> bytes:
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_a_body_comes_through_whole_around_every_chunk_border(size: int) -> None:
    body = body_of(size)
    chunks = list(chunks_to_proto(body))

    assert read(body_to_proto(body), chunks) == body
    assert len(chunks) == -(-size // CHUNK_BYTES)
    assert all(chunk.ByteSize() < MAX_MESSAGE_BYTES for chunk in chunks)


@settings(max_examples=30, deadline=None)
@given(body=st.binary(max_size=2000), limit=st.integers(0, 2000))
def test_the_limit_is_enforced_on_the_announcement_exactly(body: bytes, limit: int) -> None:
    announced = body_to_proto(body)
    if len(body) > limit:
        with pytest.raises(BodyTooLarge, match=f"the task of p has {len(body)} bytes, over the limit of {limit} bytes"):
            BodyReader(announced, what="the task of p", limit_bytes=limit)
    else:
        assert read(announced, list(chunks_to_proto(body)), limit_bytes=limit) == body


def test_a_huge_announcement_costs_no_memory_before_its_chunks_come() -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    reader = BodyReader(Body(size=MAX_BODY_BYTES, sha256=bytes(32)), limit_bytes=MAX_BODY_BYTES)

    assert not reader.complete
    assert process.memory_info().rss - before < MAX_BODY_BYTES / 16


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (0, 0, 1), (1, 2)])
def test_chunks_out_of_order_repeated_or_left_out_are_refused(order: tuple[int, ...]) -> None:
    body = body_of(3 * CHUNK_BYTES)
    chunks = list(chunks_to_proto(body))

    with pytest.raises(ProtocolViolation, match="is due"):
        read(body_to_proto(body), [chunks[index] for index in order])


def test_a_chunk_of_another_length_than_due_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match="4 bytes where 5 are due"):
        read(body_to_proto(b"hello"), [Chunk(index=0, data=b"hell")])
    with pytest.raises(ProtocolViolation, match="6 bytes where 5 are due"):
        read(body_to_proto(b"hello"), [Chunk(index=0, data=b"hello!")])


def test_a_chunk_beyond_the_announced_total_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match="beyond the announced 5 bytes"):
        read(body_to_proto(b"hello"), [Chunk(index=0, data=b"hello"), Chunk(index=1, data=b"!")])


def test_a_body_that_is_not_whole_is_never_given_out() -> None:
    with pytest.raises(ProtocolViolation, match="0 of 5 bytes"):
        read(body_to_proto(b"hello"), [])


def test_a_body_that_hashes_to_something_else_is_refused() -> None:
    with pytest.raises(BodyDamaged):
        read(body_to_proto(b"hello"), [Chunk(index=0, data=b"jello")])


@pytest.mark.parametrize("digest", [b"", hashlib.sha1(b"hello", usedforsecurity=False).digest(), bytes(33)])
def test_an_announcement_without_a_sha256_is_refused(digest: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="sha256"):
        BodyReader(Body(size=5, sha256=digest), limit_bytes=10)


def test_a_body_that_nobody_keeps_is_checked_for_order_and_dropped() -> None:
    body = body_of(2 * CHUNK_BYTES)
    reader = BodyReader(body_to_proto(body), limit_bytes=MAX_BODY_BYTES, keep=False)
    for chunk in chunks_to_proto(body):
        reader.add(chunk)

    assert reader.complete
    assert reader._buffer.getbuffer().nbytes == 0
