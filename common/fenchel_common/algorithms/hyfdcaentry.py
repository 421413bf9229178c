"""HyFDCA as a run's file names it: its local steps, and who takes part, choose the class of the settings."""

from typing import Final

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.algorithms.settings import AlgorithmEntry

HYFDCA_ENTRY: Final = AlgorithmEntry(
    CorrectiveSettings,
    {"corrective": CorrectiveSettings, "paper": HyfdcaSettings, "theory": HyfdcaSettings},
    of_some={CorrectiveSettings: PartialSettings},
)
