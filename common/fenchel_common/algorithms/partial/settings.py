"""The settings of HyFDCA with corrective steps while some of the parties take part."""

from typing import Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import ABOUT_CERTIFICATES
from fenchel_common.algorithms.family import Family
from fenchel_common.algorithms.partial.family import PARTIAL


class PartialSettings(CorrectiveSettings):
    """Settings of a run with `local = "corrective"` and any participation but `all`, checked."""

    family: ClassVar[Family[Any]] = PARTIAL

    certificate_every: int = Field(default=10, ge=0, description=ABOUT_CERTIFICATES)

    @field_validator("participation")
    @classmethod
    def _everyone(cls, text: str) -> str:
        if text == "all":
            raise ValueError("a run of all parties has other corrective steps")
        return text

    @model_validator(mode="after")
    def _one_problem(self) -> Self:
        if self.classes or self.path is not None:
            raise ValueError(
                "participation: several classes and the choice of λ need all parties in every round; use all"
            )
        return self

    @model_validator(mode="after")
    def _some_rounds_train(self) -> Self:
        if self.certificate_every == 1 and not self.trains_everybody:
            raise ValueError(
                "certificate_every: 1 leaves no round to train in, because a certificate takes a round of all parties "
                "that trains nothing unless participation is all or fraction:1.0; use 2 or more, or 0"
            )
        return self

    @property
    def trains_everybody(self) -> bool:
        """Whether everybody who is there trains in every round, those with a certificate included."""
        rule = self.participation_rule
        return rule.kind == "fraction" and rule.fraction == 1.0


def settings_of_pairs(settings: CorrectiveSettings) -> PartialSettings:
    """The settings of the rounds of pairs in a run of all parties."""
    return PartialSettings.model_construct(**{**dict(settings), "participation": "fraction:1.0"})
