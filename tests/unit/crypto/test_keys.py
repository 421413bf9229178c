import copy
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from gmpy2 import mpz
from phe import paillier as phe

from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.interop import (
    private_key_from_phe,
    private_key_to_phe,
    public_key_from_phe,
    public_key_to_phe,
)
from fenchel_client.crypto.keyfile import private_key_from_bytes, private_key_to_bytes
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.keys import KeyKind, PrivateKey, SecretPrime
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.privatefiles import read_private, write_private
from fenchel_common.crypto.paillier import split
from fenchel_common.crypto.vectors import EncryptedVector, total
from fenchel_common.errors import KeyFileError, KeyTooSmall
from support.keys import SMALL_BITS, cipher, private_key
from support.keys import tags as block_tags
from support.tagged import ORIGIN, PLACE, decrypted, encrypted

KINDS = pytest.mark.parametrize("kind", KeyKind)


@KINDS
@pytest.mark.parametrize("bits", [256, 512, 2048])
def test_keys_have_exactly_the_bits_asked_for(bits: int, kind: KeyKind) -> None:
    for _ in range(3):
        key = generate_private_key(bits, kind, test_only_small=bits < 2048)
        assert key.public_key.bits == bits
        assert key.kind is kind


def test_the_default_is_3072_bits_and_standard() -> None:
    key = generate_private_key()
    assert (key.public_key.bits, key.kind) == (3072, KeyKind.STANDARD)


@pytest.mark.parametrize("bits", [512, 1024, 2032])
def test_small_keys_are_refused_outside_tests(bits: int) -> None:
    with pytest.raises(KeyTooSmall, match="2048"):
        generate_private_key(bits)


def test_subgroup_orders_are_256_bit_primes_that_do_not_meet() -> None:
    p, q = private_key(2048, KeyKind.SUBGROUP).secret_primes()
    for own, other in ((p, q), (q, p)):
        order = own.large_factors[0]
        assert order.bit_length() == 256
        assert (own.value - 1) % order == 0
        assert (other.value - 1) % order != 0


@KINDS
def test_a_key_survives_its_file(tmp_path: Path, kind: KeyKind) -> None:
    key = private_key(2048, kind)
    write_private(tmp_path / "key.json", private_key_to_bytes(key))
    again = private_key_from_bytes(read_private(tmp_path / "key.json"))
    assert (again.public_key.n, again.kind) == (key.public_key.n, kind)
    assert again.secret_primes() == key.secret_primes()


def test_a_key_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    before = os.umask(0)
    try:
        write_private(path, private_key_to_bytes(private_key()))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["key.json"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_file_that_others_can_read_is_refused_with_the_cure(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key.json"
    write_private(path, private_key_to_bytes(private_key()))
    path.chmod(mode)
    with pytest.raises(KeyFileError, match="chmod 600"):
        read_private(path)


def test_a_missing_key_file_is_an_error_of_the_tree(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"absent\.json cannot be read"):
        read_private(tmp_path / "absent.json")


def damaged(**changes: object) -> bytes:
    return json.dumps(json.loads(private_key_to_bytes(private_key())) | changes).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1, 2]",
        private_key_to_bytes(private_key())[:-9],
        damaged(version=2),
        damaged(kind="other"),
        damaged(kind="subgroup", p={"value": "0x7", "large_factors": []}),
        damaged(p={"value": "0x9", "large_factors": []}),
        damaged(p=json.loads(private_key_to_bytes(private_key()))["q"]),
        damaged(p=json.loads(private_key_to_bytes(private_key()))["p"] | {"large_factors": [hex(2**61 - 1)]}),
    ],
    ids=["empty", "no fields", "a list", "cut", "version", "kind", "subgroup", "composite", "p = q", "wrong factor"],
)
def test_a_damaged_key_is_refused_without_showing_it(data: bytes) -> None:
    with pytest.raises(KeyFileError) as caught:
        private_key_from_bytes(data)
    message = str(caught.value)
    assert not any(hex(prime.value)[2:20] in message for prime in private_key().secret_primes())
    assert caught.value.__cause__ is None


def test_a_small_key_is_not_loaded_by_accident() -> None:
    data = private_key_to_bytes(private_key(SMALL_BITS))
    with pytest.raises(KeyTooSmall):
        private_key_from_bytes(data)
    assert private_key_from_bytes(data, test_only_small=True).public_key.bits == SMALL_BITS


@KINDS
def test_no_representation_shows_a_private_part(kind: KeyKind) -> None:
    key = private_key(2048, kind)
    holders = [key, key.secret_primes(), cipher(2048, kind), ObfuscatorPool(key), cipher(2048, kind).pool.take(1)]
    secrets = [number for prime in key.secret_primes() for number in (prime.value, *prime.large_factors)]
    for holder in holders:
        for text in (repr(holder), str(holder), f"{holder}"):
            assert not any(str(number)[:12] in text or hex(number)[2:14] in text for number in secrets)


def test_private_keys_are_not_pickled_or_copied_by_accident() -> None:
    for secret in (private_key(), private_key().secret_primes()[0]):
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                attempt(secret)
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        pickle.dumps(cipher())


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_decryption_gives_the_same_on_any_number_of_threads(threads: int, count: int) -> None:
    key = private_key()
    plaintexts = [mpz(i) - 3 for i in range(count)]
    n, n_squared = key.public_key.n, key.public_key.n_squared
    ciphertexts = [(1 + m * n) * pow(mpz(5 + i), n, n_squared) % n_squared for i, m in enumerate(plaintexts)]
    assert key.raw_decrypt(ciphertexts, threads=threads) == plaintexts


@KINDS
def test_phe_decrypts_what_we_encrypt(kind: KeyKind) -> None:
    ours = cipher(2048, kind)
    vector = total([encrypted(ours, np.array([1.5, -2.25]))] * 3)
    assert isinstance(vector, EncryptedVector)
    theirs = private_key_to_phe(ours.key)
    plaintext = theirs.raw_decrypt(int(split(vector.ciphertexts, vector.key.ciphertext_bytes)[0]))
    signed = plaintext - theirs.public_key.n if plaintext > theirs.public_key.n // 2 else plaintext
    grid, tags = vector.layout.unpack([mpz(signed)])
    block_tags().check(grid, tags, block_tags().expected([[ORIGIN] * 3], [PLACE]))
    assert (grid[0, :2] == np.array([4.5, -6.75]) * 2**32).all()


def test_we_decrypt_what_phe_encrypts() -> None:
    key = private_key()
    public = public_key_to_phe(key.public_key)
    ciphertexts = [mpz(public.raw_encrypt(m % public.n)) for m in (0, 12345, -9876543210)]
    assert key.raw_decrypt(ciphertexts) == [0, 12345, -9876543210]


def test_a_key_of_phe_works_here_and_its_vectors_decrypt_there() -> None:
    public, private = phe.generate_paillier_keypair(n_length=2048)
    key = private_key_from_phe(private)
    assert public_key_from_phe(public) == key.public_key
    imported = PaillierCipher(key, ObfuscatorPool(key), block_tags())
    vector = encrypted(imported, np.array([3.5, -1.0]))
    assert isinstance(vector, EncryptedVector)
    grid = vector.layout.grid(vector.format.quantise(np.array([3.5, -1.0])))
    assert (decrypted(imported, vector) == [3.5, -1.0]).all()
    number = int(split(vector.ciphertexts, vector.key.ciphertext_bytes)[0])
    assert (
        private.raw_decrypt(number)
        == int(vector.layout.pack(grid, block_tags().made(grid, ORIGIN, [PLACE]))[0]) % public.n
    )


def test_two_equal_primes_are_no_key() -> None:
    prime = SecretPrime(private_key().secret_primes()[0].value)
    with pytest.raises(KeyFileError):
        PrivateKey(prime, prime)
