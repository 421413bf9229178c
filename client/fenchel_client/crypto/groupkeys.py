"""The keys of masks: one for each pair of parties, and one for each group of parties that hold the same blocks.

    K_kj = HKDF-SHA256(ECDH of the two parties' keys of this set-up, info = run ‖ SHA-256 of all keys ‖ both names)
    K_g  = HKDF-SHA256(a secret of g's first holder, info = run ‖ names of g), sealed for the other holders

A sealed key is AES-256-GCM under a key that follows from K_1j, with the run, the first view and the names of the group
as associated data: it opens in no other run, layout or group. Every party derives the key of the group of all parties
from the run's tag secret. All keys are deleted when the run is over.
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fenchel_client.crypto.derivedkeys import everybody_key
from fenchel_client.crypto.introductions import key_at
from fenchel_client.crypto.masks import MaskKeys
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import Refusal
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId, RunId
from fenchel_common.setup import SECRET_BYTES, GroupKey, Introduction, MaskSecrets, RunSecrets

_PAIR_LABEL: Final = b"fenchel/v1/masks/pair\x00"
_GROUP_LABEL: Final = b"fenchel/v1/masks/group\x00"
_SEAL_LABEL: Final = b"fenchel/v1/masks/seal\x00"
_NONCE_BYTES: Final = 12

Holders = tuple[ClientId, ...]


def pair_secrets(
    own: ec.EllipticCurvePrivateKey,
    introduced: Mapping[ClientId, Introduction],
    others: Iterable[ClientId],
    *,
    party: ClientId,
    run: RunId,
) -> dict[ClientId, bytes]:
    """K_kj of this party and each of `others`, from its key of this set-up and the verified introductions of all."""
    context = hashlib.sha256(framed(*(one.ephemeral_key for one in introduced.values()))).digest()
    pairs = {}
    for other in others:
        shared = own.exchange(ec.ECDH(), key_at(introduced[other].ephemeral_key))
        names = sorted((party.encode(), other.encode()))
        pairs[other] = _derived(shared, _PAIR_LABEL, run.encode(), context, *names)
    return pairs


def fresh_mask_secrets(pairs: Mapping[ClientId, bytes]) -> MaskSecrets:
    """This party's secrets in a run with masks; `pairs` are those with all other parties."""
    return MaskSecrets(secrets.token_bytes(SECRET_BYTES), pairs)


def sealed_group_keys(layout: ClientLayout, masks: MaskSecrets, *, run: RunId, view: bytes) -> list[GroupKey]:
    """The keys of the groups whose first holder this party is, sealed for each other holder."""
    sealed = []
    for holders in layout.groups:
        if holders[0] == layout.party:
            key = _own_group_key(masks, run, holders)
            for other in holders[1:]:
                nonce = secrets.token_bytes(_NONCE_BYTES)
                box = AESGCM(_derived(masks.pairs[other], _SEAL_LABEL, run.encode()))
                data = nonce + box.encrypt(nonce, key, _context(run, view, holders))
                sealed.append(GroupKey(holders, other, data))
    return sealed


def mask_keys(
    run: RunId, run_secrets: RunSecrets, layout: ClientLayout, *, view: bytes, sealed: Sequence[GroupKey]
) -> MaskKeys:
    """All keys of this party; `Refusal` unless `sealed` has the keys of its groups, made for this run and layout."""
    masks = run_secrets.masks
    if masks is None:
        raise Refusal("this party has no secrets for masks", public_reason="it does not have the key of this run")
    given = {one.holders: one.sealed for one in sealed if one.recipient == layout.party}
    alone = (layout.party,)
    keys: dict[Holders, bytes] = {
        (): everybody_key(run_secrets.tag_secret, run),
        alone: _own_group_key(masks, run, alone),
    }
    for holders in layout.groups:
        first = holders[0]
        if first == layout.party:
            keys[holders] = _own_group_key(masks, run, holders)
            continue
        data = given.get(holders, b"")
        box = AESGCM(_derived(masks.pairs[first], _SEAL_LABEL, run.encode()))
        try:
            key = box.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], _context(run, view, holders))
            if len(key) != SECRET_BYTES:
                raise ValueError("a key of another length")
        except (InvalidTag, ValueError) as error:
            raise Refusal(
                f"the key of the group {', '.join(holders)} is missing or does not open: the server has withheld or "
                f"altered it, or {first} has made it for another layout",
                public_reason="it lacks the key of a group of holders",
            ) from error
        keys[holders] = key
    return MaskKeys(layout.party, layout.clients, keys, masks.pairs)


def _own_group_key(masks: MaskSecrets, run: RunId, holders: Holders) -> bytes:
    return _derived(masks.group_secret, _GROUP_LABEL, run.encode(), *(holder.encode() for holder in holders))


def _context(run: RunId, view: bytes, holders: Holders) -> bytes:
    return _SEAL_LABEL + framed(run.encode(), view, *(holder.encode() for holder in holders))


def _derived(secret: bytes, label: bytes, *context: bytes) -> bytes:
    info = label + framed(*context)
    return HKDF(algorithm=hashes.SHA256(), length=SECRET_BYTES, salt=None, info=info).derive(secret)
