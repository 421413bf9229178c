"""Random n-th residues modulo the square of one of the key's primes, and their powers by table look-ups.

Used for nonces (`obfuscators`) and for the blinding of decryption (`keys`).
"""

import secrets
import weakref
from typing import Final

import gmpy2
from gmpy2 import mpz

WINDOW_BITS: Final = 8


class FixedBase:
    """Powers of one base modulo one modulus, by a table of base^(d·256^i) for each digit d at each position i."""

    def __init__(self, base: mpz, modulus: mpz, exponent_bound: mpz) -> None:
        self._modulus = modulus
        self._digits = (int(exponent_bound).bit_length() + WINDOW_BITS - 1) // WINDOW_BITS
        self._table = []
        for _ in range(self._digits):
            row = [mpz(1)]
            for _ in range(1 << WINDOW_BITS):
                row.append(row[-1] * base % modulus)
            base = row.pop()
            self._table.append(row)

    def power(self, exponent: int) -> mpz:
        modulus = self._modulus
        result = mpz(1)
        for row, digit in zip(self._table, exponent.to_bytes(self._digits, "little"), strict=True):
            result = result * row[digit] % modulus
        return result


_tables: "weakref.WeakValueDictionary[tuple[mpz, mpz, mpz], FixedBase]" = weakref.WeakValueDictionary()


def shared_table(base: mpz, modulus: mpz, exponent_bound: mpz) -> FixedBase:
    """The table that somebody in this process holds already, or a new one: it takes 10 MB for a prime of 1024 bits.

    Parties of an attack or a test, all in one process, have one key.
    """
    numbers = (base, modulus, exponent_bound)
    table = _tables.get(numbers)
    if table is None:
        table = _tables[numbers] = FixedBase(*numbers)
    return table


def random_residue(p: mpz, order: mpz) -> mpz:
    """A random n-th residue other than 1 modulo p², of an order that divides `order`, a divisor of p − 1."""
    residue = mpz(1)
    while residue == 1:
        residue = gmpy2.powmod(2 + secrets.randbelow(int(p) - 3), p * ((p - 1) // order), p**2)
    return residue
