"""Performs the effects that the round machine asks for. No other module of a run has effects.

The driver persists before it sends: a new attempt number is on disk before the first task of the attempt is sent, and a
round is committed before the first task of the next round is sent. So every task that a client has seen belongs to a
known attempt. A server that was killed continues after its last committed round, in a new attempt whose task ids no
client has answered before.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

from fenchel_common.errors import AlignmentError, FenchelError, ResultRejected, StoreError
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.metrics import RoundMetrics
from fenchel_common.processmemory import give_back_free_memory
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import FINISH
from fenchel_server.contract import AlgorithmServer, Outcome, PhaseRequest, RoundReport, ServerState
from fenchel_server.release import Release, ReleaseSummary
from fenchel_server.rounds.events import (
    Advance,
    AwaitClients,
    BeginAttempt,
    BeginFinish,
    BeginRound,
    BeginSetup,
    Broke,
    ClientsPresent,
    Close,
    CommitRound,
    CommitSetup,
    Effect,
    Event,
    Gather,
    PhaseGathered,
    PhaseRequested,
    ResultRefused,
    RoundReady,
    SetupReady,
    Started,
)
from fenchel_server.rounds.ledger import TOTAL, Kind, RoundLedger, progress_of
from fenchel_server.rounds.machine import step
from fenchel_server.rounds.outcome import outcome_of
from fenchel_server.rounds.parts import RunParts
from fenchel_server.rounds.phases import Rules, RunState
from fenchel_server.rounds.savedrun import SavedRun
from fenchel_server.rounds.setup import SetupDone, SetupServer
from fenchel_server.rounds.transport import PhaseId, Receive, Transport
from fenchel_server.store import Ending, RoundRecord, RunStatus, Store
from fenchel_server.store.base import SETUP_ROUND

STOP_LOOK_S = 1.0
"""How often the driver looks for a stop request while it waits for clients."""

WHOLE_ROUND = "round"
"""The phase in the record of a client that was left out of a round before it was asked in any phase."""

log = logging.getLogger(__name__)

Watcher = Callable[[Event | Effect], None]
"""Called with every effect before it is performed, and with every event after it happened; with the outcome of the
set-up or of a round once it is committed, so that nobody hears of a round that a killed server forgets."""

StillWaiting = Callable[[AwaitClients, frozenset[ClientId]], None]
"""Called about once a second while the driver waits for clients, with those of them that are present."""


class Driver:
    """Continues one run from its last commit in the store, to its end.

    `keep_model` is called with a model that the parties released, before the run is on record as ended.
    """

    def __init__(
        self,
        run: RunId,
        parts: RunParts,
        *,
        store: Store,
        transport: Transport,
        clock: Callable[[], float] = time.monotonic,
        watch: Watcher = lambda _: None,
        still_waiting: StillWaiting = lambda *_: None,
        keep_model: Callable[[Release], None] = lambda _: None,
    ) -> None:
        self._run = run
        self._parts = parts
        self._store = store
        self._saved = SavedRun(run, parts, store)
        self._transport = transport
        self._clock = clock
        self._watch = watch
        self._still_waiting = still_waiting
        self._keep_model = keep_model
        self._config = RunConfig.from_json(store.run(run).config)
        self._rules = Rules.of(self._config, parts.clients)
        self._ledger = RoundLedger(clock, port=transport.port_bytes)
        self._attempt = 0
        self._closing = False
        self._setup: SetupServer | None = None
        self._algorithm: AlgorithmServer | None = None
        self._request = PhaseRequest(phase="", tasks={})
        self._results: Mapping[ClientId, bytes] = {}
        self._commit: Callable[[Ending | None], None] | None = None

    def drive(self) -> Ending:
        """Works until the run has ended, and returns how.

        Raises `StoreError` if the store cannot record something; the run is then as last committed.
        """
        committed = self._store.rounds(self._run)
        started = Started(
            next_round=RoundId(len(committed)),
            progress=progress_of(committed),
            ending=committed[-1].ending if committed else None,
        )
        try:
            return self._drive(started)
        except FenchelError:
            raise
        except Exception as error:
            if self._attempt:
                reason = f"internal error ({type(error).__name__}); the server's log has the details"
                self._store.close_run(self._run, RunStatus.FAILED, reason=reason, seen=self._seen_outside_rounds())
            raise

    def _drive(self, started: Started) -> Ending:
        state, event = RunState(self._rules), cast(Event, started)
        while True:
            with self._ledger.spending(Kind.COMPUTE):
                if not isinstance(event, SetupReady | RoundReady):
                    self._watch(event)
                state, effects = step(state, event)
            for effect in effects:
                with self._ledger.spending(Kind.COMPUTE):
                    self._watch(effect)
                if isinstance(effect, Close):
                    return self._close(effect)
                following = self._perform(effect)
                if isinstance(effect, CommitSetup | CommitRound):
                    with self._ledger.spending(Kind.COMPUTE):
                        self._watch(event)
                event = following or event

    def _perform(self, effect: Effect) -> Event | None:
        match effect:
            case BeginAttempt():
                self._begin_attempt()
            case AwaitClients():
                return self._await_clients(effect)
            case BeginSetup():
                return self._compute(self._begin_setup)
            case BeginRound():
                return self._begin_round(effect)
            case BeginFinish():
                return self._compute(lambda: self._parts.finish(self._saved.setup_record(), self._restored()))
            case Gather(round_id, phase):
                return self._gather(PhaseId(self._run, round_id, phase, self._attempt))
            case Advance(phase):
                return self._compute(lambda: self._advance(phase))
            case CommitSetup():
                self._persist(ending=None)
            case CommitRound(_, ending):
                self._persist(ending=ending)
        return None

    def _begin_attempt(self) -> None:
        self._setup = self._algorithm = self._commit = None
        with self._ledger.spending(Kind.STORE):
            self._attempt = self._store.begin_attempt(self._run)
        log.info("run %s: attempt %d begins", self._run, self._attempt)

    def _await_clients(self, effect: AwaitClients) -> ClientsPresent:
        began = self._clock()
        with self._ledger.spending(Kind.CLIENTS):
            while True:
                present = self._transport.present() & effect.clients
                self._still_waiting(effect, present)
                stop = self._store.stop_request(self._run)
                limit_s = effect.grace_s if len(present) >= effect.enough else effect.timeout_s
                left_s = began + limit_s - self._clock()
                if stop is not None or present == effect.clients or left_s <= 0:
                    break
                self._transport.wait_for(effect.clients, timeout_s=min(left_s, STOP_LOOK_S))
        found = {client: self._transport.incarnation(client) for client in sorted(present)}
        return ClientsPresent({client: name for client, name in found.items() if name is not None}, stop)

    def _begin_setup(self) -> PhaseRequest:
        self._setup = self._parts.setup(self._attempt)
        return self._setup.begin()

    def _begin_round(self, effect: BeginRound) -> Event:
        self._closing = effect.closing
        self._ledger.begin_try()
        for client in sorted(self._rules.clients - effect.available):
            if not self._ledger.knows_absence_of(client):
                self._ledger.add_absence(client, WHOLE_ROUND, "not attached")
        return self._compute(
            lambda: self._restored().begin_round(
                effect.round_id,
                effect.available,
                effect.restarted,
                attempt=self._attempt,
                closing=effect.closing,
            )
        )

    def _advance(self, phase: str) -> PhaseRequest | SetupDone | RoundReport:
        if self._setup is not None:
            results, self._results = self._results, {}
            return self._setup.advance(phase, results)
        return self._restored().advance(phase, {})

    def _gather(self, phase: PhaseId) -> PhaseGathered | Broke:
        began = self._clock()
        try:
            gathered = self._transport.gather(
                phase,
                self._request.tasks,
                deadline_s=self._rules.deadline_s,
                limits=self._limits(phase.phase),
                receive=self._receiver(phase.phase),
            )
        except StoreError:
            raise
        except FenchelError as error:
            return Broke(str(error))
        finally:
            self._request = replace(self._request, tasks={})
        took_s = self._clock() - began
        with self._ledger.spending(Kind.COMPUTE):
            self._ledger.add_phase(phase.phase, gathered, seconds=took_s)
        self._results = gathered.results
        with self._ledger.spending(Kind.STORE):
            stop = self._store.stop_request(self._run)
        return PhaseGathered(
            phase=phase.phase,
            answered=frozenset(gathered.results),
            absent={client: absence.reason for client, absence in gathered.absences.items()},
            stop=stop,
        )

    def _receiver(self, phase: str) -> Receive | None:
        """The algorithm takes the results of a round as they come; those of other phases are kept until the end."""
        in_round = self._setup is None and phase != FINISH
        return partial(self._restored().receive, phase) if in_round else None

    def _limits(self, phase: str) -> Mapping[ClientId, int]:
        if self._setup is not None:
            return self._setup.limits(phase)
        return self._parts.limits(phase, self._saved.setup_record())

    def _compute(self, work: Callable[[], PhaseRequest | SetupDone | RoundReport]) -> Event:
        """Lets the set-up or the algorithm work, and gives the event that follows."""
        try:
            with self._ledger.spending(Kind.COMPUTE):
                outcome = work()
                snapshot = self._restored().snapshot() if isinstance(outcome, RoundReport) else None
        except ResultRejected as error:
            self._ledger.add_absence(ClientId(error.client), self._request.phase, f"rejected: {error.reason}")
            return ResultRefused(ClientId(error.client), error.reason)
        except StoreError:
            raise
        except AlignmentError as error:
            return Broke(str(error), error.unfit)
        except FenchelError as error:
            return Broke(str(error))
        match outcome:
            case PhaseRequest():
                self._request = outcome
                return PhaseRequested(outcome.phase, frozenset(outcome.tasks))
            case SetupDone():
                return self._setup_ready(outcome)
            case RoundReport():
                assert snapshot is not None, "a report comes with a snapshot"
                return self._round_ready(outcome, snapshot)

    def _setup_ready(self, done: SetupDone) -> SetupReady:
        record = self._take_record(SETUP_ROUND)
        self._commit = lambda _: self._saved.commit_setup(done, record)
        return SetupReady(done.warnings)

    def _round_ready(self, report: RoundReport, snapshot: ServerState) -> RoundReady:
        for client, reason in sorted(report.metrics.absences.items()):
            if not self._ledger.knows_absence_of(client):
                self._ledger.add_absence(client, WHOLE_ROUND, reason)
        metrics = replace(report.metrics, closing=self._closing)
        record = self._take_record(metrics.round, metrics)
        self._commit = lambda ending: self._saved.commit_round(replace(record, ending=ending), snapshot)
        return RoundReady(metrics, record.seconds[TOTAL], self._ending_of(report), record)

    def _ending_of(self, report: RoundReport) -> Ending | None:
        """How the run ends if the algorithm itself ends it; None if the algorithm merely ended a closing round."""
        if report.outcome is None or (report.outcome is Outcome.FINISHED and self._closing):
            return None
        status = RunStatus.DIVERGED if report.outcome is Outcome.DIVERGED else RunStatus.COMPLETED
        return Ending(status, report.reason or report.outcome)

    def _persist(self, *, ending: Ending | None) -> None:
        if self._commit is None:
            raise AssertionError("a commit follows an outcome of the set-up or of a round")
        with self._ledger.spending(Kind.STORE):
            self._commit(ending)
        self._setup = self._commit = None
        give_back_free_memory()

    def _take_record(self, round_id: RoundId, metrics: RoundMetrics | None = None) -> RoundRecord:
        """The record of the round that ends now; the costs from now on are the next round's."""
        record = self._ledger.record(round_id, metrics)
        self._ledger = RoundLedger(self._clock, port=self._transport.port_bytes, since=self._ledger.ended)
        return record

    def _close(self, effect: Close) -> Ending:
        committed = self._store.rounds(self._run)
        unfinished = self._ledger.record(RoundId(len(committed)))
        path, release = self._config.path, self._take_release()
        outcome = outcome_of(committed, unfinished, effect.undelivered, release=release, path=path).to_json()
        ending = effect.ending
        seen = self._seen_outside_rounds()
        self._store.close_run(self._run, ending.status, reason=ending.reason, outcome=outcome, seen=seen)
        log.info("run %s: %s: %s", self._run, ending.status, ending.reason)
        return ending

    def _take_release(self) -> ReleaseSummary | None:
        """Keeps the model if the parties released it in the last phase."""
        if self._request.phase != FINISH:
            return None
        release = self._parts.released(self._saved.setup_record(), self._results)
        if release is None:
            return None
        if release.weights is None:
            log.warning("run %s: the model is not released: %s", self._run, release.reason)
        else:
            self._keep_model(release)
        return release.summary()

    def _seen_outside_rounds(self) -> str:
        return self._ledger.seen_with(self._store.run(self._run).seen)

    def _restored(self) -> AlgorithmServer:
        """The algorithm of this attempt, restored from the last commit if the attempt has none yet."""
        if self._algorithm is None:
            self._algorithm = self._saved.restored()
        return self._algorithm
