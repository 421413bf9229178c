"""The parties' introductions on their way from the server to the key holder."""

from collections.abc import Sequence

from fenchel.v1 import ceremony_pb2
from fenchel_common.errors import InvalidInput, MalformedCertificate
from fenchel_common.identity.certificates import MAX_CERTIFICATE_BYTES
from fenchel_common.identity.roster import MAX_PARTIES
from fenchel_common.setup import NONCE_BYTES, Introduction
from fenchel_common.wire.parsing import parsed_message
from fenchel_common.wire.setup import introduction_from_proto, introduction_to_proto

MAX_INTRODUCTIONS_BYTES = MAX_PARTIES * (MAX_CERTIFICATE_BYTES + NONCE_BYTES + 16)


def introductions_to_bytes(introductions: Sequence[Introduction]) -> bytes:
    """What the server relays to the key holder."""
    listed = [introduction_to_proto(introduction) for introduction in introductions]
    return ceremony_pb2.Introductions(introductions=listed).SerializeToString(deterministic=True)


def introductions_from_bytes(encoded: bytes) -> tuple[Introduction, ...]:
    """The relayed introductions, parsed; none of their certificates is verified yet."""
    if len(encoded) > MAX_INTRODUCTIONS_BYTES:
        raise MalformedCertificate(f"the list of introductions exceeds {MAX_INTRODUCTIONS_BYTES} bytes")
    try:
        message = parsed_message(ceremony_pb2.Introductions, encoded)
        if len(message.introductions) > MAX_PARTIES:
            raise InvalidInput(f"{len(message.introductions)} of them; a roster names at most {MAX_PARTIES} parties")
        return tuple(introduction_from_proto(introduction) for introduction in message.introductions)
    except InvalidInput as error:
        raise MalformedCertificate(f"the list of introductions cannot be read: {error}") from None
