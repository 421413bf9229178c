"""The common base of the server halves of all algorithms: rounds, their phases, and clients that fail.

A round begins with the available clients. Each phase asks some of them and reads their answers. A client whose
answer is missing or rejected is left out of the rest of the round, and the report says why.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from fenchel_common.algorithms.participation import active_clients
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import RoundMetrics
from fenchel_common.records import ROUND, Moment
from fenchel_common.wire.parsing import Body
from fenchel_server.algorithms.intake import Answers, Intake, PhaseSums
from fenchel_server.algorithms.transcript import Transcript
from fenchel_server.contract import Outcome, PhaseRequest, RoundReport, ServerState

NOT_THERE: Final = "not there when the round began"
OTHER_CLIENTS: Final = "the snapshot is of other clients than the layout"
ENDED_HERE: Final = (Outcome.FINISHED, "the run was to end here")
"""The outcome of a run that ends with a closing round, and the reason."""


@dataclass(slots=True, kw_only=True)
class RoundUnderWay:
    """A round under way; a subclass adds the values that one phase of its algorithm passes to the next.

    Attributes
    ----------
    closing
        Whether the round certifies or measures the model as it is and changes nothing.
    present
        The clients that take part, in roster order, without those that have failed a phase.
    phase
        The phase whose results are awaited.
    absences
        For each client that is missing or has failed, the reason.
    """

    id: RoundId
    closing: bool
    present: list[ClientId]
    phase: str = ""
    absences: dict[ClientId, str] = field(default_factory=dict)


S = TypeVar("S", bound=AlgorithmSettings)
C = TypeVar("C", bound=RoundUnderWay)
K = TypeVar("K")


class PhasedServer(ABC, Generic[S, C, K]):
    """Begins and ends rounds and checks their order; a subclass defines the phases.

    A subclass says what is kept of an answer (K) beside the vectors that are added when the answer comes.

    The caller begins round t + 1 after the report of round t, and hands in the results of the phase that was requested
    last. Anything else is refused with `InvalidInput`, and the state stays as it was.

    Parameters
    ----------
    round_id
        The last round that has ended, 0 before the first.
    records
        The records of the run so far, at least that of the phase `layout`.
    """

    def __init__(self, settings: S, layout: FederationLayout, *, round_id: RoundId, records: Iterable[bytes]) -> None:
        layout.check_labelled()
        self._transcript = Transcript(layout.clients, records)
        self.settings = settings.model_copy(update={"seed": self._transcript.seed})
        self.layout = layout
        self._round_id = round_id
        self._round: C | None = None
        self._intake: Intake[K] | None = None
        self._attempt = 0

    def begin_round(
        self,
        round_id: RoundId,
        available: frozenset[ClientId],
        restarted: frozenset[ClientId],
        *,
        attempt: int,
        closing: bool = False,
    ) -> PhaseRequest:
        if self._round is not None:
            raise InvalidInput(f"round_id: round {self._round.id} is under way")
        if round_id != self._round_id + 1:
            raise InvalidInput(f"round_id: {round_id} cannot follow round {self._round_id}")
        self._attempt = attempt
        lost = restarted & frozenset(self.layout.clients)
        self._transcript.forget(lost)
        self._forget(lost)
        self._round = self._begin(round_id, available, closing=closing or round_id > self.settings.stop.rounds)
        self._transcript.add(Moment(attempt, round_id, ROUND), choices=self._round_choices())
        return self._first_request()

    def receive(self, phase: str, client: ClientId, result: Body) -> None:
        self._awaited(phase).take(client, result)

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport:
        intake = self._awaited(phase)
        for client, result in results.items():
            intake.take(client, result)
        return self._take(phase, intake.answers())

    def last_state(self, client: ClientId) -> bytes:
        # With all records: a client that restarted after its last task has none of them.
        self._transcript.forget([client])
        return self._transcript.enclosed(client, self._last_state(client))

    def snapshot(self) -> ServerState:
        return ServerState(self._transcript.records, self._snapshot())

    @abstractmethod
    def _forget(self, clients: frozenset[ClientId]) -> None:
        """Notes that these clients have restarted: the server must tell them again everything that they need.

        Called at the beginning of a round, before `_begin`. All `clients` belong to the layout.
        """

    @abstractmethod
    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> C:
        """The round that begins with the available clients; called once for each round, after `_forget`.

        A `closing` round certifies or measures the model and changes nothing. The method sends nothing.
        """

    @abstractmethod
    def _round_choices(self) -> bytes:
        """The server's choices for the round that `_begin` gave, for its record; called right after `_begin`."""

    @abstractmethod
    def _last_state(self, client: ClientId) -> bytes:
        """As for `AlgorithmServer.last_state`, without records."""

    @abstractmethod
    def _snapshot(self) -> bytes:
        """As for `AlgorithmServer.snapshot`, without records."""

    @abstractmethod
    def _first_request(self) -> PhaseRequest:
        """The first phase of the round that `_begin` gave, made by `_request`; called once, right after `_begin`."""

    @abstractmethod
    def _read(self, phase: str, client: ClientId, body: Body) -> tuple[K, PhaseSums]:
        """Reads the answer of a client that has a task, and checks all of it: what is kept, and the vectors to add.

        Several threads call it at once while the phase is under way, so it changes nothing. Raises a `FenchelError` to
        reject the answer.
        """

    @abstractmethod
    def _take(self, phase: str, answers: Answers[K]) -> PhaseRequest | RoundReport:
        """Takes the answers to the phase under way and gives the next phase, or the report.

        The next phase is made by `_request`, the report by `_ended`. Raises `InvalidInput` if answers contradict each
        other; the run then fails. Raises `ResultRejected` if an answer is missing without which the round cannot go on.
        """

    def taking_part(self, round_id: RoundId) -> frozenset[ClientId]:
        """The clients that shall work in a round, whether or not they are available."""
        rule = self.settings.participation_rule
        return active_clients(rule, self.layout.clients, seed=self.settings.seed, round_id=round_id)

    @property
    def _all_present(self) -> bool:
        """Whether every client takes part and none has failed so far."""
        return len(self._current().present) == len(self.layout.clients)

    def _current(self) -> C:
        if self._round is None:
            raise InvalidInput("phase: no round is under way")
        return self._round

    def _awaited(self, phase: str) -> Intake[K]:
        current = self._current()
        if phase != current.phase or self._intake is None:
            raise InvalidInput(f"phase: {phase!r} is not under way, {current.phase!r} is")
        return self._intake

    def _request(self, phase: str, tasks: Mapping[ClientId, bytes]) -> PhaseRequest:
        """Begins a phase: its results are awaited next."""

        def read(client: ClientId, result: Body) -> tuple[K, PhaseSums]:
            return self._read(phase, client, self._transcript.opened(client, result))

        self._current().phase = phase
        self._intake = Intake(tasks, read)
        return PhaseRequest(phase, self._transcript.all_enclosed(tasks))

    def _put_on_record(self, contributors: Iterable[ClientId], choices: bytes = b"") -> None:
        """Ends the phase under way: the results of these clients count.

        Called once in each phase, before the next one is requested or the round ends.
        """
        current = self._current()
        moment = Moment(self._attempt, current.id, current.phase)
        self._transcript.add(moment, contributors=contributors, choices=choices)

    def _without_failed(self, answers: Answers[K]) -> dict[ClientId, K]:
        """The good answers; the other clients are left out of the rest of the round.

        A client may fail because it has restarted, and then has no records any more: it gets all of them again.
        """
        current = self._current()
        self._transcript.forget(answers.failed)
        for client, reason in answers.failed.items():
            current.absences[client] = f"{current.phase}: {reason}"
            current.present.remove(client)
        return answers.good

    def _ended(self, metrics: RoundMetrics, outcome: Outcome | None, reason: str) -> RoundReport:
        """Ends the round; with an outcome the run is over."""
        self._round_id, self._round, self._intake = self._current().id, None, None
        return RoundReport(metrics, outcome, reason)


def not_there(missing: Iterable[ClientId]) -> dict[ClientId, str]:
    """The absences of clients that should take part in a round but were not available when it began."""
    return dict.fromkeys(sorted(missing), NOT_THERE)
