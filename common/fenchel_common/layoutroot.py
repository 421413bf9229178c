"""The hash of a layout that is the same at every party, although each party sees its own part of the layout alone.

A *cohort* is a set of samples, or of features, with the same holders. The server commits to every cohort by a salted
hash, its *leaf*. Every party gets all leaves, and the cohorts and salts of its own. So all parties agree on the whole
layout, and nobody learns of cohorts to which it does not belong more than their number.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fenchel_common.framing import framed
from fenchel_common.ids import ClientId

LEAF_BYTES: Final = 32
SALT_BYTES: Final = 16

_LEAF_LABEL: Final = b"fenchel/v1/cohort\x00"
_ROOT_LABEL: Final = b"fenchel/v1/layout\x00"


@dataclass(frozen=True, slots=True)
class Cohort:
    """Blocks with the same holders.

    Attributes
    ----------
    features
        Whether these are blocks of features, not of samples.
    holders
        In roster order.
    blocks, sizes
        The ids of the blocks, ascending, and how many slots each uses.
    """

    features: bool
    holders: tuple[ClientId, ...]
    blocks: tuple[int, ...]
    sizes: tuple[int, ...]

    def leaf(self, salt: bytes) -> bytes:
        kind = b"features" if self.features else b"samples"
        names = framed(*(holder.encode() for holder in self.holders))
        parts = framed(salt, kind, names, _numbers(self.blocks), _numbers(self.sizes))
        return hashlib.sha256(_LEAF_LABEL + parts).digest()


@dataclass(frozen=True, slots=True)
class OpenedCohort:
    """A cohort of a party, with the salt of its leaf and the leaf's position among all leaves."""

    cohort: Cohort
    leaf: int
    salt: bytes = field(repr=False)


def layout_root(
    *,
    sample_count: int,
    feature_count: int,
    slots: int,
    feature_slots: int,
    clients: Sequence[ClientId],
    label_holders: Collection[ClientId],
    by_holders: Sequence[int],
    leaves: Sequence[bytes],
) -> bytes:
    """The hash of a layout; `clients` are all parties in roster order.

    `by_holders` are the numbers of samples, then of features, that exactly 1, 2, … of them hold.
    """
    numbers = _numbers([sample_count, feature_count, slots, feature_slots])
    names = framed(*(client.encode() for client in clients))
    labelled = bytes(client in label_holders for client in clients)
    counts = _numbers(by_holders)
    return hashlib.sha256(_ROOT_LABEL + framed(numbers, names, labelled, counts, *leaves)).digest()


def _numbers(numbers: Sequence[int]) -> bytes:
    return np.asarray(numbers, dtype=np.int64).astype("<u4").tobytes()
