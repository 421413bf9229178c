"""What the two halves of each algorithm agree on."""

from typing import Final

from fenchel_common.algorithms.hyfdca import HyfdcaSettings

SETTINGS: Final = {"hyfdca": HyfdcaSettings}
