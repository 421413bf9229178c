"""The settings of HyFDCA with corrective steps."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from fenchel_common import defaults
from fenchel_common.algorithms.corrective.family import CORRECTIVE
from fenchel_common.algorithms.corrective.formats import SampleFormats
from fenchel_common.algorithms.corrective.messages import BALANCE_COUNT, FIGURE_COUNT
from fenchel_common.algorithms.dual import ABOUT_CERTIFICATES, ABOUT_LOCAL, DualSettings
from fenchel_common.algorithms.family import Family
from fenchel_common.algorithms.settings import Profile
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.intercept import constant_value
from fenchel_common.selection import LambdaPath, Leg, Progress

ROW_SUMS: Final = "signed sums of each party's rows inside the margin"
"""X_kᵀv, which the server gets beside each party's contribution to the model (see docs/threat-model.md)."""
TOLERATED: Final = 0.1
"""The error of the mean loss by inner products in narrow slots is at most this fraction of the run's gap."""
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
    intercept: bool = Field(default=defaults.INTERCEPT, description="Whether the model has an intercept.")
    path: LambdaPath | None = Field(default=None, description="The legs of the run, whose smallest λ is `lambda`.")

    @property
    def constant(self) -> float:
        return constant_value(self.lambda_) if self.intercept else 0.0

    @property
    def figure_count(self) -> int:
        """The length of `DualResult.figures`."""
        return FIGURE_COUNT + (BALANCE_COUNT if self.intercept else 0)

    @property
    def widths(self) -> tuple[int, ...]:
        return (32, 48, 64) if math.isfinite(self.loss_function.lipschitz) else (64,)

    def slot_bits(self, parties: int) -> int:
        """With `auto`, the narrowest slots whose error is small beside the gap if rows have the length 1.

        Dual variables are at most L, the steepest slope of the loss, so models of points are at most L/λ long. The
        run itself measures the length of its rows and models (`SampleFormats.tolerance`).
        """
        if self.precision != "auto" or self.stop.gap is None:
            return super().slot_bits(parties)
        slope = self.loss_function.lipschitz
        for bits in self.widths[:-1]:
            error = VectorFormat(bits, 1.0, shares=True).error_bound(parties) * slope / self.lambda_
            if slope * error <= TOLERATED * self.stop.gap:
                return bits
        return self.widths[-1]

    def leg(self, number: int) -> Leg:
        """The leg of this number; a run without a path has one."""
        return Leg(number, self.lambda_, None) if self.path is None else self.path.leg(number)

    def lambda_ahead(self, progress: Progress) -> float:
        """The λ of the leg that follows and begins where the one under way ends, or that of the latter."""
        here = progress.leg
        if self.path is None or self.path.is_last(progress) or self.path.starts_anew(here + 1):
            return self.leg(here).lambda_
        return self.path.leg(here + 1).lambda_

    def leg_is_over(self, progress: Progress, round_id: int) -> bool:
        """Whether a leg ends with this round although the gap may not be reached; the last one goes on."""
        if self.path is None or self.path.is_last(progress):
            return False
        return round_id - progress.since >= self.stop.rounds // self.path.legs

    def of_one_class(self) -> Self:
        """The settings of the problem of one class, in a run of several: labels are then −1 and +1.

        If samples have weights, each has one of its own.
        """
        rules = self.label_rules
        weights = {"class_weight": None, "sample_weights": rules.weighted, "largest_weight": rules.largest}
        return self.model_copy(update={"classes": (), **weights})

    def formats(self, parties: int) -> SampleFormats:
        """The formats of vectors by sample in a federation of so many parties."""
        tolerance = math.inf
        if self.precision == "auto" and self.stop.gap is not None:
            tolerance = TOLERATED * self.stop.gap / self.loss_function.lipschitz
        return SampleFormats.of(self.slot_bits(parties), self.alpha_format, tolerance=tolerance)

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
