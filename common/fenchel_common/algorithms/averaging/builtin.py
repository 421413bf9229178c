"""The settings of the averaging algorithms of Fenchel itself."""

from collections.abc import Mapping
from typing import Final

from fenchel_common.algorithms.averaging.afl import AflSettings
from fenchel_common.algorithms.averaging.apda import ApdaSettings
from fenchel_common.algorithms.averaging.deltafl import DeltaflSettings
from fenchel_common.algorithms.averaging.drfa import DrfaSettings
from fenchel_common.algorithms.averaging.dualfl import DualflSettings
from fenchel_common.algorithms.averaging.fedavg import FedavgSettings
from fenchel_common.algorithms.averaging.feddr import FeddrSettings
from fenchel_common.algorithms.averaging.feddualavg import FeddualavgSettings
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
from fenchel_common.algorithms.averaging.settings import AveragingSettings

AVERAGING: Final[Mapping[str, type[AveragingSettings]]] = {
    "fedavg": FedavgSettings,
    "hyfem": HyfemSettings,
    "dualfl": DualflSettings,
    "feddyn": FeddynSettings,
    "fedpd": FedpdSettings,
    "5gcs": FivegcsSettings,
    "scaffnew": ScaffnewSettings,
    "feddr": FeddrSettings,
    "feddualavg": FeddualavgSettings,
    "apda": ApdaSettings,
    "fedsgm": FedsgmSettings,
    "scaffpd": ScaffpdSettings,
    "scaffold": ScaffoldSettings,
    "afl": AflSettings,
    "drfa": DrfaSettings,
    "qffl": QfflSettings,
    "fedprox": FedproxSettings,
    "deltafl": DeltaflSettings,
}
