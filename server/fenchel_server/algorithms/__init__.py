"""The server halves of the algorithms."""

from collections.abc import Mapping
from typing import Final

from fenchel_server.algorithms.afl import AflServer
from fenchel_server.algorithms.base import ServerHalf
from fenchel_server.algorithms.deltafl import DeltaflServer
from fenchel_server.algorithms.drfa import DrfaServer
from fenchel_server.algorithms.dualfl import DualflServer
from fenchel_server.algorithms.fedavg import FedavgServer
from fenchel_server.algorithms.feddyn import FeddynServer
from fenchel_server.algorithms.fedpd import FedpdServer
from fenchel_server.algorithms.fedprox import FedproxServer
from fenchel_server.algorithms.fedsgm import FedsgmServer
from fenchel_server.algorithms.fivegcs import FivegcsServer
from fenchel_server.algorithms.hyfem import HyfemServer
from fenchel_server.algorithms.qffl import QfflServer
from fenchel_server.algorithms.scaffnew import ScaffnewServer
from fenchel_server.algorithms.scaffold import ScaffoldServer
from fenchel_server.algorithms.scaffpd import ScaffpdServer
from fenchel_server.algorithms.variants import HyfdcaVariants

ALGORITHMS: Final[Mapping[str, ServerHalf]] = {
    "hyfdca": HyfdcaVariants(),
    "fedavg": FedavgServer,
    "hyfem": HyfemServer,
    "dualfl": DualflServer,
    "feddyn": FeddynServer,
    "fedpd": FedpdServer,
    "5gcs": FivegcsServer,
    "scaffnew": ScaffnewServer,
    "fedsgm": FedsgmServer,
    "scaffpd": ScaffpdServer,
    "scaffold": ScaffoldServer,
    "afl": AflServer,
    "drfa": DrfaServer,
    "qffl": QfflServer,
    "fedprox": FedproxServer,
    "deltafl": DeltaflServer,
}
