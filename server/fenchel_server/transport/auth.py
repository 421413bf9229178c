"""Who is calling, and whether that caller may."""

# gRPC's handler classes are generic to the type checker only.
from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar, cast

import grpc

from fenchel_common.errors import FenchelError, MalformedCertificate
from fenchel_common.identity import Certificate, Kit, Role
from fenchel_common.ids import ClientId
from fenchel_common.wire.frames import PARTY_METADATA_KEY
from fenchel_server.transport.status import abort

HEALTH_PREFIX = "/grpc.health.v1.Health/"

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

logger = logging.getLogger(__name__)


class Authoriser(Protocol):
    """Establishes the party behind a call, or raises an error with its own status."""

    def party(self, context: grpc.ServicerContext) -> ClientId: ...


class CertificateAuthoriser:
    """A caller is the party that its certificate names; nothing that it sends can change that.

    TLS has checked already that the peer holds the key of a certificate of this authority. Checked again here is all
    that may have changed since the connection was made, and what TLS knows nothing of: the role and the roster.
    """

    def __init__(self, kit: Kit) -> None:
        self._authority = kit.authority
        self._roster = kit.roster

    def party(self, context: grpc.ServicerContext) -> ClientId:
        # gRPC gives a list of values for each key, whatever its type stubs say.
        facts = cast(Mapping[str, Sequence[bytes]], context.auth_context())
        pems = facts.get("x509_pem_cert", ())
        if len(pems) != 1:
            raise MalformedCertificate("the call carries no client certificate; connect with the party's kit")
        certificate = Certificate.from_pem(pems[0])
        certificate.verify(self._authority, role=Role.PARTY)
        return self._roster.party(certificate.common_name).name


class InsecureAuthoriser:
    """Believes what the caller says it is: for debugging on loopback, where there is no certificate."""

    def __init__(self, kit: Kit) -> None:
        self._roster = kit.roster

    def party(self, context: grpc.ServicerContext) -> ClientId:
        claimed = dict(context.invocation_metadata()).get(PARTY_METADATA_KEY, "")
        return self._roster.party(str(claimed)).name


class AuthorisingInterceptor(grpc.ServerInterceptor):
    """Lets a call through to its handler only if its caller may make it.

    Health is for whoever holds a certificate of the federation, which TLS itself ensures. Every other call is for the
    parties of the roster.
    """

    def __init__(self, authoriser: Authoriser) -> None:
        self._authoriser = authoriser

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[RequestT, ResponseT] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[RequestT, ResponseT] | None:
        handler = continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(HEALTH_PREFIX):
            return handler
        return self._guarded(handler, handler_call_details.method)

    def _guarded(
        self, handler: grpc.RpcMethodHandler[RequestT, ResponseT], method: str
    ) -> grpc.RpcMethodHandler[RequestT, ResponseT]:
        if handler.stream_stream is None:
            # The service has one call, which streams both ways; a further kind must be guarded before it is served.
            raise NotImplementedError(f"{method} is of a kind that is not guarded")
        behaviour = handler.stream_stream

        @functools.wraps(behaviour)
        def guarded(requests: Iterator[RequestT], context: grpc.ServicerContext) -> Iterator[ResponseT]:
            try:
                self._authoriser.party(context)
            except FenchelError as error:
                logger.warning("refused %s from %s: %s", method, context.peer(), error)
                abort(context, error)
            return behaviour(requests, context)

        return grpc.stream_stream_rpc_method_handler(guarded, handler.request_deserializer, handler.response_serializer)
