"""The choice of the samples that a party updates in a round.

A party draws from each of its cohorts separately: from the samples that it holds together with the same other parties.
All randomness follows from (seed, round, party, cohort). So a repeated round makes the same choices, the choices of one
party do not depend on the others, and all holders of a cohort know who draws which of its samples.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from fenchel_common.algorithms.hyfdca.messages import SampleRange
from fenchel_common.ids import RoundId

COORDINATE_STREAM: Final = 1


def draw_samples(
    cohort: Mapping[int, int], share: float, *, seed: int, round_id: RoundId, client_index: int
) -> tuple[SampleRange, ...]:
    """Samples of one cohort, each with probability `share`: share·n of n samples, rounded up or down at random.

    The blocks form a circle in random order, and consecutive samples are taken from a random position on. So few blocks
    change, few ciphertexts are made, and all samples are equally likely.

    Parameters
    ----------
    cohort
        The size of each block of the cohort, by id.
    share
        Above 0 and at most 1.
    client_index
        The position in the roster of the party that draws.
    """
    rng = np.random.default_rng([seed, round_id, COORDINATE_STREAM, client_index, min(cohort)])
    blocks = rng.permutation(sorted(cohort))
    sizes = np.array([cohort[block] for block in blocks.tolist()])
    starts = np.cumsum(sizes) - sizes
    total = int(sizes.sum())
    count = min(int(share * total + rng.random()), total)
    first = int(rng.integers(total))
    ranges = []
    # Two passes over the circle, so that the samples may continue at its start; none is taken twice, as count ≤ n.
    for passed in (0, total):
        begin = np.clip(first - passed - starts, 0, sizes)
        end = np.clip(first + count - passed - starts, 0, sizes)
        ranges += [
            SampleRange(int(blocks[at]), int(begin[at]), int(end[at])) for at in np.flatnonzero(begin < end).tolist()
        ]
    return tuple(sorted(ranges, key=lambda part: (part.block, part.start)))
