from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel.v1 import vectors_pb2
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.keys import KeyKind
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.plain import PlainCipher
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.tags import TAG_PRIME
from fenchel_common.crypto.vectors import EncryptedVector, join, total
from fenchel_common.crypto.words import PlainVector
from fenchel_common.errors import (
    IncompatibleVectors,
    InvalidCiphertext,
    MalformedVector,
    TagMismatch,
    TooManyTerms,
    ValueNotFinite,
    ValueOutOfRange,
    WrongKey,
)
from fenchel_common.wire.vectors import vector_from_proto, vector_to_bytes, vector_to_proto
from support.keys import SMALL_BITS, cipher, run_key
from support.keys import tags as block_tags
from support.tagged import FORMAT, ORIGIN, PLACE, decrypted, encrypted, opened

CIPHERS = {
    "plain": PlainCipher(2048),
    "plain with tags": PlainCipher(2048, block_tags()),
    "2048": cipher(2048),
    "2048 subgroup": cipher(2048, KeyKind.SUBGROUP),
    "3072": cipher(3072),
    "small": cipher(SMALL_BITS),
}
TAGGED = {name: used for name, used in CIPHERS.items() if name != "plain"}
EACH_CIPHER = pytest.mark.parametrize("cipher", CIPHERS.values(), ids=CIPHERS)
EACH_TAGGED = pytest.mark.parametrize("cipher", TAGGED.values(), ids=TAGGED)


def values(count: int, seed: int = 0) -> NDArray[np.float64]:
    return FORMAT.dequantise(FORMAT.quantise(np.random.default_rng(seed).normal(scale=1e3, size=count)))


@EACH_CIPHER
@pytest.mark.parametrize("count", [0, 1, 29, 30, 31, 100])
def test_encryption_round_trips(cipher: Any, count: int) -> None:
    assert (decrypted(cipher, encrypted(cipher, values(count))) == values(count)).all()


@EACH_CIPHER
def test_sums_are_exact(cipher: Any) -> None:
    a, b = values(40, 1), values(40, 2)
    left, right = encrypted(cipher, a), encrypted(cipher, b)
    assert (decrypted(cipher, left.plus(right)) == a + b).all()
    assert (decrypted(cipher, total([left, right, left])) == 2 * a + b).all()
    assert (left.plus(right).terms, total([left, right, left]).terms) == (2, 3)


@EACH_CIPHER
def test_blocks_can_be_selected_and_joined(cipher: Any) -> None:
    a = values(3 * cipher.slots)
    vector = encrypted(cipher, a)
    assert vector.block_count == 3
    grid = a.reshape(3, cipher.slots)
    assert (decrypted(cipher, vector.select([2, 0])) == np.concatenate([grid[2], grid[0]])).all()
    partial = encrypted(cipher, a[:2])
    joined = join([vector.plus(vector), partial])
    assert (opened(cipher, joined, [2, 2, 2, 1]) == np.concatenate([2 * a, a[:2]])).all()
    assert joined.terms == 2
    selected = opened(cipher, joined.select([0, 3]), [2, 1])
    assert (selected == np.concatenate([2 * grid[0], a[:2]])).all()


@EACH_CIPHER
def test_a_partly_filled_block_stays_last(cipher: Any) -> None:
    vector = encrypted(cipher, values(cipher.slots + 1))
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
    vector = encrypted(cipher, values(3))
    full = total([vector] * 1024)
    with pytest.raises(TooManyTerms):
        full.plus(vector)
    with pytest.raises(TooManyTerms):
        total([full, vector])


@EACH_CIPHER
def test_values_that_cannot_be_encoded_are_refused_before_encryption(cipher: Any) -> None:
    with pytest.raises(ValueNotFinite):
        encrypted(cipher, np.array([np.nan]))
    with pytest.raises(ValueOutOfRange):
        encrypted(cipher, np.array([2.0]), VectorFormat(bound=2.0))


@EACH_CIPHER
def test_vectors_of_unequal_shape_are_not_combined(cipher: Any) -> None:
    vector = encrypted(cipher, values(4))
    for other in (encrypted(cipher, values(5)), encrypted(cipher, values(4), VectorFormat(slot_bits=48))):
        with pytest.raises(IncompatibleVectors):
            vector.plus(other)
        with pytest.raises(IncompatibleVectors):
            total([vector, other])


def test_plain_and_encrypted_vectors_are_not_mixed() -> None:
    clear = PlainCipher(2048, block_tags())
    plain, secret = encrypted(clear, values(4)), encrypted(cipher(), values(4))
    for left, right in ((plain, secret), (secret, plain)):
        with pytest.raises(IncompatibleVectors):
            total([left, right])
        with pytest.raises(IncompatibleVectors):
            join([left, right])
    with pytest.raises(IncompatibleVectors):
        decrypted(cipher(), plain)
    with pytest.raises(IncompatibleVectors):
        decrypted(clear, secret)
    with pytest.raises(IncompatibleVectors):
        vector_from_proto(vector_to_proto(plain), run_key())
    with pytest.raises(IncompatibleVectors):
        vector_from_proto(vector_to_proto(secret), RunKey.in_clear(2048))


def test_vectors_with_tags_and_vectors_without_are_not_mixed() -> None:
    tagged, bare = encrypted(PlainCipher(2048, block_tags()), values(30)), encrypted(PlainCipher(2048), values(30))
    for left, right in ((tagged, bare), (bare, tagged)):
        with pytest.raises(IncompatibleVectors):
            total([left, right])
        with pytest.raises(IncompatibleVectors):
            join([left, right])
    with pytest.raises(TagMismatch):
        decrypted(PlainCipher(2048, block_tags()), bare)


def test_vectors_under_different_keys_are_not_mixed() -> None:
    key = generate_private_key(SMALL_BITS, test_only_small=True)
    stranger = PaillierCipher(key, ObfuscatorPool(key), block_tags(SMALL_BITS))
    ours, theirs = encrypted(cipher(SMALL_BITS), values(4)), encrypted(stranger, values(4))
    assert isinstance(ours, EncryptedVector)
    with pytest.raises(WrongKey):
        ours.plus(theirs)  # type: ignore[arg-type] # its class is known when it runs
    with pytest.raises(WrongKey):
        total([ours, theirs])
    with pytest.raises(WrongKey):
        join([ours, theirs])
    with pytest.raises(WrongKey):
        decrypted(cipher(SMALL_BITS), theirs)
    with pytest.raises(WrongKey, match=key.public_key.short_fingerprint):
        vector_from_proto(vector_to_proto(theirs), RunKey.of(ours.key))


@EACH_CIPHER
def test_vectors_survive_the_wire(cipher: Any) -> None:
    vector = total([encrypted(cipher, values(40))] * 3)
    key = RunKey.of(vector.key) if isinstance(vector, EncryptedVector) else RunKey.in_clear(2048)
    again = vector_from_proto(vector_to_proto(vector), key)
    assert (decrypted(cipher, again) == 3 * values(40)).all()
    assert (again.terms, again.length, again.format) == (3, 40, FORMAT)


@EACH_TAGGED
def test_only_the_expected_sum_is_opened(cipher: Any) -> None:
    vector = encrypted(cipher, values(2 * cipher.slots))
    twice = vector.plus(vector)
    cases: list[tuple[Any, list[int]]] = [
        (vector, [2, 2]),
        (twice, [1, 1]),
        (vector, [1]),
        (vector, [1, 1, 1]),
        (vector, []),
        (vector, [1, 2]),
    ]
    for given, terms in cases:
        with pytest.raises(TagMismatch, match="not the sum of the contributions"):
            opened(cipher, given, terms)
    elsewhere = [PLACE, replace(PLACE, index=1)]
    with pytest.raises(TagMismatch, match="not the sum of the contributions"):
        cipher.decrypt(vector, origins=[[ORIGIN]] * 2, places=elsewhere)
    assert (opened(cipher, twice, [2, 2]) == 2 * values(2 * cipher.slots)).all()


@EACH_TAGGED
def test_blocks_do_not_change_places(cipher: Any) -> None:
    places = [PLACE, replace(PLACE, index=1)]
    vector = cipher.encrypt(values(2 * cipher.slots), FORMAT, origin=ORIGIN, places=places)
    origins = [[ORIGIN]] * 2
    assert (cipher.decrypt(vector, origins=origins, places=places) == values(2 * cipher.slots)).all()
    with pytest.raises(TagMismatch):
        cipher.decrypt(vector.select([1, 0]), origins=origins, places=places)


def test_a_vector_in_clear_whose_value_was_changed_is_not_opened() -> None:
    """In a run of the level `paper`, the server reads vectors by feature, and may not change them."""
    clear = PlainCipher(2048, block_tags())
    vector = encrypted(clear, values(40))
    assert isinstance(vector, PlainVector)
    for position in (0, 29, 30, 39):
        integers = vector.integers.copy()
        integers[position] += 1
        with pytest.raises(TagMismatch):
            decrypted(clear, replace(vector, integers=integers))


def test_a_tag_in_clear_that_no_sum_has_is_refused_when_it_is_received() -> None:
    """A party could send a tag so large that the server's sum would not fit into its bytes."""
    vector = encrypted(PlainCipher(2048, block_tags()), values(4))
    assert isinstance(vector, PlainVector)
    for tags in ((TAG_PRIME,), (-1,)):
        with pytest.raises(MalformedVector):
            replace(vector, tags=tags)
    message = vector_to_proto(vector)
    message.plain.tags = b"\xff" * 16
    with pytest.raises(MalformedVector):
        vector_from_proto(message, RunKey.in_clear(2048))
    message.plain.tags = message.plain.tags[:-1]
    with pytest.raises(MalformedVector):
        vector_from_proto(message, RunKey.in_clear(2048))


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
    vector = encrypted(cipher(SMALL_BITS), values(9))
    assert isinstance(vector, EncryptedVector)
    assert rebuilt(vector) == vector
    width = vector.key.ciphertext_bytes
    modulus = vector.key.n.to_bytes(width, "little")
    cases: list[tuple[type[Exception], dict[str, Any]]] = [
        (MalformedVector, {"ciphertexts": vector.ciphertexts[:-1]}),
        (MalformedVector, {"ciphertexts": vector.ciphertexts[:-width]}),
        (MalformedVector, {"length": 11}),
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
    vector = encrypted(cipher(), values(30))
    assert isinstance(vector, EncryptedVector)
    shifted = rebuilt(vector, ciphertexts=(7).to_bytes(vector.key.ciphertext_bytes, "little"))
    with pytest.raises(TagMismatch):
        decrypted(cipher(), shifted)


def test_the_number_of_terms_is_the_openers_own_and_not_the_vectors() -> None:
    vector = encrypted(cipher(), values(30)).plus(encrypted(cipher(), values(30)))
    assert isinstance(vector, EncryptedVector)
    misstated = rebuilt(vector, terms=1)
    assert (decrypted(cipher(), misstated, terms=2) == 2 * values(30)).all()
    with pytest.raises(TagMismatch):
        decrypted(cipher(), misstated)


def test_padding_that_is_not_zero_is_refused() -> None:
    vector = encrypted(cipher(), np.ones(5))
    assert isinstance(vector, EncryptedVector)
    with pytest.raises(TagMismatch):
        decrypted(cipher(), rebuilt(vector, length=4))


def test_equal_values_encrypt_to_unequal_ciphertexts() -> None:
    vector = encrypted(cipher(), np.zeros(2 * cipher().slots))
    assert isinstance(vector, EncryptedVector)
    width = vector.key.ciphertext_bytes
    assert vector.ciphertexts[:width] != vector.ciphertexts[width:]


def test_reprs_show_no_values() -> None:
    for used in (cipher(), PlainCipher(2048, block_tags())):
        vector = encrypted(used, np.array([1.25]))
        assert "1.25" not in repr(vector)
        assert str(2**32 + 2**30) not in repr(vector)
        assert "tags" not in repr(vector)


def test_bytes_per_value_are_those_of_the_design() -> None:
    for bits, limit in ((2048, 17.2), (3072, 16.8)):
        count = 40 * cipher(bits).slots
        assert len(vector_to_bytes(encrypted(cipher(bits), values(count)))) / count <= limit
