"""The client halves of the algorithms."""

from collections.abc import Mapping
from typing import Final

from fenchel_client.algorithms.averaging.builtin import AVERAGING
from fenchel_client.algorithms.averaging.rails import AveragingClient
from fenchel_client.algorithms.base import ClientHalf
from fenchel_client.algorithms.hyfdca.client import HyfdcaClient
from fenchel_client.algorithms.partial.client import PartialClient
from fenchel_client.algorithms.partial.continued import whole_run_half
from fenchel_client.algorithms.scoring.client import ScoringClient
from fenchel_common.algorithms.outside import WithOutside, outside_half

ALGORITHMS: Final[Mapping[str, Mapping[str, ClientHalf]]] = {
    "hyfdca": {"hyfdca": HyfdcaClient},
    "corrective": {"hyfdca": whole_run_half},
    "partial": {"hyfdca": PartialClient},
    "scoring": {"scoring": ScoringClient},
    "averaging": WithOutside(AVERAGING, lambda found: outside_half(found.client, AveragingClient)),
}
"""The client halves by the name of the family and the name of the algorithm in a run's file."""
