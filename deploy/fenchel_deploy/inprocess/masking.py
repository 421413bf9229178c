"""The masks of a federation in one process, without a key ceremony."""

import hashlib
from collections.abc import Mapping

from fenchel_client.crypto.groupkeys import mask_keys, sealed_group_keys
from fenchel_client.crypto.masks import MaskKeys
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId, RunId
from fenchel_common.setup import MaskSecrets, RunSecrets


def keys_of_all(
    layouts: Mapping[ClientId, ClientLayout], run: RunId, *, tag_secret: bytes, view: bytes
) -> dict[ClientId, MaskKeys]:
    """The keys of each party, from secrets that are the same in every process: they protect nothing."""
    secrets = {
        party: MaskSecrets(
            _secret(party),
            {other: _secret(*sorted((party, other))) for other in layouts if other != party},
        )
        for party in layouts
    }
    sealed = [
        key
        for party, layout in layouts.items()
        for key in sealed_group_keys(layout, secrets[party], run=run, view=view)
    ]
    return {
        party: mask_keys(run, RunSecrets(b"", b"", tag_secret, secrets[party]), layout, view=view, sealed=sealed)
        for party, layout in layouts.items()
    }


def _secret(*names: ClientId) -> bytes:
    return hashlib.blake2b(framed(*(name.encode() for name in names)), digest_size=32).digest()
