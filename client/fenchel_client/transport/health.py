"""Asks a server whether it can run a round, through the standard health service of gRPC."""

from typing import cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fenchel_client.transport.channel import open_channel
from fenchel_common.identity import Address, Kit
from fenchel_common.wire.status import error_of_call


def can_run_a_round(kit: Kit, *, address: Address | None = None, timeout_s: float) -> bool:
    """Whether the server says that it can run a round now; raises an error if it does not answer in time.

    Any kit of the federation will do, the server's own included.
    """
    with open_channel(kit, address=address) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
        except grpc.RpcError as error:
            # The error that gRPC raises is also the call, although its type stubs do not say so.
            raise error_of_call(cast(grpc.Call, error)) from None
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
