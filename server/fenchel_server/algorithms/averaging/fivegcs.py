"""5GCS at the server: adds the clients' vectors and does nothing else."""

from fenchel_common.algorithms.averaging.fivegcs import FivegcsSettings
from fenchel_server.algorithms.averaging.consensus import ConsensusServer


class FivegcsServer(ConsensusServer[FivegcsSettings]):
    """The server half of 5GCS."""
