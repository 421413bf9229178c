"""What happens to a run (events), and what the machine wants done about it (effects).

Bodies of tasks and results never pass through here: the driver holds the ones in hand, and events and effects speak
of clients and phases by name. The last effect of a step brings forth exactly one event, unless it is `Close`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import RoundMetrics
from fenchel_server.rounds.stopping import Progress
from fenchel_server.store import Ending, RoundRecord


@dataclass(frozen=True, slots=True)
class Started:
    """The server took the run up; `next_round` follows the last committed one, which may hold the run's ending."""

    next_round: RoundId
    progress: Progress
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class ClientsPresent:
    """The waiting is over: who is there, with its incarnation; `stop` is the reason of a stop request."""

    incarnations: Mapping[ClientId, str]
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class PhaseOpened:
    """The set-up or the algorithm wants this phase next."""

    phase: str
    asked: frozenset[ClientId]


@dataclass(frozen=True, slots=True)
class PhaseGathered:
    """The phase is over: who answered, and why the others did not."""

    phase: str
    answered: frozenset[ClientId]
    absent: Mapping[ClientId, str] = field(default_factory=dict)
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class ResultRefused:
    """A client's result is not one that its task can have; what was worked out in this try is void."""

    client: ClientId
    reason: str


@dataclass(frozen=True, slots=True)
class SetupReady:
    """The set-up has its outcome, not yet committed."""

    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundReady:
    """The round has its outcome, not yet committed; with an `ending` the algorithm wants no further round."""

    metrics: RoundMetrics
    seconds: float
    ending: Ending | None = None
    record: RoundRecord | None = None


@dataclass(frozen=True, slots=True)
class Broke:
    """The set-up or the algorithm cannot go on."""

    reason: str


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """Persist a new attempt number, and forget whatever was worked out since the last commit."""


@dataclass(frozen=True, slots=True)
class AwaitClients:
    """Wait until all are there, or `enough` are and `grace_s` is over, or `timeout_s` is over."""

    clients: frozenset[ClientId]
    enough: int
    grace_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class OpenSetup:
    """Begin the set-up."""


@dataclass(frozen=True, slots=True)
class BeginRound:
    """Begin a round with the clients that are there; those `restarted` have lost their state.

    A `closing` round certifies the model and changes nothing.
    """

    round_id: RoundId
    available: frozenset[ClientId]
    restarted: frozenset[ClientId]
    closing: bool = False


@dataclass(frozen=True, slots=True)
class OpenFinish:
    """Make the tasks that hand out the model."""


@dataclass(frozen=True, slots=True)
class Gather:
    """Send the tasks in hand and gather their results."""

    round_id: RoundId
    phase: str


@dataclass(frozen=True, slots=True)
class Advance:
    """Hand the results in hand to the set-up or the algorithm."""

    phase: str


@dataclass(frozen=True, slots=True)
class CommitSetup:
    """Commit the set-up's outcome as round 0."""


@dataclass(frozen=True, slots=True)
class CommitRound:
    """Commit the round's outcome, and with it how the run ends if this was its last round."""

    round_id: RoundId
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """End the run, on record; `undelivered` names the clients that did not get the model."""

    ending: Ending
    undelivered: Mapping[ClientId, str] = field(default_factory=dict)


Event = Started | ClientsPresent | PhaseOpened | PhaseGathered | ResultRefused | SetupReady | RoundReady | Broke
Effect = (
    OpenAttempt
    | AwaitClients
    | OpenSetup
    | BeginRound
    | OpenFinish
    | Gather
    | Advance
    | CommitSetup
    | CommitRound
    | Close
)
