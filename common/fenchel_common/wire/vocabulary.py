"""Vocabularies as bytes: sealed on the wire, in clear within the parties alone."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from fenchel.v1 import alignment_pb2
from fenchel_common.data.categories import Vocabulary
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import MAX_CLIENTS, MAX_FEATURES
from fenchel_common.wire.arrays import names_from_bytes, names_to_bytes, numbers_from_bytes, numbers_to_bytes
from fenchel_common.wire.parsing import parsed_message

MAX_SEALED_VOCABULARY_BYTES: Final = 1 << 20
"""The most bytes of a vocabulary that a party gives, sealed."""
PADDED_TO: Final = 1024
"""The length of a vocabulary is a multiple of this, in bytes, but for a few."""


def vocabulary_to_bytes(vocabulary: Vocabulary) -> bytes:
    columns = sorted(vocabulary.values)
    told = [vocabulary.values[column] for column in columns]
    message = alignment_pb2.Vocabulary(
        columns=names_to_bytes(columns),
        sizes=numbers_to_bytes([len(values) for values in told]),
        values=names_to_bytes(value for values in told for value in values),
        others=names_to_bytes(sorted(vocabulary.others)),
        indicators=names_to_bytes(sorted(vocabulary.indicators)),
    )
    message.padding = bytes(-message.ByteSize() % PADDED_TO)
    return message.SerializeToString()


def vocabulary_from_bytes(data: bytes) -> Vocabulary:
    """Reads a vocabulary; all its lists must be ascending, and `others` some of its columns."""
    message = parsed_message(alignment_pb2.Vocabulary, data)
    columns = _ascending(message.columns, "columns")
    sizes = numbers_from_bytes(message.sizes, most=len(columns), field="vocabulary: sizes").tolist()
    values = names_from_bytes(message.values, most=MAX_FEATURES, field="vocabulary: values")
    if len(sizes) != len(columns) or sum(sizes) != len(values):
        raise InvalidInput("vocabulary: sizes: must be the numbers of values of all columns")
    told: dict[str, tuple[str, ...]] = {}
    start = 0
    for column, size in zip(columns, sizes, strict=True):
        told[column] = values[start : start + size]
        _check_ascending(told[column], "values")
        start += size
    others = frozenset(_ascending(message.others, "others"))
    if not others <= told.keys():
        raise InvalidInput("vocabulary: others: must be columns of categories")
    return Vocabulary(told, others, frozenset(_ascending(message.indicators, "indicators")))


def vocabulary_asked_to_bytes() -> bytes:
    return alignment_pb2.VocabularyAsked().SerializeToString()


def vocabulary_asked_from_bytes(data: bytes) -> None:
    parsed_message(alignment_pb2.VocabularyAsked, data)


def vocabulary_given_to_bytes(sealed: bytes) -> bytes:
    return alignment_pb2.VocabularyGiven(sealed=sealed).SerializeToString()


def vocabulary_given_from_bytes(data: bytes) -> bytes:
    """The sealed vocabulary of a party."""
    sealed = parsed_message(alignment_pb2.VocabularyGiven, data).sealed
    if not 0 < len(sealed) <= MAX_SEALED_VOCABULARY_BYTES:
        raise InvalidInput(f"vocabulary: sealed: must have 1 to {MAX_SEALED_VOCABULARY_BYTES} bytes")
    return sealed


def start_vocabularies_from_bytes(body: bytes) -> dict[ClientId, bytes]:
    """The sealed vocabularies, by party, that the task of `align_0` has."""
    message = parsed_message(alignment_pb2.AlignmentStart, body)
    if len(message.vocabularies) > MAX_CLIENTS:
        raise InvalidInput(f"alignment start: vocabularies: more than {MAX_CLIENTS}")
    sealed = {ClientId(given.party): given.sealed for given in message.vocabularies}
    if len(sealed) != len(message.vocabularies):
        raise InvalidInput("alignment start: vocabularies: a party is named twice")
    return sealed


def _ascending(data: bytes, field: str) -> tuple[str, ...]:
    names = names_from_bytes(data, most=MAX_FEATURES, field=f"vocabulary: {field}")
    _check_ascending(names, field)
    return names


def _check_ascending(names: Sequence[str], field: str) -> None:
    if any(one >= other for one, other in pairwise(names)):
        raise InvalidInput(f"vocabulary: {field}: must be ascending, none of them twice")
