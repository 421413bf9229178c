"""The bounds by which inner products in narrow slots are divided.

Of a new model w all parties know a bound T ≥ ‖w‖ before they send their parts of x_i·w: each has told the length of its
own contribution to w, and T is the sum of these lengths. Whoever holds sample i knows ‖x_i‖. So all holders divide by
the same s_i = ‖x_i‖·T, which the server does not know, and multiply the opened sum by it. By Cauchy and Schwarz no part
exceeds s_i, nor does the sum of the magnitudes of all parts.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.rows import PartyRows
from fenchel_common.algorithms.corrective.formats import SampleFormats
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.ids import ClientId
from fenchel_common.release import NORM_ERROR

Array = NDArray[np.float64]

SLACK: Final = 1.0 + 2.0**-20
"""Bounds are larger by this factor, which is many times the rounding errors of inner products and of their bounds."""


def row_lengths(norms: Array) -> Array:
    """(n,) at least ‖x_i‖, from the squared norms as the parties know them."""
    return np.sqrt(norms + NORM_ERROR)


def own_reach(rows: PartyRows, holders: Mapping[int, Sequence[ClientId]], blocks: Sequence[int], norms: Array) -> float:
    """The party's contribution to the mean of ‖x_i‖ times the number of holders, from its shared ones of `blocks`.

    The mean error of the parties' sums of inner products is at most this mean times half a unit of T.
    """
    lengths = row_lengths(norms)
    shared = [block for block in blocks if block in rows.shared]
    sums = (len(holders[block]) * float(lengths[rows.positions[block]].sum()) for block in shared)
    return sum(sums) / rows.sample_count


def own_length(contribution: Array, *, lambda_: float) -> float:
    """λ times the length of a party's contribution to a model, as rounded for the other parties."""
    return lambda_ * float(np.linalg.norm(PRODUCT_FORMAT.rounded(contribution)))


def unit_error(length: float, formats: SampleFormats) -> float:
    """The error of one party's part of x_i·w in a narrow slot, divided by ‖x_i‖; `length` is a bound on ‖w‖."""
    return 0.0 if formats.shares is None else formats.shares.error_bound(1) * length * SLACK


def product_scale(length: float | None, *, reach: float, norms: Array | None, formats: SampleFormats) -> Array | None:
    """(n,) s_i; None if the inner products are sent as they are, in slots of 64 bits.

    Parameters
    ----------
    length
        T; None if no bound is known.
    reach
        The mean over all samples of ‖x_i‖ times the number of holders, 0 for samples that one party holds.
    norms
        ‖x_i‖² of the party's samples. A party that knows T knows them.
    """
    if formats.shares is None or length is None or unit_error(length, formats) * reach > formats.tolerance:
        return None
    assert norms is not None, "norms are told in the first round"
    return row_lengths(norms) * (length * SLACK)
