"""What the two halves of each algorithm agree on."""

from collections.abc import Mapping
from typing import Final

from fenchel_common.algorithms.afl import AflSettings
from fenchel_common.algorithms.deltafl import DeltaflSettings
from fenchel_common.algorithms.drfa import DrfaSettings
from fenchel_common.algorithms.dualfl import DualflSettings
from fenchel_common.algorithms.fedavg import FedavgSettings
from fenchel_common.algorithms.feddyn import FeddynSettings
from fenchel_common.algorithms.fedpd import FedpdSettings
from fenchel_common.algorithms.fedprox import FedproxSettings
from fenchel_common.algorithms.fedsgm import FedsgmSettings
from fenchel_common.algorithms.fivegcs import FivegcsSettings
from fenchel_common.algorithms.hyfdca import HyfdcaSettings
from fenchel_common.algorithms.hyfem import HyfemSettings
from fenchel_common.algorithms.qffl import QfflSettings
from fenchel_common.algorithms.scaffnew import ScaffnewSettings
from fenchel_common.algorithms.scaffold import ScaffoldSettings
from fenchel_common.algorithms.scaffpd import ScaffpdSettings
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
