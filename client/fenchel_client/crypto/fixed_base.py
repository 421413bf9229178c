"""Random n-th residues modulo the square of one of the key's primes, and their powers by table look-ups.

Used for nonces (`obfuscators`) and for the blinding of decryption (`keys`).
"""

import secrets
import weakref
from typing import Final

import gmpy2
from gmpy2 import mpz

DIGIT_BITS: Final = 8
SMALL_ROWS: Final = 32
"""A table of so many rows is never made smaller."""
MAX_STEP: Final = 4
"""For an exponent of 1024 bits, a table with a row for every fourth digit alone; a power takes 8 % longer for it."""


class FixedBase:
    """Powers of one base modulo one modulus, by a table of base^(d·256^(k·i)) for each digit d in each row i.

    With the digits d_0, d_1, … of the exponent, and k = 1 for short exponents, up to `MAX_STEP` for long ones,

        base^exponent = Π_j (Π_i base^(d_{ki+j}·256^(ki)))^(256^j)   for j = 0 … k − 1,

    by Horner's rule from the last j to the first: one product for each digit, and k − 1 powers of 256.
    """

    def __init__(self, base: mpz, modulus: mpz, exponent_bound: mpz) -> None:
        self._modulus = modulus
        digits = -(-int(exponent_bound).bit_length() // DIGIT_BITS)
        self._step = min(-(-digits // SMALL_ROWS), MAX_STEP)
        self._table = []
        for _ in range(-(-digits // self._step)):
            row = [mpz(1)]
            for _ in range(1 << DIGIT_BITS):
                row.append(row[-1] * base % modulus)
            base = gmpy2.powmod(row.pop(), 1 << DIGIT_BITS * (self._step - 1), modulus)
            self._table.append(row)

    def power(self, exponent: int) -> mpz:
        modulus, step = self._modulus, self._step
        digits = exponent.to_bytes(len(self._table) * step, "little")
        result = mpz(1)
        for first in reversed(range(step)):
            if first < step - 1:
                result = gmpy2.powmod(result, 1 << DIGIT_BITS, modulus)
            for row, digit in zip(self._table, digits[first::step], strict=True):
                result = result * row[digit] % modulus
        return result


_tables: "weakref.WeakValueDictionary[tuple[mpz, mpz, mpz], FixedBase]" = weakref.WeakValueDictionary()


def shared_table(base: mpz, modulus: mpz, exponent_bound: mpz) -> FixedBase:
    """The table that somebody in this process holds already, or a new one: it takes 2.5 MB for a prime of 1024 bits.

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
