"""The choice of the samples that each client updates in a round.

All randomness follows from (seed, round, purpose, client), so a repeated round makes the same choices, and the choices
of one client do not depend on the other clients.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from fenchel_common.algorithms.hyfdca.messages import SampleRange
from fenchel_common.ids import RoundId

COORDINATE_STREAM: Final = 1


def draw_samples(
    sizes: Mapping[int, int], count: int, *, seed: int, round_id: RoundId, client_index: int
) -> tuple[SampleRange, ...]:
    """`count` of the samples in a client's blocks, each sample with the same probability count/N_k.

    The blocks form a circle in random order, and `count` consecutive samples are taken from a random position on. So
    few blocks change, few ciphertexts are made, and all samples are equally likely.

    Parameters
    ----------
    sizes
        The size of each of the client's blocks, by id.
    """
    rng = np.random.default_rng([seed, round_id, COORDINATE_STREAM, client_index])
    order = [int(block) for block in rng.permutation(sorted(sizes))]
    total = sum(sizes.values())
    first = int(rng.integers(total))
    ranges = []
    # Two passes over the circle, so that the samples may continue at its start; none is taken twice, as count ≤ N_k.
    position = 0
    for block in order + order:
        start = max(first - position, 0)
        stop = min(first + count - position, sizes[block])
        if start < stop:
            ranges.append(SampleRange(block, start, stop))
        position += sizes[block]
    return tuple(sorted(ranges, key=lambda part: (part.block, part.start)))
