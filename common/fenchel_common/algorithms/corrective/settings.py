"""The settings of HyFDCA with corrective steps."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, field_validator, model_validator

from fenchel_common import defaults
from fenchel_common.algorithms.corrective.family import CORRECTIVE
from fenchel_common.algorithms.dual import ABOUT_CERTIFICATES, ABOUT_LOCAL, DualSettings
from fenchel_common.algorithms.family import Family
from fenchel_common.algorithms.settings import Profile

ROW_SUMS: Final = "signed sums of each party's rows inside the margin"
"""X_kᵀv, which the server gets beside each party's contribution to the model (see docs/threat-model.md)."""
ELSEWHERE: Final = ("h", "gamma", "second_inner_product")
"""Settings that only the other local steps of HyFDCA have."""


class CorrectiveSettings(DualSettings):
    """Settings of a HyFDCA run with `local = "corrective"`, checked."""

    profile: ClassVar[Profile] = replace(
        DualSettings.profile,
        sealed=(*DualSettings.profile.sealed, ROW_SUMS),
    )
    family: ClassVar[Family[Any]] = CORRECTIVE

    local: Literal["corrective"] = Field(default=defaults.LOCAL, description=ABOUT_LOCAL)
    certificate_every: int = Field(default=1, ge=0, description=ABOUT_CERTIFICATES)

    @model_validator(mode="before")
    @classmethod
    def _no_setting_of_other_steps(cls, values: object) -> object:
        for name in ELSEWHERE:
            if isinstance(values, Mapping) and name in values:
                raise ValueError(f'{name}: corrective steps have no such setting; leave it out, or use local = "paper"')
        return values

    @field_validator("participation")
    @classmethod
    def _everyone(cls, text: str) -> str:
        if text != "all":
            raise ValueError('corrective steps need all parties; use local = "paper" for rounds with some of them')
        return text
