"""Lists that a party shows to the other parties of a set-up, and to nobody else.

    sealed = nonce ‖ AES-256-GCM(key, nonce, content, LABEL ‖ run, party)
    nonce  = HMAC-SHA-256(key, LABEL ‖ run, party, content), cut to 12 bytes

The nonce follows from the content, so a party answers a repeated task with the same bytes, and two contents have the
same nonce only by chance.

Protects: the server, which relays the lists, cannot read, alter, exchange or repeat one; it can withhold one.

Does not protect: every party of the run has the key. Each purpose must have a key and a label of its own.
"""

import hmac
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fenchel_common.errors import InvalidInput
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId, RunId

_NONCE_BYTES: Final = 12


def sealed_list(content: bytes, *, key: bytes, label: bytes, run: RunId, party: ClientId) -> bytes:
    """The content, sealed by the party for all parties of the run."""
    bound_to = _bound_to(label, run, party)
    nonce = hmac.digest(key, bound_to + content, "sha256")[:_NONCE_BYTES]
    return nonce + AESGCM(key).encrypt(nonce, content, bound_to)


def opened_list(sealed: bytes, *, key: bytes, label: bytes, run: RunId, party: ClientId) -> bytes:
    """The content that the party sealed; `InvalidInput` if it did not seal this in this set-up."""
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _bound_to(label, run, party))
    except (InvalidTag, ValueError) as error:
        raise InvalidInput("it is not what that party sealed in this set-up") from error


def _bound_to(label: bytes, run: RunId, party: ClientId) -> bytes:
    return label + framed(run.encode(), party.encode())
