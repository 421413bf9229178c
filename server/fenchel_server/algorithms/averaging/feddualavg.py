"""FedDualAvg at the server: adds the clients' vectors and does nothing else."""

from fenchel_common.algorithms.averaging.feddualavg import FeddualavgSettings
from fenchel_server.algorithms.averaging.consensus import ConsensusServer


class FeddualavgServer(ConsensusServer[FeddualavgSettings]):
    """The server half of FedDualAvg."""
