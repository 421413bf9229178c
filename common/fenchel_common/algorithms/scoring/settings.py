"""The settings of a scoring run."""

from typing import Any, ClassVar, Final

from pydantic import Field

from fenchel_common.algorithms.family import Family
from fenchel_common.algorithms.scoring.family import SCORING
from fenchel_common.algorithms.settings import ANY_PARTITION, AlgorithmSettings, Profile
from fenchel_common.privacy import Privacy

FEWEST_ROWS: Final = 20


class ScoringSettings(AlgorithmSettings):
    """Settings of a run in which one party has rows scored by a model of an earlier run."""

    profile: ClassVar[Profile] = Profile(
        summary="scores of new rows by a finished model; only the asking party learns them",
        partitions=ANY_PARTITION,
        losses=("hinge",),
        encrypted=("each party's part of the scores",),
        visible={"which party asks, and how many rows each party holds": "once"},
        privacy=(Privacy.SEALED,),
    )
    family: ClassVar[Family[Any]] = SCORING

    asker: str = Field(default="", description="The party that asks, and alone learns the scores.")
    model: str = Field(default="", description="The run whose model it is.")
    minimum: int = Field(default=FEWEST_ROWS, ge=1, description="The fewest rows for which a party gives its part.")
