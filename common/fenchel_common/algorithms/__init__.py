"""The settings, messages and families of the algorithms, for both halves; here the settings by algorithm."""

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
from fenchel_common.algorithms.hyfdcaentry import HYFDCA_ENTRY
from fenchel_common.algorithms.outside import WithOutside
from fenchel_common.algorithms.scoring.settings import ScoringSettings
from fenchel_common.algorithms.settings import AlgorithmEntry

_BUILT_IN: Final[Mapping[str, AlgorithmEntry]] = {
    "hyfdca": HYFDCA_ENTRY,
    "fedavg": AlgorithmEntry(FedavgSettings),
    "hyfem": AlgorithmEntry(HyfemSettings),
    "dualfl": AlgorithmEntry(DualflSettings),
    "feddyn": AlgorithmEntry(FeddynSettings),
    "fedpd": AlgorithmEntry(FedpdSettings),
    "5gcs": AlgorithmEntry(FivegcsSettings),
    "scaffnew": AlgorithmEntry(ScaffnewSettings),
    "fedsgm": AlgorithmEntry(FedsgmSettings),
    "scaffpd": AlgorithmEntry(ScaffpdSettings),
    "scaffold": AlgorithmEntry(ScaffoldSettings),
    "afl": AlgorithmEntry(AflSettings),
    "drfa": AlgorithmEntry(DrfaSettings),
    "qffl": AlgorithmEntry(QfflSettings),
    "fedprox": AlgorithmEntry(FedproxSettings),
    "deltafl": AlgorithmEntry(DeltaflSettings),
    "scoring": AlgorithmEntry(ScoringSettings),
}

SETTINGS: Final[Mapping[str, AlgorithmEntry]] = WithOutside(_BUILT_IN, lambda found: AlgorithmEntry(found.settings))
"""The built-in algorithms, and those of other packages."""
