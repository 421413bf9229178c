"""Inputs that are nearly right: mutations of bytes, of text, and of the fields of protobuf messages."""

import random
import re
import struct
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from support.messages import varint

MAX_INPUT_BYTES = 64 * 1024
ROUNDS = (1, 1, 1, 2, 3, 5)

INTEGERS = (
    0,
    1,
    2,
    3,
    7,
    31,
    255,
    1 << 10,
    1 << 16,
    *((1 << bits) + step for bits in (31, 32, 60, 63) for step in (-1, 0)),
)
DOUBLES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-9,
    5e-324,
    1e-300,
    1e300,
    2.0**31,
    2.0**63,
    float("nan"),
    float("inf"),
    -float("inf"),
)
TEXTS = (
    "",
    "a",
    ".",
    "..",
    "../../../etc/passwd",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a\0b",
    "\x1b[2J",
    "x" * 300,
    "ä" * 70,
    "\u202e",
    "\U0001f511",
)
WORDS = (
    b"",
    b"null",
    b"true",
    b"0",
    b"-1",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"9" * 5000,
    b"0x10",
    b'""',
    b"{}",
    b"[]",
    b"[" * 3000,
    b'{"a":' * 3000,
    b"=",
    b"\n",
    b"[a]\n",
    b'"\\ud800"',
    b"\xff\xfe",
    b"\0",
    b"1979-05-27T07:32:00Z",
    b"inf",
    b"nan",
    b"a.b.c = 1\n",
)
_TOKEN = re.compile(rb'"[^"]*"|[A-Za-z0-9_.+-]+')
_UNSIGNED = frozenset({FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64})
_WIDE = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})
_REAL = frozenset({FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT})


class Mutator:
    """Makes inputs out of seeds, the same ones for the same random numbers."""

    def __init__(self, seeds: Sequence[bytes], message: type[Message] | None = None) -> None:
        self._seeds = seeds
        self._message = message

    def fresh(self, rng: random.Random) -> bytes:
        """A seed, altered."""
        return self.altered(rng.choice(self._seeds), rng)

    def altered(self, data: bytes, rng: random.Random) -> bytes:
        """Another input that resembles this one."""
        for _ in range(rng.choice(ROUNDS)):
            if self._message is not None and rng.random() < 0.75:
                data = self._altered_fields(self._message, data, rng)
            else:
                data = rng.choice(_BYTE_MUTATIONS)(data, rng.choice(self._seeds), rng)
        return data[:MAX_INPUT_BYTES]

    def _altered_fields(self, kind: type[Message], data: bytes, rng: random.Random) -> bytes:
        try:
            message = kind.FromString(data)
        except DecodeError:
            message = kind.FromString(rng.choice(self._seeds))
        alter_message(rng.choice(_parts_of(message)), rng)
        return message.SerializeToString()


def alter_message(message: Message, rng: random.Random) -> None:
    """Alters one field of a message."""
    fields = cast(Sequence[FieldDescriptor], message.DESCRIPTOR.fields)
    if not fields:
        return
    field = rng.choice(fields)
    if rng.random() < 0.1:
        message.ClearField(field.name)
    elif field.is_repeated:
        _alter_list(getattr(message, field.name), field, rng)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        part = getattr(message, field.name)
        part.SetInParent()
        alter_message(part, rng)
    else:
        setattr(message, field.name, _value(field, getattr(message, field.name), rng))


def _parts_of(message: Message) -> list[Message]:
    """The message and all messages inside it."""
    found = [message]
    for field, value in message.ListFields():
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            for part in value if field.is_repeated else (value,):
                found.extend(_parts_of(part))
    return found


def _alter_list(values: MutableSequence[Any], field: FieldDescriptor, rng: random.Random) -> None:
    position = rng.randrange(len(values)) if values else 0
    deed = rng.randrange(4)
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if not values or deed == 0:
            alter_message(values.add(), rng)  # type: ignore[attr-defined]  # of message lists alone
        elif deed == 1:
            values.append(values[position])
        elif deed == 2:
            del values[position]
        else:
            alter_message(values[position], rng)
    elif not values or deed == 0:
        values.append(_value(field, 0, rng))
    elif deed == 1:
        values.insert(rng.randrange(len(values) + 1), values[position])
    elif deed == 2:
        del values[position]
    else:
        values[position] = _value(field, values[position], rng)


def _value(field: FieldDescriptor, value: Any, rng: random.Random) -> Any:
    """Another value for a field that is not a message."""
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return not value
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_STRING:
            return rng.choice(TEXTS) if rng.random() < 0.7 or not value else value[: rng.randrange(len(value))]
        return _bytes_value(value or b"", rng)
    if field.cpp_type in _REAL:
        return rng.choice(DOUBLES)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice((0, 1, 2, 3, 100))
    number = value + rng.choice((-1, 1)) if value and rng.random() < 0.3 else rng.choice(INTEGERS)
    bits = 64 if field.cpp_type in _WIDE else 32
    return number % (1 << bits) if field.cpp_type in _UNSIGNED else number % (1 << (bits - 1))


def _bytes_value(value: bytes, rng: random.Random) -> bytes:
    deed = rng.randrange(6)
    if deed == 0:
        return b""
    if deed == 1:
        return value + value[:64]
    if deed == 2:
        return bytes(len(value))
    if deed == 3:
        return b"\xff" * len(value)
    return rng.choice(_BYTE_MUTATIONS)(value, value, rng)


def _flip(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    if not data:
        return bytes([rng.randrange(256)])
    position = rng.randrange(len(data))
    return data[:position] + bytes([data[position] ^ 1 << rng.randrange(8)]) + data[position + 1 :]


def _cut(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _drop(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + data[start + rng.randint(1, 16) :]


def _repeat(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    stop = min(len(data), start + rng.randint(1, 256))
    return data[:stop] + data[start:stop] * rng.choice((1, 1, 1, 50)) + data[stop:]


def _splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _insert_length(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    """A length or a number of protobuf's own that announces far more than follows."""
    position = rng.randrange(len(data) + 1)
    return data[:position] + varint(rng.choice(INTEGERS)) + data[position + rng.randrange(3) :]


def _insert_double(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    position = rng.randrange(len(data) + 1)
    return data[:position] + struct.pack("<d", rng.choice(DOUBLES)) + data[position + 8 :]


def _noise(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    position = rng.randrange(len(data) + 1)
    count = rng.randint(1, 24)
    return data[:position] + rng.randbytes(count) + data[position + rng.choice((0, count)) :]


def _word(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    """Puts a word of configuration files in the position of another."""
    tokens = list(_TOKEN.finditer(data[:4096]))
    if not tokens or rng.random() < 0.2:
        position = rng.randrange(len(data) + 1)
        return data[:position] + rng.choice(WORDS) + data[position:]
    token = rng.choice(tokens)
    word = rng.choice(tokens)[0] if rng.random() < 0.3 else rng.choice(WORDS)
    return data[: token.start()] + word + data[token.end() :]


_BYTE_MUTATIONS: tuple[Callable[[bytes, bytes, random.Random], bytes], ...] = (
    _flip,
    _cut,
    _drop,
    _repeat,
    _splice,
    _insert_length,
    _insert_double,
    _noise,
    _word,
    _word,
)
