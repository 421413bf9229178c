"""The cipher of a run, with its key and its nonces."""

import logging

from fenchel_client.crypto.blocktags import BlockTags
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.groupkeys import mask_keys
from fenchel_client.crypto.keyfile import private_key_from_bytes
from fenchel_client.crypto.keys import SUBGROUP_ASSUMPTION, KeyKind
from fenchel_client.crypto.masks import MaskCipher
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.plain import Cipher, PlainCipher
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.ids import RunId
from fenchel_common.setup import PartyRun, RunSecrets
from fenchel_common.wire.groupkeys import sealed_keys_from_bytes

log = logging.getLogger(__name__)


def run_cipher(
    run: RunId, kept: PartyRun, secrets: RunSecrets, layout: ClientLayout
) -> tuple[Cipher, RunKey, ObfuscatorPool | None]:
    """The cipher, key and nonces of a run. The terms alone say how it is encrypted, never the absence of a key."""
    config = kept.config
    if not config.privacy.encrypts_samples:
        return PlainCipher(config.key.bits), RunKey.in_clear(config.key.bits), None
    tags = BlockTags.of(secrets.tag_secret, run, slots=layout.slots)
    if config.has_masks:
        sealed = sealed_keys_from_bytes(kept.layout, layout.clients)
        keys = mask_keys(run, secrets, layout, view=kept.view, sealed=sealed)
        log.info("run %s: masks, %d groups of holders, %d slots", run, len(keys.groups), layout.slots)
        return MaskCipher(keys, run, key_bits=config.key.bits, tags=tags), RunKey.of_masks(config.key.bits), None
    private = private_key_from_bytes(secrets.private_key)
    log.info("run %s: %r, %d slots", run, private, layout.slots)
    if private.kind is KeyKind.SUBGROUP:
        log.warning("%s", SUBGROUP_ASSUMPTION)
    settings = config.algorithm_settings()
    # Nonces for more than one round would be made in vain at the end of the run, and no answer takes many more than
    # half of a round's nonces.
    a_round = settings.family.ciphertexts(settings, layout)
    pool = ObfuscatorPool(private, capacity=a_round)
    cipher = PaillierCipher(private, pool, tags, nonces_meanwhile=a_round // 2)
    return cipher, RunKey.of(private.public_key), pool
