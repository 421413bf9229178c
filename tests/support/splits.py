"""Splits of whole rows over parties, as in the experiments of the papers on FedSGM and SCAFF-PD."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.data.heterogeneous import Rows

THINNED_PARTIES: Final = 0.3
THINNED_ROWS: Final = 0.7


def stratified_rows(y: NDArray[np.float64], parties: int, *, seed: int) -> list[Rows]:
    """The rows of each party, with numbers and class ratios as equal as possible (FedSGM, section 4)."""
    rng = np.random.default_rng([seed, 1])
    # Rows are assigned in turn through all classes, so that the remainder of one class is balanced by the next.
    order = np.concatenate([rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)])
    return [order[party::parties] for party in range(parties)]


def thinned_rows(split: list[Rows], *, seed: int) -> list[Rows]:
    """The split after a random 30 % of the parties have lost a random 70 % of their rows (SCAFF-PD, C.2)."""
    rng = np.random.default_rng([seed, 3])
    thinned = list(split)
    for party in rng.permutation(len(split))[: round(THINNED_PARTIES * len(split))]:
        rows = rng.permutation(split[party])
        thinned[party] = rows[round(THINNED_ROWS * len(rows)) :]
    return thinned
