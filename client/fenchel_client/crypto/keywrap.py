"""The key ceremony's cryptography: one party seals a private key for another, and a relay carries it.

Wrapping, by the roster's key holder, for one recipient:

    e, E   = a fresh P-256 key pair
    secret = ECDH(e, the key in the recipient's certificate)
    key ‖ nonce = HKDF-SHA256(secret, info = SEAL_LABEL ‖ context ‖ the recipient's point), 32 + 12 bytes
    sealed = AES-256-GCM(key, nonce, private key, associated data = SEAL_LABEL ‖ context)
    signature = ECDSA(the signer's certified key, SIGN_LABEL ‖ context ‖ sealed)

    context = run, roster fingerprint, terms, recipient, signer, the signer's certificate, E; before each its length
    terms   = SHA-256 of the run's configuration, key size and kind included, and of the recipient's nonce

Key and nonce serve once, since `e` does. What it protects: only the holder of the recipient's key can open the
blob, and the recipient knows that the roster's key holder made it for it, for this run, this roster and these terms.
What it does not protect: there is no forward secrecy against the later loss of the recipient's key; lengths, names
and the run are visible; a blob can be delivered twice within its set-up, or not at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

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

SEAL_LABEL = b"fenchel/v1/key-wrap/seal\x00"
SIGN_LABEL = b"fenchel/v1/key-wrap/sign\x00"

MAX_PRIVATE_KEY_BYTES = 64 * 1024
_KEY_BYTES = 32
_NONCE_BYTES = 12
_SIGNATURE = ec.ECDSA(hashes.SHA256())


def recipients_of(
    introductions: Iterable[Introduction], *, roster: Roster, authority: Certificate, now: datetime | None = None
) -> Mapping[ClientId, Introduction]:
    """The relayed introductions by party, their certificates confirmed by the key holder's own authority and roster.

    Refuses the whole list for one that is foreign, expired, not a party's, not for the key that the roster names, or
    named twice: a relay that sends such a one is not to be dealt with. A party of the roster may be absent from the
    result.
    """
    found: dict[ClientId, Introduction] = {}
    for introduction in introductions:
        certificate = introduction.certificate
        certificate.verify(authority, role=Role.PARTY, now=now)
        roster.check_key(certificate)
        name = roster.party(certificate.common_name).name
        if name in found:
            raise InvalidInput(f"the server relayed two certificates of party {name!r}")
        found[name] = introduction
    return found


def wrap(
    private_key: bytes,
    *,
    recipient_cert: Certificate,
    signer_key: ec.EllipticCurvePrivateKey,
    signer_cert: Certificate,
    roster_fingerprint: str,
    run: RunId,
    terms: bytes,
) -> WrappedKey:
    """Seals `private_key` for the holder of `recipient_cert`, for one run, its terms and one roster.

    The caller must have verified `recipient_cert` (see `recipients_of`), must be the roster's key holder, and must
    pass the fingerprint of the roster in its own kit, which its operator has approved.
    """
    if not 0 < len(private_key) <= MAX_PRIVATE_KEY_BYTES:
        raise InvalidInput(f"a private key of {len(private_key)} bytes; 1 to {MAX_PRIVATE_KEY_BYTES} are accepted")
    if signer_key.public_key() != signer_cert.public_key():
        raise KeyMismatch(f"the signing key is not the one of the certificate of {signer_cert.common_name!r}")
    ephemeral = ec.generate_private_key(ec.SECP256R1())
    blank = WrappedKey(
        run=run,
        roster_fingerprint=roster_fingerprint,
        terms=terms,
        recipient=ClientId(recipient_cert.common_name),
        signer=ClientId(signer_cert.common_name),
        signer_certificate=signer_cert.der(),
        ephemeral_key=_point(ephemeral.public_key()),
        sealed=b"",
        signature=b"",
    )
    recipient_key = recipient_cert.public_key()
    context = blank.context()
    cipher, nonce = _seal(ephemeral.exchange(ec.ECDH(), recipient_key), context, recipient_key)
    sealed = cipher.encrypt(nonce, private_key, SEAL_LABEL + context)
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
    now: datetime | None = None,
) -> bytes:
    """Opens a wrapped key, after all of its claims have been checked against the recipient's own kit.

    Raises
    ------
    WrongSigner
        The signer's certificate is foreign, expired, or not for the key of the roster's key holder.
    NotForUs
        It was wrapped for another party, or to another key of this one.
    WrappedKeyAltered
        The signature does not hold.
    WrappedKeyReplayed, WrongRoster, WrongTerms
        It is genuine, but was made for another run, another roster or another configuration of this run.
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
        raise WrongTerms("the wrapped key was made for another configuration of this run, or for another set-up of it")
    try:
        ephemeral = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), wrapped.ephemeral_key)
        cipher, nonce = _seal(recipient_key.exchange(ec.ECDH(), ephemeral), context, recipient_key.public_key())
        return cipher.decrypt(nonce, wrapped.sealed, SEAL_LABEL + context)
    except (ValueError, InvalidTag) as error:
        raise NotForUs(
            f"the wrapped key does not open with the key of this kit: it was sealed to another key of {recipient!r};"
            " connect with one certificate only"
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


def _seal(secret: bytes, context: bytes, recipient_key: ec.EllipticCurvePublicKey) -> tuple[AESGCM, bytes]:
    info = SEAL_LABEL + context + _point(recipient_key)
    derived = HKDF(algorithm=hashes.SHA256(), length=_KEY_BYTES + _NONCE_BYTES, salt=None, info=info).derive(secret)
    return AESGCM(derived[:_KEY_BYTES]), derived[_KEY_BYTES:]


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
