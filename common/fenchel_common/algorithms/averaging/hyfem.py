"""HyFEM's settings, as the HyFDCA paper uses it for convex problems.

A client keeps a model w_k of its own and steps by SGD on the loss of its own rows, with its own columns alone, plus
λ/2‖w_k‖² + μ/2‖w_k − w_0|_k‖²; the server averages the w_k to w_0 where parties overlap. γ_t = a/(b + √t).
"""

from typing import ClassVar

from pydantic import Field

from fenchel_common.algorithms.averaging.fedavg import LocalSgdSettings
from fenchel_common.algorithms.averaging.rails import MODEL, Vectors
from fenchel_common.algorithms.averaging.settings import MEASUREMENT_LEAKS
from fenchel_common.algorithms.settings import ANY_PARTITION, Profile


class HyfemSettings(LocalSgdSettings):
    """Settings of a HyFEM run, checked."""

    profile: ClassVar[Profile] = Profile(
        summary="HyFEM: each party's own model, drawn towards the average; no optimum where columns are split",
        partitions=ANY_PARTITION,
        losses=("hinge", "smoothed_hinge", "logistic"),
        encrypted=("each party's weights", "the model", "inner products, for measurements"),
        visible=MEASUREMENT_LEAKS,
    )

    mu: float = Field(
        default=1.0,
        ge=0.0,
        le=1e12,
        description="Weight μ of the distance between a party's own model and the average.",
    )

    @property
    def vectors(self) -> Vectors:
        return Vectors(kept=(MODEL,), restates=True)
