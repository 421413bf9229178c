"""What a dishonest server can do to the vectors and records that pass through its hands, without any key."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from gmpy2 import powmod
from google.protobuf.message import Message

from fenchel.v1 import vectors_pb2
from fenchel_common.crypto import paillier
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.tags import TAG_PRIME
from fenchel_common.crypto.vectors import EncryptedVector, Vector
from fenchel_common.crypto.words import PlainVector
from fenchel_common.ids import ClientId
from fenchel_common.records import Record
from fenchel_common.wire.records import (
    record_from_bytes,
    record_to_bytes,
    round_task_from_bytes,
    round_task_to_bytes,
)
from fenchel_common.wire.vectors import vector_from_proto, vector_to_proto
from support.halves import Tampering

Forgery = Callable[[Vector], Vector]


def left_out(vector: Vector) -> Vector:
    """Zeros in the place of a contribution: the sum lacks it."""
    if isinstance(vector, PlainVector):
        return replace(vector, integers=np.zeros_like(vector.integers), tags=(0,) * len(vector.tags))
    assert isinstance(vector, EncryptedVector)
    zero = _encrypted(vector.key, 0)
    return replace(vector, ciphertexts=paillier.concatenate([zero] * vector.block_count, vector.key.ciphertext_bytes))


def doubled(vector: Vector) -> Vector:
    """The contribution counted twice, under the claim that it was counted once; tags in clear are reduced to fit."""
    if isinstance(vector, PlainVector):
        return replace(vector, integers=2 * vector.integers, tags=tuple(2 * tag % TAG_PRIME for tag in vector.tags))
    assert isinstance(vector, EncryptedVector)
    return replace(vector, ciphertexts=paillier.add_many(vector.key, [vector.ciphertexts, vector.ciphertexts]))


def nudged(vector: Vector) -> Vector:
    """One unit of fixed point added to the first value of each block."""
    if isinstance(vector, PlainVector):
        integers = vector.integers.copy()
        integers[:: vector.slots] += 1
        return replace(vector, integers=integers)
    assert isinstance(vector, EncryptedVector)
    ones = paillier.concatenate([_encrypted(vector.key, 1)] * vector.block_count, vector.key.ciphertext_bytes)
    return replace(vector, ciphertexts=paillier.add_many(vector.key, [vector.ciphertexts, ones]))


FORGERIES: Final[dict[str, Forgery]] = {"left out": left_out, "doubled": doubled, "nudged": nudged}


def altered(kind: type[Message], field: str, forgery: Forgery, key: RunKey) -> Tampering:
    """A result in which one field is forged."""

    def tamper(body: bytes) -> bytes:
        message = kind.FromString(body)
        proto = vector_in(message, field)
        proto.CopyFrom(vector_to_proto(forgery(read_vector(proto, key))))
        return message.SerializeToString()

    return tamper


def exchanged(kind: type[Message], field: str, source: Callable[[], bytes]) -> Tampering:
    """A result in which one field is that of another result, which is there by then."""

    def tamper(body: bytes) -> bytes:
        message = kind.FromString(body)
        vector_in(message, field).CopyFrom(vector_in(kind.FromString(source()), field))
        return message.SerializeToString()

    return tamper


def vector_in(message: Any, field: str) -> vectors_pb2.Vector:
    """The vector in a field of a message, named with its path."""
    for name in field.split("."):
        message = getattr(message, name)
    found = message if isinstance(message, vectors_pb2.Vector) else message.vector
    assert isinstance(found, vectors_pb2.Vector)
    return found


def read_vector(proto: vectors_pb2.Vector, key: RunKey) -> Vector:
    in_clear = proto.WhichOneof("kind") == "plain"
    return vector_from_proto(proto, RunKey.in_clear(key.bits) if in_clear else key)


def with_records(change: Callable[[list[Record]], Sequence[Record]], clients: Sequence[ClientId]) -> Tampering:
    """A task whose records are changed; its body stays as it was."""

    def forge(task: bytes) -> bytes:
        first, records, body = round_task_from_bytes(task)
        told = change([record_from_bytes(data, clients) for data in records])
        return round_task_to_bytes(body, first=first, records=[record_to_bytes(record, clients) for record in told])

    return forge


def with_body(change: Tampering) -> Tampering:
    """A task whose body is changed; its records stay as they were."""

    def forge(task: bytes) -> bytes:
        first, records, body = round_task_from_bytes(task)
        return round_task_to_bytes(change(body), first=first, records=records)

    return forge


def _encrypted(key: PublicKey, plaintext: int) -> Any:
    """Anybody with the public key can encrypt; the tag field of the plaintext is zero."""
    return (1 + plaintext * key.n) * powmod(2, key.n, key.n_squared) % key.n_squared
