"""The names of features that a party shows to the other parties, and to nobody else.

    sealed = nonce ‖ AES-256-GCM(names key, nonce, name list, LABEL ‖ run, party)
    nonce  = HMAC-SHA-256(names key, LABEL ‖ run, party, name list), cut to 12 bytes

The nonce follows from the content, so a party answers a repeated task with the same bytes, and two contents have the
same nonce only by chance.

Protects: the server, which relays the lists, cannot read, alter, exchange or repeat one; it can withhold one.

Does not protect: every party of the run learns the names of every other party's columns. The values of categories are
left out, because a value can be that of one person; of each feature there is a mark, by which a party recognises a
feature that it has itself.
"""

import hmac
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fenchel_client.alignment.names import pseudonyms
from fenchel_client.crypto.derivedkeys import sealed_names_key
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId, RunId
from fenchel_common.wire.names import (
    MARK_BYTES,
    MAX_SEALED_NAMES_BYTES,
    NameList,
    name_list_from_bytes,
    name_list_to_bytes,
)

LABEL: Final = b"fenchel/v1/sealed-names\x00"
CATEGORY: Final = "="
"""Stands between the column and the value in the name of a category's feature."""
ALTERED: Final = "it was given a list of names that no party of this set-up sealed"
_NONCE_BYTES: Final = 12


def marks(names: Sequence[str], *, tag_secret: bytes, run: RunId) -> list[bytes]:
    """The mark of each name, in order."""
    return [bytes.fromhex(name)[:MARK_BYTES] for name in pseudonyms(names, tag_secret=tag_secret, run=run)]


def sealed_names(names: Sequence[str], *, tag_secret: bytes, run: RunId, party: ClientId) -> bytes:
    """This party's list, sealed; empty if it would be too long to send."""
    if len(names) * MARK_BYTES > MAX_SEALED_NAMES_BYTES:
        return b""
    columns = {column for name in names if (column := name.partition(CATEGORY)[0])}
    own = NameList(tuple(sorted(columns)), tuple(sorted(marks(names, tag_secret=tag_secret, run=run))))
    key, content, bound_to = sealed_names_key(tag_secret, run), name_list_to_bytes(own), _bound_to(run, party)
    nonce = hmac.digest(key, bound_to + content, "sha256")[:_NONCE_BYTES]
    sealed = nonce + AESGCM(key).encrypt(nonce, content, bound_to)
    return sealed if len(sealed) <= MAX_SEALED_NAMES_BYTES else b""


def opened_names(sealed: bytes, *, tag_secret: bytes, run: RunId, party: ClientId) -> NameList:
    """The list of a party; `Refusal` if that party did not seal it in this set-up."""
    cipher = AESGCM(sealed_names_key(tag_secret, run))
    try:
        opened = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _bound_to(run, party))
        return name_list_from_bytes(opened)
    except (InvalidTag, InvalidInput, ValueError) as error:
        raise Refusal(f"the list of names of {party!r} does not open: {error}", public_reason=ALTERED) from error


def _bound_to(run: RunId, party: ClientId) -> bytes:
    return LABEL + framed(run.encode(), party.encode())
