"""The random choices of a round: who takes part, and which samples each client updates.

All randomness comes from (seed, round, purpose, client), so a repeated round makes the same choices, and the choices of
one client do not depend on who else is there.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fenchel_common.algorithms.hyfdca import SampleRange
from fenchel_common.algorithms.settings import Participation
from fenchel_common.ids import ClientId, RoundId

PARTICIPATION_STREAM: Final = 0
COORDINATE_STREAM: Final = 1


def active_clients(
    rule: Participation, clients: Sequence[ClientId], *, seed: int, round_id: RoundId
) -> frozenset[ClientId]:
    """Who updates samples in a round.

    `fraction` (Assumption 4.7): every client with the same probability, P = p·K of them on average, and at least one.
    `cyclic` (Assumption 4.10): client j belongs to set j mod C, and the sets take turns.
    """
    if rule.kind == "cyclic":
        return frozenset(clients[(round_id - 1) % rule.cycle :: rule.cycle])
    if rule.kind == "all":
        return frozenset(clients)
    rng = np.random.default_rng([seed, round_id, PARTICIPATION_STREAM])
    mean = rule.fraction * len(clients)
    size = max(1, int(mean) + int(rng.random() < mean - int(mean)))
    chosen = rng.choice(len(clients), size=size, replace=False)
    return frozenset(clients[index] for index in chosen)


def draw_samples(
    sizes: Mapping[int, int], count: int, *, seed: int, round_id: RoundId, client_index: int
) -> tuple[SampleRange, ...]:
    """`count` of the samples in a client's blocks, each sample with the same probability count/N_k.

    The blocks are laid in a circle in random order, and `count` consecutive samples are taken from a random place on:
    few blocks are touched, hence few ciphertexts made, and every sample is as likely as every other.

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
    # The circle is walked twice, so that a stretch may pass the end; no sample is met twice, as count ≤ N_k.
    position = 0
    for block in order + order:
        start = max(first - position, 0)
        stop = min(first + count - position, sizes[block])
        if start < stop:
            ranges.append(SampleRange(block, start, stop))
        position += sizes[block]
    return tuple(sorted(ranges, key=lambda part: (part.block, part.start)))
