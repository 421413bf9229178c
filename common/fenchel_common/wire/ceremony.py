"""Certificates on their way from the server to the key holder."""

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from fenchel.v1 import ceremony_pb2
from fenchel_common.errors import MalformedCertificate
from fenchel_common.identity.certificates import MAX_CERTIFICATE_BYTES, Certificate
from fenchel_common.identity.roster import MAX_PARTIES

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
        message = ceremony_pb2.PartyCertificates.FromString(encoded)
    except DecodeError as error:
        raise MalformedCertificate("the list of certificates cannot be read") from error
    if len(message.certificates) > MAX_PARTIES:
        raise MalformedCertificate(
            f"{len(message.certificates)} certificates; a roster names at most {MAX_PARTIES} parties"
        )
    return tuple(Certificate.from_der(der) for der in message.certificates)
