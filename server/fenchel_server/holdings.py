"""What each party holds, by pseudonyms, and the cohorts of samples with the same holders."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fenchel_common.ids import ClientId


@dataclass(frozen=True, slots=True)
class Holding:
    """The server's knowledge of one party: pseudonyms in the party's own order, features, and whether it has labels.

    The pseudonyms of all parties have the same number of bytes. `features` are pseudonyms of names, as text.
    """

    client: ClientId
    pseudonyms: NDArray[np.bytes_] | tuple[bytes, ...] = field(repr=False)
    features: tuple[str, ...]
    has_labels: bool


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """The samples that exactly `holders` (indices into the roster, ascending) hold, by sample number."""

    holders: tuple[int, ...]
    samples: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SortedCohorts:
    """The cohorts that a run uses, and those that it leaves out because they lack a label or a feature."""

    used: list[Cohort]
    unlabelled: list[Cohort]
    incomplete: list[Cohort]
