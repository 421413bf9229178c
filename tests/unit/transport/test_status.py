"""Errors and gRPC statuses: what goes out comes back, and what is not listed gives nothing away."""

import grpc
import pytest

from fenchel_common.errors import (
    BodyTooLarge,
    CertificateNotValidNow,
    FenchelError,
    NotOnRoster,
    PermanentError,
    ProtocolVersionMismatch,
    ServerUnavailable,
    TransientError,
    ValueOutOfRange,
    WrongAuthority,
)
from fenchel_common.wire.status import STATUSES, error_of, status_of

TLS = "Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal"


@pytest.mark.parametrize("kind", STATUSES, ids=lambda kind: kind.__name__)
def test_every_listed_error_comes_back_as_itself(kind: type[FenchelError]) -> None:
    code, details, name = status_of(kind("do this"))
    back = error_of(code, details, name)

    assert type(back) is kind
    assert str(back) == "do this"


@pytest.mark.parametrize("error", [ValueError("secret 17"), ValueOutOfRange("secret 17"), KeyError("secret 17")])
def test_an_unlisted_error_becomes_internal_and_gives_nothing_of_itself_away(error: Exception) -> None:
    code, details, name = status_of(error)

    assert code is grpc.StatusCode.INTERNAL
    assert "secret" not in details
    assert name is None
    assert isinstance(error_of(code, details, name), TransientError)


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.UNIMPLEMENTED])
def test_a_status_that_no_fenchel_server_gave_is_something_to_try_again(code: grpc.StatusCode) -> None:
    assert isinstance(error_of(code, "a proxy said so", None), ServerUnavailable)


def test_a_name_that_does_not_go_with_its_status_is_not_believed() -> None:
    assert isinstance(error_of(grpc.StatusCode.UNAVAILABLE, "", NotOnRoster.__name__), ServerUnavailable)


def test_a_server_without_the_service_is_one_of_another_version() -> None:
    assert isinstance(error_of(grpc.StatusCode.UNIMPLEMENTED, "", None), ProtocolVersionMismatch)


def test_statuses_of_interest_are_the_ones_that_operators_expect() -> None:
    assert STATUSES[NotOnRoster] is grpc.StatusCode.PERMISSION_DENIED
    assert STATUSES[BodyTooLarge] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert STATUSES[ProtocolVersionMismatch] is grpc.StatusCode.FAILED_PRECONDITION
    assert issubclass(ProtocolVersionMismatch, PermanentError)


@pytest.mark.parametrize(
    ("details", "kind", "words"),
    [
        ("failed to connect: Connection refused (111)", ServerUnavailable, "nobody listens there"),
        ("DNS resolution failed for x:1", ServerUnavailable, "its name does not resolve"),
        ("Socket closed", ServerUnavailable, "the connection broke off"),
        ("something else", ServerUnavailable, "the connection failed"),
        (
            f"{TLS}: CERTIFICATE_VERIFY_FAILED: unable to get local issuer",
            WrongAuthority,
            "not from this kit's authority",
        ),
        (f"{TLS}: CERTIFICATE_VERIFY_FAILED: certificate has expired", CertificateNotValidNow, "has expired"),
    ],
)
def test_a_connection_that_failed_is_told_in_plain_words(details: str, kind: type[FenchelError], words: str) -> None:
    error = error_of(grpc.StatusCode.UNAVAILABLE, details, None)
    assert type(error) is kind
    assert words in str(error)
    assert not any(theirs in str(error) for theirs in ("SSL", "UNAVAILABLE", "111", "OPENSSL"))
