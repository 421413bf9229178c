"""The state of a run between two events, as one immutable value.

    STARTING ─▶ WAITING ─▶ SETUP ─▶ WAITING ─▶ TRAINING ─▶ WAITING ─▶ TRAINING … ─▶ FINISHING ─▶ ENDED

WAITING means waiting for clients. An abandoned set-up or round goes back to WAITING; any stage may go to ENDED.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Self

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.runconfig import RunConfig
from fenchel_server.rounds.stopping import Limits, Progress
from fenchel_server.store import Ending
from fenchel_server.store.base import SETUP_ROUND

QUORUM_ROUNDING: Final = 1e-9
"""Subtracted before rounding up: 0.1 * 30 is a little above 3 in floating point and must not ask for 4 clients."""


class Stage(Enum):
    """The stage of a run."""

    STARTING = "starting"
    WAITING = "waiting for clients"
    SETUP = "set-up"
    TRAINING = "training"
    FINISHING = "finishing"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Rules:
    """The part of a run's configuration that the machine needs.

    `quorum` is the number of clients that must answer every phase of a training round; the set-up needs all clients.
    `gap` is the one that was asked for; None if the algorithm has no certificate.
    """

    clients: frozenset[ClientId]
    quorum: int
    attempts: int
    deadline_s: float
    wait_s: float
    limits: Limits
    gap: float | None = None

    @classmethod
    def of(cls, config: RunConfig, clients: frozenset[ClientId]) -> Self:
        settings = config.algorithm_settings()
        # The legs of a path need certificates, and those need all clients.
        quorum = 1.0 if config.path is not None else config.round.quorum
        return cls(
            clients=clients,
            quorum=max(1, math.ceil(quorum * len(clients) - QUORUM_ROUNDING)),
            attempts=config.round.attempts,
            deadline_s=config.round.deadline_s,
            wait_s=config.round.wait_s,
            limits=Limits(rounds=settings.stop.rounds, seconds=config.stop.seconds),
            gap=config.stop.gap if settings.profile.certified else None,
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at the set-up or at a round.

    `incarnations` has the clients with which the try began, or the one before it while the machine waits for clients.
    `left_out` says for each client that has failed why.
    """

    number: int = 1
    incarnations: Mapping[ClientId, str] = field(default_factory=dict)
    left_out: Mapping[ClientId, str] = field(default_factory=dict)

    @property
    def available(self) -> frozenset[ClientId]:
        """The clients with which the try began."""
        return frozenset(self.incarnations)

    @property
    def answering(self) -> frozenset[ClientId]:
        """The available clients that have not failed."""
        return self.available - frozenset(self.left_out)


@dataclass(frozen=True, slots=True)
class RunState:
    """The whole state of the machine.

    `synced` has each client's incarnation in the last committed round for which the client was available. A client
    whose incarnation has changed has lost its state. A client is missing in `synced` if it has not taken part since
    the algorithm was restored from a snapshot; the algorithm then assumes nothing about its state. `ending` is set
    while FINISHING.
    """

    rules: Rules
    stage: Stage = Stage.STARTING
    round_id: RoundId = SETUP_ROUND
    progress: Progress = field(default_factory=Progress)
    attempt: Attempt = field(default_factory=Attempt)
    synced: Mapping[ClientId, str] = field(default_factory=dict)
    ending: Ending | None = None
