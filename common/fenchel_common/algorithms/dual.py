"""What HyFDCA and its corrective variant have in common: phases of a round, and the formats of their vectors."""

from typing import Final

from fenchel_common.crypto.packing import VectorFormat

ALPHA_FORMAT: Final = VectorFormat(bound=2.0)
"""For α and its changes: |α| ≤ 1 however many rounds add to it, and one change is at most 1."""
PRODUCT_FORMAT: Final = VectorFormat()
"""For inner products, squared row norms, parts of the model and figures."""

INNER_PRODUCT: Final = "inner_product"
LOCAL_DUAL: Final = "local_dual"
PRIMAL: Final = "primal"
