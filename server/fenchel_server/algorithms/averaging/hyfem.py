"""HyFEM at the server: the mean of the clients' own models, w_0."""

from fenchel_common.algorithms.averaging.hyfem import HyfemSettings
from fenchel_server.algorithms.averaging.rails import AveragingServer


class HyfemServer(AveragingServer[HyfemSettings]):
    """The server half of HyFEM."""
