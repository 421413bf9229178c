"""The leakage ledger: how many values of each class whoever sees a message has seen.

Which class a field has is said in `proto/`, at the field; visibility.proto says what the classes mean. A `Ledger` has
numbers alone, never a value. What a server and its parties count of the same messages is the same, as far as it is on
record: a server that is killed loses the counts of the round in work, and a party those of the task in work.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple, Self

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from fenchel.v1 import vectors_pb2, visibility_pb2
from fenchel_common.crypto.packing import FRACTION_BITS
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.wire.parsing import parsed_message

UNREADABLE = "unreadable"
"""Stands in place of a field where a body is not the message that it should be, or has too many elements."""
CIPHERTEXTS = "EncryptedVector.ciphertexts"
"""The one field whose number of values another one tells: the vector's length, up to what the ciphertexts can hold."""
SMALLEST_SLOT_BITS = min(FRACTION_BITS)
"""A ciphertext is twice as long as its plaintext, in which a value takes this many bits at least."""


class Visibility(StrEnum):
    """What whoever sees a value learns from it, the most telling first."""

    INDIVIDUAL = "individual"
    AGGREGATE = "aggregate"
    PSEUDONYM = "pseudonym"
    CIPHERTEXT = "ciphertext"
    PUBLIC = "public"
    TRANSPORT = "transport"


class Direction(StrEnum):
    """From a party to the server, or from the server to a party."""

    UP = "up"
    DOWN = "down"


class Sight(NamedTuple):
    """A kind of values: the field that they are in, their class, and, of ciphertext, the class of what is in it."""

    field: str
    visibility: Visibility
    content: Visibility


Tally = Counter[Sight]


def values_in(kind: type[Message], body: bytes, *, inside: Mapping[str, type[Message]] | None = None) -> Tally:
    """Counts the values of a body that is a message of this kind.

    `inside` names fields of bytes that hold a message of their own. A number that is not on the wire because it is 0
    counts: whoever reads the message learns it.
    """
    tally = Tally()
    _count_body(kind, body, inside or {}, tally)
    return tally


@dataclass(slots=True)
class Ledger:
    """Values that passed between each party and the server, by direction and kind."""

    tallies: dict[tuple[ClientId, Direction], Tally] = field(default_factory=dict)

    @property
    def parties(self) -> tuple[ClientId, ...]:
        return tuple(sorted({party for party, _ in self.tallies}))

    def tally(self, party: ClientId, direction: Direction) -> Tally:
        return self.tallies.get((party, direction), Tally())

    def add(self, party: ClientId, direction: Direction, tally: Tally) -> None:
        self.tallies.setdefault((party, direction), Tally()).update(tally)

    def add_all(self, other: "Ledger") -> None:
        for (party, direction), tally in other.tallies.items():
            self.add(party, direction, tally)

    def to_json(self) -> str:
        return json.dumps(self.to_mapping(), separators=(",", ":"))

    def to_mapping(self) -> dict[str, dict[str, dict[str, dict[str, int]]]]:
        """By party, direction, field and class, or classes of ciphertext and of what is in it; each has a number."""
        held: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
        for (party, direction), tally in sorted(self.tallies.items()):
            for sight, count in sorted(tally.items()):
                kinds = held.setdefault(party, {}).setdefault(direction, {}).setdefault(sight.field, {})
                closed = sight.visibility is not sight.content
                kinds[f"{sight.visibility} {sight.content}" if closed else sight.visibility.value] = count
        return held

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            return cls.from_mapping(json.loads(text))
        except ValueError:
            raise InvalidInput("the ledger is not readable: it was cut or altered") from None

    @classmethod
    def from_mapping(cls, held: Any) -> Self:
        ledger = cls()
        try:
            for party, directions in held.items():
                for direction, fields in directions.items():
                    tally = Tally(
                        {
                            _sight_of(name, *map(Visibility, kind.split())): int(count)
                            for name, kinds in fields.items()
                            for kind, count in kinds.items()
                        }
                    )
                    ledger.add(ClientId(party), Direction(direction), tally)
        except (ValueError, TypeError, AttributeError):
            raise InvalidInput("the ledger is not readable: it was cut or altered") from None
        return ledger


def _sight_of(name: str, visibility: Visibility, content: Visibility | None = None) -> Sight:
    return Sight(name, visibility, content or visibility)


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
