"""The names of features that parties compare, as bytes: sealed on the wire, in clear within the parties alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from fenchel.v1 import alignment_pb2
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import MAX_CLIENTS, MAX_FEATURES
from fenchel_common.wire.arrays import names_from_bytes, names_to_bytes
from fenchel_common.wire.parsing import parsed_message

MARK_BYTES: Final = 8
"""The bytes of a feature's pseudonym by which parties find their common features."""
MAX_SEALED_NAMES_BYTES: Final = 1 << 20
"""The most bytes of a party's sealed list. A party with longer names gives no list."""
PADDED_TO: Final = 1024
"""The length of a list is a multiple of this, in bytes, but for a few."""


@dataclass(frozen=True, slots=True)
class NameList:
    """The names of one party's features: names of columns, and a mark of each feature.

    `columns` are without the values of categories. `marks` are ascending.
    """

    columns: tuple[str, ...] = field(repr=False)
    marks: tuple[bytes, ...] = field(repr=False)


def name_list_to_bytes(names: NameList) -> bytes:
    message = alignment_pb2.NameList(columns=names_to_bytes(names.columns), marks=b"".join(names.marks))
    message.padding = bytes(-message.ByteSize() % PADDED_TO)
    return message.SerializeToString()


def name_list_from_bytes(data: bytes) -> NameList:
    message = parsed_message(alignment_pb2.NameList, data)
    listed = message.marks  # every look at a field of bytes copies it
    if len(listed) % MARK_BYTES:
        raise InvalidInput(f"names: marks: must have {MARK_BYTES} bytes each")
    marks = tuple(listed[start : start + MARK_BYTES] for start in range(0, len(listed), MARK_BYTES))
    if any(one >= other for one, other in pairwise(marks)):
        raise InvalidInput("names: marks: must be ascending, none of them twice")
    return NameList(names_from_bytes(message.columns, most=MAX_FEATURES, field="names: columns"), marks)


def feature_names_to_bytes(sealed: Mapping[ClientId, bytes]) -> bytes:
    lists = [alignment_pb2.SealedNames(party=party, sealed=given) for party, given in sealed.items()]
    return alignment_pb2.FeatureNames(lists=lists).SerializeToString()


def feature_names_from_bytes(data: bytes) -> dict[ClientId, bytes]:
    """The sealed list of each party that gave one."""
    message = parsed_message(alignment_pb2.FeatureNames, data)
    if len(message.lists) > MAX_CLIENTS:
        raise InvalidInput(f"names: lists: more than {MAX_CLIENTS}")
    sealed = {ClientId(given.party): given.sealed for given in message.lists}
    if len(sealed) != len(message.lists):
        raise InvalidInput("names: lists: a party is named twice")
    return sealed


def names_read_to_bytes() -> bytes:
    return alignment_pb2.NamesRead().SerializeToString()


def names_read_from_bytes(data: bytes) -> None:
    parsed_message(alignment_pb2.NamesRead, data)
