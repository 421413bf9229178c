"""Asks a server whether it can run a round and who is missing, through the standard health service of gRPC."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fenchel_client.transport.channel import open_channel
from fenchel_common.identity import Address, Kit
from fenchel_common.ids import ClientId
from fenchel_common.wire.presence import MISSING_METADATA_KEY, missing_from_text
from fenchel_common.wire.status import error_of_call


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a round can run now, and the parties for whom a run waits, with seconds since 1970."""

    serving: bool
    missing: Mapping[ClientId, float]


def ask_health(kit: Kit, *, address: Address | None = None, timeout_s: float) -> Health:
    """The health that the server reports; raises an error if it does not answer in time.

    Any kit of the federation will do, the server's own included.
    """
    with open_channel(kit, address=address) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        try:
            answer, call = check.with_call(health_pb2.HealthCheckRequest(), timeout=timeout_s)
        except grpc.RpcError as error:
            # The error that gRPC raises is also the call, although its type stubs do not say so.
            raise error_of_call(cast(grpc.Call, error)) from None
        told = next((str(value) for key, value in call.trailing_metadata() or () if key == MISSING_METADATA_KEY), "")
    return Health(answer.status == health_pb2.HealthCheckResponse.SERVING, missing_from_text(told))
