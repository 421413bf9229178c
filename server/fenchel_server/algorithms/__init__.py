"""The server halves of the algorithms."""

from collections.abc import Mapping
from typing import Final

from fenchel_common.algorithms.outside import WithOutside, outside_half
from fenchel_server.algorithms.averaging.builtin import AVERAGING
from fenchel_server.algorithms.averaging.rails import AveragingServer
from fenchel_server.algorithms.base import ServerHalf
from fenchel_server.algorithms.hyfdca.server import HyfdcaServer
from fenchel_server.algorithms.partial.continued import WholeRunServer
from fenchel_server.algorithms.partial.server import PartialServer
from fenchel_server.algorithms.scoring.server import ScoringServer

ALGORITHMS: Final[Mapping[str, Mapping[str, ServerHalf]]] = {
    "hyfdca": {"hyfdca": HyfdcaServer},
    "corrective": {"hyfdca": WholeRunServer},
    "partial": {"hyfdca": PartialServer},
    "scoring": {"scoring": ScoringServer},
    "averaging": WithOutside(AVERAGING, lambda found: outside_half(found.server, AveragingServer)),
}
"""The server halves, by the name of the family and the name of the algorithm in a run's file."""
