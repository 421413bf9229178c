"""The server half of every algorithm on the averaging rails.

A subclass makes the plan of a round (`plan`) and the numbers that are sent with the sums (`close`), from public numbers
alone. This module does the rest: participation, tasks, checks of results, sums of ciphertexts, measurements, absences
and snapshots.

The plan, who takes part and the numbers at the end of a round are on record; what else a client has to do follows.

A client that fails a phase is left out of the rest of the round, and of the sums unless its vectors had come. P(w) is
measured every few rounds, and only if all clients answer. Each client gives its figures, encrypted: losses and correct
predictions of the samples that it reports on, and ‖w‖² of the blocks of which it is the first holder. If samples are
shared, the server adds the encrypted parts of x_i·w, and in a phase of their own all clients give figures again: the
reporters those of these samples, the others zeros. The clients open the sum of all figures and tell it to the server.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Self, TypeVar

from fenchel_common.algorithms.averaging.choices import RoundChoices
from fenchel_common.algorithms.averaging.rails import (
    CHECKPOINT_AFTER,
    LOCAL,
    MEASURE,
    MEASURED,
    SURVEY,
    Measurement,
    Task,
)
from fenchel_common.algorithms.averaging.settings import AveragingSettings
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import ResultRejected, StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import RoundMetrics
from fenchel_common.wire import averaging as wire
from fenchel_common.wire.averaging_choices import closing_to_bytes, plan_to_bytes, round_choices_to_bytes
from fenchel_common.wire.averaging_snapshot import AveragingSnapshot, Entry, snapshot_from_bytes, snapshot_to_bytes
from fenchel_common.wire.parsing import Body
from fenchel_server.algorithms.answers import check_agree
from fenchel_server.algorithms.averaging.answers import (
    FIGURES,
    PRODUCTS,
    AveragingAnswer,
    Expected,
    checkpoint_field,
    read_result,
    vector_field,
    vectors_to_add,
)
from fenchel_server.algorithms.averaging.log import AveragingLog
from fenchel_server.algorithms.averaging.plan import Closing, Numbers, Plan
from fenchel_server.algorithms.averaging.round import AveragingRound
from fenchel_server.algorithms.intake import Answers, PhaseSums
from fenchel_server.algorithms.phased import ENDED_HERE, OTHER_CLIENTS, PhasedServer, not_there
from fenchel_server.contract import Outcome, PhaseRequest, RoundReport, ServerState

S = TypeVar("S", bound=AveragingSettings)


class AveragingServer(PhasedServer[S, AveragingRound, AveragingAnswer], Generic[S]):
    """The server half of an algorithm; a subclass overrides the public methods if it must.

    Parameters
    ----------
    key
        The key under which the run's vectors are encrypted.
    preparations
        Ignored: these algorithms need nothing before the first round.
    records
        The records of the set-up.
    """

    def __init__(
        self,
        settings: S,
        *,
        layout: FederationLayout,
        key: RunKey,
        preparations: Mapping[ClientId, bytes],
        records: Sequence[bytes],
    ) -> None:
        del preparations
        super().__init__(settings, layout, round_id=RoundId(0), records=records)
        self.memory: Numbers = {}
        self._key = key
        self._log = AveragingLog(layout, vectors=settings.vectors, width=settings.width)
        self._applied: dict[ClientId, RoundId | None] = dict.fromkeys(layout.clients)

    def plan(self, round_id: RoundId, trainers: Sequence[ClientId], surveys: Mapping[ClientId, Numbers]) -> Plan:
        """The plan of a round; called once in a round with trainers, after the survey if there is one.

        `trainers` is not empty. `surveys` has the numbers of every trainer if `surveys()` was true, else nothing. By
        default all trainers have the weight 1, and nothing is told.
        """
        del round_id, trainers, surveys
        return Plan()

    def surveys(self) -> bool:
        """Whether the round needs the numbers of `Vectors.surveyed`, in a phase of its own; called when it begins."""
        return bool(self.settings.vectors.surveyed)

    def close(self, plan: Plan, reports: Mapping[ClientId, Numbers]) -> Closing:
        """The numbers that are sent with the sums, and the new memory; called once vectors of at least one client came.

        `reports` has the reported numbers of each client whose vectors are in the sums.
        """
        del reports
        return Closing(told=plan.told)

    def objective(self, whole: Measurement) -> float:
        """P(w), from the sums over all samples; called in a measured round."""
        return self.settings.lambda_ / 2.0 * whole.squared_norm + whole.loss_sum / whole.samples

    def figures(self, measured: Mapping[ClientId, Numbers]) -> Numbers:
        """Further figures of a measured round; `measured` has the numbers of each client that told some in it."""
        del measured
        return {}

    def weights_by_samples(self, clients: Iterable[ClientId]) -> dict[ClientId, float]:
        """For each client: its samples ÷ all samples."""
        return {client: self.layout.samples_of(client) / self.layout.sample_count for client in clients}

    @classmethod
    def restore(cls, snapshot: ServerState, *, settings: S, layout: FederationLayout, key: RunKey) -> Self:
        """A server that continues after the round of the snapshot; it treats every client as restarted."""
        server = cls(settings, layout=layout, key=key, preparations={}, records=snapshot.records)
        saved = snapshot_from_bytes(snapshot.own, server._scope(server._log.sizes, samples={}))
        if not set(saved.kept) <= set(layout.clients):
            raise StateDamaged(OTHER_CLIENTS)
        server._log.base, server._log.entries, server._log.kept = saved.base, list(saved.entries), saved.kept
        server._round_id, server.memory = saved.round_id, saved.memory
        return server

    def _snapshot(self) -> bytes:
        log = self._log
        return snapshot_to_bytes(
            AveragingSnapshot(self._round_id, log.base, tuple(log.entries), log.kept, dict(self.memory))
        )

    def _last_state(self, client: ClientId) -> bytes:
        return wire.state_to_bytes(self._log.update_for(client, None))

    def _forget(self, clients: Iterable[ClientId]) -> None:
        self._applied |= dict.fromkeys(clients)

    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> AveragingRound:
        chosen = frozenset() if closing else self.taking_part(round_id) & self.layout.label_holders
        present = [client for client in self.layout.clients if client in available]
        begun = AveragingRound(
            id=round_id,
            closing=closing,
            present=present,
            absences=not_there(chosen - available),
            measuring=self.settings.measures(round_id, closing=closing) and tuple(present) == self.layout.clients,
            active=[client for client in self.layout.clients if client in chosen & available],
        )
        if not self.surveys():
            self._make_plan(begun, {})
        return begun

    def _round_choices(self) -> bytes:
        current = self._current()
        active = current.active if current.recorded is None else current.recorded.weights
        choices = RoundChoices(tuple(current.present), tuple(active), current.closing, current.recorded)
        return round_choices_to_bytes(choices, self.layout.clients)

    def _first_request(self) -> PhaseRequest:
        current = self._current()
        if current.active and current.recorded is None:
            expected = Expected(numbers=self.settings.vectors.surveyed)
            return self._ask(SURVEY, dict.fromkeys(current.active, expected))
        return self._local_request()

    def _read(self, phase: str, client: ClientId, body: Body) -> tuple[AveragingAnswer, PhaseSums]:
        del phase
        names = self.settings.vectors
        scope = self._scope(self._log.index.of(client), samples=self.layout.sample_index.of(client))
        result = read_result(body, expected=self._current().pending[client], scope=scope)
        return AveragingAnswer.of(result, names.kept), vectors_to_add(result, names.summed)

    def _take(self, phase: str, answers: Answers[AveragingAnswer]) -> PhaseRequest | RoundReport:
        current, good, sums = self._current(), self._good(answers), answers.sums
        if any(answer.diverged for answer in good.values()):
            self._put_on_record(())
            return self._report(
                Outcome.DIVERGED, "a party's values became too large; take smaller or fewer local steps"
            )
        if phase == SURVEY:
            self._make_plan(current, {client: answer.reported for client, answer in good.items()})
            self._put_on_record(good, b"" if current.recorded is None else plan_to_bytes(current.recorded))
            return self._local_request()
        if phase == LOCAL:
            self._check_complete(current)
            self._put_on_record(good, self._take_vectors(good, sums))
        else:
            self._put_on_record(good)
        if phase == MEASURED:
            self._take_measurement(good)
            return self._report()
        current.add_figures(sums.total(FIGURES))
        if not current.measuring:
            return self._report()
        if phase == LOCAL and not self.layout.is_horizontal:
            return self._measure_request(sums)
        return self._measured_request()

    def _check_complete(self, current: AveragingRound) -> None:
        """Raises `ResultRejected`, so that the round is begun anew, if somebody lacks without whom no mask cancels."""
        failed = [client for client in current.trainers if client not in current.active]
        if self._key.masked and failed:
            reason = f"masks cancel only if all contribute that were to train ({current.absences[failed[0]]})"
            raise ResultRejected(failed[0], reason)

    def _ask(
        self, phase: str, expected: Mapping[ClientId, Expected], tasks: Mapping[ClientId, Task] | None = None
    ) -> PhaseRequest:
        """Begins a phase; without `tasks`, with tasks that bring the clients the state."""
        self._current().pending = dict(expected)
        if tasks is None:
            tasks = {client: Task(self._log.update_for(client, self._applied[client])) for client in expected}
        return self._request(phase, {client: wire.task_to_bytes(task) for client, task in tasks.items()})

    def _make_plan(self, current: AveragingRound, surveys: Mapping[ClientId, Numbers]) -> None:
        """Makes the plan for the clients that may train; nothing if there are none."""
        if not current.active:
            return
        current.plan = self.plan(current.id, tuple(current.active), surveys)
        self._check_plan(current.plan)
        self.memory = self.memory if current.plan.memory is None else dict(current.plan.memory)
        restating = not self.settings.vectors.restates and len(self._log.entries) >= CHECKPOINT_AFTER
        current.recorded = current.plan.on_record(current.active, restating=restating)
        current.active = list(current.recorded.trainers)

    def _check_plan(self, plan: Plan) -> None:
        names = self.settings.vectors
        if set(names.summed) & set(names.kept):
            assert all(weight == 1.0 for weight in plan.weights.values()), "vectors summed and kept have the weight 1"
            assert plan.coordinates is None, "vectors that are kept cover all coordinates"

    def _local_request(self) -> PhaseRequest:
        current, names = self._current(), self.settings.vectors
        restating = current.recorded is not None and current.recorded.restating
        checkpoints = self._log.index.first_holders(current.active) if restating else {}
        expected = {}
        for client in current.present if current.measuring else current.active:
            trains = client in current.active
            expected[client] = Expected(
                numbers=names.reported if trains else (),
                trains=trains,
                coordinates=current.plan.coordinates if trains else None,
                checkpoint=checkpoints.get(client, ()),
                products=self.layout.sample_index.shared_of(client) if current.measuring else (),
                figures=current.measuring,
            )
        return self._ask(LOCAL, expected)

    def _measure_request(self, sums: PhaseSums) -> PhaseRequest:
        """The phase that gathers the losses of shared samples."""
        products, shared = sums.by_block(PRODUCTS), self.layout.sample_index.shared
        reporters = self.layout.reporters
        tasks = {
            client: Task(products=products.on(sorted(shared.intersection(reporters.get(client, ())))))
            for client in self._current().present
        }
        return self._ask(MEASURE, dict.fromkeys(tasks, Expected(figures=True)), tasks)

    def _measured_request(self) -> PhaseRequest:
        """The phase in which all clients open the sum of all figures."""
        current = self._current()
        task = Task(figures=current.figures)
        shared_of = self.layout.sample_index.shared_of
        expected = {
            client: Expected(
                numbers=() if shared_of(client) else self.settings.vectors.measured,
                measurement=True,
            )
            for client in current.present
        }
        return self._ask(MEASURED, expected, dict.fromkeys(expected, task))

    def _good(self, answers: Answers[AveragingAnswer]) -> dict[ClientId, AveragingAnswer]:
        """The good answers; other clients are left out of the rest of the round, and get the whole state next time."""
        current = self._current()
        self._forget(answers.failed)
        self._applied |= dict.fromkeys(answers.good, RoundId(current.id - 1))
        current.active = [client for client in current.active if client not in answers.failed]
        current.measuring = current.measuring and not answers.failed
        return self._without_failed(answers)

    def _take_vectors(self, answers: Mapping[ClientId, AveragingAnswer], sums: PhaseSums) -> bytes:
        """Puts the sums of the clients' encrypted vectors into the log; gives the numbers for the record."""
        current, names = self._current(), self.settings.vectors
        checkpoint = sums.whole_vectors({name: checkpoint_field(name) for name in names.state})
        if checkpoint:
            self._log.rebase(checkpoint, current.id)
        given = {client: answer for client, answer in answers.items() if answer.trained}
        current.contributors = list(given)
        if not given:
            return b""
        closing = self.close(current.plan, {client: answer.reported for client, answer in given.items()})
        self.memory = self.memory if closing.memory is None else dict(closing.memory)
        whole = sums.whole_vectors({name: vector_field(name) for name in names.summed})
        self._log.add(Entry(current.id, whole, chosen=current.plan.coordinates is not None))
        if names.kept:
            self._log.kept |= {client: dict(answer.kept) for client, answer in given.items()}
        return closing_to_bytes(closing.told)

    def _take_measurement(self, answers: Mapping[ClientId, AveragingAnswer]) -> None:
        current = self._current()
        opened = [answer.measurement for answer in answers.values() if answer.measurement is not None]
        check_agree(opened, "measurement: clients that opened the same figures disagree")
        current.whole = opened[0] if opened else None
        current.numbers = {client: answer.reported for client, answer in answers.items() if answer.reported}

    def _scope(self, sizes: Mapping[int, int], *, samples: Mapping[int, int]) -> wire.Scope:
        return wire.Scope(
            key=self._key,
            slots=self.layout.slots,
            length=sum(sizes.values()),
            samples=samples,
            coordinate_blocks=sizes,
            vectors=self.settings.vectors,
        )

    def _report(self, outcome: Outcome | None = None, reason: str = "") -> RoundReport:
        current, whole = self._current(), self._current().whole
        if current.closing and outcome is None:
            outcome, reason = ENDED_HERE
        due = self.settings.measures(current.id, closing=current.closing)
        accuracy, figures = current.fit(self.settings)
        metrics = RoundMetrics(
            round=current.id,
            primal=None if whole is None else self.objective(whole),
            accuracy=accuracy,
            participants=tuple(current.contributors),
            absences=current.absences,
            note="not measured: a party was missing" if due and whole is None else "",
            figures={} if whole is None else {**figures, **self.figures(current.numbers)},
        )
        return self._ended(metrics, outcome, reason)
