"""The choice of the clients that take part in a round.

The random choice follows from (seed, round), so a repeated round makes the same choice.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from fenchel_common.algorithms.settings import Participation
from fenchel_common.ids import ClientId, RoundId

PARTICIPATION_STREAM: Final = 0


def active_clients(
    rule: Participation, clients: Sequence[ClientId], *, seed: int, round_id: RoundId
) -> frozenset[ClientId]:
    """The clients that update samples in a round.

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
