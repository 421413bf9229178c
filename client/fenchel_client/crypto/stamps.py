"""Stamps of messages, and the pads that follow from them.

A *stamp* says who made a message, in which phase, after which records, and has 16 random bytes. An *origin* is one
field of a stamped message. The pad of a block is a pseudo-random number that follows from the origin and the block's
*token*, which names the block by its content: by the ids of its samples or the names of its features. Because of the
random bytes, no two blocks of any two messages have the same origin and token, whatever happened to a party's disk.
"""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fenchel_common.crypto.tags import TAG_PRIME, PadSum
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId
from fenchel_common.records import NONCE_BYTES, Moment

TOKEN_BYTES: Final = 16
_PAD_BYTES: Final = 32
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

    def label(self) -> bytes:
        stamp = self.stamp
        return framed(stamp.party.encode(), stamp.moment.to_bytes(), stamp.view, stamp.nonce, self.field.encode())


class Pads:
    """The pads of blocks, derived from a key that the parties have and the server has not."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, origin: Origin, tokens: Sequence[bytes]) -> list[int]:
        """The pads of the blocks with these tokens in a message of this origin."""
        prefix = hashlib.blake2b(origin.label(), key=self._key, digest_size=_PAD_BYTES)
        pads = []
        for token in tokens:
            block = prefix.copy()
            block.update(token)
            pads.append(int.from_bytes(block.digest()) % TAG_PRIME)
        return pads

    def digest(self, content: bytes) -> bytes:
        """32 pseudo-random bytes that follow from the content, apart from all pads."""
        return hashlib.blake2b(_DIGEST_LABEL + content, key=self._key, digest_size=_PAD_BYTES).digest()

    def sums(self, origins: Sequence[Sequence[Origin]], tokens: Sequence[bytes]) -> list[PadSum]:
        """For each block the sum of the pads of its origins."""
        totals = [0] * len(tokens)
        positions: dict[Origin, list[int]] = {}
        for position, given in enumerate(origins):
            for origin in given:
                positions.setdefault(origin, []).append(position)
        for origin, at in positions.items():
            for position, pad in zip(at, self.of(origin, [tokens[position] for position in at]), strict=True):
                totals[position] += pad
        return [PadSum(len(given), total % TAG_PRIME) for given, total in zip(origins, totals, strict=True)]


def block_token(kind: str, block: int, names: Sequence[str]) -> bytes:
    """The token of a block: the kind of its entries, its number, and the names of the entries in the order of slots."""
    content = framed(kind.encode(), block.to_bytes(8, "big"), *(name.encode() for name in names))
    return hashlib.blake2b(content, digest_size=TOKEN_BYTES).digest()


def piece_tokens(token: bytes, pieces: int) -> list[bytes]:
    """The tokens of the pieces of a block whose values take several ciphertexts; a single piece has the block's."""
    later = (hashlib.blake2b(framed(token, bytes([piece])), digest_size=TOKEN_BYTES) for piece in range(1, pieces))
    return [token, *(content.digest() for content in later)]


def number_tokens(count: int) -> list[bytes]:
    """The tokens of the blocks of a vector of numbers."""
    return [position.to_bytes(TOKEN_BYTES, "big") for position in range(count)]
