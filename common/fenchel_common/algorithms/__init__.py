"""What the two halves of each algorithm agree on."""

from collections.abc import Mapping
from typing import Final

from fenchel_common.algorithms.averaging.afl import AflSettings
from fenchel_common.algorithms.averaging.deltafl import DeltaflSettings
from fenchel_common.algorithms.averaging.drfa import DrfaSettings
from fenchel_common.algorithms.averaging.dualfl import DualflSettings
from fenchel_common.algorithms.averaging.fedavg import FedavgSettings
from fenchel_common.algorithms.averaging.feddyn import FeddynSettings
from fenchel_common.algorithms.averaging.fedpd import FedpdSettings
from fenchel_common.algorithms.averaging.fedprox import FedproxSettings
from fenchel_common.algorithms.averaging.fedsgm import FedsgmSettings
from fenchel_common.algorithms.averaging.fivegcs import FivegcsSettings
from fenchel_common.algorithms.averaging.hyfem import HyfemSettings
from fenchel_common.algorithms.averaging.qffl import QfflSettings
from fenchel_common.algorithms.averaging.scaffnew import ScaffnewSettings
from fenchel_common.algorithms.averaging.scaffold import ScaffoldSettings
from fenchel_common.algorithms.averaging.scaffpd import ScaffpdSettings
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.settings import AlgorithmSettings

SETTINGS: Final[Mapping[str, type[AlgorithmSettings]]] = {
    "hyfdca": HyfdcaSettings,
    "fedavg": FedavgSettings,
    "hyfem": HyfemSettings,
    "dualfl": DualflSettings,
    "feddyn": FeddynSettings,
    "fedpd": FedpdSettings,
    "5gcs": FivegcsSettings,
    "scaffnew": ScaffnewSettings,
    "fedsgm": FedsgmSettings,
    "scaffpd": ScaffpdSettings,
    "scaffold": ScaffoldSettings,
    "afl": AflSettings,
    "drfa": DrfaSettings,
    "qffl": QfflSettings,
    "fedprox": FedproxSettings,
    "deltafl": DeltaflSettings,
}
