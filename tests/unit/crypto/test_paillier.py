import pytest
from gmpy2 import mpz

from fenchel_common.crypto import paillier
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.errors import InvalidCiphertext, KeyTooSmall, MalformedVector
from support.keys import SMALL_BITS, private_key

KEY = private_key(SMALL_BITS)
PUBLIC = KEY.public_key
WIDTH = PUBLIC.ciphertext_bytes


def buffer(*numbers: int) -> bytes:
    return paillier.concatenate([mpz(number) for number in numbers], WIDTH)


def encrypted(*plaintexts: int) -> bytes:
    """Textbook encryption with the fixed nonces 2, 3, 4…"""
    n, n_squared = PUBLIC.n, PUBLIC.n_squared
    return buffer(
        *(int((1 + m * n) * pow(r, int(n), int(n_squared)) % n_squared) for r, m in enumerate(plaintexts, start=2))
    )


def decrypted(ciphertexts: bytes) -> list[int]:
    return [int(m) for m in KEY.raw_decrypt(paillier.split(ciphertexts, WIDTH))]


def test_a_key_below_2048_bits_is_refused_unless_it_is_marked_as_a_test_key() -> None:
    with pytest.raises(KeyTooSmall, match="at least 2048"):
        PublicKey(mpz(1) << 1023 | 1)
    assert PublicKey(mpz(1) << 1023 | 1, test_only_small=True).bits == 1024


def test_a_public_key_survives_its_bytes_and_keeps_its_fingerprint() -> None:
    again = PublicKey.from_bytes(PUBLIC.to_bytes(), test_only_small=True)
    assert again.n == PUBLIC.n
    assert again.fingerprint == PUBLIC.fingerprint
    assert len(again.fingerprint) == 32


@pytest.mark.parametrize("data", [b"", b"\x05\x00", b"\x04"], ids=["empty", "leading zero", "even"])
def test_bytes_that_are_no_modulus_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedVector):
        PublicKey.from_bytes(data, test_only_small=True)


def test_different_keys_have_different_fingerprints() -> None:
    assert PUBLIC.fingerprint != PublicKey(PUBLIC.n + 2, test_only_small=True).fingerprint


def test_ciphertexts_are_fixed_width_little_endian() -> None:
    assert buffer(1, 258)[:3] == b"\x01\x00\x00"
    assert buffer(1, 258)[WIDTH : WIDTH + 2] == b"\x02\x01"
    assert len(buffer(1, 258)) == 2 * WIDTH


def test_addition_acts_on_the_plaintexts() -> None:
    left, right = encrypted(5, -7), encrypted(11, 13)
    assert decrypted(paillier.add_many(PUBLIC, [left, right])) == [16, 6]
    assert decrypted(paillier.add_many(PUBLIC, [left, right, right])) == [27, 19]


def test_valid_ciphertexts_pass() -> None:
    paillier.validate(PUBLIC, encrypted(1, 2, 3))
    paillier.validate(PUBLIC, b"")


@pytest.mark.parametrize(
    ("ciphertexts", "error", "message"),
    [
        (encrypted(1)[:-1], MalformedVector, "cut or padded"),
        (encrypted(1) + b"\0", MalformedVector, "cut or padded"),
        (encrypted(1) + buffer(0), InvalidCiphertext, "ciphertext 1 is zero"),
        (encrypted(1) + buffer(int(PUBLIC.n_squared)), InvalidCiphertext, "ciphertext 1 is not below n²"),
        (b"\xff" * WIDTH, InvalidCiphertext, "not below n²"),
        (encrypted(1) + buffer(int(PUBLIC.n)), InvalidCiphertext, "shares a factor"),
        (buffer(int(KEY.secret_primes()[0].value)) + encrypted(1), InvalidCiphertext, "shares a factor"),
    ],
    ids=["truncated", "padded", "zero", "n squared", "all ones", "multiple of n", "multiple of p"],
)
def test_validation_names_what_is_wrong(ciphertexts: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        paillier.validate(PUBLIC, ciphertexts)
