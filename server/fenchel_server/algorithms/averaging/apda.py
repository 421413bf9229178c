"""APDA with an inexact prox at the server: adds the clients' vectors and does nothing else."""

from fenchel_common.algorithms.averaging.apda import ApdaSettings
from fenchel_server.algorithms.averaging.consensus import ConsensusServer


class ApdaServer(ConsensusServer[ApdaSettings]):
    """The server half of APDA with an inexact prox."""
