"""The client halves of the algorithms."""

from typing import Final

from fenchel_client.algorithms.hyfdca import HyfdcaClient

ALGORITHMS: Final = {"hyfdca": HyfdcaClient}
