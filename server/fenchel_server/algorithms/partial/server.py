"""Corrective HyFDCA at the server while some of the parties take part: it adds vectors that it cannot read.

A round has the phases `catch_up`, in which parties give shares of pairs that they missed, if somebody owes some;
`inner_product`, `local_dual` and `primal`. The contributions to a phase count if everybody who takes part has answered;
otherwise the round ends there, and nothing that counted before is lost. The server keeps all sums of a run, so that a
party that was away, or has lost its memory, can go through the rounds that it missed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from fenchel_common.algorithms.corrective.messages import (
    FIGURES_FIELD,
    GRAM_FIELD,
    MODEL_FIELD,
    POINT_FIELD,
    VERTEX_FIELD,
)
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.algorithms.partial.messages import DualTask, Facts, PrimalTask
from fenchel_common.algorithms.partial.progress import CATCH_UP, Progress
from fenchel_common.algorithms.partial.rounds import due_clients
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import RoundMetrics
from fenchel_common.records import ROUND
from fenchel_common.setup import BEFORE_ROUNDS
from fenchel_common.wire import partial as wire
from fenchel_common.wire.corrective import model_to_bytes
from fenchel_common.wire.partial_snapshot import (
    NOTHING,
    PartialState,
    StoredPair,
    SumsOfPair,
    snapshot_from_bytes,
    snapshot_to_bytes,
)
from fenchel_common.wire.records import record_from_bytes, server_state_from_bytes
from fenchel_server.algorithms.answers import check_agree
from fenchel_server.algorithms.certificate import Certificate, reached_gap, with_certificate
from fenchel_server.algorithms.intake import Answers, PhaseSums
from fenchel_server.algorithms.partial.certificate import certificate_of, certified
from fenchel_server.algorithms.partial.exchange import (
    ANCHOR_FIELD,
    CONJUGATES_FIELD,
    MEAN_FIELD,
    PartialAnswer,
    PartialExchange,
)
from fenchel_server.algorithms.partial.round import PartialRound, begin_round
from fenchel_server.algorithms.partial.state import Told, facts_for, plus, with_products, with_shares
from fenchel_server.algorithms.phased import ENDED_HERE, PhasedServer
from fenchel_server.algorithms.rownorms import summed_row_norms
from fenchel_server.contract import PhaseRequest, RoundReport

VOID: Final = "void: a party failed; what it had given before counts"
NOBODY: Final = "void: none of the parties that should take part is there"
UNCERTIFIED: Final = "no certificate: a party was missing"


class PartialServer(PhasedServer[PartialSettings, PartialRound, PartialAnswer]):
    """The server half of HyFDCA with `local = "corrective"` and any participation but `all`.

    Parameters
    ----------
    preparations
        The bytes that each client's `preparation` gave: the encrypted squared norms of its parts of shared rows.
    """

    def __init__(
        self,
        settings: PartialSettings,
        *,
        layout: FederationLayout,
        key: RunKey,
        preparations: Mapping[ClientId, bytes],
        records: Sequence[bytes],
    ) -> None:
        norms = summed_row_norms(preparations, layout=layout, key=key, privacy=settings.privacy)
        self._setup(settings, layout, key, RoundId(0), PartialState(norms=norms), records)

    @classmethod
    def restore(
        cls, snapshot: bytes, *, settings: PartialSettings, layout: FederationLayout, key: RunKey
    ) -> "PartialServer":
        """A server that continues after the round of the snapshot; it tells each client everything again."""
        records, saved = server_state_from_bytes(snapshot)
        round_id, state = snapshot_from_bytes(saved, key, privacy=settings.privacy)
        server = cls.__new__(cls)
        server._setup(settings, layout, key, round_id, state, records)
        return server

    def _setup(
        self,
        settings: PartialSettings,
        layout: FederationLayout,
        key: RunKey,
        round_id: RoundId,
        state: PartialState,
        records: Iterable[bytes],
    ) -> None:
        super().__init__(settings, layout, round_id=round_id, records=records)
        self._exchange = PartialExchange(layout, key, settings)
        self._state = state
        self._progress = _progress_in(self._transcript.records, layout.clients)
        self._told: dict[ClientId, Told] = {}

    def taking_part(self, round_id: RoundId) -> frozenset[ClientId]:
        return due_clients(self.settings, self.layout.clients, round_id, closing=False)

    def _last_state(self, client: ClientId) -> bytes:
        return model_to_bytes(self._state.released.within(self.layout.feature_index.of(client)))

    def _snapshot(self) -> bytes:
        return snapshot_to_bytes(self._round_id, self._state)

    def _forget(self, clients: frozenset[ClientId]) -> None:
        for client in clients:
            self._told.pop(client, None)

    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> PartialRound:
        return begin_round(
            round_id,
            available,
            closing=closing,
            settings=self.settings,
            layout=self.layout,
            progress=self._progress,
            state=self._state,
            told=self._told,
        )

    def _round_choices(self) -> bytes:
        return wire.round_choices_to_bytes(self._current().choices, self.layout.clients)

    def _first_request(self) -> PhaseRequest:
        if self._current().progress.catches_up:
            return self._request_with_facts(CATCH_UP, lambda _, facts: wire.task_to_bytes(facts))
        return self._product_request()

    def _read(self, phase: str, client: ClientId, body: bytes) -> tuple[PartialAnswer, PhaseSums]:
        return self._exchange.read(phase, self._current(), client, body)

    def _take(self, phase: str, answers: Answers[PartialAnswer]) -> PhaseRequest | RoundReport:
        current, before = self._current(), self._current().progress
        good = self._without_failed(answers)
        for client in answers.failed:
            self._told.pop(client, None)
        whole = phase == INNER_PRODUCT and self._covers(before, good)
        certificate, better = None, False
        if phase == PRIMAL and not answers.failed and good:
            certificate, better = self._measured(good)
        choices = b""
        if phase == INNER_PRODUCT:
            choices = wire.product_choices_to_bytes(whole=whole)
        elif phase == PRIMAL:
            choices = wire.primal_choices_to_bytes(better=better)
        self._put_on_record(good, choices)
        current.progress = before.after(phase, good, whole=whole)
        if current.progress.void or not good:
            return self._report(None, VOID if answers.failed else NOBODY, good)
        if phase == CATCH_UP:
            current.state = with_shares(current.state, answers.sums, before)
            return self._product_request()
        if phase == INNER_PRODUCT:
            self._take_products(answers.sums, before, whole=whole)
            return self._dual_request()
        if phase == LOCAL_DUAL:
            check_agree((kept.combination for kept in good.values()), "combination: clients remember different points")
            sums = answers.sums
            current.values = SumsOfPair(sums.by_block(POINT_FIELD), sums.by_block(VERTEX_FIELD))
            current.figures = sums.total(FIGURES_FIELD)
            current.moved = next(iter(good.values())).moved
            return self._primal_request()
        return self._take_primals(answers.sums, good, certificate, better=better)

    def _product_request(self) -> PhaseRequest:
        return self._request_with_facts(INNER_PRODUCT, lambda _, facts: wire.task_to_bytes(facts))

    def _take_products(self, sums: PhaseSums, before: Progress, *, whole: bool) -> None:
        current = self._current()
        state = with_products(current.state, sums, before)
        if (part := sums.total(GRAM_FIELD)) is not None:
            gathered = part if state.gathered is None else state.gathered.plus(part)
            grams = {**state.grams, int(current.id): gathered} if whole else state.grams
            state = replace(state, grams=grams, gathered=None if whole else gathered)
        current.state = state
        current.measured = SumsOfPair(sums.by_block(MEAN_FIELD), sums.by_block(ANCHOR_FIELD))

    def _dual_request(self) -> PhaseRequest:
        current = self._current()

        def task(client: ClientId, facts: Facts) -> bytes:
            norms = None
            if not current.told[client].norms:
                norms = current.state.norms.on(self.layout.sample_index.shared_of(client))
                current.told[client] = replace(current.told[client], norms=True)
            return wire.dual_task_to_bytes(DualTask(facts, norms, current.measured_for(client)))

        return self._request_with_facts(LOCAL_DUAL, task)

    def _primal_request(self) -> PhaseRequest:
        current = self._current()
        tasks = {}
        for client in current.present:
            values = current.values.within(frozenset(current.live_of(client)))
            tasks[client] = wire.primal_task_to_bytes(PrimalTask(values, current.figures))
        return self._request(PRIMAL, tasks)

    def _take_primals(
        self,
        sums: PhaseSums,
        good: Mapping[ClientId, PartialAnswer],
        certificate: Certificate | None,
        *,
        better: bool,
    ) -> RoundReport:
        current, state = self._current(), self._current().state
        if current.choices.owners:
            models = plus(SumsOfPair(), sums, int(current.id))
            pair = StoredPair(current.values, models, conjugates=sums.total(CONJUGATES_FIELD))
            state = replace(state, pairs={**state.pairs, int(current.id): pair})
            for client in good:
                told = current.told[client]
                current.told[client] = replace(told, values=told.values | {int(current.id)})
        model = sums.by_block(MODEL_FIELD)
        if better:
            state = replace(state, model=model)
        latest = NOTHING if current.measures else state.released.overlaid_with(model)
        current.state = replace(state, latest=latest)
        self._told |= current.told
        return self._report(certificate, "", good)

    def _measured(self, good: Mapping[ClientId, PartialAnswer]) -> tuple[Certificate | None, bool]:
        """The certificate of the best model so far, and whether it is the one that was measured."""
        current = self._current()
        objectives = [kept.objectives for kept in good.values()]
        check_agree(objectives, "objectives: clients opened the same figures to different numbers")
        if not current.measures or objectives[0] is None:
            return None, False
        rounds = len(current.progress.rounds)
        best, better = certified(
            objectives[0], current.state.best, rounds=rounds, settings=self.settings, layout=self.layout
        )
        current.state = replace(current.state, best=best)
        return certificate_of(best, self.settings), better

    def _covers(self, progress: Progress, clients: Mapping[ClientId, PartialAnswer]) -> bool:
        """Whether the Gram parts of the batch cover all features."""
        if not progress.next_batch or set(clients) != progress.round.participants:
            return False
        given = progress.gathered | clients.keys()
        return all(not given.isdisjoint(holders) for holders in self.layout.feature_index.holders)

    def _request_with_facts(self, phase: str, encode: Callable[[ClientId, Facts], bytes]) -> PhaseRequest:
        """Begins a phase, in which each client gets the sums that it lacks."""
        current, tasks = self._current(), {}
        for client in current.present:
            facts = facts_for(client, current.told[client], current.state, current.progress, self.layout)
            current.told[client] = current.told[client].plus(facts)
            tasks[client] = encode(client, facts)
        return self._request(phase, tasks)

    def _report(
        self, certificate: Certificate | None, void: str, good: Mapping[ClientId, PartialAnswer]
    ) -> RoundReport:
        current = self._current()
        self._state, self._progress = current.state, current.progress
        outcome, reason = None, ""
        if not void:
            outcome, reason = (None if certificate is None else reached_gap(certificate, self.settings.stop.gap)) or (
                ENDED_HERE if current.closing else (None, "")
            )
        missing = UNCERTIFIED if current.closing and certificate is None else ""
        metrics = RoundMetrics(
            round=current.id,
            samples_updated=self.layout.sample_count if current.moved else 0,
            participants=tuple(client for client in self.layout.clients if client in good),
            absences=current.absences,
        )
        return self._ended(with_certificate(metrics, certificate, (void, missing)), outcome, reason)


def _progress_in(records: Iterable[bytes], clients: Sequence[ClientId]) -> Progress:
    """The progress of the pairs, as the records say."""
    progress = Progress()
    for data in records:
        record = record_from_bytes(data, clients)
        phase = record.moment.phase
        if phase == ROUND:
            progress = progress.begun(record.moment.round, wire.round_choices_from_bytes(record.choices, clients))
        elif phase not in BEFORE_ROUNDS:
            whole = phase == INNER_PRODUCT and wire.product_choices_from_bytes(record.choices)
            progress = progress.after(phase, [given.party for given in record.given], whole=whole)
    return progress
