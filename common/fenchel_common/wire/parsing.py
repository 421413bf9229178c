"""The only way from bytes to a protobuf message: elements are counted before any of them becomes an object.

A message of two bytes becomes an object of a hundred. So a sender could make the receiver take many times the size of a
body in memory before its content is checked. Here the bytes of the body are read field by field first. A body with too
many elements, or with a field that its kind of message does not have, is refused.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, TypeVar, cast

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from fenchel_common.errors import InvalidInput

M = TypeVar("M", bound=Message)
B = TypeVar("B", bytes, memoryview)
Body = bytes | memoryview
"""The bytes of a message; a long one is a view, so that what encloses it is taken off without a copy."""

MAX_ELEMENTS: Final = 1 << 16
"""The most elements of a message from outside. A list that grows with samples or features is one field of bytes."""
MAX_LAYOUT_ELEMENTS: Final = 1 << 18
"""The most elements of a message that grows with the sets of holders: all of them in a federation of 13 parties."""

_OF_GROUPS: Final = frozenset({"ClientLayout", "GroupKeys"})
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
"""The wire type of each type of field; all other types are varints."""


def parsed_message(kind: type[M], data: Body, *, limit: int | None = MAX_ELEMENTS) -> M:
    """The message of this kind in `data`; raises `InvalidInput` if the bytes are not such a message.

    Parameters
    ----------
    limit
        The most elements of the message (see `count_elements`); None for bytes that this process wrote itself. Layouts
        and keys of groups may have `MAX_LAYOUT_ELEMENTS`.
    """
    if limit is not None:
        grows_with_groups = kind.DESCRIPTOR.name in _OF_GROUPS
        count_elements(kind, data, limit=MAX_LAYOUT_ELEMENTS if grows_with_groups else limit)
    try:
        # It takes any buffer, which its types do not say.
        return kind.FromString(cast(bytes, data))
    except DecodeError:
        raise _damaged(kind.DESCRIPTOR.name) from None


def split_message(kind: type[M], data: B, field: str) -> tuple[M, B]:
    """The message of this kind in `data` without one field of bytes, and the content of that field, a part of `data`.

    Raises `InvalidInput` if the bytes are not such a message.
    """
    count_elements(kind, data, limit=MAX_ELEMENTS)
    descriptor = cast(Descriptor, kind.DESCRIPTOR)
    number = descriptor.fields_by_name[field].number
    rest, content = [], data[:0]
    for found, begin, start, end in _Walk(descriptor.name, data, MAX_ELEMENTS).spans():
        if found == number:
            content = data[start:end]
        else:
            rest.append(data[begin:end])
    return parsed_message(kind, b"".join(rest), limit=None), content


def count_elements(kind: type[Message], data: Body, *, limit: int) -> int:
    """The number of elements in the bytes of a message.

    Elements are the message's fields and those of all messages inside, each occurrence counted, and the numbers in
    packed lists. Raises `InvalidInput` for more elements than `limit`, for a field that the message does not have, and
    for bytes that are no message. Takes almost no memory, and no longer than `limit` elements need.
    """
    descriptor = cast(Descriptor, kind.DESCRIPTOR)
    return _Walk(descriptor.name, data, limit).through(descriptor, 0, len(data), 0)


class _Walk:
    """Counts the elements of one body."""

    def __init__(self, name: str, data: Body, limit: int) -> None:
        self._name = name
        self._data = data
        self._limit = limit

    def through(self, descriptor: Descriptor, position: int, end: int, count: int) -> int:
        """`count` plus the elements of the message from `position` to `end`. No kind of message contains itself."""
        fields = _fields(descriptor)
        while position < end:
            tag, position = self._varint(position, end)
            wire_type = tag & 7
            kind, packed, inner = fields.get(tag >> 3, _NO_FIELD)
            count = self._bounded(count + 1)
            if wire_type == _DELIMITED and (kind == _DELIMITED or packed):
                length, start = self._varint(position, end)
                position = start + length
                if position > end:
                    raise _damaged(self._name)
                if inner is not None:
                    count = self.through(inner, start, position, count)
                elif packed:
                    count = self._bounded(count + self._packed(start, length, kind))
            elif wire_type != kind:
                raise InvalidInput(f"{self._name}: has a field that {descriptor.name} does not have")
            elif kind == _VARINT:
                _, position = self._varint(position, end)
            else:
                position += _FIXED_BYTES[kind]
        if position > end:
            raise _damaged(self._name)
        return count

    def spans(self) -> Iterator[tuple[int, int, int, int]]:
        """The fields of a message that `through` has accepted: number, where field and content begin, where it ends."""
        position = 0
        while position < len(self._data):
            begin = position
            tag, start = self._varint(position, len(self._data))
            if tag & 7 == _DELIMITED:
                length, start = self._varint(start, len(self._data))
                position = start + length
            elif tag & 7 == _VARINT:
                _, position = self._varint(start, len(self._data))
            else:
                position = start + _FIXED_BYTES[tag & 7]
            yield tag >> 3, begin, start, position

    def _bounded(self, count: int) -> int:
        if count > self._limit:
            raise InvalidInput(f"{self._name}: has more than {self._limit} elements")
        return count

    def _packed(self, start: int, length: int, kind: int) -> int:
        if kind in _FIXED_BYTES:
            return length // _FIXED_BYTES[kind]
        return int(np.count_nonzero(np.frombuffer(self._data, dtype=np.uint8, offset=start, count=length) < 0x80))

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        """The number that begins at `position`, and the position after it."""
        number = 0
        for shift, byte in enumerate(self._data[position : min(position + _MAX_VARINT_BYTES, end)]):
            number |= (byte & 0x7F) << (7 * shift)
            if byte < 0x80:
                return number, position + shift + 1
        raise _damaged(self._name)


_Field = tuple[int, bool, Descriptor | None]
"""The wire type of a field, whether several values may be packed, and the descriptor of a message."""
_NO_FIELD: Final[_Field] = (-1, False, None)


@cache
def _fields(descriptor: Descriptor) -> Mapping[int, _Field]:
    return {field.number: _field(field) for field in descriptor.fields}


def _field(field: FieldDescriptor) -> _Field:
    kind = _OF_TYPE.get(field.type, _VARINT)
    return kind, field.is_repeated and kind != _DELIMITED, field.message_type


def _damaged(name: str) -> InvalidInput:
    return InvalidInput(f"{name}: the bytes are not such a message; they were cut or altered")
