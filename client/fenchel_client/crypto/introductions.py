"""How the parties of a run introduce themselves to each other through an untrusted relay, once in each set-up.

A party makes a fresh P-256 key pair and signs its public half:

    signature = ECDSA(the party's certified key, LABEL ‖ run, roster fingerprint, terms, certificate, ephemeral key)

with the length of each part before it; terms is the digest of the run's configuration as the party was told it.

Protects: whoever verifies all introductions of a set-up knows that every party of its own roster takes part in this
run, has the same roster and was told the same configuration, and knows a key that only the party's process has.

Does not protect: the relay can show an introduction of an earlier set-up of the same run. Its private half is gone by
then, and its party finds it among the introductions in the place of its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fenchel_common.errors import IntroductionNotSigned, InvalidInput
from fenchel_common.identity import Kit, Roster
from fenchel_common.identity.certificates import Certificate, Role
from fenchel_common.ids import ClientId, RunId
from fenchel_common.setup import Introduction

LABEL = b"fenchel/v1/introduction\x00"

_SIGNATURE = ec.ECDSA(hashes.SHA256())


def fresh_key() -> ec.EllipticCurvePrivateKey:
    """A key pair for one set-up; the caller keeps it in memory alone, and no longer than it needs it."""
    return ec.generate_private_key(ec.SECP256R1())


def introduce(kit: Kit, ephemeral: ec.EllipticCurvePublicKey, *, run: RunId, terms: bytes) -> Introduction:
    """The introduction of the kit's party; the caller must have made the ephemeral key for this set-up alone."""
    blank = Introduction(kit.certificate, point_of(ephemeral), signature=b"")
    signed = LABEL + blank.signed_part(run=run, roster_fingerprint=kit.roster.fingerprint(), terms=terms)
    return replace(blank, signature=kit.private_key().sign(signed, _SIGNATURE))


def verified_introductions(
    relayed: Iterable[Introduction],
    *,
    roster: Roster,
    authority: Certificate,
    run: RunId,
    terms: bytes,
    now: datetime | None = None,
) -> Mapping[ClientId, Introduction]:
    """The relayed introductions by party, in the order of the roster, all confirmed by the verifier's own kit.

    Refuses the whole list if a party of the roster is missing from it or named twice, if a certificate is foreign,
    expired, not a party's or not for the key that the roster names, or if a signature is not for this run, roster and
    terms: a relay that sends such a list is not to be dealt with.
    """
    fingerprint = roster.fingerprint()
    found: dict[ClientId, Introduction] = {}
    for introduction in relayed:
        certificate = introduction.certificate
        certificate.verify(authority, role=Role.PARTY, now=now)
        roster.check_key(certificate)
        name = roster.party(certificate.common_name).name
        if name in found:
            raise InvalidInput(f"the server relayed two introductions of party {name!r}")
        _check_signature(introduction, roster_fingerprint=fingerprint, run=run, terms=terms)
        key_at(introduction.ephemeral_key)
        found[name] = introduction
    if missing := [name for name in roster.names if name not in found]:
        raise InvalidInput(f"the server relayed no introduction of party {missing[0]!r}")
    return {name: found[name] for name in roster.names}


def point_of(key: ec.EllipticCurvePublicKey) -> bytes:
    """A public key as an uncompressed point."""
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def key_at(point: bytes) -> ec.EllipticCurvePublicKey:
    """The inverse of `point_of`; refuses bytes that are no point of P-256."""
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        raise InvalidInput("ephemeral_key: is no point of P-256") from None


def _check_signature(introduction: Introduction, *, roster_fingerprint: str, run: RunId, terms: bytes) -> None:
    signed = introduction.signed_part(run=run, roster_fingerprint=roster_fingerprint, terms=terms)
    try:
        introduction.certificate.public_key().verify(introduction.signature, LABEL + signed, _SIGNATURE)
    except InvalidSignature as error:
        raise IntroductionNotSigned(
            f"the introduction of {introduction.certificate.common_name!r} is not signed for run {run!r}, the roster "
            f"{roster_fingerprint[:16]}… and this configuration: it was altered, or its party was told another "
            "configuration or has another roster; every party needs the roster of the last `fenchel provision`"
        ) from error
