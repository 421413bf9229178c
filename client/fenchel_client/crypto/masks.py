"""A cipher for sums among parties that share secrets which the adder does not have: additive one-time pads.

The contribution of party k to a block with holders g is, in words of b bits,

    v + F(K_g, origin) + Σ_{j ∈ S, j before k} F(K_jk, phase) − Σ_{j ∈ S, j after k} F(K_jk, phase)    (mod 2^b),

where F is a key stream (`keystream`) that follows from a secret and a label. All holders of the
block know K_g, and take the masks of all contributions off a sum. The masks between two contributors cancel in the sum
over S, the parties without whose contributions the sum is of no use. They hide one contribution from a server that
colludes with a holder. Blocks of two holders have none: either of the two knows the other's part.

The phase of the mask between j and k is the last one in which both contributed to the block. So the masks also cancel
where the sum consists of the latest contribution of each party, made in different phases: if k renews its contribution
and j does not, the mask between the two stays. The server then learns no more than from the sums: what the
contributions of one phase have changed together.

References: Castelluccia, Mykletun, Tsudik, "Efficient aggregation of encrypted data in wireless sensor networks", 2005;
Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", 2017.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.crypto.blocktags import BlockTags
from fenchel_client.crypto.keystream import key_stream
from fenchel_client.crypto.plain import Array, Partners, PlainCipher
from fenchel_client.crypto.stamps import JointPhase, Origin, Place, by_origin, by_stretch
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.tags import NOT_THE_SUM
from fenchel_common.crypto.vectors import Vector
from fenchel_common.crypto.words import MaskedVector, word_type
from fenchel_common.errors import IncompatibleVectors, TagMismatch
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId, RunId

_GROUP_LABEL: Final = b"fenchel/v1/mask/group"
_PAIR_LABEL: Final = b"fenchel/v1/mask/pair"

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

    def __init__(self, keys: MaskKeys, run: RunId, *, key_bits: int, tags: BlockTags) -> None:
        self._keys = keys
        self._key_bits = key_bits
        self._in_clear = PlainCipher(key_bits, tags)

        @cache
        def group_tags(holders: Holders, slots: int) -> BlockTags:
            return BlockTags.of(keys.of_group(holders), run, slots=slots)

        self._group_tags = group_tags

    @property
    def slots(self) -> int:
        return self._in_clear.slots

    def slots_of(self, vector_format: VectorFormat) -> int:
        return self._in_clear.slots_of(vector_format)

    def in_clear(self) -> PlainCipher:
        return self._in_clear

    def encrypt(
        self,
        values: Array,
        vector_format: VectorFormat,
        *,
        origin: Origin,
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> MaskedVector:
        layout = slot_layout(vector_format, self._key_bits)
        grid = layout.grid(vector_format.quantise(values))
        words = grid.view(np.uint64).astype(word_type(vector_format))
        tags = [0] * len(grid)
        for rows in by_stretch(places):
            own = [places[row] for row in rows]
            words[rows] += self._group_mask(origin, own, words)
            if among is not None:
                words[rows] += self._pair_masks(origin, own, [among[row] for row in rows], words)
            made = self._group_tags(own[0].holders, layout.slots).made(grid[rows], origin, own)
            for row, tag in zip(rows, made, strict=True):
                tags[row] = tag
        return MaskedVector(self._key_bits, vector_format, 1, words.reshape(-1)[: values.size], tuple(tags))

    def decrypt(
        self,
        vector: Vector,
        *,
        origins: Sequence[Sequence[Origin]],
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> Array:
        if not isinstance(vector, MaskedVector):
            raise IncompatibleVectors("this run is masked, but the vector is not")
        if vector.key_bits != self._key_bits or not vector.block_count == len(origins) == len(places):
            raise TagMismatch(NOT_THE_SUM)
        slots, count = vector.slots, vector.block_count
        words = np.zeros((count, slots), dtype=vector.integers.dtype)
        words.reshape(-1)[: vector.length] = vector.integers
        for origin, at in by_origin(origins).items():
            for positions in by_stretch([places[row] for row in at]):
                rows = [at[position] for position in positions]
                there = [places[row] for row in rows]
                # A block may have an origin more than once.
                np.subtract.at(words, rows, self._group_mask(origin, there, words))
                if among is not None:
                    words[rows] -= self._pair_masks(origin, there, [among[row] for row in rows], words)
        grid = _signed(words)
        # What is beyond the last value of a vector has not been sent, and is zero under every mask.
        grid.reshape(-1)[vector.length :] = 0
        for rows in by_stretch(places):
            there = [places[row] for row in rows]
            tags = self._group_tags(there[0].holders, slots)
            tags.check(
                grid[rows], [vector.tags[row] for row in rows], tags.expected([origins[row] for row in rows], there)
            )
        return vector.format.dequantise(grid.reshape(-1)[: vector.length].copy())

    def _group_mask(self, origin: Origin, places: Sequence[Place], like: Words) -> Words:
        key = self._keys.of_group(places[0].holders)
        return _masks(key, _GROUP_LABEL + framed(origin.label(), places[0].stretch), places, like)

    def _pair_masks(self, origin: Origin, places: Sequence[Place], among: Sequence[Partners], like: Words) -> Words:
        """(B, S) for blocks of one stretch the sum of the masks with each partner; zero if two parties hold them."""
        keys, stretch, holders = self._keys, places[0].stretch, places[0].holders or self._keys.clients
        total = np.zeros((len(places), like.shape[1]), dtype=like.dtype)
        if len(holders) == 2:
            return total
        own = keys.clients.index(keys.party)
        for (other, phase), positions in self._by_partner(origin, among).items():
            names = (client.encode() for client in phase.contributors)
            label = framed(phase.moment.to_bytes(), phase.view, origin.field.encode(), stretch, *names)
            there = [places[position] for position in positions]
            mask = _masks(keys.pairs[other], _PAIR_LABEL + label, there, like)
            total[positions] += mask if keys.clients.index(other) < own else -mask
        return total

    def _by_partner(self, origin: Origin, among: Sequence[Partners]) -> dict[tuple[ClientId, JointPhase], list[int]]:
        """For each other party, and each phase in which both contributed last, the positions of the blocks."""
        keys, stamp = self._keys, origin.stamp
        found: dict[tuple[ClientId, JointPhase], list[int]] = {}
        for position, partners in enumerate(among):
            assert keys.party in partners, "whoever contributes is among the contributors"
            now = tuple(client for client in keys.clients if client in partners and partners[client] is None)
            for other, phase in partners.items():
                if other != keys.party:
                    found.setdefault((other, phase or JointPhase(stamp.moment, stamp.view, now)), []).append(position)
        return found


def _masks(secret: bytes, label: bytes, places: Sequence[Place], like: Words) -> Words:
    """(B, S) the masks of blocks of one stretch: the part of one key stream that stands at each block's index."""
    indices = [place.index for place in places]
    width = like.shape[1]
    stream = key_stream(secret, label, (max(indices) + 1) * width * like.dtype.itemsize)
    words = np.frombuffer(stream, dtype=like.dtype.newbyteorder("<"))
    return np.asarray(words.reshape(-1, width)[indices], dtype=like.dtype)


def _signed(words: Words) -> NDArray[np.int64]:
    return words.view(np.int32 if words.dtype == np.uint32 else np.int64).astype(np.int64)
