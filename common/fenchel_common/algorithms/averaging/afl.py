"""Agnostic federated learning's settings: the worst mixture of the parties' losses, with local steps.

Mohri et al. 2019, with the local steps that the SCAFF-PD paper adds in its comparison (F.1).
"""

from typing import ClassVar

from pydantic import Field

from fenchel_common.algorithms.averaging.descent import LOSS_LEAK, descent_profile
from fenchel_common.algorithms.averaging.rails import Vectors
from fenchel_common.algorithms.averaging.scaffpd import RobustSettings
from fenchel_common.algorithms.settings import Profile


class AflSettings(RobustSettings):
    """Settings of an AFL run, checked."""

    profile: ClassVar[Profile] = descent_profile(
        "AFL: the worst mixture of the parties' losses, by descent and ascent with local steps",
        encrypted=("each party's weights",),
        visible=LOSS_LEAK,
    )

    rho: float = Field(default=0.0, ge=0.0, le=1e12, description="chi2: 0 is agnostic learning without penalty.")

    @property
    def vectors(self) -> Vectors:
        return Vectors(surveyed=("loss",), measured=self.measured, restates=True)
