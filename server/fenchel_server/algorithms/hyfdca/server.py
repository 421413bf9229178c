"""HyFDCA at the server: Algorithm 1, one phase after the other.

A round begins with the available clients. Clients whose α or contribution to w is out of date first `sync`; then
`inner_product`, `local_dual`, `primal` and, if set, `inner_product_after` follow. A phase without tasks is left out:
full participation takes 3 phases, 2 if no sample is shared. A client that fails a phase is left out of the rest of the
round. If one of its blocks changes meanwhile, the client is stale until it has synced.

The server reads none of the vectors. In a certificate round all available clients take part up to `local_dual`. The
first label holder of each block of samples and the first holder of each block of features give their contributions to
the `Figures` of the w and α that entered the round. The server sends the sum with `primal`, and the clients open it.
The certificate is about the model that entered the round, and the parties get that model at the end of a run; α and the
contributions may then be one round newer. If H follows D, clients give the figures that make D in every round.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.algorithms.hyfdca.messages import (
    INNER_PRODUCT_AFTER,
    SYNC,
    DualTask,
    Figures,
    PrimalResult,
    SampleRange,
    StateUpdate,
)
from fenchel_common.algorithms.hyfdca.pace import Pace, follows_dual
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.settings import is_due
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector, total
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import RoundMetrics
from fenchel_common.wire.hyfdca_snapshot import HyfdcaSnapshot, snapshot_from_bytes, snapshot_to_bytes
from fenchel_server.algorithms.certificate import Certificate, Rounding, with_certificate
from fenchel_server.algorithms.hyfdca.certificate import DivergenceWatch, certify, dual_value, ending_of
from fenchel_server.algorithms.hyfdca.draw import draw_samples
from fenchel_server.algorithms.hyfdca.exchange import Exchange, last_state
from fenchel_server.algorithms.hyfdca.state import HyfdcaState
from fenchel_server.algorithms.hyfdca.theorems import step_rule
from fenchel_server.algorithms.phased import ENDED_HERE, PhasedServer, RoundUnderWay, not_there
from fenchel_server.algorithms.rownorms import summed_row_norms
from fenchel_server.contract import Outcome, PhaseRequest, RoundReport

UNCERTIFIED: Final = "no certificate: a party was missing, or its part of the model is out of date"


@dataclass(slots=True, kw_only=True)
class _Round(RoundUnderWay):
    """`active` clients update samples; the contributions of `answering` clients to the figures make `totals`."""

    certifying: bool
    active: frozenset[ClientId]
    draws: dict[ClientId, tuple[SampleRange, ...]] = field(default_factory=dict)
    answering: frozenset[ClientId] = frozenset()
    totals: Vector | None = None
    figures: Figures | None = None
    certificate: Certificate | None = None
    ending: tuple[Outcome, str] | None = None
    changed: frozenset[int] = frozenset()
    samples_updated: int = 0


class HyfdcaServer(PhasedServer[HyfdcaSettings, _Round]):
    """The server half of HyFDCA.

    Parameters
    ----------
    key
        The key under which the run's vectors by sample are encrypted.
    preparations
        The bytes that each client's `preparation` gave: the encrypted squared norms of its parts of shared rows.
    """

    def __init__(
        self,
        settings: HyfdcaSettings,
        *,
        layout: FederationLayout,
        key: RunKey,
        preparations: Mapping[ClientId, bytes],
    ) -> None:
        self._setup(settings, layout, key, round_id=RoundId(0))
        self._state.norms = summed_row_norms(preparations, layout=layout, key=key, privacy=settings.privacy)

    @classmethod
    def restore(
        cls, snapshot: bytes, *, settings: HyfdcaSettings, layout: FederationLayout, key: RunKey
    ) -> "HyfdcaServer":
        """A server that continues after the round of the snapshot; it treats every client as restarted."""
        server = cls.__new__(cls)
        saved = snapshot_from_bytes(snapshot, key, privacy=settings.privacy)
        server._setup(settings, layout, key, round_id=saved.round_id)
        state = server._state
        state.alpha, state.changed, state.norms, state.model = saved.alpha, saved.changed, saved.norms, saved.model
        state.take_client_snapshots(saved.clients)
        server._pace = Pace(saved.pace_fraction, saved.pace_earlier, saved.pace_dual)
        server._watch.best_gap, server._watch.poor = saved.best_gap, saved.poor_certificates
        for client in layout.clients:
            server._exchange.lose(client)
        return server

    def _setup(self, settings: HyfdcaSettings, layout: FederationLayout, key: RunKey, *, round_id: RoundId) -> None:
        super().__init__(settings, layout, round_id=round_id)
        self._state = HyfdcaState(layout)
        self._exchange = Exchange(layout, key, privacy=settings.privacy)
        self._sample_counts = {
            client: layout.samples_of(client) for client in layout.clients if client in layout.label_holders
        }
        self._norm_holders = layout.feature_index.first_holders(layout.clients)
        self._rounding = Rounding.of(
            layout,
            lipschitz=settings.loss_function.lipschitz,
            contributions=len(layout.reporters.keys() | self._norm_holders.keys()),
        )
        self._rule = step_rule(settings, layout, self._sample_counts)
        self._pace = Pace()
        at_zero = settings.loss_function.value(np.zeros(1), np.ones(1))
        self._watch = DivergenceWatch(initial_gap=float(at_zero[0]))

    def last_state(self, client: ClientId) -> bytes:
        """The model that entered the last round, on a client's features."""
        return last_state(self._state.model_of(client))

    def snapshot(self) -> bytes:
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

    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> _Round:
        certifying = closing or is_due(round_id, self.settings.certificate_every)
        chosen = frozenset() if closing else self.taking_part(round_id)
        active = chosen & available
        return _Round(
            id=round_id,
            closing=closing,
            present=[client for client in self.layout.clients if client in (available if certifying else active)],
            absences=not_there(chosen - available),
            certifying=certifying,
            active=active,
            ending=ENDED_HERE if closing else None,
        )

    def _first_request(self) -> PhaseRequest:
        return self._sync_request() or self._enter()

    def _take(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport:
        if phase == SYNC:
            self._take_contributions(results, RoundId(self._current().id - 1))
            return self._enter()
        if phase == INNER_PRODUCT:
            self._take_products(results)
            return self._dual_request()
        if phase == LOCAL_DUAL:
            self._take_duals(results)
            return self._primal_request() or self._report()
        if phase == PRIMAL:
            self._take_primals(results)
            return self._product_request_after() or self._report()
        self._take_products(results)
        return self._report()

    def _sync_request(self) -> PhaseRequest | None:
        """The first PrimalAggregation, for the participants whose α or contribution is out of date."""
        state, exchange = self._state, self._exchange
        tasks = {}
        for client in self._current().present:
            since = RoundId(0) if exchange.has_lost(client) else state.synced[client]
            if blocks := state.changed_since(client, since):
                tasks[client] = exchange.primal_task(client, state.alpha_of(blocks))
        return self._request(SYNC, tasks) if tasks else None

    def _enter(self) -> PhaseRequest:
        """Fixes the model that enters the round, and begins the phase after `sync`."""
        self._state.model = self._state.summed_contributions()
        return self._product_request() or self._dual_request()

    def _product_request(self) -> PhaseRequest | None:
        """SecureInnerProduct on all shared blocks; on drawn blocks alone in a full round without a certificate."""
        current = self._current()
        current.draws = {
            client: self._draw(client)
            for client in current.present
            if client in current.active and client in self._sample_counts
        }
        wanted = self.layout.sample_index.shared
        if self.settings.participation_rule.kind == "all" and self._all_present and not current.certifying:
            wanted &= {part.block for ranges in current.draws.values() for part in ranges}
        return self._product_tasks(INNER_PRODUCT, wanted, self._state.model)

    def _product_request_after(self) -> PhaseRequest | None:
        if not self.settings.asks_products_twice or self._current().ending is not None:
            return None
        return self._product_tasks(
            INNER_PRODUCT_AFTER, self.layout.sample_index.shared, self._state.summed_contributions()
        )

    def _product_tasks(self, phase: str, wanted: frozenset[int], model: Mapping[int, Vector]) -> PhaseRequest | None:
        tasks = {}
        for client in self._current().present:
            blocks = tuple(block for block in self.layout.sample_index.of(client) if block in wanted)
            if blocks:
                tasks[client] = self._exchange.product_task(client, model, blocks)
        return self._request(phase, tasks) if tasks else None

    def _draw(self, client: ClientId) -> tuple[SampleRange, ...]:
        return draw_samples(
            self.layout.sample_index.of(client),
            self._pace.samples(self.settings, self._sample_counts, client),
            seed=self.settings.seed,
            round_id=self._current().id,
            client_index=self.layout.clients.index(client),
        )

    def _dual_request(self) -> PhaseRequest:
        """LocalDualMethod for the clients with drawn samples, and contributions to the figures.

        There are no figures if w is not w(α), or if an inner product was computed with another w.
        """
        current = self._current()
        figures_due = current.certifying or follows_dual(self.settings)
        if figures_due and self._all_present and not self._state.stale_clients():
            current.answering = frozenset(self.layout.reporters.keys() | self._norm_holders.keys())
        tasks = {
            client: self._exchange.dual_task(client, self._state.model, partial(self._dual_task, client))
            for client in current.present
            if client in current.draws or client in current.answering
        }
        return self._request(LOCAL_DUAL, tasks)

    def _dual_task(self, client: ClientId, update: StateUpdate) -> DualTask:
        current, state = self._current(), self._state
        ranges = current.draws.get(client, ())
        answering = client in current.answering
        reports = self.layout.reporters.get(client, ()) if answering else ()
        touched = {part.block for part in ranges}.union(reports if current.certifying else ())
        return DualTask(
            state=update,
            norms=state.norms_of(client) if ranges and self._exchange.needs_norms(client) else None,
            products=state.products_of(sorted(touched & self.layout.sample_index.shared)),
            ranges=ranges,
            divisors=tuple(self._divisor(part.block) for part in ranges),
            gamma=self._rule.gamma_at(current.id),
            step_scale=self._rule.step_scale(self._sample_counts[client], self.layout.sample_count) if ranges else 1.0,
            report_blocks=reports,
            norm_blocks=self._norm_holders.get(client, ()) if answering else (),
            with_losses=current.certifying,
        )

    def _divisor(self, block: int) -> int:
        """|B_n|: the number of label holders of a sample; only active ones count if sets of clients take turns."""
        holders = self.layout.label_index.holders[block]
        if self.settings.participation_rule.kind == "cyclic":
            return sum(client in self._current().active for client in holders)
        return len(holders)

    def _take_duals(self, results: Mapping[ClientId, bytes]) -> None:
        current = self._current()
        answers = self._without_failed(self._exchange.dual_results(results))
        contributions = [answer.figures for answer in answers.values() if answer.figures is not None]
        if contributions and current.answering <= answers.keys():
            current.totals = total(contributions)
        changes = [answer.changes for answer in answers.values() if answer.changes is not None]
        current.changed = self._state.add_changes(changes, current.id)
        current.samples_updated = sum(
            part.stop - part.start for client in answers for part in current.draws.get(client, ())
        )

    def _primal_request(self) -> PhaseRequest | None:
        """The second PrimalAggregation, for active clients with a changed block; these clients also open the totals."""
        current, state = self._current(), self._state
        opener, current.present = current.present[:1], [c for c in current.present if c in current.active]
        tasks = {}
        for client in current.present:
            blocks = [block for block in self.layout.sample_index.of(client) if block in current.changed]
            if blocks:
                tasks[client] = self._exchange.primal_task(client, state.alpha_of(blocks), current.totals)
        if not tasks and current.totals is not None:
            current.present = opener
            tasks = {client: self._exchange.primal_task(client, None, current.totals) for client in opener}
        return self._request(PRIMAL, tasks) if tasks else None

    def _take_primals(self, results: Mapping[ClientId, bytes]) -> None:
        current = self._current()
        current.figures = next(
            (answer.figures for answer in self._take_contributions(results, current.id).values()), None
        )
        if current.figures is not None and current.certifying:
            current.certificate = certify(current.figures, lambda_=self.settings.lambda_, rounding=self._rounding)
            current.ending = (
                ending_of(current.certificate, goal=self.settings.stop.gap, watch=self._watch) or current.ending
            )

    def _take_contributions(self, results: Mapping[ClientId, bytes], synced: RoundId) -> dict[ClientId, PrimalResult]:
        answers = self._without_failed(self._exchange.primal_results(results))
        for client, answer in answers.items():
            self._state.take_contribution(client, answer.contribution, synced)
        return answers

    def _take_products(self, results: Mapping[ClientId, bytes]) -> None:
        for client, answer in self._without_failed(self._exchange.product_results(results)).items():
            self._state.keep_products(client, answer.products)

    def _report(self) -> RoundReport:
        current, certificate = self._current(), self._current().certificate
        self._pace = self._pace.after_round(None if current.figures is None else dual_value(current.figures))
        metrics = RoundMetrics(
            round=current.id,
            samples_updated=current.samples_updated,
            participants=tuple(client for client in self.layout.clients if client in current.active),
            absences=current.absences,
            stale=self._state.stale_clients(),
        )
        notes = (self._rule.note, UNCERTIFIED if current.certifying and certificate is None else "")
        outcome, reason = current.ending or (None, "")
        return self._ended(with_certificate(metrics, certificate, notes), outcome, reason)
