"""Parties with masks and no set-up: four parties, of which three hold some blocks together and two hold others."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fenchel_client.crypto.masks import MaskCipher, MaskKeys
from fenchel_client.crypto.plain import Array, Partners
from fenchel_client.crypto.stamps import Origin, Place, Stamp
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.words import MaskedVector
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.records import Moment
from support.keys import tags

A, B, C, D = (ClientId(name) for name in "abcd")
PARTIES: Final = (A, B, C, D)
TRIO: Final = (A, B, C)
PAIR: Final = (C, D)
GROUPS: Final[tuple[tuple[ClientId, ...], ...]] = (TRIO, PAIR, ())
RUN: Final = RunId("masked")
BITS: Final = 2048


def secret(*parts: str) -> bytes:
    return hashlib.sha256("/".join(parts).encode()).digest()


def keys_of(party: ClientId) -> MaskKeys:
    groups = {group: secret("group", *group) for group in GROUPS if not group or party in group}
    pairs = {other: secret("pair", *sorted((party, other))) for other in PARTIES if other != party}
    return MaskKeys(party, PARTIES, groups, pairs)


def mask_cipher(party: ClientId, *, keys: MaskKeys | None = None, run: RunId = RUN) -> MaskCipher:
    return MaskCipher(keys_of(party) if keys is None else keys, run, key_bits=BITS, tags=tags(BITS))


def origin_of(party: ClientId, *, nonce: int = 0, field: str = "point", view: bytes = bytes(32)) -> Origin:
    stamp = Stamp(party, Moment(1, RoundId(1), "primal"), view, bytes([nonce]) * 16)
    return Origin(stamp, field)


def places(count: int, holders: tuple[ClientId, ...] = TRIO, *, name: bytes = b"stretch") -> list[Place]:
    return [Place(hashlib.md5(bytes([i])).digest(), holders, name, i) for i in range(count)]  # noqa: S324 - a name


def contribution(
    party: ClientId,
    values: Array,
    at: Sequence[Place],
    *,
    origin: Origin | None = None,
    among: Collection[ClientId] | None = None,
    earlier: Partners | None = None,
    vector_format: VectorFormat | None = None,
) -> MaskedVector:
    """A party's contribution; `among` are all contributors, for masks between pairs.

    `earlier` are partners that do not contribute now, with the phases in which both contributed last.
    """
    return mask_cipher(party).encrypt(
        values,
        VectorFormat() if vector_format is None else vector_format,
        origin=origin_of(party) if origin is None else origin,
        places=at,
        among=None if among is None else [{**(earlier or {}), **dict.fromkeys(among)}] * len(at),
    )


def values(count: int, seed: int) -> Array:
    """Values that the usual format holds exactly."""
    return VectorFormat().rounded(np.random.default_rng(seed).normal(scale=1e3, size=count))


def summed(*vectors: MaskedVector) -> MaskedVector:
    return vectors[0].summed_with(vectors[1:])


def at_moment(origin: Origin, moment: Moment) -> Origin:
    """The same field of a message of another moment."""
    return replace(origin, stamp=replace(origin.stamp, moment=moment))
