"""The work on blocks that needs the private key, and where it is done."""

from collections.abc import Sequence
from typing import Protocol

from gmpy2 import mpz

from fenchel_client.crypto.obfuscators import Obfuscator
from fenchel_common.crypto.paillier import PublicKey


class Workers(Protocol):
    """Encrypts and decrypts many blocks at once under one key; blocks are independent of each other."""

    def encrypt(self, plaintexts: Sequence[mpz]) -> list[mpz] | None:
        """A ciphertext for each plaintext, each with a nonce of its own; None if the caller should do it itself."""
        ...

    def decrypt(self, ciphertexts: Sequence[mpz]) -> list[mpz] | None:
        """The signed plaintexts; None if the caller should do it itself."""
        ...


def encrypted(public: PublicKey, plaintexts: Sequence[mpz], nonces: Sequence[Obfuscator]) -> list[mpz]:
    """A ciphertext for each plaintext; each nonce must be fresh, and is used up."""
    n, n_squared = public.n, public.n_squared
    numbers = []
    for m, nonce in zip(plaintexts, nonces, strict=True):
        # (1 + m·n)·ρ ≡ ρ + n·(m·ρ mod n)  (mod n²): a product modulo n instead of one modulo n².
        number = nonce.residue + n * (m * nonce.residue_mod_n % n)
        numbers.append(number if number < n_squared else number - n_squared)
    return numbers
