"""A cipher for sums among parties that share secrets which the adder does not have: additive one-time pads.

The contribution of party k to a block with holders g is, in words of b bits,

    v + F(K_g, origin) + Σ_{j ∈ S, j before k} F(K_jk, phase) − Σ_{j ∈ S, j after k} F(K_jk, phase)    (mod 2^b),

where F is the key stream of AES-256-CTR under a key that follows from the secret and the label. All holders of the
block know K_g, and take the masks of all contributions off a sum. The masks between two contributors cancel in the sum
over S, the parties without whose contributions the sum is of no use. They hide one contribution from a server that
colludes with a holder. Sums of at most two contributions do not have them: either contributor knows the other's part.

References: Castelluccia, Mykletun, Tsudik, "Efficient aggregation of encrypted data in wireless sensor networks", 2005;
Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", 2017.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher as KeyStream
from cryptography.hazmat.primitives.ciphers import algorithms, modes
from numpy.typing import NDArray

from fenchel_client.crypto.blocktags import BlockTags
from fenchel_client.crypto.plain import Among, Array, PlainCipher
from fenchel_client.crypto.stamps import Origin, Place
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.tags import NOT_THE_SUM, PadSum
from fenchel_common.crypto.vectors import Vector
from fenchel_common.crypto.words import MaskedVector, word_type
from fenchel_common.errors import IncompatibleVectors, TagMismatch
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId, RunId

_GROUP_LABEL: Final = b"fenchel/v1/mask/group"
_PAIR_LABEL: Final = b"fenchel/v1/mask/pair"
_ZERO_COUNTER: Final = bytes(16)
"""Every key of a key stream is used once, so that its counter may begin at zero."""

Words = NDArray[Any]
Holders = tuple[ClientId, ...]


@dataclass(frozen=True, slots=True)
class MaskKeys:
    """The keys of one party: of the groups of holders that it belongs to, and of each other party with this one.

    The group of all parties is `()`.
    """

    party: ClientId
    clients: Holders
    groups: Mapping[Holders, bytes] = field(repr=False)
    pairs: Mapping[ClientId, bytes] = field(repr=False)

    def of_group(self, holders: Holders) -> bytes:
        return self.groups[() if holders == self.clients else holders]


class MaskCipher:
    """Masks and unmasks vectors whose blocks have the size of those under a Paillier key of `key_bits` bits.

    It hides the values of a block from everyone but its holders. `tags` are those of vectors in clear.
    """

    def __init__(self, keys: MaskKeys, run: RunId, *, key_bits: int, tags: BlockTags, slot_bits: int = 64) -> None:
        self._keys = keys
        self._key_bits = key_bits
        self._slot_bits = slot_bits
        self._in_clear = PlainCipher(key_bits, tags, slot_bits)

        @cache
        def group_tags(holders: Holders, slots: int) -> BlockTags:
            return BlockTags.of(keys.of_group(holders), run, slots=slots)

        self._group_tags = group_tags

    @property
    def slots(self) -> int:
        return self._in_clear.slots

    def in_clear(self) -> PlainCipher:
        return self._in_clear

    def encrypt(
        self,
        values: Array,
        vector_format: VectorFormat,
        *,
        origin: Origin,
        places: Sequence[Place],
        among: Among | None = None,
    ) -> MaskedVector:
        layout = slot_layout(vector_format, self._key_bits)
        grid = layout.grid(vector_format.quantise(values))
        words = grid.view(np.uint64).astype(word_type(vector_format))
        tags = [0] * len(grid)
        for stretch, rows in _stretches(places).items():
            own = [places[row] for row in rows]
            words[rows] += self._group_mask(origin, stretch, own, words)
            if among is not None:
                words[rows] += self._pair_masks(origin, stretch, own, among(stretch.holders), words)
            for row, tag in zip(rows, self._tags_of(stretch, layout.slots).made(grid[rows], origin, own), strict=True):
                tags[row] = tag
        flat = words.reshape(-1)[: values.size]
        return MaskedVector(self._key_bits, vector_format, 1, flat, tuple(tags))

    def decrypt(
        self,
        vector: Vector,
        *,
        origins: Sequence[Sequence[Origin]],
        places: Sequence[Place],
        among: Among | None = None,
    ) -> Array:
        if not isinstance(vector, MaskedVector):
            raise IncompatibleVectors("this run is masked, but the vector is not")
        if vector.key_bits != self._key_bits or not vector.block_count == len(origins) == len(places):
            raise TagMismatch(NOT_THE_SUM)
        slots, count = vector.slots, vector.block_count
        words = np.zeros((count, slots), dtype=vector.integers.dtype)
        words.reshape(-1)[: vector.length] = vector.integers
        # What is beyond the last value of a vector has not been sent, and is zero under every mask.
        sent = np.arange(count * slots).reshape(count, slots) < vector.length
        expected = [PadSum(0, 0)] * count
        stretches = _stretches(places)
        for stretch, rows in stretches.items():
            by_origin: dict[Origin, list[int]] = {}
            for row in rows:
                for origin in origins[row]:
                    by_origin.setdefault(origin, []).append(row)
            for origin, at in by_origin.items():
                there = [places[row] for row in at]
                np.subtract.at(words, at, self._group_mask(origin, stretch, there, words))
                if among is not None:
                    words[at] -= self._pair_masks(origin, stretch, there, among(stretch.holders), words)
            group_tags = self._tags_of(stretch, slots)
            due = group_tags.expected([origins[row] for row in rows], [places[row] for row in rows])
            for row, pads in zip(rows, due, strict=True):
                expected[row] = pads
        grid = np.where(sent, _signed(words), 0)
        for stretch, rows in stretches.items():
            tags = [vector.tags[row] for row in rows]
            self._tags_of(stretch, slots).check(grid[rows], tags, [expected[row] for row in rows])
        return vector.format.dequantise(grid.reshape(-1)[: vector.length].copy())

    def _tags_of(self, stretch: "_Stretch", slots: int) -> BlockTags:
        return self._group_tags(stretch.holders, slots)

    def _group_mask(self, origin: Origin, stretch: "_Stretch", places: Sequence[Place], like: Words) -> Words:
        key = self._keys.of_group(stretch.holders)
        return _masks(key, _GROUP_LABEL + framed(origin.label(), stretch.name), places, like)

    def _pair_masks(
        self,
        origin: Origin,
        stretch: "_Stretch",
        places: Sequence[Place],
        contributors: Iterable[ClientId],
        like: Words,
    ) -> Words:
        """The sum of the masks with each other contributor; zero if there are at most two contributors."""
        keys, chosen = self._keys, set(contributors)
        in_order = [client for client in keys.clients if client in chosen]
        total = np.zeros((len(places), like.shape[1]), dtype=like.dtype)
        if keys.party not in chosen or len(in_order) <= 2:
            return total
        stamp = origin.stamp
        names = (client.encode() for client in in_order)
        label = framed(stamp.moment.to_bytes(), stamp.view, origin.field.encode(), stretch.name, *names)
        own = in_order.index(keys.party)
        for position, other in enumerate(in_order):
            if position != own:
                mask = _masks(keys.pairs[other], _PAIR_LABEL + label, places, like)
                total = total + mask if position < own else total - mask
        return total


@dataclass(frozen=True, slots=True)
class _Stretch:
    holders: Holders
    name: bytes


def _stretches(places: Sequence[Place]) -> dict[_Stretch, list[int]]:
    """The positions of the blocks of each stretch."""
    rows: dict[_Stretch, list[int]] = {}
    for row, place in enumerate(places):
        rows.setdefault(_Stretch(place.holders, place.stretch), []).append(row)
    return rows


def _masks(secret: bytes, label: bytes, places: Sequence[Place], like: Words) -> Words:
    """(B, S) the masks of blocks of one stretch: the part of one key stream that stands at each block's index."""
    key = hashlib.blake2b(label, key=secret, digest_size=32).digest()
    last = max(place.index for place in places)
    count = (last + 1) * like.shape[1]
    stream = KeyStream(algorithms.AES256(key), modes.CTR(_ZERO_COUNTER)).encryptor()
    words = np.frombuffer(stream.update(bytes(count * like.dtype.itemsize)), dtype=like.dtype.newbyteorder("<"))
    chosen = words.reshape(last + 1, like.shape[1])[[place.index for place in places]]
    return np.asarray(chosen, dtype=like.dtype)


def _signed(words: Words) -> NDArray[np.int64]:
    return words.view(np.int32 if words.dtype == np.uint32 else np.int64).astype(np.int64)
