"""Whatever bytes pass the guard hold no more elements than it allows."""

from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from fenchel.v1 import averaging_pb2, corrective_pb2, hyfdca_pb2, setup_pb2
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.parsing import count_elements, parsed_message

KINDS = (
    averaging_pb2.AveragingTask,
    averaging_pb2.AveragingResult,
    corrective_pb2.CorrectiveDualTask,
    hyfdca_pb2.HyfdcaPrimalResult,
    setup_pb2.KeyMade,
)
LIMITS = st.integers(0, 12)


def elements_of(message: Message) -> int:
    """Fields and packed numbers of a message as the parser understood it."""
    count = 0
    for field, value in message.ListFields():
        values = list(value) if field.is_repeated else [value]
        count += len(values) + sum(elements_of(part) for part in values if isinstance(part, Message))
    return count


def record(number: int, wire_type: int, payload: bytes) -> bytes:
    """One field as it is on the wire, with a length where one is due."""
    length = bytes([len(payload)]) if wire_type == 2 else b""
    return bytes([number << 3 | wire_type]) + length + payload


def nested(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    fields = st.one_of(
        st.builds(record, st.integers(1, 10), st.just(2), inner),
        st.builds(record, st.integers(1, 10), st.just(0), st.sampled_from([b"\0", b"\x05", b"\xff\x01"])),
        st.builds(record, st.integers(1, 10), st.just(1), st.just(bytes(8))),
    )
    return st.lists(fields, max_size=5).map(b"".join).filter(lambda body: len(body) < 128)


BODIES = st.one_of(st.recursive(st.binary(max_size=4), nested, max_leaves=20), st.binary(max_size=60))


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(KINDS), BODIES, LIMITS)
def test_a_message_that_passes_has_at_most_so_many_elements(kind: type[Message], body: bytes, limit: int) -> None:
    try:
        counted = count_elements(kind, body, limit=limit)
        message = parsed_message(kind, body, limit=limit)
    except InvalidInput:
        return
    assert elements_of(message) <= counted <= limit


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=5), max_size=20), st.lists(st.floats(allow_nan=False), max_size=20))
def test_what_was_written_is_counted_exactly(names: list[str], values: list[float]) -> None:
    told = [averaging_pb2.AveragingNumber(name=name) for name in names]
    for message in (averaging_pb2.AveragingResult(reported=told), hyfdca_pb2.HyfdcaPrimalResult(figures=values)):
        body = message.SerializeToString()
        packed = int(bool(values)) if isinstance(message, hyfdca_pb2.HyfdcaPrimalResult) else 0
        assert count_elements(type(message), body, limit=100) == elements_of(message) + packed
