"""FedDyn at the server: adds the clients' vectors and does nothing else."""

from fenchel_common.algorithms.averaging.feddyn import FeddynSettings
from fenchel_server.algorithms.averaging.consensus import ConsensusServer


class FeddynServer(ConsensusServer[FeddynSettings]):
    """The server half of FedDyn."""
