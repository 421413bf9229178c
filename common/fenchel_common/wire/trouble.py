"""The words of gRPC and OpenSSL about a connection that failed, made plain. Theirs go to the log at level DEBUG."""

import logging

from fenchel_common.errors import CertificateNotValidNow, FenchelError, ServerUnavailable, WrongAuthority

FOREIGN_KEY = "Hostname Verification Check failed"
"""gRPC's words for a server whose certificate is not for the key in the roster."""
_PLAIN = {
    FOREIGN_KEY: "the server there has another key than this kit's roster names",
    "Connection refused": "nobody listens there",
    "DNS resolution failed": "its name does not resolve",
    "Domain name not found": "its name does not resolve",
    "No route to host": "there is no route to it",
    "Network is unreachable": "there is no route to it",
    "Deadline Exceeded": "no answer in time",
    "timed out": "no answer in time",
    "Tls handshake failed": "no secure connection could be made",
    "Socket closed": "the connection broke off",
    "Connection reset": "the connection broke off",
    "Broken pipe": "the connection broke off",
    "Connection aborted": "the connection broke off",
    "Stream removed": "the connection broke off",
    "GOAWAY": "the server is going away",
}
"""For words of gRPC, plain ones; the first that occur count."""

log = logging.getLogger(__name__)


def error_of_connection(status: str, details: str) -> FenchelError:
    """The error for a status that no Fenchel server gave: the connection failed, or a certificate will not do."""
    log.debug("%s: %s", status, details)
    if "CERTIFICATE_VERIFY_FAILED" in details and "expired" not in details and "not yet valid" not in details:
        return WrongAuthority(
            "the certificate of the server at this address is not from this kit's authority: the address or the kit is "
            "of another federation; compare both with the operator, and check them by `fenchel preflight`"
        )
    if "CERTIFICATE_VERIFY_FAILED" in details or "CERTIFICATE_EXPIRED" in details:
        return CertificateNotValidNow(
            "the certificate of the server or of this kit has expired, or one of the two clocks is wrong; look at both "
            "by `fenchel preflight`, and ask the operator for a new kit"
        )
    words = next((plain for theirs, plain in _PLAIN.items() if theirs in details), "the connection failed")
    return ServerUnavailable(words)
