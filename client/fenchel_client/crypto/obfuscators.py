"""Nonces of encryption: uniform n-th residues modulo n², made by the parties that have the private key.

Modulo p², the n-th residues are the cyclic group of order p − 1. With g = a^p mod p² for a primitive root a modulo p,
the power g^x for x uniform below p − 1 is *exactly* uniform, and so is its combination with the same modulo q²:
textbook Paillier's r^n, without any further assumption, by table look-ups instead of an exponentiation. A subgroup key
does the same in its subgroup of prime order. A key whose p − 1 has unknown factors uses y^p mod p² for uniform y, which
is just as uniform, and several times slower.

A nonce must never be used twice: from two ciphertexts with one nonce anybody gets the difference of their plaintexts.
"""

import os
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import gmpy2
from gmpy2 import mpz

from fenchel_client.crypto.fixed_base import random_residue, shared_table
from fenchel_client.crypto.keys import KeyKind, PrivateKey, SecretPrime

DEFAULT_CAPACITY: Final = 4096


@dataclass(frozen=True, slots=True, repr=False)
class Obfuscator:
    """One nonce ρ = r^n mod n², and ρ mod n, which makes encryption with it cheap."""

    residue: mpz
    residue_mod_n: mpz


def residue_sampler(prime: SecretPrime, kind: KeyKind) -> Callable[[], mpz]:
    """A function that draws a uniform nonce modulo p²."""
    p, p_squared = prime.value, prime.value**2
    if not prime.large_factors:
        return lambda: gmpy2.powmod(1 + secrets.randbelow(int(p) - 1), p, p_squared)
    if kind is KeyKind.SUBGROUP:
        order = prime.large_factors[0]
        generator = random_residue(p, order)
    else:
        order = p - 1
        generator = gmpy2.powmod(primitive_root(prime), p, p_squared)
    table, bound = shared_table(generator, p_squared, order), int(order)
    return lambda: table.power(secrets.randbelow(bound))


def primitive_root(prime: SecretPrime) -> mpz:
    """The smallest primitive root modulo p, recognised by the complete factorisation of p − 1."""
    p = prime.value
    factors = {*prime.large_factors, *_small_prime_factors(prime.cofactor())}
    candidate = mpz(2)
    while any(gmpy2.powmod(candidate, (p - 1) // factor, p) == 1 for factor in factors):
        candidate += 1
    return candidate


def _small_prime_factors(number: mpz) -> set[mpz]:
    """By trial division: a key's cofactors have at most 34 bits, or the key would have been refused."""
    factors: set[mpz] = set()
    divisor = mpz(2)
    while divisor * divisor <= number:
        if number % divisor == 0:
            factors.add(divisor)
            number //= divisor
        else:
            divisor += 1
    return factors | ({number} if number > 1 else set())


class ObfuscatorPool:
    """Nonces made ahead of time, each handed out once.

    Safe to use from several threads. A forked child starts with an empty pool, so that parent and child never use the
    same nonce. While a caller is inside `idle()`, a thread fills the pool. Otherwise nothing runs in the background,
    because that thread would compete with the caller for the interpreter.
    """

    _ready: deque[Obfuscator]
    _changed: threading.Condition
    _goals: list[int]
    _filler: threading.Thread | None

    def __init__(self, key: PrivateKey, *, capacity: int = DEFAULT_CAPACITY) -> None:
        p, q = key.secret_primes()
        self._n = key.public_key.n
        self._p_squared, self._q_squared = p.value**2, q.value**2
        self._inverse = gmpy2.invert(self._p_squared, self._q_squared)
        self._draw_p, self._draw_q = residue_sampler(p, key.kind), residue_sampler(q, key.kind)
        self._capacity = capacity
        self._start_empty()
        _pools.add(self)

    def __repr__(self) -> str:
        return f"ObfuscatorPool({len(self)} of {self._capacity} ready)"

    def __len__(self) -> int:
        return len(self._ready)

    def make(self) -> Obfuscator:
        """A fresh nonce, outside the pool."""
        r_p, r_q = self._draw_p(), self._draw_q()
        residue = r_p + self._p_squared * ((r_q - r_p) * self._inverse % self._q_squared)
        return Obfuscator(residue, residue % self._n)

    def take(self, count: int) -> list[Obfuscator]:
        """Nonces for one use each: those that are ready, the rest made now."""
        taken: list[Obfuscator] = []
        with self._changed:
            while self._ready and len(taken) < count:
                taken.append(self._ready.popleft())
        taken.extend(self.make() for _ in range(count - len(taken)))
        return taken

    def fill(self, count: int) -> None:
        """Makes nonces until `count` are ready, or the capacity is reached."""
        while self._keep(self.make(), limit=min(count, self._capacity)):
            pass

    @contextmanager
    def idle(self, goal: int | None = None) -> Iterator[None]:
        """Lets the pool fill in the background while the caller waits for something else, or works without the lock.

        It fills until `goal` nonces are ready, or up to its capacity.
        """
        goal = self._capacity if goal is None else min(goal, self._capacity)
        with self._changed:
            self._goals.append(goal)
            if self._filler is None:
                self._filler = threading.Thread(target=self._fill_while_idle, name="obfuscators", daemon=True)
                self._filler.start()
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._goals.remove(goal)

    def _fill_while_idle(self) -> None:
        changed = self._changed
        while True:
            with changed:
                changed.wait_for(lambda: len(self._ready) < max(self._goals, default=0))
            self._keep(self.make(), limit=self._capacity)

    def _keep(self, obfuscator: Obfuscator, *, limit: int) -> bool:
        with self._changed:
            if len(self._ready) < limit:
                self._ready.append(obfuscator)
            return len(self._ready) < limit

    def _start_empty(self) -> None:
        self._ready = deque()
        self._changed = threading.Condition()
        self._goals = []
        self._filler = None


_pools: "weakref.WeakSet[ObfuscatorPool]" = weakref.WeakSet()


def _empty_pools_of_child() -> None:
    for pool in _pools:
        pool._start_empty()


os.register_at_fork(after_in_child=_empty_pools_of_child)
