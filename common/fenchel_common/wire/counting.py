"""Counts of the values of each class in a message, by the classes that `proto/` gives to its fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from fenchel.v1 import records_pb2, vectors_pb2, visibility_pb2
from fenchel_common.crypto.packing import FRACTION_BITS
from fenchel_common.errors import InvalidInput
from fenchel_common.leakage import Sight, Tally, Visibility
from fenchel_common.wire.parsing import Body, parsed_message, split_message
from fenchel_common.wire.records import records_from_bytes

UNREADABLE = "unreadable"
"""Counted instead of a field if a body is not the message that it should be, or has too many elements."""
CIPHERTEXTS = "EncryptedVector.ciphertexts"
"""Counted by another field: by the vector's length, at most the values that fit in the ciphertexts."""
MASKED = "MaskedVector.words"
"""Counted by another field: by the slots of the vector's format."""
ENCRYPTED = (CIPHERTEXTS, MASKED)
RECORDS = "RoundTask.records"
"""The only field that is a list of messages, each after its length."""
CHOICES = "PhaseRecord.choices"
SMALLEST_SLOT_BITS = min(FRACTION_BITS)
"""The fewest bits of a value in a plaintext; a ciphertext is twice as long as its plaintext."""


@dataclass(slots=True)
class Content:
    """The values in a body, by class, and the bytes of the body that are ciphertext."""

    tally: Tally
    ciphertext_bytes: int = 0


def content_of(kind: type[Message], body: Body, *, inside: Mapping[str, type[Message]] | None = None) -> Content:
    """Counts the values of a body that is a message of this kind, and its bytes of ciphertext.

    `inside` names fields of bytes whose bytes are a message themselves. A number that is not on the wire because it is
    0 counts, because a reader of the message learns it.
    """
    content = Content(Tally())
    _count_body(kind, body, inside or {}, content)
    return content


def values_in(kind: type[Message], body: bytes, *, inside: Mapping[str, type[Message]] | None = None) -> Tally:
    """The values alone, as `content_of` counts them."""
    return content_of(kind, body, inside=inside).tally


def choices_in(phase: str) -> str:
    """The name under which `inside` has the message of the server's choices in the record of a phase."""
    return f"{CHOICES} in {phase}"


def meaning_of(label: str) -> str:
    """The meaning of a field's values, in words; empty if its class is enough."""
    message, _, name = label.partition(".")
    try:
        kind = visibility_pb2.DESCRIPTOR.pool.FindMessageTypeByName(f"{visibility_pb2.DESCRIPTOR.package}.{message}")
        return str(kind.fields_by_name[name].GetOptions().Extensions[visibility_pb2.meaning])
    except KeyError:
        return ""


@dataclass(frozen=True, slots=True)
class _Field:
    """The properties of a field that counting needs."""

    name: str
    label: str
    visibility: Visibility
    repeated: bool
    optional: bool
    textual: bool
    value_bytes: int
    zero_ended: bool
    message: Descriptor | None

    @property
    def one_number(self) -> bool:
        """Whether the field always counts 1."""
        return self.message is None and not (self.repeated or self.optional or self.textual)


_Context = tuple[str, Visibility] | None
"""The outermost field that gives its values a class: its label and the class."""


def _count_body(kind: type[Message], body: Body, inside: Mapping[str, type[Message]], content: Content) -> None:
    enclosed = [field for field in _fields(kind.DESCRIPTOR) if field.label in inside and not field.repeated]
    try:
        if not enclosed:
            _count(parsed_message(kind, body), None, inside, content)
            return
        # Each message that encloses a long one would be a copy of it.
        (field,) = enclosed
        message, part = split_message(kind, memoryview(body), field.name)
        _count(message, None, inside, content)
        if part:
            _count_body(inside[field.label], part, inside, content)
    except InvalidInput:
        content.tally[Sight(UNREADABLE, Visibility.TRANSPORT, Visibility.TRANSPORT)] += 1


def _count(message: Message, context: _Context, inside: Mapping[str, type[Message]], content: Content) -> None:
    for field in _fields(message.DESCRIPTOR):
        if field.optional and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if field.message is not None:
            below = context
            if below is None and field.visibility is not Visibility.TRANSPORT:
                below = field.label, field.visibility
            parts = value if field.repeated else (value,)
            if parts and all(inner.one_number for inner in _fields(field.message)):
                # A shortcut with the same result, because there may be one part for every block.
                for inner in _fields(field.message):
                    content.tally[_sight(inner, below)] += len(parts)
                continue
            for part in parts:
                _count(part, below, inside, content)
        elif field.label == RECORDS:
            for record in records_from_bytes(value):
                _count_record(record, inside, content)
        elif field.label in inside:
            for part in value if field.repeated else (value,):
                if part or field.repeated:
                    _count_body(inside[field.label], part, inside, content)
        elif count := _length(message, field, value):
            content.tally[_sight(field, context)] += count
            if field.label in ENCRYPTED:
                content.ciphertext_bytes += len(value)


def _count_record(data: bytes, inside: Mapping[str, type[Message]], content: Content) -> None:
    """Counts the values of a record, with those of the server's choices in it."""
    record = parsed_message(records_pb2.PhaseRecord, data)
    kind = inside.get(choices_in(record.phase))
    _count(record, None, {} if kind is None else {CHOICES: kind}, content)


def _length(message: Message, field: _Field, value: Any) -> int:
    """The number of values in a field of numbers, text or bytes."""
    if field.label == CIPHERTEXTS and isinstance(message, vectors_pb2.EncryptedVector):
        return min(message.length, 4 * len(message.ciphertexts) // SMALLEST_SLOT_BITS)
    if field.label == MASKED and isinstance(message, vectors_pb2.MaskedVector):
        return len(value) // (4 if message.format.slot_bits == 32 else 8)
    if field.value_bytes:
        return len(value) // field.value_bytes
    if field.zero_ended:
        return int(value.count(b"\0"))
    if field.repeated:
        return len(value)
    return 1 if value or not field.textual else 0


def _sight(field: _Field, context: _Context) -> Sight:
    label, visibility = context or (field.label, field.visibility)
    if field.label in ENCRYPTED:
        return Sight(label, Visibility.CIPHERTEXT, visibility)
    if field.visibility is Visibility.INDIVIDUAL:
        return Sight(label, visibility, visibility)
    return Sight(field.label, field.visibility, field.visibility)


@cache
def _fields(descriptor: Descriptor) -> tuple[_Field, ...]:
    return tuple(_field(field, descriptor) for field in descriptor.fields)


def _field(field: FieldDescriptor, descriptor: Descriptor) -> _Field:
    options = field.GetOptions().Extensions
    number = options[visibility_pb2.visibility]
    name = visibility_pb2.Visibility.Name(number).removeprefix("VISIBILITY_").lower()
    return _Field(
        name=field.name,
        label=f"{descriptor.name}.{field.name}",
        visibility=Visibility(name),
        repeated=field.is_repeated,
        optional=field.has_presence,
        textual=field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES),
        value_bytes=options[visibility_pb2.value_bytes],
        zero_ended=options[visibility_pb2.zero_ended],
        message=field.message_type,
    )
