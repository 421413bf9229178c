from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel.v1 import vectors_pb2
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.keys import KeyKind
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import EncryptedVector, PlainCipher, join, total
from fenchel_common.errors import (
    ChecksumMismatch,
    IncompatibleVectors,
    InvalidCiphertext,
    MalformedVector,
    TooManyTerms,
    ValueNotFinite,
    ValueOutOfRange,
    WrongKey,
)
from fenchel_common.wire.vectors import vector_from_proto, vector_to_bytes, vector_to_proto
from support.keys import SMALL_BITS, cipher, run_key

CIPHERS = {
    "plain": PlainCipher(2048),
    "2048": cipher(2048),
    "2048 subgroup": cipher(2048, KeyKind.SUBGROUP),
    "3072": cipher(3072),
    "small": cipher(SMALL_BITS),
}
EACH_CIPHER = pytest.mark.parametrize("cipher", CIPHERS.values(), ids=CIPHERS)
FORMAT = VectorFormat()


def values(count: int, seed: int = 0) -> NDArray[np.float64]:
    return FORMAT.dequantise(FORMAT.quantise(np.random.default_rng(seed).normal(scale=1e3, size=count)))


@EACH_CIPHER
@pytest.mark.parametrize("count", [0, 1, 30, 31, 32, 100])
def test_encryption_round_trips(cipher: Any, count: int) -> None:
    assert (cipher.decrypt(cipher.encrypt(values(count), FORMAT)) == values(count)).all()


@EACH_CIPHER
def test_sums_and_multiples_are_exact(cipher: Any) -> None:
    a, b = values(40, 1), values(40, 2)
    left, right = cipher.encrypt(a, FORMAT), cipher.encrypt(b, FORMAT)
    assert (cipher.decrypt(left.plus(right)) == a + b).all()
    assert (cipher.decrypt(left.scale(-7)) == -7 * a).all()
    assert (cipher.decrypt(total([left, right, left])) == 2 * a + b).all()
    assert [left.plus(right).terms, left.scale(-7).terms] == [2, 7]
    assert total([left, right, left]).terms == 3


@EACH_CIPHER
def test_blocks_can_be_selected_and_joined(cipher: Any) -> None:
    a = values(3 * cipher.slots)
    vector = cipher.encrypt(a, FORMAT)
    assert vector.block_count == 3
    grid = a.reshape(3, cipher.slots)
    assert (cipher.decrypt(vector.select([2, 0])) == np.concatenate([grid[2], grid[0]])).all()
    partial = cipher.encrypt(a[:2], FORMAT)
    joined = join([vector.scale(2), partial])
    assert (cipher.decrypt(joined) == np.concatenate([2 * a, a[:2]])).all()
    assert joined.terms == 2
    assert (cipher.decrypt(joined.select([0, 3])) == np.concatenate([2 * grid[0], a[:2]])).all()


@EACH_CIPHER
def test_a_partly_filled_block_stays_last(cipher: Any) -> None:
    vector = cipher.encrypt(values(cipher.slots + 1), FORMAT)
    with pytest.raises(IncompatibleVectors, match="partly filled"):
        vector.select([1, 0])
    with pytest.raises(IncompatibleVectors, match="partly filled"):
        join([vector, vector])
    with pytest.raises(IncompatibleVectors, match="no block outside 0 to 1"):
        vector.select([2])
    with pytest.raises(IncompatibleVectors, match="no vector"):
        total([])


@EACH_CIPHER
def test_too_many_terms_are_refused_before_the_sum(cipher: Any) -> None:
    vector = cipher.encrypt(values(3), FORMAT)
    full = vector.scale(1024)
    with pytest.raises(TooManyTerms):
        full.plus(vector)
    with pytest.raises(TooManyTerms):
        total([full, vector])
    with pytest.raises(TooManyTerms):
        vector.scale(-1025)


@EACH_CIPHER
def test_values_that_cannot_be_encoded_are_refused_before_encryption(cipher: Any) -> None:
    with pytest.raises(ValueNotFinite):
        cipher.encrypt(np.array([np.nan]), FORMAT)
    with pytest.raises(ValueOutOfRange):
        cipher.encrypt(np.array([2.0]), VectorFormat(bound=2.0))


@EACH_CIPHER
def test_zero_is_no_factor(cipher: Any) -> None:
    """c⁰ = 1 would be an encryption of zero that everybody recognises."""
    with pytest.raises(ValueOutOfRange):
        cipher.encrypt(values(3), FORMAT).scale(0)


@EACH_CIPHER
def test_vectors_of_unequal_shape_are_not_combined(cipher: Any) -> None:
    vector = cipher.encrypt(values(4), FORMAT)
    for other in (cipher.encrypt(values(5), FORMAT), cipher.encrypt(values(4), VectorFormat(slot_bits=48))):
        with pytest.raises(IncompatibleVectors):
            vector.plus(other)
        with pytest.raises(IncompatibleVectors):
            total([vector, other])


def test_plain_and_encrypted_vectors_are_not_mixed() -> None:
    plain, encrypted = PlainCipher(2048).encrypt(values(4), FORMAT), cipher().encrypt(values(4), FORMAT)
    for left, right in ((plain, encrypted), (encrypted, plain)):
        with pytest.raises(IncompatibleVectors):
            total([left, right])
        with pytest.raises(IncompatibleVectors):
            join([left, right])
    with pytest.raises(IncompatibleVectors):
        cipher().decrypt(plain)
    with pytest.raises(IncompatibleVectors):
        PlainCipher(2048).decrypt(encrypted)
    with pytest.raises(IncompatibleVectors):
        vector_from_proto(vector_to_proto(plain), run_key())
    with pytest.raises(IncompatibleVectors):
        vector_from_proto(vector_to_proto(encrypted), RunKey.in_clear(2048))


def test_vectors_under_different_keys_are_not_mixed() -> None:
    key = generate_private_key(SMALL_BITS, test_only_small=True)
    stranger = PaillierCipher(key, ObfuscatorPool(key))
    ours, theirs = cipher(SMALL_BITS).encrypt(values(3), FORMAT), stranger.encrypt(values(3), FORMAT)
    with pytest.raises(WrongKey):
        ours.plus(theirs)
    with pytest.raises(WrongKey):
        total([ours, theirs])
    with pytest.raises(WrongKey):
        join([ours, theirs])
    with pytest.raises(WrongKey):
        cipher(SMALL_BITS).decrypt(theirs)
    with pytest.raises(WrongKey, match=key.public_key.short_fingerprint):
        vector_from_proto(vector_to_proto(theirs), RunKey.of(ours.key))


@EACH_CIPHER
def test_vectors_survive_the_wire(cipher: Any) -> None:
    vector = cipher.encrypt(values(40), FORMAT).scale(3)
    key = RunKey.of(vector.key) if isinstance(vector, EncryptedVector) else RunKey.in_clear(2048)
    again = vector_from_proto(vector_to_proto(vector), key)
    assert (cipher.decrypt(again) == 3 * values(40)).all()
    assert (again.terms, again.length, again.format) == (3, 40, FORMAT)


def rebuilt(vector: EncryptedVector, **changes: Any) -> EncryptedVector:
    fields: dict[str, Any] = {
        "key": vector.key,
        "fingerprint": vector.key.fingerprint,
        "vector_format": vector.format,
        "length": vector.length,
        "terms": vector.terms,
        "ciphertexts": vector.ciphertexts,
    }
    return EncryptedVector.received(**(fields | changes))


def test_received_vectors_are_validated() -> None:
    vector = cipher(SMALL_BITS).encrypt(values(9), FORMAT)
    assert rebuilt(vector) == vector
    width = vector.key.ciphertext_bytes
    modulus = vector.key.n.to_bytes(width, "little")
    cases: list[tuple[type[Exception], dict[str, Any]]] = [
        (MalformedVector, {"ciphertexts": vector.ciphertexts[:-1]}),
        (MalformedVector, {"ciphertexts": vector.ciphertexts[:-width]}),
        (MalformedVector, {"length": 10}),
        (InvalidCiphertext, {"ciphertexts": bytes(width) + vector.ciphertexts[width:]}),
        (InvalidCiphertext, {"ciphertexts": b"\xff" * width + vector.ciphertexts[width:]}),
        (InvalidCiphertext, {"ciphertexts": modulus + vector.ciphertexts[width:]}),
        (TooManyTerms, {"terms": 0}),
        (TooManyTerms, {"terms": 1025}),
        (WrongKey, {"fingerprint": bytes(32)}),
    ]
    for error, changes in cases:
        with pytest.raises(error):
            rebuilt(vector, **changes)


def test_a_message_without_a_vector_is_refused() -> None:
    with pytest.raises(IncompatibleVectors):
        vector_from_proto(vectors_pb2.Vector(), run_key())


def test_a_ciphertext_of_something_else_is_detected_not_returned() -> None:
    vector = cipher().encrypt(values(31), FORMAT)
    shifted = rebuilt(vector, ciphertexts=(7).to_bytes(vector.key.ciphertext_bytes, "little"))
    with pytest.raises(ChecksumMismatch):
        cipher().decrypt(shifted)


def test_understated_terms_are_detected() -> None:
    vector = cipher().encrypt(np.full(31, 2.0**20), FORMAT).scale(8)
    with pytest.raises(ChecksumMismatch):
        cipher().decrypt(rebuilt(vector, terms=1))


def test_equal_values_encrypt_to_unequal_ciphertexts() -> None:
    vector = cipher().encrypt(np.zeros(2 * cipher().slots), FORMAT)
    width = vector.key.ciphertext_bytes
    assert vector.ciphertexts[:width] != vector.ciphertexts[width:]


def test_reprs_show_no_values() -> None:
    for vector in (cipher().encrypt(np.array([1.25]), FORMAT), PlainCipher(2048).encrypt(np.array([1.25]), FORMAT)):
        assert "1.25" not in repr(vector)
        assert str(2**32 + 2**30) not in repr(vector)


def test_bytes_per_value_are_those_of_the_design() -> None:
    for bits, limit in ((2048, 16.6), (3072, 16.4)):
        count = 40 * cipher(bits).slots
        assert len(vector_to_bytes(cipher(bits).encrypt(values(count), FORMAT))) / count <= limit
