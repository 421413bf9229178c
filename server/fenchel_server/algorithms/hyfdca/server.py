"""HyFDCA at the server: Algorithm 1, one phase after the other.

A round begins with the available clients. Clients whose α or contribution to w is out of date first `sync`; then
`inner_product`, `local_dual`, `primal` and, if set, `inner_product_after` follow. A phase without tasks is left out:
full participation takes 3 phases, 2 if no sample is shared. A client that fails a phase is left out of the rest of the
round. If one of its blocks changes meanwhile, the client is stale until it has synced.

All present clients contribute in `sync`, in `primal` and to the inner products that are due. What a client that failed
should have contributed to is given up: on its blocks (in `local_dual`, on those that it drew from) the contributions of
the other clients in that phase count for nothing, because masks between them do not cancel. A block whose inner
products were given up is not updated in the round; a client whose contribution to the model was given up is stale.

The server reads none of the vectors. In a certificate round all available clients take part up to `local_dual`, where
they give their contributions to the `Figures` of the w and α that entered the round: the first label holder of each
block of samples, and the first holder of each block of features; others give zeros. If only some clients shall take
part in a round, a certificate round updates no sample, so that measuring does not train. The server sends the sum with
`primal`, and the clients open it. The certificate is about the model that entered the round, and the parties get that
model at the end of a run; α and the contributions may then be one round newer. If H follows D, clients give the figures
in every round.

The server's choices are on record. All else follows from them by `RoundRules`, at the server and at the parties.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.algorithms.hyfdca.messages import INNER_PRODUCT_AFTER, SYNC, SampleRange
from fenchel_common.algorithms.hyfdca.pace import Pace
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import BlockIndex, FederationLayout
from fenchel_common.metrics import RoundMetrics
from fenchel_common.wire.hyfdca_snapshot import HyfdcaSnapshot, snapshot_from_bytes, snapshot_to_bytes
from fenchel_common.wire.parsing import Body
from fenchel_server.algorithms.certificate import Rounding, with_certificate
from fenchel_server.algorithms.hyfdca.certificate import DivergenceWatch, certify, dual_value, ending_of
from fenchel_server.algorithms.hyfdca.exchange import CHANGES, FIGURES, RESTATED, Exchange, HyfdcaAnswer, last_state
from fenchel_server.algorithms.hyfdca.round import HyfdcaRound, begun_round
from fenchel_server.algorithms.hyfdca.state import HyfdcaState, Model
from fenchel_server.algorithms.hyfdca.theorems import step_rule
from fenchel_server.algorithms.intake import Answers, PhaseSums
from fenchel_server.algorithms.phased import PhasedServer
from fenchel_server.algorithms.rownorms import summed_row_norms
from fenchel_server.contract import PhaseRequest, RoundReport, ServerState

UNCERTIFIED: Final = "no certificate: a party was missing, or its part of the model is out of date"


class HyfdcaServer(PhasedServer[HyfdcaSettings, HyfdcaRound, HyfdcaAnswer]):
    """The server half of HyFDCA.

    Parameters
    ----------
    key
        The key under which the run's vectors by sample are encrypted.
    preparations
        The bytes that each client's `preparation` gave: the encrypted squared norms of its parts of shared rows.
    records
        The records of the set-up; in the phase of the last one the clients gave them.
    """

    def __init__(
        self,
        settings: HyfdcaSettings,
        *,
        layout: FederationLayout,
        key: RunKey,
        preparations: Mapping[ClientId, bytes],
        records: Sequence[bytes],
    ) -> None:
        self._setup(settings, layout, key, round_id=RoundId(0), records=tuple(records))
        self._state.norms = summed_row_norms(preparations, layout=layout, key=key, privacy=settings.privacy).parts()

    @classmethod
    def restore(
        cls, snapshot: ServerState, *, settings: HyfdcaSettings, layout: FederationLayout, key: RunKey
    ) -> "HyfdcaServer":
        """A server that continues after the round of the snapshot; it treats every client as restarted."""
        server = cls.__new__(cls)
        saved = snapshot_from_bytes(snapshot.own, key, privacy=settings.privacy)
        server._setup(settings, layout, key, round_id=saved.round_id, records=snapshot.records)
        state = server._state
        state.alpha, state.changed, state.norms, state.model = saved.alpha, saved.changed, saved.norms, saved.model
        state.take_client_snapshots(saved.clients)
        server._pace = Pace(saved.pace_fraction, saved.pace_earlier, saved.pace_dual)
        server._watch.best_gap, server._watch.poor = saved.best_gap, saved.poor_certificates
        for client in layout.clients:
            server._exchange.lose(client)
        return server

    def _setup(
        self,
        settings: HyfdcaSettings,
        layout: FederationLayout,
        key: RunKey,
        *,
        round_id: RoundId,
        records: tuple[bytes, ...],
    ) -> None:
        super().__init__(settings, layout, round_id=round_id, records=records)
        self._state = HyfdcaState(layout)
        self._exchange = Exchange(layout, key, privacy=settings.privacy, alpha_format=settings.alpha_format)
        self._sample_counts = {
            client: layout.samples_of(client) for client in layout.clients if client in layout.label_holders
        }
        self._cohorts: dict[tuple[ClientId, ...], dict[int, int]] = {}
        for block in layout.blocks:
            self._cohorts.setdefault(block.holders, {})[block.id] = block.size
        # Other clients give zeros, which are exact.
        giving = layout.reporters.keys() | layout.feature_index.first_holders(layout.clients).keys()
        self._rounding = Rounding.of(layout, contributions=len(giving))
        self._rule, self._note = step_rule(settings, layout, self._sample_counts)
        self._pace = Pace()
        self._watch = DivergenceWatch.of(settings.loss_function)

    def _last_state(self, client: ClientId) -> bytes:
        """The model that entered the last round, on a client's features."""
        return last_state(self._state.model_of(client))

    def _snapshot(self) -> bytes:
        state = self._state
        return snapshot_to_bytes(
            HyfdcaSnapshot(
                round_id=self._round_id,
                alpha=state.alpha,
                changed=state.changed,
                norms=state.norms,
                clients=state.client_snapshots(),
                model=state.model,
                pace_fraction=self._pace.fraction,
                pace_earlier=self._pace.earlier,
                pace_dual=self._pace.dual,
                best_gap=self._watch.best_gap,
                poor_certificates=self._watch.poor,
            )
        )

    def _forget(self, clients: frozenset[ClientId]) -> None:
        for client in clients:
            self._exchange.lose(client)

    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> HyfdcaRound:
        counts = self._sample_counts
        return begun_round(
            round_id,
            available,
            settings=self.settings,
            clients=self.layout.clients,
            shares={client: self._pace.samples(self.settings, counts, client) / counts[client] for client in counts},
            proportional=self._rule.proportional,
            closing=closing,
        )

    def _round_choices(self) -> bytes:
        return self._current().choices_to_bytes()

    def _first_request(self) -> PhaseRequest:
        return self._sync_request() or self._enter()

    def _read(self, phase: str, client: ClientId, body: Body) -> tuple[HyfdcaAnswer, PhaseSums]:
        return self._exchange.read(phase, client, body)

    def _take(self, phase: str, answers: Answers[HyfdcaAnswer]) -> PhaseRequest | RoundReport:
        answers = self._on_record(self._exchange.ended(answers))
        if phase == SYNC:
            self._take_contributions(answers, RoundId(self._current().id - 1))
            return self._enter()
        if phase == INNER_PRODUCT:
            self._current().leave_out(answers.failed, self._take_products(answers))
            return self._dual_request()
        if phase == LOCAL_DUAL:
            self._take_duals(answers)
            return self._primal_request() or self._report()
        if phase == PRIMAL:
            self._take_primals(answers)
            return self._product_request_after() or self._report()
        self._take_products(answers)
        return self._report()

    def _sync_request(self) -> PhaseRequest | None:
        """The first PrimalAggregation, if the α or the contribution of a participant is out of date."""
        state, exchange = self._state, self._exchange
        lacking = {
            client: state.changed_since(client, RoundId(0) if exchange.has_lost(client) else state.synced[client])
            for client in self._current().present
        }
        if not any(lacking.values()):
            return None
        tasks = {client: exchange.primal_task(client, state.alpha_of(blocks)) for client, blocks in lacking.items()}
        return self._request(SYNC, tasks)

    def _enter(self) -> PhaseRequest:
        """Fixes the model that enters the round and the samples that are drawn, and begins the phase after `sync`."""
        current = self._current()
        self._state.model = self._state.summed_contributions()
        current.draws = {client: drawn for client in current.present if (drawn := self._drawn(client))}
        return self._product_request() or self._dual_request()

    def _drawn(self, client: ClientId) -> tuple[SampleRange, ...]:
        cohorts = [cohort for holders, cohort in self._cohorts.items() if client in holders]
        return tuple(part for cohort in cohorts for part in self._current().rules.drawn(client, cohort))

    def _product_request(self) -> PhaseRequest | None:
        """SecureInnerProduct on all shared blocks; on drawn blocks alone in a full round without a certificate."""
        current = self._current()
        wanted = self.layout.sample_index.shared
        if current.rules.asks_drawn_blocks_alone(current.present):
            wanted &= {part.block for ranges in current.draws.values() for part in ranges}
        return self._product_tasks(INNER_PRODUCT, wanted, self._state.model)

    def _product_request_after(self) -> PhaseRequest | None:
        if not self.settings.asks_products_twice or self._current().ending is not None:
            return None
        return self._product_tasks(
            INNER_PRODUCT_AFTER, self.layout.sample_index.shared, self._state.summed_contributions()
        )

    def _product_tasks(self, phase: str, wanted: frozenset[int], model: Model) -> PhaseRequest | None:
        tasks = {}
        for client in self._current().present:
            blocks = tuple(block for block in self.layout.sample_index.of(client) if block in wanted)
            if blocks:
                tasks[client] = self._exchange.product_task(client, model, blocks)
        return self._request(phase, tasks) if tasks else None

    def _dual_request(self) -> PhaseRequest:
        """LocalDualMethod for active clients with labels; restated dual variables, contributions to the figures.

        An active client answers even if none of its samples is drawn: so the record shows who took part in the round.
        """
        current = self._current()
        figures, restated = current.rules.asks_figures(current.present), self._restated()
        tasks = {}
        for client in current.present:
            blocks = restated.get(client, ())
            if figures or blocks or client in current.rules.choices.shares:
                tasks[client] = self._dual_task(client, blocks, figures=figures)
        return self._request(LOCAL_DUAL, tasks)

    def _dual_task(self, client: ClientId, restated: tuple[int, ...], *, figures: bool) -> bytes:
        current, state = self._current(), self._state
        drawn = sorted({part.block for part in current.draws.get(client, ())})
        evaluated = self.layout.reporters.get(client, ()) if figures and current.rules.certifying else ()
        due = bool(drawn) and self.settings.row_norm == "measured" and self._exchange.needs_norms(client)
        return self._exchange.dual_task(
            client,
            state.model,
            norms=state.norms_of(client) if due else None,
            products=state.products_of(sorted(self.layout.sample_index.shared.intersection({*drawn, *evaluated}))),
            drawn=tuple(drawn),
            restated=restated,
            figures=figures,
        )

    def _restated(self) -> dict[ClientId, tuple[int, ...]]:
        """The blocks whose dual variables each client states anew: the first of their label holders that is present."""
        current, alpha = self._current(), self._state.alpha
        first = self.layout.label_index.first_holders(current.present)
        return {
            client: tuple(block for block in blocks if block in alpha and current.rules.restates(alpha[block].terms))
            for client, blocks in first.items()
        }

    def _take_duals(self, answers: Answers[HyfdcaAnswer]) -> None:
        current, sums = self._current(), answers.sums
        figures = sums.total(FIGURES)
        if figures is not None and len(answers.good) == len(self.layout.clients):
            current.totals = figures
        self._state.restate(sums.by_block(RESTATED))
        void = {part.block for client in answers.failed for part in current.draws.get(client, ())}
        current.changed = self._state.add_changes(sums.by_block(CHANGES), current.id, void=void)
        current.samples_updated = sum(
            part.stop - part.start
            for client in answers.good
            for part in current.draws.get(client, ())
            if part.block in current.changed
        )

    def _primal_request(self) -> PhaseRequest | None:
        """The second PrimalAggregation, for active clients if a block has changed; all that are there open the totals.

        A client none of whose blocks has changed contributes as well: the others do not know that.
        """
        current, state = self._current(), self._state
        if current.totals is None:
            current.present = [client for client in current.present if client in current.rules.choices.active]
        if current.totals is None and not current.changed:
            return None
        tasks = {}
        for client in current.present:
            blocks = [block for block in self.layout.sample_index.of(client) if block in current.changed]
            tasks[client] = self._exchange.primal_task(client, state.alpha_of(blocks), current.totals)
        return self._request(PRIMAL, tasks) if tasks else None

    def _take_primals(self, answers: Answers[HyfdcaAnswer]) -> None:
        current = self._current()
        self._take_contributions(answers, current.id)
        current.figures = next((answer.figures for answer in answers.good.values()), None)
        if current.figures is not None and current.rules.certifying:
            current.certificate = certify(current.figures, settings=self.settings, rounding=self._rounding)
            current.ending = (
                ending_of(current.certificate, goal=self.settings.stop.gap, watch=self._watch) or current.ending
            )

    def _take_contributions(self, answers: Answers[HyfdcaAnswer], synced: RoundId) -> None:
        void = self._blocks_of(answers.failed, self.layout.feature_index)
        for client, answer in answers.good.items():
            if answer.contribution is not None:
                self._state.take_contribution(client, answer.contribution, synced, void=void)

    def _take_products(self, answers: Answers[HyfdcaAnswer]) -> frozenset[int]:
        """Keeps the inner products, but for blocks whose inner products are given up; returns these blocks."""
        void = self._blocks_of(answers.failed, self.layout.sample_index)
        for client, answer in answers.good.items():
            if answer.products is not None:
                self._state.keep_products(client, answer.products, void=void)
        return void

    def _blocks_of(self, clients: Iterable[ClientId], index: BlockIndex) -> frozenset[int]:
        """The blocks of all these clients."""
        return frozenset(block for client in clients for block in index.of(client))

    def _on_record(self, answers: Answers[HyfdcaAnswer]) -> Answers[HyfdcaAnswer]:
        """Ends the phase: the good answers count, and the record names the clients that are left out from here on."""
        self._put_on_record(answers.good, self._current().left_out_to_bytes(answers.failed))
        self._without_failed(answers)
        return answers

    def _report(self) -> RoundReport:
        current, certificate = self._current(), self._current().certificate
        self._pace = self._pace.after_round(None if current.figures is None else dual_value(current.figures))
        metrics = RoundMetrics(
            round=current.id,
            samples_updated=current.samples_updated,
            participants=current.took_part,
            absences=current.absences,
            stale=self._state.stale_clients(),
        )
        uncertified = UNCERTIFIED if current.rules.certifying and certificate is None else ""
        notes = (self._note, current.note, uncertified)
        outcome, reason = current.ending or (None, "")
        return self._ended(with_certificate(metrics, certificate, notes), outcome, reason)
