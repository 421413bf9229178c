"""Phases, formats of vectors, preparation and settings that HyFDCA and corrective HyFDCA have in common."""

from dataclasses import dataclass
from typing import ClassVar, Final

from fenchel_common.algorithms.settings import ANY_PARTITION, AlgorithmSettings, Profile
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat

ALPHA_FORMAT: Final = VectorFormat(bound=2.0)
"""For α and its changes: |α| ≤ 1 however many rounds add to it, and one change is at most 1."""
PRODUCT_FORMAT: Final = VectorFormat()
"""For inner products, squared row norms, contributions to the model and vectors of numbers."""

INNER_PRODUCT: Final = "inner_product"
LOCAL_DUAL: Final = "local_dual"
PRIMAL: Final = "primal"

PREPARATION: Final = "HyfdcaProductResult"
"""The message that a party sends before the first round: a `ProductResult`."""

ABOUT_LOCAL: Final = (
    "corrective: nothing to tune, monotone. paper: Algorithm 5, the practical variant. theory: Algorithm 3."
)
ABOUT_CERTIFICATES: Final = (
    "Rounds between two certificates, which need all parties; 0: only at the end. The default is 5 with local = paper "
    "or theory, where a certificate takes extra work."
)


@dataclass(frozen=True, slots=True)
class ProductResult:
    """Inner products with a party's rows; as the preparation, the squared norms of these rows."""

    products: BlockVector


class DualSettings(AlgorithmSettings):
    """Settings that both have in common; each adds `local`, and `certificate_every` with its own default."""

    profile: ClassVar[Profile] = Profile(
        summary="HyFDCA: dual coordinate ascent over rows and columns, to the centralized optimum",
        partitions=ANY_PARTITION,
        losses=("hinge", "smoothed_hinge", "logistic"),
        encrypted=("dual variables and their changes", "inner products, row norms"),
        sealed=("each party's contribution to the model, and the model", "each party's sums of losses and conjugates"),
        visible={
            "P, D and the accuracy, over all samples": "in clear, at most once a round",
        },
        certified=True,
    )
