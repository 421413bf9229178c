"""Certificates on their way from the server to the key holder."""

from collections.abc import Sequence

from fenchel.v1 import ceremony_pb2
from fenchel_common.errors import InvalidInput, MalformedCertificate
from fenchel_common.identity.certificates import MAX_CERTIFICATE_BYTES, Certificate
from fenchel_common.identity.roster import MAX_PARTIES
from fenchel_common.wire.parsing import parsed_message

MAX_CERTIFICATES_BYTES = MAX_PARTIES * (MAX_CERTIFICATE_BYTES + 8)


def certificates_to_bytes(certificates: Sequence[Certificate]) -> bytes:
    """The certificates that the server relays to the key holder."""
    message = ceremony_pb2.PartyCertificates(certificates=[certificate.der() for certificate in certificates])
    return message.SerializeToString(deterministic=True)


def certificates_from_bytes(encoded: bytes) -> tuple[Certificate, ...]:
    """The relayed certificates, parsed; none of them is verified yet."""
    if len(encoded) > MAX_CERTIFICATES_BYTES:
        raise MalformedCertificate(f"the list of certificates exceeds {MAX_CERTIFICATES_BYTES} bytes")
    try:
        message = parsed_message(ceremony_pb2.PartyCertificates, encoded)
    except InvalidInput as error:
        raise MalformedCertificate(f"the list of certificates cannot be read: {error}") from None
    if len(message.certificates) > MAX_PARTIES:
        raise MalformedCertificate(
            f"{len(message.certificates)} certificates; a roster names at most {MAX_PARTIES} parties"
        )
    return tuple(Certificate.from_der(der) for der in message.certificates)
