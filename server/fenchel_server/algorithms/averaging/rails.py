"""The server half of every algorithm on the averaging rails.

A subclass makes the plan of a round (`plan`) and the numbers that are sent with the sums (`close`), from public numbers
alone. This module does the rest: participation, tasks, checks of results, sums of ciphertexts, measurements, absences
and snapshots.

A client that fails a phase is left out of the rest of the round, and of the sums unless its vectors had come. P(w) is
measured every few rounds, and only if all clients answer: for each block of samples the first label holder gives the
sum of losses, for each block of the model its first holder gives ‖w‖². If samples are shared, the server adds the
encrypted parts of x_i·w and sends the sums to the reporters in a phase of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Generic, Self, TypeVar

from fenchel_common.algorithms.averaging.rails import (
    CHECKPOINT_AFTER,
    LOCAL,
    MEASURE,
    SURVEY,
    Entry,
    Measurement,
    Result,
    StateUpdate,
    Task,
    Work,
)
from fenchel_common.algorithms.averaging.settings import AveragingSettings
from fenchel_common.algorithms.settings import is_due
from fenchel_common.blocks import BlockVector, joined, summed
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import RoundMetrics
from fenchel_common.wire import averaging as wire
from fenchel_common.wire.averaging_snapshot import AveragingSnapshot, snapshot_from_bytes, snapshot_to_bytes
from fenchel_server.algorithms.averaging.answers import read_result
from fenchel_server.algorithms.averaging.log import AveragingLog
from fenchel_server.algorithms.averaging.plan import Closing, Numbers, Plan
from fenchel_server.algorithms.phased import (
    ENDED_HERE,
    OTHER_CLIENTS,
    PhasedServer,
    RoundUnderWay,
    not_there,
    read_answers,
)
from fenchel_server.contract import Outcome, PhaseRequest, RoundReport

S = TypeVar("S", bound=AveragingSettings)
_Parts = Mapping[ClientId, tuple[int, ...]]


@dataclass(slots=True, kw_only=True)
class _Round(RoundUnderWay):
    """A round on the averaging rails.

    `active` clients train; results are awaited for `pending` tasks; `contributions` has each client's contribution to
    the measurement; the sums have vectors of `contributors`.
    """

    measuring: bool
    active: list[ClientId]
    pending: dict[ClientId, Task] = field(default_factory=dict)
    plan: Plan = field(default_factory=Plan)
    contributions: dict[ClientId, Measurement] = field(default_factory=dict)
    contributors: list[ClientId] = field(default_factory=list)


class AveragingServer(PhasedServer[S, _Round], Generic[S]):
    """The server half of an algorithm; a subclass overrides the public methods if it must.

    Parameters
    ----------
    key
        The key under which the run's vectors are encrypted.
    preparations
        Ignored: these algorithms need nothing before the first round.
    """

    def __init__(
        self,
        settings: S,
        *,
        layout: FederationLayout,
        key: RunKey,
        preparations: Mapping[ClientId, bytes],
    ) -> None:
        del preparations
        super().__init__(settings, layout, round_id=RoundId(0))
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

    def figures(self, measurements: Mapping[ClientId, Measurement]) -> Numbers:
        """Further figures of a measured round; each client's measurement covers the samples that it reports on."""
        del measurements
        return {}

    def weights_by_samples(self, clients: Iterable[ClientId]) -> dict[ClientId, float]:
        """For each client: its samples ÷ all samples."""
        return {client: self.layout.samples_of(client) / self.layout.sample_count for client in clients}

    @classmethod
    def restore(cls, snapshot: bytes, *, settings: S, layout: FederationLayout, key: RunKey) -> Self:
        """A server that continues after the round of the snapshot; it treats every client as restarted."""
        server = cls(settings, layout=layout, key=key, preparations={})
        every = dict(enumerate(server._log.index.sizes))
        saved = snapshot_from_bytes(snapshot, server._scope(every, samples={}))
        if not set(saved.kept) <= set(layout.clients):
            raise StateDamaged(OTHER_CLIENTS)
        server._log.base, server._log.entries, server._log.kept = saved.base, list(saved.entries), saved.kept
        server._round_id, server.memory = saved.round_id, saved.memory
        return server

    def snapshot(self) -> bytes:
        log = self._log
        return snapshot_to_bytes(
            AveragingSnapshot(self._round_id, log.base, tuple(log.entries), log.kept, dict(self.memory))
        )

    def last_state(self, client: ClientId) -> bytes:
        """The message from which a client makes the present state, without any memory."""
        return wire.state_to_bytes(self._log.update_for(client, None))

    def _forget(self, clients: Iterable[ClientId]) -> None:
        self._applied |= dict.fromkeys(clients)

    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> _Round:
        chosen = frozenset() if closing else self.taking_part(round_id) & self.layout.label_holders
        return _Round(
            id=round_id,
            closing=closing,
            present=[client for client in self.layout.clients if client in available],
            absences=not_there(chosen - available),
            measuring=closing or is_due(round_id, self.settings.measure_every),
            active=[client for client in self.layout.clients if client in chosen & available],
        )

    def _first_request(self) -> PhaseRequest:
        current = self._current()
        if current.active and self.surveys():
            return self._ask(SURVEY, {client: self._task(client) for client in current.active})
        return self._local_request({})

    def _take(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport:
        current = self._current()
        answers = self._answers(results)
        if any(answer.diverged for answer in answers.values()):
            return self._report(
                Outcome.DIVERGED, "a party's values became too large; take smaller or fewer local steps"
            )
        if phase == SURVEY:
            return self._local_request({client: answer.reported for client, answer in answers.items()})
        for client, answer in answers.items():
            if answer.measurement is not None:
                before = current.contributions.get(client, Measurement())
                current.contributions[client] = before.plus(answer.measurement)
        if phase == MEASURE:
            return self._report()
        self._take_vectors(answers)
        return self._measure_request(answers) or self._report()

    def _ask(self, phase: str, tasks: dict[ClientId, Task]) -> PhaseRequest:
        self._current().pending = tasks
        return self._request(phase, {client: wire.task_to_bytes(task) for client, task in tasks.items()})

    def _task(
        self,
        client: ClientId,
        *,
        work: Work | None = None,
        checkpoint: tuple[int, ...] = (),
        products: tuple[int, ...] = (),
        reports: tuple[int, ...] = (),
        norms: tuple[int, ...] = (),
    ) -> Task:
        return Task(
            round_id=self._current().id,
            stream=self.layout.clients.index(client),
            state=self._log.update_for(client, self._applied[client]),
            work=work,
            checkpoint_blocks=checkpoint,
            product_blocks=products,
            report_blocks=reports,
            norm_blocks=norms,
        )

    def _local_request(self, surveys: Mapping[ClientId, Numbers]) -> PhaseRequest:
        current = self._current()
        if current.active:
            current.plan = self.plan(current.id, tuple(current.active), surveys)
            self._check_plan(current.plan)
            self.memory = self.memory if current.plan.memory is None else dict(current.plan.memory)
        current.active = [client for client in current.active if current.plan.weights.get(client, 1.0) > 0.0]
        checkpoints: dict[ClientId, tuple[int, ...]] = {}
        if not self.settings.vectors.restates and len(self._log.entries) >= CHECKPOINT_AFTER:
            checkpoints = self._log.index.first_holders(current.active)
        norms, reports, products = self._measuring_parts()
        tasks = {}
        for client in current.present:
            task = self._task(
                client,
                work=self._work(client) if client in current.active else None,
                checkpoint=checkpoints.get(client, ()),
                products=products.get(client, ()),
                reports=reports.get(client, ()),
                norms=norms.get(client, ()),
            )
            if task.work or task.product_blocks or task.report_blocks or task.norm_blocks:
                tasks[client] = task
        return self._ask(LOCAL, tasks)

    def _check_plan(self, plan: Plan) -> None:
        names = self.settings.vectors
        if set(names.summed) & set(names.kept):
            assert all(weight == 1.0 for weight in plan.weights.values()), "vectors summed and kept have the weight 1"
            assert plan.coordinates is None, "vectors that are kept cover all coordinates"

    def _work(self, client: ClientId) -> Work:
        plan = self._current().plan
        return Work(plan.told, plan.weights.get(client, 1.0), plan.coordinates)

    def _measuring_parts(self) -> tuple[_Parts, _Parts, _Parts]:
        """For each client the blocks of which it gives ‖w‖², losses and inner products in `local`, if P is measured."""
        current = self._current()
        if not current.measuring or not self._all_present:
            return {}, {}, {}
        products = {client: self.layout.sample_index.shared_of(client) for client in self.layout.clients}
        reports = self.layout.reporters if self.layout.is_horizontal else {}
        return self._log.index.first_holders(current.present), reports, products

    def _measure_request(self, answers: Mapping[ClientId, Result]) -> PhaseRequest | None:
        """The phase that gathers the losses of shared samples; None if no sample is shared or a client has failed."""
        current = self._current()
        if self.layout.is_horizontal or not (current.measuring and self._all_present):
            return None
        products = _summed(answer.products for answer in answers.values())
        tasks = {
            client: Task(
                round_id=current.id,
                stream=self.layout.clients.index(client),
                state=StateUpdate(),
                report_blocks=blocks,
                products=products.restricted_to(frozenset(blocks)),
            )
            for client, blocks in self.layout.reporters.items()
        }
        return self._ask(MEASURE, tasks)

    def _answers(self, results: Mapping[ClientId, bytes]) -> dict[ClientId, Result]:
        """The good answers; other clients are left out of the rest of the round, and get the whole state next time."""
        current = self._current()

        def read(client: ClientId, body: bytes) -> Result:
            scope = self._scope(self._log.index.of(client), samples=self.layout.sample_index.of(client))
            return read_result(body, task=current.pending[client], phase=current.phase, scope=scope)

        answers = read_answers(current.pending, results, read)
        self._forget(answers.failed)
        self._applied |= dict.fromkeys(answers.good, RoundId(current.id - 1))
        current.active = [client for client in current.active if client not in answers.failed]
        return self._without_failed(answers)

    def _take_vectors(self, answers: Mapping[ClientId, Result]) -> None:
        """Adds the clients' encrypted vectors, and puts the sums into the log as the round's entry."""
        current, names = self._current(), self.settings.vectors
        for answer in answers.values():
            if answer.checkpoint:
                self._log.rebase(answer.checkpoint, current.id)
        given = {client: answer for client, answer in answers.items() if answer.vectors}
        current.contributors = list(given)
        if not given:
            return
        closing = self.close(current.plan, {client: answer.reported for client, answer in given.items()})
        self.memory = self.memory if closing.memory is None else dict(closing.memory)
        sums = {name: _summed(answer.vectors[name] for answer in given.values()) for name in names.summed}
        weights: dict[int, float] = dict.fromkeys(sums[names.summed[0]].blocks, 0.0)
        for client, answer in given.items():
            for block in answer.vectors[names.summed[0]].blocks:
                weights[block] += current.plan.weights.get(client, 1.0)
        self._log.add(Entry(current.id, closing.told, weights, sums, current.plan.coordinates))
        for client, answer in given.items():
            if names.kept:
                self._log.kept[client] = {name: answer.vectors[name] for name in names.kept}

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
        current = self._current()
        whole = reduce(Measurement.plus, current.contributions.values(), Measurement())
        measured = whole.samples == self.layout.sample_count
        if current.closing and outcome is None:
            outcome, reason = ENDED_HERE
        metrics = RoundMetrics(
            round=current.id,
            primal=self.objective(whole) if measured else None,
            accuracy=whole.correct / whole.samples if measured else None,
            participants=tuple(current.contributors),
            absences=current.absences,
            note="not measured: a party was missing" if current.measuring and not measured else "",
            figures=self.figures(current.contributions) if measured else {},
        )
        return self._ended(metrics, outcome, reason)


def _summed(vectors: Iterable[BlockVector | None]) -> BlockVector:
    """The sums by block as one vector; at least one of `vectors` must not be None."""
    sums = summed(vectors)
    whole = joined(sorted(sums), sums)
    assert whole is not None, "at least one client gave a vector"
    return whole
