"""Elements are counted on the wire, before any of them becomes an object."""

import tracemalloc

import pytest
from google.protobuf.message import Message

from fenchel.v1 import alignment_pb2, averaging_pb2, ceremony_pb2, hyfdca_pb2, setup_pb2, vectors_pb2
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.arrays import numbers_to_bytes
from fenchel_common.wire.parsing import MAX_ELEMENTS, count_elements, parsed_message

LIMIT = 100
ENOUGH_BYTES = 8 * 1024 * 1024


def counted(message: Message) -> int:
    return count_elements(type(message), message.SerializeToString(), limit=LIMIT)


def test_fields_inner_fields_and_packed_numbers_count() -> None:
    assert counted(setup_pb2.Introduction()) == 0
    assert counted(setup_pb2.Introduction(certificate=bytes(1000))) == 1
    assert counted(hyfdca_pb2.HyfdcaPrimalResult(figures=[1.0, 2.0, 3.0])) == 1 + 3
    assert counted(alignment_pb2.LayoutBlock(size=3, holders=[1, 200, 70_000])) == 2 + 3
    sealed = [setup_pb2.SealedSecrets(party="a", wrapped=b"x"), setup_pb2.SealedSecrets()]
    assert counted(setup_pb2.KeyMade(public_key=b"n", sealed=sealed)) == 1 + (1 + 2) + 1
    vector = vectors_pb2.Vector(plain=vectors_pb2.PlainVector(format=vectors_pb2.VectorFormat(slot_bits=64, bound=2.0)))
    products = hyfdca_pb2.BlockVector(blocks=numbers_to_bytes(range(1000)), vector=vector)
    assert counted(hyfdca_pb2.HyfdcaProductResult(products=products)) == 7


def test_as_many_elements_as_the_limit_are_taken_and_one_more_is_refused() -> None:
    introductions = ceremony_pb2.Introductions(introductions=[setup_pb2.Introduction()] * LIMIT)
    body = introductions.SerializeToString()
    assert parsed_message(ceremony_pb2.Introductions, body, limit=LIMIT) == introductions
    with pytest.raises(InvalidInput, match="Introductions: has more than 100 elements"):
        parsed_message(ceremony_pb2.Introductions, body + b"\x0a\x00", limit=LIMIT)


def test_numbers_that_are_packed_or_not_count_the_same() -> None:
    packed = b"\x12" + bytes([LIMIT]) + b"\x01" * LIMIT
    for body in (packed, b"\x10\x01" * (LIMIT + 1)):
        with pytest.raises(InvalidInput, match="more than 100 elements"):
            count_elements(alignment_pb2.LayoutBlock, body, limit=LIMIT)


@pytest.mark.parametrize(
    "body",
    [b"\x7a\x00", b"\x0d\x00\x00\x00\x00", b"\x08\x01", b"\x0b\x0c", b"\x02\x00"],
    ids=["unknown number", "other width", "a number in place of bytes", "a group", "number 0"],
)
def test_a_field_that_the_message_does_not_have_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="Introduction: has a field that Introduction does not have"):
        parsed_message(setup_pb2.Introduction, body)


@pytest.mark.parametrize(
    "body",
    [b"\x0a", b"\x0a\x02x", b"\x0a" + b"\xff" * 10, b"\xff", b"\x11\x00\x00"],
    ids=["no length", "too short", "an endless length", "an endless tag", "half a number"],
)
def test_bytes_that_end_too_early_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="ModelPart: the bytes are not such a message"):
        parsed_message(setup_pb2.ModelPart, body)


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(InvalidInput, match="RunTerms: the bytes are not such a message"):
        parsed_message(setup_pb2.RunTerms, b"\x0a\x01\xff")


def test_what_a_process_wrote_itself_is_not_counted() -> None:
    layout = alignment_pb2.FederationLayout(blocks=[alignment_pb2.LayoutBlock()] * (MAX_ELEMENTS + 1))
    assert parsed_message(alignment_pb2.FederationLayout, layout.SerializeToString(), limit=None) == layout


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (ceremony_pb2.Introductions, b"\x0a\x00" * (ENOUGH_BYTES // 2)),
        (setup_pb2.KeyMade, b"\x12\x00" * (ENOUGH_BYTES // 2)),
        (averaging_pb2.AveragingResult, b"\x12\x02\x0a\x00" * (ENOUGH_BYTES // 4)),
        (hyfdca_pb2.HyfdcaPrimalResult, b"\x12\x80\x80\x80\x04" + bytes(ENOUGH_BYTES)),
        (alignment_pb2.LayoutBlock, b"\x12\x80\x80\x80\x04" + bytes(ENOUGH_BYTES)),
    ],
    ids=["empty introductions", "empty messages", "messages in messages", "packed doubles", "packed varints"],
)
def test_a_refusal_takes_less_memory_than_the_body(kind: type[Message], body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="more than 65536 elements"):
            parsed_message(kind, body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(body)
