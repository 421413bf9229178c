"""Vectors on the wire."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fenchel.v1 import vectors_pb2
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import EncryptedVector, Vector
from fenchel_common.crypto.words import MaskedVector, PlainVector, word_type
from fenchel_common.errors import IncompatibleVectors, MalformedVector

SHORT_BITS = 32
"""Values in clear take 4 bytes each in a format of this width, 8 in any other."""
TAG_BYTES = 16
"""A tag beside a block of words: the sum of the tags of at most 2^39 blocks."""


def format_to_proto(vector_format: VectorFormat) -> vectors_pb2.VectorFormat:
    return vectors_pb2.VectorFormat(
        slot_bits=vector_format.slot_bits, bound=vector_format.bound, shares=vector_format.shares
    )


def format_from_proto(message: vectors_pb2.VectorFormat) -> VectorFormat:
    if not message.bound > 0:
        raise MalformedVector("the format of a vector has no bound")
    made = VectorFormat(slot_bits=message.slot_bits, bound=message.bound, shares=message.shares)
    if made.bound < made.resolution:
        raise MalformedVector("the format of a vector holds no value but 0")
    return made


def vector_to_proto(vector: Vector) -> vectors_pb2.Vector:
    if isinstance(vector, EncryptedVector):
        encrypted = vectors_pb2.EncryptedVector(
            format=format_to_proto(vector.format),
            length=vector.length,
            terms=vector.terms,
            key_fingerprint=vector.key.fingerprint,
            ciphertexts=vector.ciphertexts,
        )
        return vectors_pb2.Vector(encrypted=encrypted)
    if isinstance(vector, MaskedVector):
        masked = vectors_pb2.MaskedVector(
            format=format_to_proto(vector.format),
            terms=vector.terms,
            words=vector.integers.astype(_on_wire(vector.format)).tobytes(),
            tags=_tags_to_bytes(vector.tags),
        )
        return vectors_pb2.Vector(masked=masked)
    if not isinstance(vector, PlainVector):
        raise IncompatibleVectors(f"a {type(vector).__name__} has no form on the wire")
    plain = vectors_pb2.PlainVector(
        format=format_to_proto(vector.format),
        terms=vector.terms,
        tags=_tags_to_bytes(vector.tags),
    )
    if vector.format.slot_bits == SHORT_BITS:
        plain.short_values = vector.integers.astype("<i4").tobytes()
    else:
        plain.values = vector.integers.astype("<i8").tobytes()
    return vectors_pb2.Vector(plain=plain)


def vector_from_proto(message: vectors_pb2.Vector, key: RunKey) -> Vector:
    """A validated vector, encrypted, masked or in clear as its key says."""
    if key.public is not None:
        if message.WhichOneof("kind") != "encrypted":
            raise IncompatibleVectors("this run is encrypted, but the vector is not")
        encrypted = message.encrypted
        return EncryptedVector.received(
            key=key.public,
            fingerprint=encrypted.key_fingerprint,
            vector_format=format_from_proto(encrypted.format),
            length=encrypted.length,
            terms=encrypted.terms,
            ciphertexts=encrypted.ciphertexts,
        )
    if key.masked:
        return _masked_from_proto(message, key)
    if message.WhichOneof("kind") != "plain":
        raise IncompatibleVectors("this run is in clear, but the vector is encrypted")
    plain = message.plain
    vector_format = format_from_proto(plain.format)
    short = vector_format.slot_bits == SHORT_BITS
    values, width = (plain.short_values, 4) if short else (plain.values, 8)
    if len(values) % width or len(plain.values if short else plain.short_values):
        raise MalformedVector(f"the values of a plain vector of this format must have {width} bytes each")
    integers = np.frombuffer(values, dtype=f"<i{width}").astype(np.int64, copy=False)
    return PlainVector(key.bits, vector_format, plain.terms, integers, _tags_from_bytes(plain.tags))


def _masked_from_proto(message: vectors_pb2.Vector, key: RunKey) -> MaskedVector:
    if message.WhichOneof("kind") != "masked":
        raise IncompatibleVectors("this run is masked, but the vector is not")
    masked = message.masked
    vector_format = format_from_proto(masked.format)
    on_wire = _on_wire(vector_format)
    if len(masked.words) % on_wire.itemsize:
        raise MalformedVector("the words of a masked vector are not a whole number of words")
    words = np.frombuffer(masked.words, dtype=on_wire).astype(word_type(vector_format), copy=False)
    return MaskedVector(key.bits, vector_format, masked.terms, words, _tags_from_bytes(masked.tags))


def _on_wire(vector_format: VectorFormat) -> np.dtype[Any]:
    return word_type(vector_format).newbyteorder("<")


def _tags_to_bytes(tags: Sequence[int]) -> bytes:
    return b"".join(tag.to_bytes(TAG_BYTES, "little") for tag in tags)


def _tags_from_bytes(data: bytes) -> tuple[int, ...]:
    if len(data) % TAG_BYTES:
        raise MalformedVector(f"tags must have {TAG_BYTES} bytes each")
    return tuple(int.from_bytes(data[start : start + TAG_BYTES], "little") for start in range(0, len(data), TAG_BYTES))


def vector_to_bytes(vector: Vector) -> bytes:
    return vector_to_proto(vector).SerializeToString(deterministic=True)
