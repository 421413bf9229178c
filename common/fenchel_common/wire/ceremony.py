"""The messages of the key ceremony as bytes: the introductions of all parties, and a wrapped key for one party."""

from collections.abc import Sequence

from fenchel.v1 import ceremony_pb2
from fenchel_common.errors import InvalidInput, MalformedCertificate, MalformedWrappedKey
from fenchel_common.identity.roster import MAX_PARTIES
from fenchel_common.ids import ClientId, RunId
from fenchel_common.setup import MAX_INTRODUCTION_BYTES, MAX_WRAPPED_BYTES, POINT_BYTES, Introduction, WrappedKey
from fenchel_common.wire.parsing import parsed_message
from fenchel_common.wire.setup import introduction_to_proto, introductions_from_protos

MAX_INTRODUCTIONS_BYTES = MAX_PARTIES * MAX_INTRODUCTION_BYTES
_TAG_BYTES = 16
_DIGEST_BYTES = 32


def introductions_to_bytes(introductions: Sequence[Introduction]) -> bytes:
    """The introductions as one message, which the server sends to the key holder."""
    listed = [introduction_to_proto(introduction) for introduction in introductions]
    return ceremony_pb2.Introductions(introductions=listed).SerializeToString(deterministic=True)


def introductions_from_bytes(encoded: bytes) -> tuple[Introduction, ...]:
    """Reads the introductions that the server relays, and verifies none of them."""
    if len(encoded) > MAX_INTRODUCTIONS_BYTES:
        raise MalformedCertificate(f"the list of introductions exceeds {MAX_INTRODUCTIONS_BYTES} bytes")
    try:
        return introductions_from_protos(parsed_message(ceremony_pb2.Introductions, encoded).introductions)
    except InvalidInput as error:
        raise MalformedCertificate(f"the list of introductions cannot be read: {error}") from None


def wrapped_key_to_bytes(wrapped: WrappedKey) -> bytes:
    """The canonical form of a wrapped key; `wrapped_key_from_bytes` refuses every other form."""
    message = ceremony_pb2.WrappedKey(
        run=wrapped.run,
        roster_fingerprint=bytes.fromhex(wrapped.roster_fingerprint),
        terms=wrapped.terms,
        introductions=wrapped.introductions,
        recipient=wrapped.recipient,
        signer=wrapped.signer,
        signer_certificate=wrapped.signer_certificate,
        ephemeral_key=wrapped.ephemeral_key,
        sealed=wrapped.sealed,
        signature=wrapped.signature,
    )
    return message.SerializeToString(deterministic=True)


def wrapped_key_from_bytes(encoded: bytes) -> WrappedKey:
    """Reads the canonical form of a wrapped key, and verifies neither its seal nor its signature."""
    if len(encoded) > MAX_WRAPPED_BYTES:
        raise MalformedWrappedKey(f"a wrapped key of {len(encoded)} bytes; at most {MAX_WRAPPED_BYTES}")
    try:
        message = parsed_message(ceremony_pb2.WrappedKey, encoded)
    except InvalidInput as error:
        raise MalformedWrappedKey("the wrapped key cannot be read") from error
    wrapped = WrappedKey(
        run=RunId(message.run),
        roster_fingerprint=message.roster_fingerprint.hex(),
        terms=message.terms,
        introductions=message.introductions,
        recipient=ClientId(message.recipient),
        signer=ClientId(message.signer),
        signer_certificate=message.signer_certificate,
        ephemeral_key=message.ephemeral_key,
        sealed=message.sealed,
        signature=message.signature,
    )
    if wrapped_key_to_bytes(wrapped) != encoded:
        raise MalformedWrappedKey("the wrapped key is not in canonical form")
    digests = (message.roster_fingerprint, message.terms, message.introductions)
    if any(len(digest) != _DIGEST_BYTES for digest in digests):
        raise MalformedWrappedKey("the wrapped key's roster fingerprint, terms or introductions are not a SHA-256")
    if len(wrapped.ephemeral_key) != POINT_BYTES or len(wrapped.sealed) <= _TAG_BYTES:
        raise MalformedWrappedKey("the wrapped key lacks its ephemeral key or its sealed part")
    return wrapped
