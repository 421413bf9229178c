"""Authentication and authorisation of the caller of each call."""

# gRPC's handler classes are generic to the type checker only.
from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar, cast

import grpc

from fenchel_common.errors import FenchelError, MalformedCertificate
from fenchel_common.identity import Certificate, LiveKit, Role, Roster
from fenchel_common.ids import ClientId
from fenchel_common.wire.frames import PARTY_METADATA_KEY
from fenchel_server.transport.handshakes import Handshakes
from fenchel_server.transport.status import abort

HEALTH_PREFIX = "/grpc.health.v1.Health/"

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

logger = logging.getLogger(__name__)


class Authoriser(Protocol):
    """Establishes the party behind a call.

    An authoriser judges by the roster in use at that moment. So the caller of a long call must be judged again and
    again. Methods that refuse a caller raise a `FenchelError`, which has a gRPC status of its own.
    """

    def party(self, context: grpc.ServicerContext) -> ClientId:
        """The party that makes the call; refuses a caller that is not a party of the roster."""
        ...

    def member(self, context: grpc.ServicerContext) -> None:
        """Refuses a caller that is neither a party of the roster nor the server itself."""
        ...

    def roster(self) -> Roster:
        """The roster in use."""
        ...


class CertificateAuthoriser:
    """Takes the party from the caller's certificate; nothing that the caller sends can change it.

    TLS has checked already that the caller has the private key of a certificate of this authority. This class checks
    the certificate again, because time has passed since the connection was made. It also checks what TLS does not: the
    role, and that the roster names the certificate's key.
    """

    def __init__(self, kit: LiveKit, handshakes: Handshakes) -> None:
        self._kit = kit
        self._handshakes = handshakes

    def roster(self) -> Roster:
        return self._kit.look().roster

    def party(self, context: grpc.ServicerContext) -> ClientId:
        certificate = self._certificate(context)
        self._check(certificate, role=Role.PARTY)
        return ClientId(certificate.common_name)

    def member(self, context: grpc.ServicerContext) -> None:
        """Refuses a caller that is neither a party of the roster nor the server itself."""
        certificate = self._certificate(context)
        self._check(certificate, role=Role.SERVER if certificate.role is Role.SERVER else Role.PARTY)

    def _check(self, certificate: Certificate, *, role: Role) -> None:
        kit = self._kit.look()
        certificate.verify(kit.authority, role=role)
        kit.roster.check_time()
        kit.roster.check_key(certificate)

    def _certificate(self, context: grpc.ServicerContext) -> Certificate:
        self._handshakes.succeed(context.peer())
        # gRPC gives a list of values for each key, whatever its type stubs say.
        facts = cast(Mapping[str, Sequence[bytes]], context.auth_context())
        pems = facts.get("x509_pem_cert", ())
        if len(pems) != 1:
            raise MalformedCertificate("the call carries no client certificate; connect with the party's kit")
        return Certificate.from_pem(pems[0])


class InsecureAuthoriser:
    """Believes the name that the caller sends: for debugging on loopback, where there is no certificate."""

    def __init__(self, kit: LiveKit) -> None:
        self._kit = kit

    def roster(self) -> Roster:
        return self._kit.look().roster

    def party(self, context: grpc.ServicerContext) -> ClientId:
        claimed = dict(context.invocation_metadata()).get(PARTY_METADATA_KEY, "")
        return self.roster().party(str(claimed)).name

    def member(self, context: grpc.ServicerContext) -> None:
        """Refuses nobody."""


class AuthorisingInterceptor(grpc.ServerInterceptor):
    """Lets a call through to its handler only if its caller may make it.

    Every call is for the parties of the roster. The exception is the health service, which judges its own callers.
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
            raise NotImplementedError(f"{method}: only calls that stream both ways can be guarded")
        behaviour = handler.stream_stream

        @functools.wraps(behaviour)
        def guarded(requests: Iterator[RequestT], context: grpc.ServicerContext) -> Iterator[ResponseT]:
            try:
                self._authoriser.party(context)
            except FenchelError as error:
                logger.warning("refused %s from %s: %s", method, context.peer(), error)
                abort(context, error, roster_version=self._authoriser.roster().version)
            return behaviour(requests, context)

        return grpc.stream_stream_rpc_method_handler(guarded, handler.request_deserializer, handler.response_serializer)
