"""The key ceremony's cryptography: one party seals the run's secrets for another, and a relay carries them.

Wrapping, by the roster's key holder, for one recipient whose introduction it has verified:

    e, E   = a fresh P-256 key pair
    secret = ECDH(e, the ephemeral key in the recipient's introduction)
    key ‖ nonce = HKDF-SHA256(secret, info = SEAL_LABEL ‖ context ‖ the recipient's ephemeral key), 32 + 12 bytes
    sealed = AES-256-GCM(key, nonce, the run's secrets, associated data = SEAL_LABEL ‖ context)
    signature = ECDSA(the signer's certified key, SIGN_LABEL ‖ context ‖ sealed)

    context = run, roster fingerprint, terms, introductions, recipient, signer, the signer's certificate, E; before
              each its length
    terms   = SHA-256 of the run's configuration, key size and kind included
    introductions = SHA-256 of the introductions of all parties in this set-up

Key and nonce serve once, since `e` does. What it protects: only the process that introduced itself can open the blob,
in the set-up in which it did; the recipient knows that the roster's key holder made the blob for it, for this run, this
roster, these terms and these introductions. The recipient drops its ephemeral key when it has opened the blob, so
whoever learns the certificates' keys later opens no blob of before. What it does not protect: lengths, names and the
run are visible; a blob may not be delivered at all.
"""

from dataclasses import replace
from datetime import datetime

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fenchel_client.crypto.introductions import key_at, point_of
from fenchel_common.errors import (
    IdentityError,
    InvalidInput,
    KeyMismatch,
    NotForUs,
    WrappedKeyAltered,
    WrappedKeyReplayed,
    WrongRoster,
    WrongSigner,
    WrongTerms,
)
from fenchel_common.identity.certificates import Certificate, Role
from fenchel_common.identity.roster import Roster
from fenchel_common.ids import ClientId, RunId
from fenchel_common.setup import Introduction, WrappedKey

SEAL_LABEL = b"fenchel/v2/key-wrap/seal\x00"
SIGN_LABEL = b"fenchel/v2/key-wrap/sign\x00"

MAX_SECRETS_BYTES = 64 * 1024
_KEY_BYTES = 32
_NONCE_BYTES = 12
_SIGNATURE = ec.ECDSA(hashes.SHA256())


def wrap(
    secrets: bytes,
    *,
    recipient: Introduction,
    signer_key: ec.EllipticCurvePrivateKey,
    signer_cert: Certificate,
    roster_fingerprint: str,
    run: RunId,
    terms: bytes,
    introductions: bytes,
) -> WrappedKey:
    """Seals the secrets of a run for the party that introduced itself, for one set-up, its terms and one roster.

    The caller must have verified all introductions (see `verified_introductions`), must be the roster's key holder, and
    must pass the fingerprint of the roster in its own kit, which its operator has approved.
    """
    if not 0 < len(secrets) <= MAX_SECRETS_BYTES:
        raise InvalidInput(f"secrets of {len(secrets)} bytes; 1 to {MAX_SECRETS_BYTES} are accepted")
    if signer_key.public_key() != signer_cert.public_key():
        raise KeyMismatch(f"the signing key is not the one of the certificate of {signer_cert.common_name!r}")
    ephemeral = ec.generate_private_key(ec.SECP256R1())
    blank = WrappedKey(
        run=run,
        roster_fingerprint=roster_fingerprint,
        terms=terms,
        introductions=introductions,
        recipient=ClientId(recipient.certificate.common_name),
        signer=ClientId(signer_cert.common_name),
        signer_certificate=signer_cert.der(),
        ephemeral_key=point_of(ephemeral.public_key()),
        sealed=b"",
        signature=b"",
    )
    recipient_key = key_at(recipient.ephemeral_key)
    context = blank.context()
    cipher, nonce = _seal(ephemeral.exchange(ec.ECDH(), recipient_key), context, recipient.ephemeral_key)
    sealed = cipher.encrypt(nonce, secrets, SEAL_LABEL + context)
    signature = signer_key.sign(SIGN_LABEL + context + sealed, _SIGNATURE)
    return replace(blank, sealed=sealed, signature=signature)


def unwrap(
    wrapped: WrappedKey,
    *,
    recipient: ClientId,
    recipient_key: ec.EllipticCurvePrivateKey,
    authority: Certificate,
    roster: Roster,
    run: RunId,
    terms: bytes,
    introductions: bytes,
    now: datetime | None = None,
) -> bytes:
    """Opens a wrapped key, after all of its claims have been checked against the recipient's own kit.

    `recipient_key` is the private half of the ephemeral key with which the recipient introduced itself, `introductions`
    the digest of all introductions, which the caller must have verified.

    Raises
    ------
    WrongSigner
        The signer's certificate is foreign, expired, or not for the key of the roster's key holder.
    NotForUs
        It was wrapped for another party, or to another key of this one.
    WrappedKeyAltered
        The signature does not hold.
    WrappedKeyReplayed, WrongRoster, WrongTerms
        It is genuine, but was made for another run or set-up, another roster or another configuration of this run.
    """
    signer = _verified_signer(wrapped, authority=authority, roster=roster, now=now)
    if wrapped.recipient != recipient:
        raise NotForUs(f"the wrapped key is for party {wrapped.recipient!r}, not for {recipient!r}")
    context = wrapped.context()
    try:
        signer.public_key().verify(wrapped.signature, SIGN_LABEL + context + wrapped.sealed, _SIGNATURE)
    except InvalidSignature as error:
        raise WrappedKeyAltered("the wrapped key's signature does not hold: it was altered on its way") from error
    if wrapped.run != run:
        raise WrappedKeyReplayed(f"the wrapped key was made for run {wrapped.run!r}, not for run {run!r}")
    if wrapped.roster_fingerprint != roster.fingerprint():
        raise WrongRoster(
            f"the wrapped key was made for the roster {wrapped.roster_fingerprint[:16]}…, but this kit's roster is"
            f" {roster.fingerprint()[:16]}…; every party needs the roster of the last `fenchel provision`"
        )
    if wrapped.terms != terms:
        raise WrongTerms("the wrapped key was made for another configuration of this run")
    if wrapped.introductions != introductions:
        raise WrappedKeyReplayed("the wrapped key was made for another set-up of this run, with other introductions")
    try:
        shared = recipient_key.exchange(ec.ECDH(), key_at(wrapped.ephemeral_key))
        cipher, nonce = _seal(shared, context, point_of(recipient_key.public_key()))
        return cipher.decrypt(nonce, wrapped.sealed, SEAL_LABEL + context)
    except (InvalidInput, InvalidTag) as error:
        raise NotForUs(
            f"the wrapped key does not open with the key of this set-up: it was sealed to another key of {recipient!r};"
            " run one process for this party only"
        ) from error


def _verified_signer(
    wrapped: WrappedKey, *, authority: Certificate, roster: Roster, now: datetime | None
) -> Certificate:
    try:
        signer = Certificate.from_der(wrapped.signer_certificate)
        signer.verify(authority, role=Role.PARTY, now=now)
        roster.check_key(signer)
    except IdentityError as error:
        raise WrongSigner(f"the wrapped key's signer cannot be trusted: {error}") from error
    holder = roster.key_holder.name
    if signer.common_name != holder or wrapped.signer != holder:
        raise WrongSigner(
            f"the wrapped key is signed by {signer.common_name!r}, but the roster's key holder is {holder!r}"
        )
    return signer


def _seal(secret: bytes, context: bytes, recipient_point: bytes) -> tuple[AESGCM, bytes]:
    info = SEAL_LABEL + context + recipient_point
    derived = HKDF(algorithm=hashes.SHA256(), length=_KEY_BYTES + _NONCE_BYTES, salt=None, info=info).derive(secret)
    return AESGCM(derived[:_KEY_BYTES]), derived[_KEY_BYTES:]
