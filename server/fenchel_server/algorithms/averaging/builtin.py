"""The server halves of the averaging algorithms of Fenchel itself."""

from collections.abc import Mapping
from typing import Final

from fenchel_server.algorithms.averaging.afl import AflServer
from fenchel_server.algorithms.averaging.apda import ApdaServer
from fenchel_server.algorithms.averaging.deltafl import DeltaflServer
from fenchel_server.algorithms.averaging.drfa import DrfaServer
from fenchel_server.algorithms.averaging.dualfl import DualflServer
from fenchel_server.algorithms.averaging.fedavg import FedavgServer
from fenchel_server.algorithms.averaging.feddr import FeddrServer
from fenchel_server.algorithms.averaging.feddualavg import FeddualavgServer
from fenchel_server.algorithms.averaging.feddyn import FeddynServer
from fenchel_server.algorithms.averaging.fedpd import FedpdServer
from fenchel_server.algorithms.averaging.fedprox import FedproxServer
from fenchel_server.algorithms.averaging.fedsgm import FedsgmServer
from fenchel_server.algorithms.averaging.fivegcs import FivegcsServer
from fenchel_server.algorithms.averaging.hyfem import HyfemServer
from fenchel_server.algorithms.averaging.qffl import QfflServer
from fenchel_server.algorithms.averaging.scaffnew import ScaffnewServer
from fenchel_server.algorithms.averaging.scaffold import ScaffoldServer
from fenchel_server.algorithms.averaging.scaffpd import ScaffpdServer
from fenchel_server.algorithms.base import ServerHalf

AVERAGING: Final[Mapping[str, ServerHalf]] = {
    "fedavg": FedavgServer,
    "hyfem": HyfemServer,
    "dualfl": DualflServer,
    "feddyn": FeddynServer,
    "fedpd": FedpdServer,
    "5gcs": FivegcsServer,
    "scaffnew": ScaffnewServer,
    "feddr": FeddrServer,
    "feddualavg": FeddualavgServer,
    "apda": ApdaServer,
    "fedsgm": FedsgmServer,
    "scaffpd": ScaffpdServer,
    "scaffold": ScaffoldServer,
    "afl": AflServer,
    "drfa": DrfaServer,
    "qffl": QfflServer,
    "fedprox": FedproxServer,
    "deltafl": DeltaflServer,
}
