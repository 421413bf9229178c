"""Compressed updates that can be added while encrypted.

A packed ciphertext costs the same for all values of its slots, so an update is smaller only if it fills fewer slots:
all clients must leave out the same coordinates, or put several coordinates into one slot in the same way.

Rand-K      C(x) = d/K·x on K common coordinates that a common seed picks, 0 elsewhere: E[C(x)] = x, with the factor
            q = d/K − 1 of Assumption 2 of the FedSGM paper. Common coordinates keep the variance of one client's
            compression in the mean of all, where independent ones divide it by their number: Lemma 3 has q/(2n) for
            those and holds with q/2 for common ones. Each client may draw its own, but then all slots travel.
Top-K       x on K common coordinates, those that the clients ask for most; the values left out are added to the
            next update (error feedback). The server sees which coordinates a client asks for.
Quantised   x_c/h is rounded to one of its two neighbours at random, with the mean x_c/h; h is public and the same for
            all. One slot has the integers of several coordinates, with room for their sum over the clients.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Positions = NDArray[np.int64]

SLOT_BITS: Final = 52
"""Bits of a slot's integer: it and its sums are exact as doubles, and below the bound of the format."""
SLOT_UNIT: Final = 2.0**-32
"""The smallest step of a slot."""


def random_coordinates(length: int, count: int, rng: np.random.Generator) -> Positions:
    """`count` of `length` coordinates, each set equally likely, ascending."""
    return np.sort(rng.permutation(length)[:count]).astype(np.int64)


def scaled_to_coordinates(values: Array, coordinates: Positions) -> Array:
    """Rand-K: d/K·x on the coordinates, 0 elsewhere."""
    kept = np.zeros_like(values)
    kept[coordinates] = values[coordinates] * (len(values) / len(coordinates))
    return kept


def on_coordinates(values: Array, coordinates: Positions) -> Array:
    """x on the coordinates, 0 elsewhere."""
    kept = np.zeros_like(values)
    kept[coordinates] = values[coordinates]
    return kept


def largest_coordinates(values: Array, count: int) -> Positions:
    """The coordinates of the largest magnitudes, largest first; equal magnitudes are ordered by coordinate."""
    return np.argsort(-np.abs(values), kind="stable")[:count].astype(np.int64)


def most_wanted(votes: Sequence[Positions], count: int, length: int) -> Positions:
    """The `count` coordinates with the highest scores, ascending; an earlier position in a vote scores more."""
    score = np.zeros(length)
    for vote in votes:
        score[vote] += np.arange(len(vote), 0, -1)
    return np.sort(largest_coordinates(score, count))


@dataclass(frozen=True, slots=True)
class Lanes:
    """The arrangement of several quantised coordinates, one lane each, in a slot.

    Attributes
    ----------
    step
        h, the distance of two levels.
    limit
        The largest level; larger values are cut to it.
    bits
        The bits of one lane; a sum over all clients fits.
    """

    step: float
    limit: int
    bits: int

    @classmethod
    def of(cls, *, reach: float, levels: int, headroom: int, clients: int) -> "Lanes":
        """Lanes of `levels` steps up to `reach`, with room for `headroom` times larger values and for sums."""
        limit = levels * headroom
        step = reach / levels if reach > 0.0 else 1.0
        return cls(step, limit, (limit * clients).bit_length() + 1)

    @property
    def in_a_slot(self) -> int:
        return SLOT_BITS // self.bits

    def slots(self, length: int) -> int:
        """The number of slots of a vector of this length."""
        return -(-length // self.in_a_slot)

    def quantised(self, values: Array, rng: np.random.Generator) -> Positions:
        """Levels whose mean is x/h, for |x| ≤ limit·h."""
        level = values / self.step
        below = np.floor(level)
        up = rng.random(len(values)) < level - below
        return np.asarray(np.clip(below + up, -self.limit, self.limit), dtype=np.int64)

    def packed(self, levels: Positions) -> Array:
        """Slots of the levels: Σ level_l·2^(bits·l), in units of the smallest step of a slot."""
        width = self.in_a_slot
        table = np.zeros((self.slots(len(levels)), width), dtype=np.int64)
        table.reshape(-1)[: len(levels)] = levels
        return np.asarray((table << (self.bits * np.arange(width))).sum(axis=1) * SLOT_UNIT, dtype=np.float64)

    def unpacked(self, slots: Array, length: int) -> Array:
        """The values, or the sums of values, in the slots; the inverse of `packed`, times the step h."""
        rest = np.rint(slots / SLOT_UNIT).astype(np.int64)
        half = 1 << (self.bits - 1)
        columns = []
        for _ in range(self.in_a_slot):
            lane = ((rest + half) & ((1 << self.bits) - 1)) - half
            columns.append(lane)
            rest = (rest - lane) >> self.bits
        return np.stack(columns, axis=1).reshape(-1)[:length] * self.step
