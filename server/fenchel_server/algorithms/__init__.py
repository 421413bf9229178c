"""The server halves of the algorithms."""

from typing import Final

from fenchel_server.algorithms.hyfdca import HyfdcaServer

ALGORITHMS: Final = {"hyfdca": HyfdcaServer}
