"""The intercept of a model: the weight of one more feature, which has the same value C in every row.

P regularises all weights, and with them λ/2·(b/C)² of the intercept b. C is so large that this share hardly matters;
docs/corrective.md shows how the certificate accounts for it. Every party with labels holds the feature.
"""

import math
from typing import Final

INTERCEPT: Final = "(intercept)"
"""The name of the feature; no column of a table can have it in a run with an intercept."""
INTERCEPT_PSEUDONYM: Final = "0" * 32
"""The server knows which feature it is, because several parties may hold it for the same samples."""
FINEST_GAP: Final = 1e-5
"""The smallest gap of a run with an intercept: below it the intercept's share of the regulariser would count."""
_ROOT_OF_SHARE: Final = 1024.0
"""C²/λ is the square of this: inner products with points of bounded dual variables then stay within their format."""


def constant_value(lambda_: float) -> float:
    """C, in a run with the regularisation λ."""
    return _ROOT_OF_SHARE * math.sqrt(lambda_)
