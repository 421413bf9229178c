"""The time that a message to the server and its answer take."""

import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fenchel_client.transport.channel import open_channel
from fenchel_common.errors import ServerUnavailable
from fenchel_common.identity import Address, Kit


def round_trips_s(kit: Kit, *, address: Address | None = None, count: int, timeout_s: float) -> list[float]:
    """The seconds of each of `count` calls, one after another, on a connection that is already open."""
    with open_channel(kit, address=address) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        request = health_pb2.HealthCheckRequest()
        try:
            check(request, timeout=timeout_s, wait_for_ready=True)
            measured = []
            for _ in range(count):
                began = time.perf_counter()
                check(request, timeout=timeout_s)
                measured.append(time.perf_counter() - began)
        except grpc.RpcError:
            raise ServerUnavailable(f"{address or kit.server_address} did not answer within {timeout_s:g} s") from None
    return measured
