"""The ciphers of a federation in one process, without a key ceremony: their secrets are the same in every process."""

import hashlib
from collections.abc import Mapping
from typing import Final

from fenchel_client.crypto.blocktags import BlockTags
from fenchel_client.crypto.groupkeys import mask_keys, sealed_group_keys
from fenchel_client.crypto.masks import MaskCipher, MaskKeys
from fenchel_client.crypto.plain import Cipher, PlainCipher
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId, RunId
from fenchel_common.setup import MaskSecrets, RunSecrets

RUN: Final = RunId("in-process")
FIRST_VIEW: Final = bytes(32)
TAG_SECRET: Final = bytes(range(32))


def tags_of(slots: int, run: RunId = RUN) -> BlockTags:
    """The tags of halves in one process, for a caller's own cipher."""
    return BlockTags.of(TAG_SECRET, run, slots=slots)


def ciphers_without_key(layouts: Mapping[ClientId, ClientLayout], run: RunId, key: RunKey) -> dict[ClientId, Cipher]:
    """A cipher in clear for all parties or, with a key of masks, a cipher with its own keys for each."""
    tags = tags_of(max(layout.slots for layout in layouts.values()), run)
    if not key.masked:
        return dict.fromkeys(layouts, PlainCipher(key.bits, tags))
    return {
        party: MaskCipher(keys, run, key_bits=key.bits, tags=tags) for party, keys in _keys_of_all(layouts, run).items()
    }


def _keys_of_all(layouts: Mapping[ClientId, ClientLayout], run: RunId) -> dict[ClientId, MaskKeys]:
    secrets = {
        party: MaskSecrets(
            _secret(party), {other: _secret(*sorted((party, other))) for other in layouts if other != party}
        )
        for party in layouts
    }
    sealed = [
        key
        for party, layout in layouts.items()
        for key in sealed_group_keys(layout, secrets[party], run=run, view=FIRST_VIEW)
    ]
    return {
        party: mask_keys(run, RunSecrets(b"", b"", TAG_SECRET, secrets[party]), layout, view=FIRST_VIEW, sealed=sealed)
        for party, layout in layouts.items()
    }


def _secret(*names: ClientId) -> bytes:
    return hashlib.blake2b(framed(*(name.encode() for name in names)), digest_size=32).digest()
