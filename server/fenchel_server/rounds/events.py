"""Events, which happen to a run, and effects, which the machine wants performed.

Events and effects name clients and phases. They have no bodies of tasks and results; the driver keeps those of the
phase under way. The last effect of a step causes exactly one event, unless it is `Close`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fenchel_common.dismissal import UnfitData
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import RoundMetrics
from fenchel_server.rounds.stopping import Progress
from fenchel_server.store import Ending, RoundRecord


@dataclass(frozen=True, slots=True)
class Started:
    """The server begins to work on the run; `next_round` follows the last committed round.

    With an `ending`, the last committed round was the last of the run.
    """

    next_round: RoundId
    progress: Progress
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class ClientsPresent:
    """The waiting is over; `incarnations` has the clients that are present, `stop` the reason of a stop request."""

    incarnations: Mapping[ClientId, str]
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class PhaseRequested:
    """The set-up or the algorithm requests this phase next."""

    phase: str
    asked: frozenset[ClientId]


@dataclass(frozen=True, slots=True)
class PhaseGathered:
    """The phase is over; `absent` says for each client without a result why. `stop` is the reason of a stop request."""

    phase: str
    answered: frozenset[ClientId]
    absent: Mapping[ClientId, str] = field(default_factory=dict)
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class ResultRefused:
    """A client's result does not fit its task; the whole try is void."""

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
    """The set-up or the algorithm cannot continue, and the run fails; `unfit`: which parties' data are the cause."""

    reason: str
    unfit: Mapping[str, UnfitData] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BeginAttempt:
    """Persist a new attempt number, and forget everything computed since the last commit."""


@dataclass(frozen=True, slots=True)
class AwaitClients:
    """Wait until all clients are present, or `enough` are present and `grace_s` is over, or `timeout_s` is over."""

    clients: frozenset[ClientId]
    enough: int
    grace_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class BeginSetup:
    """Begin the set-up."""


@dataclass(frozen=True, slots=True)
class BeginRound:
    """Begin a round with the `available` clients, of which the `restarted` ones have lost their state.

    A `closing` round certifies the model and changes nothing.
    """

    round_id: RoundId
    available: frozenset[ClientId]
    restarted: frozenset[ClientId]
    closing: bool = False


@dataclass(frozen=True, slots=True)
class BeginFinish:
    """Begin the last phase: make the tasks that give the parties the model."""


@dataclass(frozen=True, slots=True)
class Gather:
    """Send the tasks of the requested phase and gather their results."""

    round_id: RoundId
    phase: str


@dataclass(frozen=True, slots=True)
class Advance:
    """Give the results of the phase to the set-up or the algorithm."""

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
    """Put the end of the run on record; `undelivered` says for each client that did not get the model why."""

    ending: Ending
    undelivered: Mapping[ClientId, str] = field(default_factory=dict)


Event = Started | ClientsPresent | PhaseRequested | PhaseGathered | ResultRefused | SetupReady | RoundReady | Broke
Effect = (
    BeginAttempt
    | AwaitClients
    | BeginSetup
    | BeginRound
    | BeginFinish
    | Gather
    | Advance
    | CommitSetup
    | CommitRound
    | Close
)
