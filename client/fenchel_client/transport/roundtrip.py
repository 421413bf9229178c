"""The time that a message to the server and its answer take."""

import time
from typing import cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fenchel_client.transport.channel import open_channel
from fenchel_common.identity import Address, Kit
from fenchel_common.wire.status import error_of_call


def round_trips_s(kit: Kit, *, address: Address | None = None, count: int, timeout_s: float) -> list[float]:
    """The seconds of each of `count` calls, one after another, on a connection that is already open.

    Raises an error if the server does not answer in time.
    """
    with open_channel(kit, address=address) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        request = health_pb2.HealthCheckRequest()
        try:
            check(request, timeout=timeout_s)
            measured = []
            for _ in range(count):
                began = time.perf_counter()
                check(request, timeout=timeout_s)
                measured.append(time.perf_counter() - began)
        except grpc.RpcError as error:
            # The error that gRPC raises is also the call, although its type stubs do not say so.
            raise error_of_call(cast(grpc.Call, error)) from None
    return measured
