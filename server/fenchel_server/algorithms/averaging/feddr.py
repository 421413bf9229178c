"""FedDR at the server: adds the clients' vectors and does nothing else."""

from fenchel_common.algorithms.averaging.feddr import FeddrSettings
from fenchel_server.algorithms.averaging.consensus import ConsensusServer


class FeddrServer(ConsensusServer[FeddrSettings]):
    """The server half of FedDR."""
