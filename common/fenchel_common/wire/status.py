"""The only table between Fenchel's errors and gRPC's statuses.

The server sends the class's name beside the status, as trailing metadata, because one status stands for several
errors and gRPC itself uses the same statuses for causes of its own. A status that comes without a known name is
something that happened on the way, which a retry may cure.
"""

import grpc

from fenchel_common.errors import (
    BodyDamaged,
    BodyTooLarge,
    CertificateNotValidNow,
    FenchelError,
    MalformedCertificate,
    NotOnRoster,
    PeerSilent,
    ProtocolVersionMismatch,
    ProtocolViolation,
    ServerUnavailable,
    SessionSuperseded,
    WrongAuthority,
    WrongRole,
)

ERROR_METADATA_KEY = "fenchel-error"
INTERNAL_MESSAGE = "internal error of the server; its log has the details"

STATUSES: dict[type[FenchelError], grpc.StatusCode] = {
    BodyDamaged: grpc.StatusCode.DATA_LOSS,
    BodyTooLarge: grpc.StatusCode.RESOURCE_EXHAUSTED,
    CertificateNotValidNow: grpc.StatusCode.UNAUTHENTICATED,
    MalformedCertificate: grpc.StatusCode.UNAUTHENTICATED,
    NotOnRoster: grpc.StatusCode.PERMISSION_DENIED,
    PeerSilent: grpc.StatusCode.DEADLINE_EXCEEDED,
    ProtocolVersionMismatch: grpc.StatusCode.FAILED_PRECONDITION,
    ProtocolViolation: grpc.StatusCode.INVALID_ARGUMENT,
    ServerUnavailable: grpc.StatusCode.UNAVAILABLE,
    SessionSuperseded: grpc.StatusCode.ABORTED,
    WrongAuthority: grpc.StatusCode.UNAUTHENTICATED,
    WrongRole: grpc.StatusCode.PERMISSION_DENIED,
}
_BY_NAME = {kind.__name__: kind for kind in STATUSES}


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str, str | None]:
    """Status, text and name for an error; one that the table does not list gives nothing of itself away."""
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
    return ServerUnavailable(f"{code.name}: {details}")


def error_of_call(call: grpc.Call) -> FenchelError:
    """The error that ended a call of ours."""
    name = next((str(value) for key, value in call.trailing_metadata() or () if key == ERROR_METADATA_KEY), None)
    return error_of(call.code(), call.details() or "no details", name)
