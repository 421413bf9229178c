"""How many values of each class a message holds, by what `proto/` says of its fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from fenchel.v1 import vectors_pb2, visibility_pb2
from fenchel_common.crypto.packing import FRACTION_BITS
from fenchel_common.errors import InvalidInput
from fenchel_common.leakage import Sight, Tally, Visibility
from fenchel_common.wire.parsing import parsed_message

UNREADABLE = "unreadable"
"""Stands in place of a field where a body is not the message that it should be, or has too many elements."""
CIPHERTEXTS = "EncryptedVector.ciphertexts"
"""The one field whose number of values another one tells: the vector's length, up to what the ciphertexts can hold."""
SMALLEST_SLOT_BITS = min(FRACTION_BITS)
"""A ciphertext is twice as long as its plaintext, in which a value takes this many bits at least."""


def values_in(kind: type[Message], body: bytes, *, inside: Mapping[str, type[Message]] | None = None) -> Tally:
    """Counts the values of a body that is a message of this kind.

    `inside` names fields of bytes that hold a message of their own. A number that is not on the wire because it is 0
    counts: whoever reads the message learns it.
    """
    tally = Tally()
    _count_body(kind, body, inside or {}, tally)
    return tally


def meaning_of(label: str) -> str:
    """What the values of a field are, in words; empty where its class says enough."""
    message, _, name = label.partition(".")
    try:
        held = visibility_pb2.DESCRIPTOR.pool.FindMessageTypeByName(f"{visibility_pb2.DESCRIPTOR.package}.{message}")
        return str(held.fields_by_name[name].GetOptions().Extensions[visibility_pb2.meaning])
    except KeyError:
        return ""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field, as far as counting needs it."""

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
        """Whether it counts 1, whatever is in the message."""
        return self.message is None and not (self.repeated or self.optional or self.textual)


_Context = tuple[str, Visibility] | None
"""The outermost field that says what the values in it are."""


def _count_body(kind: type[Message], body: bytes, inside: Mapping[str, type[Message]], tally: Tally) -> None:
    try:
        message = parsed_message(kind, body)
    except InvalidInput:
        tally[Sight(UNREADABLE, Visibility.TRANSPORT, Visibility.TRANSPORT)] += 1
        return
    _count(message, None, inside, tally)


def _count(message: Message, context: _Context, inside: Mapping[str, type[Message]], tally: Tally) -> None:
    for held in _fields(message.DESCRIPTOR):
        if held.optional and not message.HasField(held.name):
            continue
        value = getattr(message, held.name)
        if held.message is not None:
            below = context
            if below is None and held.visibility is not Visibility.TRANSPORT:
                below = held.label, held.visibility
            parts = value if held.repeated else (value,)
            if parts and all(inner.one_number for inner in _fields(held.message)):
                # There may be one for every block: a shortcut, not another rule.
                for inner in _fields(held.message):
                    tally[_sight(inner, below)] += len(parts)
                continue
            for part in parts:
                _count(part, below, inside, tally)
        elif held.label in inside:
            if value:
                _count_body(inside[held.label], value, inside, tally)
        elif count := _length(message, held, value):
            tally[_sight(held, context)] += count


def _length(message: Message, held: _Field, value: Any) -> int:
    """How many values a field of numbers, text or bytes has."""
    if held.label == CIPHERTEXTS and isinstance(message, vectors_pb2.EncryptedVector):
        return min(message.length, 4 * len(message.ciphertexts) // SMALLEST_SLOT_BITS)
    if held.value_bytes:
        return len(value) // held.value_bytes
    if held.zero_ended:
        return int(value.count(b"\0"))
    if held.repeated:
        return len(value)
    return 1 if value or not held.textual else 0


def _sight(held: _Field, context: _Context) -> Sight:
    label, visibility = context or (held.label, held.visibility)
    if held.label == CIPHERTEXTS:
        return Sight(label, Visibility.CIPHERTEXT, visibility)
    if held.visibility is Visibility.INDIVIDUAL:
        return Sight(label, visibility, visibility)
    return Sight(held.label, held.visibility, held.visibility)


@cache
def _fields(descriptor: Descriptor) -> tuple[_Field, ...]:
    return tuple(_field(held, descriptor) for held in descriptor.fields)


def _field(held: FieldDescriptor, descriptor: Descriptor) -> _Field:
    options = held.GetOptions().Extensions
    number = options[visibility_pb2.visibility]
    name = visibility_pb2.Visibility.Name(number).removeprefix("VISIBILITY_").lower()
    return _Field(
        name=held.name,
        label=f"{descriptor.name}.{held.name}",
        visibility=Visibility(name),
        repeated=held.is_repeated,
        optional=held.has_presence,
        textual=held.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES),
        value_bytes=options[visibility_pb2.value_bytes],
        zero_ended=options[visibility_pb2.zero_ended],
        message=held.message_type,
    )
