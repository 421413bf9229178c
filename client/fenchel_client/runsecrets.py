"""The secrets that all parties of a run have: how the key holder makes them, and how a party checks them."""

import secrets

from fenchel_client.crypto.keyfile import private_key_from_bytes, private_key_to_bytes
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.keys import KeyKind
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.errors import WrongTerms
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import SECRET_BYTES, RunSecrets


def fresh_secrets(config: RunConfig) -> RunSecrets:
    """The secrets of a run, for the key holder to make once in each set-up."""
    private_key = b""
    if config.has_paillier_key:
        private_key = private_key_to_bytes(generate_private_key(config.key.bits, KeyKind(config.key.kind)))
    return RunSecrets(private_key, secrets.token_bytes(SECRET_BYTES), secrets.token_bytes(SECRET_BYTES))


def public_key_of(run_secrets: RunSecrets, config: RunConfig) -> PublicKey | None:
    """The public half of the key among the secrets; refuses a key, or the lack of one, that the terms do not name."""
    if not config.has_paillier_key:
        if run_secrets.private_key:
            raise WrongTerms("the run's terms say that nothing is encrypted with Paillier, but there is a key")
        return None
    if not run_secrets.private_key:
        raise WrongTerms("the run's terms say that it is encrypted, but there is no key")
    private = private_key_from_bytes(run_secrets.private_key)
    if (private.public_key.bits, private.kind) != (config.key.bits, KeyKind(config.key.kind)):
        raise WrongTerms(
            f"the run's terms name a {config.key.kind} key of {config.key.bits} bits, "
            f"but it is a {private.kind} key of {private.public_key.bits} bits"
        )
    return private.public_key
