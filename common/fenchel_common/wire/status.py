"""The only table between Fenchel's errors and gRPC's statuses.

The server sends the class's name beside the status, as trailing metadata, because one status stands for several errors,
and gRPC itself uses the same statuses for other causes. A status without a known name comes from the connection, and a
retry may cure it.
"""

import re

import grpc

from fenchel_common.errors import (
    BodyDamaged,
    BodyTooLarge,
    CertificateNotValidNow,
    CertificateReplaced,
    FenchelError,
    MalformedCertificate,
    NotOnRoster,
    PeerSilent,
    ProtocolVersionMismatch,
    ProtocolViolation,
    RosterExpired,
    ServerUnavailable,
    SessionSuperseded,
    WrongAuthority,
    WrongRole,
)
from fenchel_common.wire.trouble import error_of_connection

ERROR_METADATA_KEY = "fenchel-error"
ROSTER_METADATA_KEY = "fenchel-roster-version"
"""The version of the server's roster, sent with a refusal. A caller with a newer roster tries again later."""
INTERNAL_MESSAGE = "internal error of the server; its log has the details"

STATUSES: dict[type[FenchelError], grpc.StatusCode] = {
    BodyDamaged: grpc.StatusCode.DATA_LOSS,
    BodyTooLarge: grpc.StatusCode.RESOURCE_EXHAUSTED,
    CertificateNotValidNow: grpc.StatusCode.UNAUTHENTICATED,
    CertificateReplaced: grpc.StatusCode.PERMISSION_DENIED,
    MalformedCertificate: grpc.StatusCode.UNAUTHENTICATED,
    NotOnRoster: grpc.StatusCode.PERMISSION_DENIED,
    PeerSilent: grpc.StatusCode.DEADLINE_EXCEEDED,
    ProtocolVersionMismatch: grpc.StatusCode.FAILED_PRECONDITION,
    ProtocolViolation: grpc.StatusCode.INVALID_ARGUMENT,
    RosterExpired: grpc.StatusCode.FAILED_PRECONDITION,
    ServerUnavailable: grpc.StatusCode.UNAVAILABLE,
    SessionSuperseded: grpc.StatusCode.ABORTED,
    WrongAuthority: grpc.StatusCode.UNAUTHENTICATED,
    WrongRole: grpc.StatusCode.PERMISSION_DENIED,
}
_BY_NAME = {kind.__name__: kind for kind in STATUSES}


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str, str | None]:
    """Status, text and name of an error; an error that is not in the table becomes INTERNAL with a general text."""
    code = STATUSES.get(type(error)) if isinstance(error, FenchelError) else None
    if code is None:
        return grpc.StatusCode.INTERNAL, INTERNAL_MESSAGE, None
    return code, str(error), type(error).__name__


def error_of(code: grpc.StatusCode, details: str, name: str | None) -> FenchelError:
    """The error that a status stands for."""
    kind = _BY_NAME.get(name or "")
    if kind is not None and STATUSES[kind] is code:
        return kind(details)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return ProtocolVersionMismatch(
            f"the server does not know this protocol ({details}); install the same Fenchel version on both sides"
        )
    return error_of_connection(code.name, details)


def error_of_call(call: grpc.Call) -> FenchelError:
    """The error that ended a call of this process."""
    return error_of(call.code(), call.details() or "no details", _trailing(call, ERROR_METADATA_KEY))


def roster_version_of(call: grpc.Call) -> int | None:
    """The version of the server's roster, if the server sent it with its refusal of a call."""
    version = _trailing(call, ROSTER_METADATA_KEY) or ""
    return int(version) if re.fullmatch(r"[0-9]{1,10}", version, re.ASCII) else None


def _trailing(call: grpc.Call, wanted: str) -> str | None:
    return next((str(value) for key, value in call.trailing_metadata() or () if key == wanted), None)
