"""The duality-gap certificate, and the watch for divergence."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fenchel_common.algorithms.hyfdca import PRODUCT_FORMAT, CertificateShare
from fenchel_common.layout import FederationLayout

GAP_GROWTH_LIMIT: Final = 10.0
POOR_CERTIFICATES_LIMIT: Final = 5


@dataclass(frozen=True, slots=True)
class Certificate:
    """P(w), D(α) and the gap that bounds the distance to the optimum, fixed-point error included."""

    primal: float
    dual: float
    gap: float
    gap_error: float
    accuracy: float


def certify(
    shares: Iterable[CertificateShare],
    *,
    squared_norm: float,
    lambda_: float,
    sample_count: int,
    gap_error: float,
    dual: float | None = None,
) -> Certificate | None:
    """Puts the reporters' sums together; None unless they cover every sample.

    Parameters
    ----------
    squared_norm
        ‖w‖², where w = w(α): the caller vouches that no party's share of it is out of date.
    dual
        D at some feasible α, if the caller knows it; w may then be any model.
    gap_error
        See `rounding_error`.
    """
    given = list(shares)
    if sum(share.samples for share in given) != sample_count:
        return None
    regulariser = lambda_ / 2.0 * squared_norm
    primal = regulariser + sum(share.loss_sum for share in given) / sample_count
    if dual is None:
        dual = -regulariser - sum(share.conjugate_sum for share in given) / sample_count
    return Certificate(
        primal=primal,
        dual=dual,
        gap=primal - dual + gap_error,
        gap_error=gap_error,
        accuracy=sum(share.correct for share in given) / sample_count,
    )


def rounding_error(layout: FederationLayout, lipschitz: float) -> float:
    """The most by which fixed-point inner products change the mean loss.

    Each holder's part is off by half a unit at most, and the loss is Lipschitz in their sum. α itself is exact: it is
    the fixed-point number that the parties hold, and w is made of that number.
    """
    shared = [block for block in layout.blocks if len(block.holders) > 1]
    off = sum(block.size * PRODUCT_FORMAT.error_bound(len(block.holders)) for block in shared)
    return lipschitz * off / layout.sample_count


@dataclass(slots=True)
class DivergenceWatch:
    """Tells a run that diverges from one that merely stumbles.

    At α = 0 the gap is the loss at 0. A certificate is poor if its gap is above that, or many times the best one seen
    and still large. Several poor ones in a row are divergence.
    """

    initial_gap: float
    best_gap: float | None = None
    poor: int = 0

    def diverges(self, gap: float) -> bool:
        best = gap if self.best_gap is None else self.best_gap
        relapsed = gap > GAP_GROWTH_LIMIT * best and gap > self.initial_gap / GAP_GROWTH_LIMIT
        self.poor = self.poor + 1 if gap > self.initial_gap or relapsed else 0
        self.best_gap = min(best, gap)
        return self.poor >= POOR_CERTIFICATES_LIMIT
