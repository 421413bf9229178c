"""The client halves of the averaging algorithms of Fenchel itself."""

from collections.abc import Mapping
from typing import Final

from fenchel_client.algorithms.averaging.afl import AflClient
from fenchel_client.algorithms.averaging.apda import ApdaClient
from fenchel_client.algorithms.averaging.deltafl import DeltaflClient
from fenchel_client.algorithms.averaging.drfa import DrfaClient
from fenchel_client.algorithms.averaging.dualfl import DualflClient
from fenchel_client.algorithms.averaging.fedavg import FedavgClient
from fenchel_client.algorithms.averaging.feddr import FeddrClient
from fenchel_client.algorithms.averaging.feddualavg import FeddualavgClient
from fenchel_client.algorithms.averaging.feddyn import FeddynClient
from fenchel_client.algorithms.averaging.fedpd import FedpdClient
from fenchel_client.algorithms.averaging.fedprox import FedproxClient
from fenchel_client.algorithms.averaging.fedsgm import FedsgmClient
from fenchel_client.algorithms.averaging.fivegcs import FivegcsClient
from fenchel_client.algorithms.averaging.hyfem import HyfemClient
from fenchel_client.algorithms.averaging.qffl import QfflClient
from fenchel_client.algorithms.averaging.scaffnew import ScaffnewClient
from fenchel_client.algorithms.averaging.scaffold import ScaffoldClient
from fenchel_client.algorithms.averaging.scaffpd import ScaffpdClient
from fenchel_client.algorithms.base import ClientHalf

AVERAGING: Final[Mapping[str, ClientHalf]] = {
    "fedavg": FedavgClient,
    "hyfem": HyfemClient,
    "dualfl": DualflClient,
    "feddyn": FeddynClient,
    "fedpd": FedpdClient,
    "5gcs": FivegcsClient,
    "scaffnew": ScaffnewClient,
    "feddr": FeddrClient,
    "feddualavg": FeddualavgClient,
    "apda": ApdaClient,
    "fedsgm": FedsgmClient,
    "scaffpd": ScaffpdClient,
    "scaffold": ScaffoldClient,
    "afl": AflClient,
    "drfa": DrfaClient,
    "qffl": QfflClient,
    "fedprox": FedproxClient,
    "deltafl": DeltaflClient,
}
