"""The cipher of a run, with its key and its nonces."""

import logging

from fenchel_client.crypto.blocktags import BlockTags
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.keyfile import private_key_from_bytes
from fenchel_client.crypto.keys import SUBGROUP_ASSUMPTION, KeyKind
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.plain import Cipher, PlainCipher
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.ids import RunId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import RunSecrets

log = logging.getLogger(__name__)


def run_cipher(
    run: RunId, config: RunConfig, secrets: RunSecrets, layout: ClientLayout
) -> tuple[Cipher, RunKey, ObfuscatorPool | None]:
    """The cipher, key and nonces of a run. The terms alone say whether it is encrypted, never the absence of a key."""
    if not config.privacy.encrypts_samples:
        return PlainCipher(config.key.bits), RunKey.in_clear(config.key.bits), None
    tags = BlockTags.of(secrets.tag_secret, run, slots=layout.slots)
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
