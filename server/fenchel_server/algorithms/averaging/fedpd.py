"""FedPD at the server: adds the clients' vectors and does nothing else."""

from fenchel_common.algorithms.averaging.fedpd import FedpdSettings
from fenchel_server.algorithms.averaging.consensus import ConsensusServer


class FedpdServer(ConsensusServer[FedpdSettings]):
    """The server half of FedPD."""
