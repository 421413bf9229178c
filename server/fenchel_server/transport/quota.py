"""Quotas of open calls for each caller, so that no caller can use up the threads of the server."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import grpc
from grpc_health.v1 import health, health_pb2

from fenchel_common.errors import FenchelError
from fenchel_common.ids import ClientId
from fenchel_common.wire.presence import MISSING_METADATA_KEY
from fenchel_server.transport.auth import Authoriser
from fenchel_server.transport.status import abort

MAX_STREAMS_PER_PARTY = 2
"""A party's connection, and the previous one until it has ended."""
MAX_WATCHES_PER_CALLER = 8


class Streams:
    """The open calls of each party. A call beyond the quota ends the party's oldest call.

    The oldest call is cancelled from outside: if its client reads nothing, its thread waits in the middle of a message.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[ClientId, deque[grpc.ServicerContext]] = {}

    def enter(self, client: ClientId, context: grpc.ServicerContext) -> None:
        """Adds a call, and ends the party's oldest calls beyond its quota."""
        with self._lock:
            calls = self._open.setdefault(client, deque())
            calls.append(context)
            over = [calls.popleft() for _ in range(len(calls) - MAX_STREAMS_PER_PARTY)]
        for oldest in over:
            oldest.cancel()

    def leave(self, client: ClientId, context: grpc.ServicerContext) -> None:
        """Removes a call that has ended."""
        with self._lock:
            calls = self._open.get(client, deque())
            if context in calls:
                calls.remove(context)


class BoundedHealth:
    """The health service, for members of the federation, with a quota of watches for each caller.

    It refuses unknown service names, because the gRPC library keeps every name that was ever watched in memory.
    """

    def __init__(self, servicer: health.HealthServicer, services: frozenset[str], authoriser: Authoriser) -> None:
        self._servicer = servicer
        self._authoriser = authoriser
        self._services = services
        self._lock = threading.Lock()
        self._watches: dict[bytes, int] = {}
        self.missing = ""
        """Who is missing, as the answer to a check tells it."""

    def Check(  # noqa: N802 - the name that the protocol gives it
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        self._let_in(context)
        if self.missing:
            context.set_trailing_metadata(((MISSING_METADATA_KEY, self.missing),))
        return self._servicer.Check(request, context)

    def List(  # noqa: N802 - the name that the protocol gives it
        self, request: health_pb2.HealthListRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthListResponse:
        self._let_in(context)
        return self._servicer.List(request, context)

    def Watch(  # noqa: N802 - the name that the protocol gives it
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.ServicerContext,
        send_response_callback: Callable[[Any], None] | None = None,
    ) -> object:
        self._let_in(context)
        if request.service not in self._services:
            context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        facts = cast(Mapping[str, Sequence[bytes]], context.auth_context())
        caller = next(iter(facts.get("x509_common_name", ())), b"")
        with self._lock:
            over = self._watches.get(caller, 0) >= MAX_WATCHES_PER_CALLER
            if not over and context.add_callback(lambda: self._ended(caller)):
                self._watches[caller] = self._watches.get(caller, 0) + 1
        if over:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"at most {MAX_WATCHES_PER_CALLER} watches at a time")
        return self._servicer.Watch(request, context, send_response_callback)

    # gRPC reads this attribute: a watch may wait without a thread of its own.
    Watch.__dict__["experimental_non_blocking"] = True

    def _let_in(self, context: grpc.ServicerContext) -> None:
        try:
            self._authoriser.member(context)
        except FenchelError as error:
            abort(context, error, roster_version=self._authoriser.roster().version)

    def _ended(self, caller: bytes) -> None:
        with self._lock:
            self._watches[caller] -= 1
