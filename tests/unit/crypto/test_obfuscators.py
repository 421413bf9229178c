"""The nonces: in the right group, uniform, used once."""

import os
import threading
import weakref
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import replace

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from phe import paillier as phe
from scipy import stats

from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.fixed_base import FixedBase, shared_table
from fenchel_client.crypto.interop import private_key_from_phe
from fenchel_client.crypto.keys import KeyKind, PrivateKey, SecretPrime
from fenchel_client.crypto.obfuscators import ObfuscatorPool, primitive_root, residue_sampler
from fenchel_common.crypto.paillier import split
from fenchel_common.crypto.vectors import EncryptedVector
from support.keys import SMALL_BITS, cipher, private_key, tags
from support.tagged import decrypted, encrypted

KINDS = pytest.mark.parametrize("kind", KeyKind)


def order_modulo(prime: SecretPrime, kind: KeyKind) -> mpz:
    return prime.large_factors[0] if kind is KeyKind.SUBGROUP else prime.value - 1


@pytest.mark.parametrize("exponent_bits", [1, 8, 128, 256, 264, 1024, 1536, 2047])
def test_fixed_base_powers_equal_exponentiation(exponent_bits: int) -> None:
    modulus, largest = mpz(10) ** 40 + 121, 2**exponent_bits - 1
    table = FixedBase(mpz(7), modulus, mpz(largest))
    for exponent in (0, 1, largest // 256, largest // 3, largest - 1, largest):
        assert table.power(exponent) == pow(7, exponent, int(modulus))


def test_a_table_is_shared_as_long_as_somebody_holds_it() -> None:
    numbers = (mpz(7), mpz(10) ** 9 + 7, mpz(10) ** 9 + 6)
    table = shared_table(*numbers)
    assert shared_table(*numbers) is table
    assert shared_table(mpz(5), *numbers[1:]) is not table
    held = weakref.ref(table)
    del table
    assert held() is None


@KINDS
def test_nonces_are_nth_residues(kind: KeyKind) -> None:
    """ρ is an n-th residue modulo n² exactly when ρ^λ = 1, with λ = lcm(p − 1, q − 1)."""
    key = private_key(2048, kind)
    p, q = (prime.value for prime in key.secret_primes())
    for nonce in ObfuscatorPool(key).take(5):
        assert gmpy2.powmod(nonce.residue, gmpy2.lcm(p - 1, q - 1), key.public_key.n_squared) == 1
        assert nonce.residue_mod_n == nonce.residue % key.public_key.n
        assert gmpy2.gcd(nonce.residue, key.public_key.n) == 1


@KINDS
def test_the_generator_has_exactly_the_order_of_its_group(kind: KeyKind) -> None:
    for prime in private_key(2048, kind).secret_primes():
        order, p_squared = order_modulo(prime, kind), prime.value**2
        draw = residue_sampler(prime, kind)
        assert all(gmpy2.powmod(draw(), order, p_squared) == 1 for _ in range(3))
    root_of = private_key(2048).secret_primes()[0]
    root = primitive_root(root_of)
    assert gmpy2.powmod(root, root_of.value - 1, root_of.value) == 1
    assert gmpy2.powmod(root, (root_of.value - 1) // 2, root_of.value) == root_of.value - 1


def test_every_residue_of_a_tiny_group_is_hit_equally_often() -> None:
    """p = 47 has p − 1 = 2·23: the whole group of order 46 modulo 47² is visible, and must be uniform."""
    draw = residue_sampler(SecretPrime(mpz(47), (mpz(23),)), KeyKind.STANDARD)
    counts = Counter(int(draw()) for _ in range(46 * 200))
    group = {pow(y, 47, 47**2) for y in range(1, 47)}
    assert set(counts) == group
    assert stats.chisquare([counts[element] for element in group]).pvalue > 1e-9


def test_the_path_without_known_factors_is_uniform_on_the_same_group() -> None:
    draw = residue_sampler(SecretPrime(mpz(47)), KeyKind.STANDARD)
    counts = Counter(int(draw()) for _ in range(46 * 200))
    assert set(counts) == {pow(y, 47, 47**2) for y in range(1, 47)}
    assert stats.chisquare(list(counts.values())).pvalue > 1e-9


def test_a_subgroup_is_hit_equally_often() -> None:
    draw = residue_sampler(SecretPrime(mpz(47), (mpz(23),)), KeyKind.SUBGROUP)
    counts = Counter(int(draw()) for _ in range(23 * 200))
    assert len(counts) == 23
    assert all(pow(element, 23, 47**2) == 1 for element in counts)
    assert stats.chisquare(list(counts.values())).pvalue > 1e-9


@KINDS
def test_nonces_of_real_keys_look_uniform(kind: KeyKind) -> None:
    key = private_key(2048, kind)
    pool = ObfuscatorPool(key)
    fractions = [float(gmpy2.mpfr(nonce.residue) / gmpy2.mpfr(key.public_key.n_squared)) for nonce in pool.take(400)]
    assert stats.kstest(fractions, "uniform").pvalue > 1e-9


def test_half_of_the_nonces_are_squares_modulo_each_prime() -> None:
    """Were the base a square, every nonce would be one, and plaintexts would show in the residue symbol."""
    key = private_key(SMALL_BITS)
    nonces = ObfuscatorPool(key).take(400)
    for prime in key.secret_primes():
        squares = sum(gmpy2.legendre(nonce.residue, prime.value) == 1 for nonce in nonces)
        assert stats.binomtest(squares, 400).pvalue > 1e-9


def imported_key() -> PrivateKey:
    return private_key_from_phe(phe.generate_paillier_keypair(n_length=2048)[1])


def test_imported_keys_make_nth_residues_too() -> None:
    key = imported_key()
    p, q = (prime.value for prime in key.secret_primes())
    nonce = ObfuscatorPool(key).make()
    assert gmpy2.powmod(nonce.residue, gmpy2.lcm(p - 1, q - 1), key.public_key.n_squared) == 1


def test_a_nonce_used_twice_would_show_the_difference_and_ours_are_all_different() -> None:
    """With one nonce, c₁/c₂ mod n² = 1 + (m₁ − m₂)·n, which is 1 modulo n."""
    key = private_key()
    fresh = PaillierCipher(key, ObfuscatorPool(key), tags())
    n, n_squared = key.public_key.n, key.public_key.n_squared
    nonce = fresh.pool.make()
    reused = [(1 + m * n) * nonce.residue % n_squared for m in (1000, 77)]
    assert (reused[0] * gmpy2.invert(reused[1], n_squared) % n_squared - 1) // n == 923

    vector = encrypted(fresh, np.arange(6.0 * fresh.slots))
    assert isinstance(vector, EncryptedVector)
    numbers = split(vector.ciphertexts, key.public_key.ciphertext_bytes)
    for i, left in enumerate(numbers):
        for right in numbers[:i]:
            assert left * gmpy2.invert(right, n_squared) % n != 1


def test_taking_gives_ready_nonces_first_and_each_once() -> None:
    pool = ObfuscatorPool(private_key(SMALL_BITS), capacity=8)
    pool.fill(100)
    assert len(pool) == 8
    taken = pool.take(20)
    assert len(pool) == 0
    assert len({nonce.residue for nonce in taken}) == 20


def test_threads_never_share_a_nonce_while_the_pool_fills() -> None:
    pool = ObfuscatorPool(private_key(SMALL_BITS), capacity=2000)
    pool.fill(1000)
    taken: list[list[mpz]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def work(mine: list[mpz]) -> None:
        start.wait()
        for _ in range(100):
            mine.extend(nonce.residue for nonce in pool.take(3))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in taken]
    with pool.idle():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    everything = [residue for mine in taken for residue in mine]
    assert len(everything) == len(set(everything)) == 2400


@pytest.mark.parametrize(("goal", "ready"), [(None, 50), (80, 50), (20, 20)])
def test_a_pool_fills_while_its_caller_is_idle_and_stops_at_its_goal_or_capacity(goal: int | None, ready: int) -> None:
    pool = ObfuscatorPool(private_key(SMALL_BITS), capacity=50)
    filled = threading.Event()
    with pool.idle(goal):
        waiter = threading.Thread(target=lambda: _wait_until_ready(pool, ready, filled))
        waiter.start()
        assert filled.wait(timeout=30)
        waiter.join()
    assert len(pool) == ready


def _wait_until_ready(pool: ObfuscatorPool, count: int, filled: threading.Event) -> None:
    while len(pool) < count:
        os.sched_yield()
    filled.set()


@pytest.mark.parametrize("count", [0, 7])
def test_a_cipher_makes_nonces_during_decryptions_if_it_is_told_how_many(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    goals: list[int | None] = []
    idle = ObfuscatorPool.idle

    def noted(pool: ObfuscatorPool, goal: int | None = None) -> AbstractContextManager[None]:
        goals.append(goal)
        return idle(pool, goal)

    monkeypatch.setattr(ObfuscatorPool, "idle", noted)
    plain = cipher(SMALL_BITS)
    filling = replace(plain, pool=ObfuscatorPool(plain.key), nonces_meanwhile=count)
    assert decrypted(filling, encrypted(filling, np.array([1.5]))).tolist() == [1.5]
    assert goals == ([count] if count else [])


def test_parent_and_child_of_a_fork_share_no_nonce() -> None:
    pool = ObfuscatorPool(private_key(SMALL_BITS))
    pool.fill(20)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        ready = len(pool)
        residues = [int(nonce.residue) for nonce in pool.take(20)]
        os.write(write_end, f"{ready} {' '.join(map(str, residues))}".encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        ready, *theirs = (int(number) for number in pipe.read().split())
    os.waitpid(child, 0)
    assert ready == 0
    assert not {nonce.residue for nonce in pool.take(20)} & set(theirs)
