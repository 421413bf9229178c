"""The client halves of the algorithms."""

from collections.abc import Mapping
from typing import Final

from fenchel_client.algorithms.afl import AflClient
from fenchel_client.algorithms.base import ClientHalf
from fenchel_client.algorithms.deltafl import DeltaflClient
from fenchel_client.algorithms.drfa import DrfaClient
from fenchel_client.algorithms.dualfl import DualflClient
from fenchel_client.algorithms.fedavg import FedavgClient
from fenchel_client.algorithms.feddyn import FeddynClient
from fenchel_client.algorithms.fedpd import FedpdClient
from fenchel_client.algorithms.fedprox import FedproxClient
from fenchel_client.algorithms.fedsgm import FedsgmClient
from fenchel_client.algorithms.fivegcs import FivegcsClient
from fenchel_client.algorithms.hyfem import HyfemClient
from fenchel_client.algorithms.qffl import QfflClient
from fenchel_client.algorithms.scaffnew import ScaffnewClient
from fenchel_client.algorithms.scaffold import ScaffoldClient
from fenchel_client.algorithms.scaffpd import ScaffpdClient
from fenchel_client.algorithms.variants import hyfdca_client

ALGORITHMS: Final[Mapping[str, ClientHalf]] = {
    "hyfdca": hyfdca_client,
    "fedavg": FedavgClient,
    "hyfem": HyfemClient,
    "dualfl": DualflClient,
    "feddyn": FeddynClient,
    "fedpd": FedpdClient,
    "5gcs": FivegcsClient,
    "scaffnew": ScaffnewClient,
    "fedsgm": FedsgmClient,
    "scaffpd": ScaffpdClient,
    "scaffold": ScaffoldClient,
    "afl": AflClient,
    "drfa": DrfaClient,
    "qffl": QfflClient,
    "fedprox": FedproxClient,
    "deltafl": DeltaflClient,
}
