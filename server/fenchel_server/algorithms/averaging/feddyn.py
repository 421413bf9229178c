"""FedDyn at the server: what the parties send is added up, and nothing else."""

from fenchel_common.algorithms.averaging.feddyn import FeddynSettings
from fenchel_server.algorithms.averaging.consensus import ConsensusServer


class FeddynServer(ConsensusServer[FeddynSettings]):
    """The server half of FedDyn."""
