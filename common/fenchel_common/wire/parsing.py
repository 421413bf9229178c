"""From bytes to a protobuf message, in one place: the elements are counted before any of them becomes an object.

A message of two bytes becomes an object of a hundred. So whoever may send a body of some size could take many times
that size of the receiver's memory, before anything in it is looked at. Here the body is walked as it is on the wire, by
the fields that its kind of message has, and refused if there are too many elements, or if there is a field that such a
message does not have.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, TypeVar, cast

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from fenchel_common.errors import InvalidInput

M = TypeVar("M", bound=Message)

MAX_ELEMENTS: Final = 1 << 16
"""What a message from outside may have. A list that grows with samples or features is bytes: one element."""

_VARINT, _WIDE, _DELIMITED, _NARROW = 0, 1, 2, 5
_FIXED_BYTES: Final = {_WIDE: 8, _NARROW: 4}
_MAX_VARINT_BYTES: Final = 10
_OF_TYPE: Final = {
    FieldDescriptor.TYPE_DOUBLE: _WIDE,
    FieldDescriptor.TYPE_FIXED64: _WIDE,
    FieldDescriptor.TYPE_SFIXED64: _WIDE,
    FieldDescriptor.TYPE_FLOAT: _NARROW,
    FieldDescriptor.TYPE_FIXED32: _NARROW,
    FieldDescriptor.TYPE_SFIXED32: _NARROW,
    FieldDescriptor.TYPE_STRING: _DELIMITED,
    FieldDescriptor.TYPE_BYTES: _DELIMITED,
    FieldDescriptor.TYPE_MESSAGE: _DELIMITED,
}
"""How a value of a type lies on the wire; those of all other types are varints."""


def parsed_message(kind: type[M], data: bytes, *, limit: int | None = MAX_ELEMENTS) -> M:
    """A message of this kind.

    Parameters
    ----------
    limit
        The most elements that it may have (`count_elements`); None for bytes that this process wrote itself.
    """
    if limit is not None:
        count_elements(kind, data, limit=limit)
    try:
        return kind.FromString(data)
    except DecodeError:
        raise _damaged(kind.DESCRIPTOR.name) from None


def count_elements(kind: type[Message], data: bytes, *, limit: int) -> int:
    """How many elements the bytes of a message have.

    Elements are its fields and those of all messages inside, each as often as it is there, and the numbers in packed
    lists. Refuses as `InvalidInput` more elements than `limit`, a field that the message does not have, and
    bytes that are no message. Takes no memory to speak of, and no longer than `limit` elements need.
    """
    descriptor = cast(Descriptor, kind.DESCRIPTOR)
    return _Walk(descriptor.name, data, limit).through(descriptor, 0, len(data), 0)


class _Walk:
    """Counts through one body."""

    def __init__(self, name: str, data: bytes, limit: int) -> None:
        self._name = name
        self._data = data
        self._limit = limit

    def through(self, descriptor: Descriptor, place: int, end: int, count: int) -> int:
        """The count after a message that lies between two places. No message here holds itself: this ends soon."""
        fields = _fields(descriptor)
        while place < end:
            tag, place = self._varint(place, end)
            wire_type = tag & 7
            kind, packed, inner = fields.get(tag >> 3, _NO_FIELD)
            count = self._bounded(count + 1)
            if wire_type == _DELIMITED and (kind == _DELIMITED or packed):
                length, start = self._varint(place, end)
                place = start + length
                if place > end:
                    raise _damaged(self._name)
                if inner is not None:
                    count = self.through(inner, start, place, count)
                elif packed:
                    count = self._bounded(count + self._packed(start, length, kind))
            elif wire_type != kind:
                raise InvalidInput(f"{self._name}: has a field that {descriptor.name} does not have")
            elif kind == _VARINT:
                _, place = self._varint(place, end)
            else:
                place += _FIXED_BYTES[kind]
        if place > end:
            raise _damaged(self._name)
        return count

    def _bounded(self, count: int) -> int:
        if count > self._limit:
            raise InvalidInput(f"{self._name}: has more than {self._limit} elements")
        return count

    def _packed(self, start: int, length: int, kind: int) -> int:
        if kind in _FIXED_BYTES:
            return length // _FIXED_BYTES[kind]
        return int(np.count_nonzero(np.frombuffer(self._data, dtype=np.uint8, offset=start, count=length) < 0x80))

    def _varint(self, place: int, end: int) -> tuple[int, int]:
        """The number that begins here, and where it ends."""
        number = 0
        for shift, byte in enumerate(self._data[place : min(place + _MAX_VARINT_BYTES, end)]):
            number |= (byte & 0x7F) << (7 * shift)
            if byte < 0x80:
                return number, place + shift + 1
        raise _damaged(self._name)


_Field = tuple[int, bool, Descriptor | None]
"""How a value lies on the wire, whether several may be packed, and what message it is."""
_NO_FIELD: Final[_Field] = (-1, False, None)


@cache
def _fields(descriptor: Descriptor) -> Mapping[int, _Field]:
    return {field.number: _field(field) for field in descriptor.fields}


def _field(field: FieldDescriptor) -> _Field:
    kind = _OF_TYPE.get(field.type, _VARINT)
    return kind, field.is_repeated and kind != _DELIMITED, field.message_type


def _damaged(name: str) -> InvalidInput:
    return InvalidInput(f"{name}: the bytes are not such a message; they were cut or altered")
