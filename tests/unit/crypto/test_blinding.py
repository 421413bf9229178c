"""Decryption is blinded: what it raises to the secret exponent is never what somebody else chose."""

from collections.abc import Sequence

import gmpy2
import pytest
from gmpy2 import mpz
from phe import paillier as phe
from scipy import stats

from fenchel_client.crypto.interop import private_key_from_phe
from fenchel_client.crypto.keys import KeyKind, PrivateKey
from support.keys import cipher, private_key


@pytest.fixture
def raised(monkeypatch: pytest.MonkeyPatch) -> list[tuple[mpz, mpz]]:
    """Every number that a modular power is asked for while the test runs, each with its modulus."""
    seen: list[tuple[mpz, mpz]] = []
    real = gmpy2.powmod_base_list

    def record(bases: Sequence[mpz], exponent: mpz, modulus: mpz) -> list[mpz]:
        seen.extend((base, modulus) for base in bases)
        return list(real(bases, exponent, modulus))

    monkeypatch.setattr(gmpy2, "powmod_base_list", record)
    return seen


def chosen_by_the_server(key: PrivateKey) -> dict[str, list[mpz]]:
    """Sets of ciphertexts whose times of decryption one would compare."""
    n, n_squared = key.public_key.n, key.public_key.n_squared
    nonce = cipher(2048, key.kind).pool.make().residue
    return {
        "one": [mpz(1)] * 8,
        "repeated": [(1 + 77 * n) * nonce % n_squared] * 8,
        "trivial": [1 + m * n for m in range(8)],
        "large": [n_squared - 1 - m * n for m in range(8)] if key.kind is KeyKind.STANDARD else [],
    }


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("kind", KeyKind)
def test_chosen_ciphertexts_reach_the_modular_power_as_unrelated_numbers(
    raised: list[tuple[mpz, mpz]], kind: KeyKind, threads: int
) -> None:
    key = private_key(2048, kind)
    squares = {prime.value**2 for prime in key.secret_primes()}
    fractions: list[float] = []
    for name, ciphertexts in chosen_by_the_server(key).items():
        plaintexts = [key.raw_decrypt(ciphertexts, threads=threads) for _ in range(2)]
        assert plaintexts[0] == plaintexts[1], name
        assert len(raised) == len(set(raised)) == 4 * len(ciphertexts), name
        assert {modulus for _, modulus in raised} <= squares
        assert not {base for base, _ in raised} & {c % square for c in ciphertexts for square in squares}
        fractions += [float(gmpy2.mpfr(base) / gmpy2.mpfr(modulus)) for base, modulus in raised]
        raised.clear()
    assert stats.kstest(fractions, "uniform").pvalue > 1e-9


@pytest.mark.parametrize("kind", KeyKind)
def test_a_blinded_ciphertext_differs_by_a_residue_that_the_exponent_cancels(
    raised: list[tuple[mpz, mpz]], kind: KeyKind
) -> None:
    key = private_key(2048, kind)
    key.raw_decrypt([mpz(1)], threads=1)
    for (factor, modulus), prime in zip(raised, key.secret_primes(), strict=True):
        assert modulus == prime.value**2
        order = prime.large_factors[0] if kind is KeyKind.SUBGROUP else prime.value - 1
        assert gmpy2.powmod(factor, order, modulus) == 1 != factor


def test_a_key_of_phe_is_blinded_too_and_decrypts_as_phe_does(raised: list[tuple[mpz, mpz]]) -> None:
    public, private = phe.generate_paillier_keypair(n_length=2048)
    key = private_key_from_phe(private)
    ciphertexts = [mpz(public.raw_encrypt(m % public.n)) for m in (0, 12345, -9876543210)]
    assert key.raw_decrypt(ciphertexts) == key.raw_decrypt(ciphertexts) == [0, 12345, -9876543210]
    assert len(set(raised)) == 4 * len(ciphertexts)
