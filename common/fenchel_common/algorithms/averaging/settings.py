"""The settings that the averaging algorithms have in common."""

from typing import Any, ClassVar

from pydantic import Field

from fenchel_common.algorithms.averaging.family import AVERAGING
from fenchel_common.algorithms.averaging.rails import Vectors
from fenchel_common.algorithms.family import Family
from fenchel_common.algorithms.settings import AlgorithmSettings


class AveragingSettings(AlgorithmSettings):
    """The settings of an averaging algorithm; a subclass must define `vectors`, and `width` if it is not 1."""

    family: ClassVar[Family[Any]] = AVERAGING

    measure_every: int = Field(
        default=5, ge=0, description="Rounds between two measurements of P(w) and accuracy; 0: at the end only."
    )

    @property
    def vectors(self) -> Vectors:
        """The algorithm's vectors and numbers with these settings; both halves read it, at any time."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Values for each feature: 1, or the number of classes."""
        return 1
