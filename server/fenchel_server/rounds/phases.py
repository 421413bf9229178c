"""Where a run stands between two events, as one immutable value.

    STARTING ─▶ WAITING ─▶ SETUP ─▶ WAITING ─▶ TRAINING ─▶ WAITING ─▶ TRAINING … ─▶ FINISHING ─▶ ENDED

WAITING is for clients. A set-up or a round that is abandoned goes back to WAITING; any stage may go to ENDED.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from fenchel_common.ids import ClientId, RoundId
from fenchel_server.rounds.stopping import Limits, Progress
from fenchel_server.store import Ending
from fenchel_server.store.base import SETUP_ROUND


class Stage(Enum):
    """What the run is doing."""

    STARTING = "starting"
    WAITING = "waiting for clients"
    SETUP = "set-up"
    TRAINING = "training"
    FINISHING = "finishing"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Rules:
    """The run's configuration, as far as the machine needs it.

    `quorum` is how many clients must be there and answering for a training round to count; the set-up needs all.
    """

    clients: frozenset[ClientId]
    quorum: int
    attempts: int
    deadline_s: float
    wait_s: float
    limits: Limits


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at the set-up or at a round.

    `opened` holds each available client's incarnation when the try began. `left_out` says why a client that was
    asked is no longer counted on.
    """

    number: int = 1
    opened: Mapping[ClientId, str] = field(default_factory=dict)
    left_out: Mapping[ClientId, str] = field(default_factory=dict)

    @property
    def available(self) -> frozenset[ClientId]:
        """The clients that the try began with."""
        return frozenset(self.opened)

    @property
    def answering(self) -> frozenset[ClientId]:
        """The clients that are still counted on."""
        return self.available - frozenset(self.left_out)


@dataclass(frozen=True, slots=True)
class RunState:
    """All that the machine remembers.

    `synced` holds the incarnation that each client had in the last committed round that it was available for, in
    this life of the server; a client with another one has lost its state. Of one with none the algorithm was told
    nothing since it was made from a snapshot. `ending` is set while FINISHING.
    """

    rules: Rules
    stage: Stage = Stage.STARTING
    round_id: RoundId = SETUP_ROUND
    progress: Progress = field(default_factory=Progress)
    attempt: Attempt = field(default_factory=Attempt)
    synced: Mapping[ClientId, str] = field(default_factory=dict)
    ending: Ending | None = None
