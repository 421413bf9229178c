"""The settings, messages and families of the algorithms, for both halves; here the settings by algorithm."""

from collections.abc import Mapping
from typing import Final

from fenchel_common.algorithms.averaging.builtin import AVERAGING
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.outside import WithOutside
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.algorithms.scoring.settings import ScoringSettings
from fenchel_common.algorithms.settings import AlgorithmEntry

_BUILT_IN: Final[Mapping[str, AlgorithmEntry]] = {
    "hyfdca": AlgorithmEntry(
        CorrectiveSettings,
        {"corrective": CorrectiveSettings, "paper": HyfdcaSettings, "theory": HyfdcaSettings},
        of_some={CorrectiveSettings: PartialSettings},
    ),
    **{name: AlgorithmEntry(settings) for name, settings in AVERAGING.items()},
    "scoring": AlgorithmEntry(ScoringSettings),
}

SETTINGS: Final[Mapping[str, AlgorithmEntry]] = WithOutside(_BUILT_IN, lambda found: AlgorithmEntry(found.settings))
"""The built-in algorithms, and those of other packages."""
