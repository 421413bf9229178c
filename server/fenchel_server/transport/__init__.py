"""The transport over gRPC: the federation's only listener."""

from fenchel_server.transport.server import GrpcTransport, listen
from fenchel_server.transport.servicer import TransportLimits

__all__ = ["GrpcTransport", "TransportLimits", "listen"]
