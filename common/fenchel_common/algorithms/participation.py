"""The choice of the clients that take part in a round.

The random choice follows from (seed, round), so a repeated round makes the same choice.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from fenchel_common.algorithms.settings import Participation, is_due
from fenchel_common.ids import ClientId, RoundId

PARTICIPATION_STREAM: Final = 0


class TakesTurns(Protocol):
    """The settings of a run that may train with some clients, and needs all of them for a certificate."""

    @property
    def participation_rule(self) -> Participation: ...

    @property
    def certificate_every(self) -> int: ...

    @property
    def seed(self) -> int: ...


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


def measures_alone(settings: TakesTurns, round_id: RoundId) -> bool:
    """Whether a round measures the model with all clients and updates no sample.

    If only some clients shall take part in a round, a certificate needs more of them than the round may train with.
    So it has a round of its own, which counts as one of the run.
    """
    return settings.participation_rule.kind != "all" and is_due(round_id, settings.certificate_every)


def training_round(settings: TakesTurns, round_id: RoundId) -> RoundId:
    """The number of a round among those in which samples are updated, so that no set of clients misses its turn."""
    if settings.participation_rule.kind == "all" or not settings.certificate_every:
        return round_id
    return RoundId(round_id - (round_id - 1) // settings.certificate_every)


def due_active(settings: TakesTurns, clients: Sequence[ClientId], round_id: RoundId) -> frozenset[ClientId]:
    """The clients that shall update samples in a round, whether or not they are available; `clients` in roster order.

    None of them in a round that only measures.
    """
    if measures_alone(settings, round_id):
        return frozenset()
    number = training_round(settings, round_id)
    return active_clients(settings.participation_rule, clients, seed=settings.seed, round_id=number)
