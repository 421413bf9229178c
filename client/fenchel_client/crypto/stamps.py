"""Stamps of messages, and the pads that follow from them.

A *stamp* says who made a message, in which phase, after which records, and has 16 random bytes. An *origin* is one
field of a stamped message. The pad of a block is a pseudo-random number that follows from the origin and the block's
*place*: a stretch of blocks, named by the ids of its samples or the names of its features, and an index in it. Because
of the random bytes, no two blocks of any two messages have the same origin and place, whatever happened to a party's
disk.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fenchel_client.crypto.keystream import key_stream
from fenchel_common.crypto.tags import TAG_PRIME, PadSum
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId
from fenchel_common.records import NONCE_BYTES, Moment

TOKEN_BYTES: Final = 16
_PAD_BYTES: Final = 32
_PADS_LABEL: Final = b"fenchel/v1/pads\x00"
_DIGEST_LABEL: Final = b"fenchel/v1/digest\x00"


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who made a message, and when; `view` is the view of its maker at that time."""

    party: ClientId
    moment: Moment
    view: bytes
    nonce: bytes

    @classmethod
    def fresh(cls, party: ClientId, moment: Moment, view: bytes) -> "Stamp":
        return cls(party, moment, view, secrets.token_bytes(NONCE_BYTES))


@dataclass(frozen=True, slots=True)
class Origin:
    """A field of a stamped message."""

    stamp: Stamp
    field: str

    def __hash__(self) -> int:
        # A nonce tells origins apart as well as all the rest, which would have to be hashed again for every block.
        return hash((self.stamp.nonce, self.field))

    def label(self) -> bytes:
        stamp = self.stamp
        return framed(stamp.party.encode(), stamp.moment.to_bytes(), stamp.view, stamp.nonce, self.field.encode())


@dataclass(frozen=True, slots=True)
class JointPhase:
    """A phase in which several parties contributed to one block; `contributors` are in roster order."""

    moment: Moment
    view: bytes
    contributors: tuple[ClientId, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a block: its token, its holders, and its index in the stretch of blocks that has the same holders.

    `holders` is empty for blocks that every party holds. `stretch` names a stretch by its content.
    """

    token: bytes
    holders: tuple[ClientId, ...]
    stretch: bytes
    index: int


class Pads:
    """The pads of blocks, derived from a key that the parties have and the server has not."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, origin: Origin, places: Sequence[Place]) -> list[int]:
        """The pads of the blocks at these places in a message of this origin."""
        pads, label = [0] * len(places), origin.label()
        for positions in by_stretch(places):
            last = max(places[position].index for position in positions)
            name = _PADS_LABEL + framed(label, places[positions[0]].stretch)
            stream = key_stream(self._key, name, (last + 1) * _PAD_BYTES)
            for position in positions:
                start = places[position].index * _PAD_BYTES
                pads[position] = int.from_bytes(stream[start : start + _PAD_BYTES], "big") % TAG_PRIME
        return pads

    def digest(self, content: bytes) -> bytes:
        """32 pseudo-random bytes that follow from the content, apart from all pads."""
        return hashlib.blake2b(_DIGEST_LABEL + content, key=self._key, digest_size=_PAD_BYTES).digest()

    def sums(self, origins: Sequence[Sequence[Origin]], places: Sequence[Place]) -> list[PadSum]:
        """For each block the sum of the pads of its origins."""
        totals = [0] * len(places)
        for origin, at in by_origin(origins).items():
            for position, pad in zip(at, self.of(origin, [places[position] for position in at]), strict=True):
                totals[position] += pad
        return [PadSum(len(given), total % TAG_PRIME) for given, total in zip(origins, totals, strict=True)]


def by_origin(origins: Sequence[Sequence[Origin]]) -> dict[Origin, list[int]]:
    """For each origin the positions of the blocks that it contributes to."""
    positions: dict[Origin, list[int]] = {}
    for position, given in enumerate(origins):
        for origin in given:
            positions.setdefault(origin, []).append(position)
    return positions


def by_stretch(places: Sequence[Place]) -> list[list[int]]:
    """The positions in `places` of the blocks of each stretch."""
    positions: dict[bytes, list[int]] = {}
    for position, place in enumerate(places):
        positions.setdefault(place.stretch, []).append(position)
    return list(positions.values())


def block_token(kind: str, block: int, names: Sequence[str]) -> bytes:
    """The token of a block: the kind of its entries, its number, and the names of the entries in the order of slots."""
    content = framed(kind.encode(), block.to_bytes(8, "big"), *(name.encode() for name in names))
    return hashlib.blake2b(content, digest_size=TOKEN_BYTES).digest()


def piece_places(place: Place, pieces: int) -> list[Place]:
    """The places of the pieces of a block whose values take several ciphertexts; a single piece has the block's."""
    if pieces == 1:
        return [place]
    contents = (framed(place.token, bytes([piece])) for piece in range(1, pieces))
    tokens = [place.token, *(hashlib.blake2b(content, digest_size=TOKEN_BYTES).digest() for content in contents)]
    first = place.index * pieces
    return [Place(token, place.holders, place.stretch, first + piece) for piece, token in enumerate(tokens)]


def number_places(count: int) -> list[Place]:
    """The places of the blocks of a vector of numbers, which every party holds."""
    return [Place(position.to_bytes(TOKEN_BYTES, "big"), (), b"", position) for position in range(count)]


def block_places(tokens: Mapping[int, bytes], holders: Mapping[int, tuple[ClientId, ...]]) -> dict[int, Place]:
    """The place of each block: blocks with the same holders make a stretch, in the order of `tokens`.

    All holders of a stretch must have the same blocks in it.
    """
    stretches: dict[tuple[ClientId, ...], list[int]] = {}
    for block in tokens:
        stretches.setdefault(holders[block], []).append(block)
    places: dict[int, Place] = {}
    for held_by, blocks in stretches.items():
        name = hashlib.blake2b(framed(*(tokens[block] for block in blocks)), digest_size=TOKEN_BYTES).digest()
        places |= {block: Place(tokens[block], held_by, name, index) for index, block in enumerate(blocks)}
    return {block: places[block] for block in tokens}
