"""Tags: linear (Wegman–Carter) authentication of blocks of fixed-point numbers, which a sum of blocks keeps.

The tag of a block of slots v_1 … v_S is

    t = (Σ_j r_j·v_j + pad) mod q,    q = 2^89 − 1,

with secret weights r_j, the same for the whole run, and a secret pad that is used once. Whoever adds blocks adds their
tags as plain integers. A sum of k blocks is the sum of exactly these blocks, but for a chance of 1/q, if

    Σ_j r_j·v_j + Σ pads ≡ t (mod q)    and    0 ≤ t < k·q.

Without the second condition, an adder could learn from an accepted multiple of q whether a guess at a value is right.

Reference: Wegman, Carter, "New hash functions and their use in authentication and set equality", 1981.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import TagMismatch

TAG_BITS: Final = 89
TAG_PRIME: Final = (1 << TAG_BITS) - 1
NOT_THE_SUM: Final = "a vector is not the sum of the contributions that this party expects"

_LIMB_BITS: Final = 22
_LIMB_MASK: Final = (1 << _LIMB_BITS) - 1
_VALUE_LIMBS: Final = 3
_WEIGHT_LIMBS: Final = 5
_MOST_SLOTS: Final = 128

_WEIGHTS_LABEL: Final = b"fenchel/v1/tag-weight"


@dataclass(frozen=True, slots=True)
class PadSum:
    """The sum of the pads of `terms` blocks, modulo q."""

    terms: int
    value: int


class Tagger:
    """Makes and checks the tags of blocks of up to `slots` numbers, with weights derived from a secret key.

    `test_only_prime` takes the place of q, so that a test can count how often a forgery succeeds by chance.
    """

    def __init__(self, key: bytes, *, slots: int, test_only_prime: int = TAG_PRIME) -> None:
        self._prime = test_only_prime
        self._weights = [
            int.from_bytes(hashlib.blake2b(_WEIGHTS_LABEL + j.to_bytes(4, "big"), key=key, digest_size=32).digest())
            % self._prime
            for j in range(slots)
        ]
        assert slots <= _MOST_SLOTS, "sums of limbs stay exact"
        shifts = [_LIMB_BITS * place for place in range(_WEIGHT_LIMBS)]
        self._weight_limbs = np.array(
            [[weight >> shift & _LIMB_MASK for shift in shifts] for weight in self._weights], dtype=np.float64
        ).reshape(slots, _WEIGHT_LIMBS)

    def tags(self, grid: NDArray[np.int64], pads: Sequence[int]) -> list[int]:
        """The tags of the rows of a (B, S) grid, each with its pad."""
        assert grid.shape[1] <= len(self._weights), "every slot has a weight"
        sums = self._linear(grid)
        return [(linear + pad) % self._prime for linear, pad in zip(sums, pads, strict=True)]

    def check(self, grid: NDArray[np.int64], tags: Sequence[int], expected: Sequence[PadSum]) -> None:
        """Raises `TagMismatch` unless each row of a (B, S) grid is the sum of the blocks whose pads are expected.

        The check takes the same time whichever row is wrong.
        """
        # Without a weight for each of its slots, a block would have numbers that no tag vouches for.
        if not len(grid) == len(tags) == len(expected) or grid.shape[1] > len(self._weights):
            raise TagMismatch(NOT_THE_SUM)
        wrong = 0
        for linear, tag, pads in zip(self._linear(grid), tags, expected, strict=True):
            wrong += (linear + pads.value - tag) % self._prime != 0 or not 0 <= tag < pads.terms * self._prime
        if wrong:
            raise TagMismatch(NOT_THE_SUM)

    def _linear(self, grid: NDArray[np.int64]) -> list[int]:
        """Σ_j r_j·v_j of each row, exactly.

        Numbers are cut into limbs of 22 bits: products of limbs, and sums of three times 128 of them, are whole numbers
        below 2^53, so that floating-point arithmetic is exact.
        """
        weights = self._weight_limbs[: grid.shape[1]]
        limbs = np.zeros((len(grid), _VALUE_LIMBS + _WEIGHT_LIMBS - 1))
        for place in range(_VALUE_LIMBS):
            rest = grid >> (_LIMB_BITS * place)
            part = rest & _LIMB_MASK if place < _VALUE_LIMBS - 1 else rest
            limbs[:, place : place + _WEIGHT_LIMBS] += part.astype(np.float64) @ weights
        columns: list[list[int]] = limbs.astype(np.int64).T.tolist()
        sums = columns[-1]
        for column in reversed(columns[:-1]):
            sums = [(high << _LIMB_BITS) + low for high, low in zip(sums, column, strict=True)]
        return sums
