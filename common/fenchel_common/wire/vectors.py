"""Vectors on the wire."""

import numpy as np

from fenchel.v1 import vectors_pb2
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import EncryptedVector, Vector
from fenchel_common.crypto.words import PlainVector
from fenchel_common.errors import IncompatibleVectors, MalformedVector

SHORT_BITS = 32
"""Values in clear take 4 bytes each in a format of this width, 8 in any other."""
TAG_BYTES = 16
"""A tag of a block in clear: the sum of the tags of at most 2^39 blocks."""


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
    if not isinstance(vector, PlainVector):
        raise IncompatibleVectors(f"a {type(vector).__name__} has no form on the wire")
    plain = vectors_pb2.PlainVector(
        format=format_to_proto(vector.format),
        terms=vector.terms,
        tags=b"".join(tag.to_bytes(TAG_BYTES, "little") for tag in vector.tags),
    )
    if vector.format.slot_bits == SHORT_BITS:
        plain.short_values = vector.integers.astype("<i4").tobytes()
    else:
        plain.values = vector.integers.astype("<i8").tobytes()
    return vectors_pb2.Vector(plain=plain)


def vector_from_proto(message: vectors_pb2.Vector, key: RunKey) -> Vector:
    """A validated vector, encrypted or in clear as its key says."""
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
    if message.WhichOneof("kind") != "plain":
        raise IncompatibleVectors("this run is in clear, but the vector is encrypted")
    plain = message.plain
    vector_format = format_from_proto(plain.format)
    short = vector_format.slot_bits == SHORT_BITS
    values, width = (plain.short_values, 4) if short else (plain.values, 8)
    if len(values) % width or len(plain.values if short else plain.short_values):
        raise MalformedVector(f"the values of a plain vector of this format must have {width} bytes each")
    if len(plain.tags) % TAG_BYTES:
        raise MalformedVector(f"the tags of a plain vector must have {TAG_BYTES} bytes each")
    integers = np.frombuffer(values, dtype=f"<i{width}").astype(np.int64)
    tags = tuple(
        int.from_bytes(plain.tags[start : start + TAG_BYTES], "little")
        for start in range(0, len(plain.tags), TAG_BYTES)
    )
    return PlainVector(key.bits, vector_format, plain.terms, integers, tags)


def vector_to_bytes(vector: Vector) -> bytes:
    return vector_to_proto(vector).SerializeToString(deterministic=True)
