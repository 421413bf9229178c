"""HyFDCA at the server: Algorithm 1, one phase after the other.

A round opens with the clients that are there. Those whose α or share of w is out of date first `sync`; then
`inner_product`, `local_dual`, `primal` and, if asked for, `inner_product_after` follow. A phase in which nobody has
anything to do is left out: full participation takes 3 phases, 2 if no sample is shared. A client that fails a phase
is left out of the rest of the round, and is stale until it has synced if a block of its changed meanwhile.

In a certificate round all clients that are there take part up to `local_dual`, and the reporters (of each block the
first label holder) give their sums for the w and α that entered the round. If the gap is small enough, or the round
is the closing one, it ends there and changes nothing: the model at the end of a run is the one that was certified.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.hyfdca import (
    INNER_PRODUCT,
    INNER_PRODUCT_AFTER,
    LOCAL_DUAL,
    PRIMAL,
    SYNC,
    DualTask,
    HyfdcaSettings,
    PrimalResult,
    SampleRange,
)
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import RoundMetrics
from fenchel_common.wire.hyfdca import dual_task_to_bytes
from fenchel_common.wire.hyfdca_snapshot import HyfdcaSnapshot, snapshot_from_bytes, snapshot_to_bytes
from fenchel_server.algorithms.base import Outcome, RoundReport
from fenchel_server.algorithms.certificate import Certificate, DivergenceWatch, certify, rounding_error
from fenchel_server.algorithms.exchange import Answers, Exchange
from fenchel_server.algorithms.pace import Pace
from fenchel_server.algorithms.sampling import active_clients, draw_samples
from fenchel_server.algorithms.state import HyfdcaState
from fenchel_server.algorithms.theorems import step_rule
from fenchel_server.rounds.requests import PhaseRequest

Array = NDArray[np.float64]
R = TypeVar("R")


@dataclass(slots=True)
class _Round:
    """A round under way.

    `active` clients update samples; `present` are those taking part, and shrinks when one fails a phase; `reports`
    are the blocks that each reporter answers for in the open phase.
    """

    id: RoundId
    closing: bool
    certifying: bool
    active: frozenset[ClientId]
    present: list[ClientId]
    phase: str = ""
    draws: dict[ClientId, tuple[SampleRange, ...]] = field(default_factory=dict)
    reports: dict[ClientId, tuple[int, ...]] = field(default_factory=dict)
    certificate: Certificate | None = None
    changed: frozenset[int] = frozenset()
    samples_updated: int = 0
    dual_after: float | None = None
    absences: dict[ClientId, str] = field(default_factory=dict)


class HyfdcaServer:
    """The server half of HyFDCA.

    Parameters
    ----------
    key
        The run's public key, or the number of bits that it would have in a run in clear.
    openings
        What each client's `opening` gave: the encrypted squared norms of its parts of shared rows.
    """

    def __init__(
        self,
        settings: HyfdcaSettings,
        *,
        layout: FederationLayout,
        key: PublicKey | int,
        openings: Mapping[ClientId, bytes],
    ) -> None:
        self._setup(settings, layout, key)
        self._state.add_norms(self._exchange.openings(openings))

    @classmethod
    def restore(
        cls, snapshot: bytes, *, settings: HyfdcaSettings, layout: FederationLayout, key: PublicKey | int
    ) -> "HyfdcaServer":
        """A server that goes on where the snapshot was taken; every client then counts as restarted."""
        server = cls.__new__(cls)
        server._setup(settings, layout, key)
        saved = snapshot_from_bytes(snapshot, key)
        state = server._state
        state.alpha, state.changed, state.norms = saved.alpha, saved.changed, saved.norms
        state.take_client_snapshots(saved.clients)
        server._round_id = saved.round_id
        server._pace = Pace(saved.pace_share, saved.pace_dual)
        server._watch.best_gap, server._watch.poor = saved.best_gap, saved.poor_certificates
        server._weights = state.model(settings.lambda_)
        for client in layout.clients:
            server._exchange.lose(client)
        return server

    def _setup(self, settings: HyfdcaSettings, layout: FederationLayout, key: PublicKey | int) -> None:
        if any(not layout.label_holders_of(block.id) for block in layout.blocks):
            raise InvalidInput("blocks: every sample needs a party that has its label")
        self._settings = settings
        self._layout = layout
        self._state = HyfdcaState(layout)
        self._exchange = Exchange(layout, key)
        self._held = {
            client: sum(self._state.held[client].values())
            for client in layout.clients
            if client in layout.label_holders
        }
        self._reporters = self._state.reporters()
        self._rule = step_rule(settings, layout, self._held)
        self._round_id = RoundId(0)
        self._round: _Round | None = None
        self._weights = np.zeros(len(layout.features))
        self._pace = Pace()
        at_zero = settings.loss_function.value(np.zeros(1), np.ones(1))
        self._watch = DivergenceWatch(initial_gap=float(at_zero[0]))

    def model(self) -> Array:
        return self._weights.copy()

    def snapshot(self) -> bytes:
        state = self._state
        return snapshot_to_bytes(
            HyfdcaSnapshot(
                round_id=self._round_id,
                alpha=state.alpha,
                changed=state.changed,
                norms=state.norms,
                clients=state.client_snapshots(),
                pace_share=self._pace.share,
                pace_dual=self._pace.dual,
                best_gap=self._watch.best_gap,
                poor_certificates=self._watch.poor,
            )
        )

    def open_round(
        self,
        round_id: RoundId,
        available: frozenset[ClientId],
        restarted: frozenset[ClientId],
        *,
        closing: bool = False,
    ) -> PhaseRequest:
        if round_id != self._round_id + 1:
            raise InvalidInput(f"round_id: {round_id} cannot follow round {self._round_id}")
        for client in restarted & frozenset(self._layout.clients):
            self._exchange.lose(client)
        closing = closing or round_id > self._settings.stop.rounds
        every = self._settings.certificates_every
        certifying = closing or (every > 0 and round_id % every == 0)
        chosen: frozenset[ClientId] = frozenset()
        if not closing:
            rule = self._settings.participation_rule
            chosen = active_clients(rule, self._layout.clients, seed=self._settings.seed, round_id=round_id)
        active = chosen & available
        present = [client for client in self._layout.clients if client in (available if certifying else active)]
        self._round = _Round(round_id, closing, certifying, active, present)
        self._round.absences.update(dict.fromkeys(sorted(chosen - available), "not there when the round began"))
        return self._sync_request() or self._product_request() or self._dual_request()

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport:
        current = self._current()
        if phase != current.phase:
            raise InvalidInput(f"phase: {phase!r} is not the open phase {current.phase!r}")
        if phase == SYNC:
            self._take_shares(results, RoundId(current.id - 1))
            return self._product_request() or self._dual_request()
        if phase == INNER_PRODUCT:
            self._take_products(results)
            return self._dual_request()
        if phase == LOCAL_DUAL:
            return self._close_dual(results) or self._primal_request() or self._report()
        if phase == PRIMAL:
            self._close_primal(results)
            return self._product_request_after() or self._report()
        self._take_products(results)
        return self._report()

    def _current(self) -> _Round:
        if self._round is None:
            raise InvalidInput("phase: no round is open")
        return self._round

    def _request(self, phase: str, tasks: dict[ClientId, bytes]) -> PhaseRequest:
        self._current().phase = phase
        return PhaseRequest(phase, tasks)

    def _sync_request(self) -> PhaseRequest | None:
        """The first PrimalAggregation, for those taking part whose α or share is out of date."""
        state, exchange = self._state, self._exchange
        tasks = {}
        for client in self._current().present:
            since = RoundId(0) if exchange.has_lost(client) else state.synced[client]
            if blocks := state.changed_since(client, since):
                tasks[client] = exchange.primal_task(client, state.alpha_of(blocks))
        return self._request(SYNC, tasks) if tasks else None

    def _product_request(self) -> PhaseRequest | None:
        """SecureInnerProduct: of the drawn blocks, or of all if a certificate or a client that leaves needs them."""
        current = self._current()
        current.draws = {
            client: self._draw(client)
            for client in current.present
            if client in current.active and client in self._held
        }
        wanted = self._state.shared
        complete = len(current.present) == len(self._layout.clients)
        if self._settings.participation_rule.kind == "all" and complete and not current.certifying:
            wanted &= {part.block for ranges in current.draws.values() for part in ranges}
        return self._product_tasks(INNER_PRODUCT, wanted)

    def _product_request_after(self) -> PhaseRequest | None:
        if not self._settings.asks_products_twice:
            return None
        return self._product_tasks(INNER_PRODUCT_AFTER, self._state.shared)

    def _product_tasks(self, phase: str, wanted: frozenset[int]) -> PhaseRequest | None:
        tasks = {}
        for client in self._current().present:
            blocks = tuple(block for block in self._state.held[client] if block in wanted)
            if blocks:
                tasks[client] = self._exchange.product_task(client, self._weights, blocks)
        return self._request(phase, tasks) if tasks else None

    def _draw(self, client: ClientId) -> tuple[SampleRange, ...]:
        return draw_samples(
            self._state.held[client],
            self._pace.samples(self._settings, self._held, client),
            seed=self._settings.seed,
            round_id=self._current().id,
            client_index=self._layout.clients.index(client),
        )

    def _dual_request(self) -> PhaseRequest:
        """LocalDualMethod for those who drew samples, and the certificate's sums from the reporters.

        There is no certificate while w is not w(α) or an inner product is not of this w.
        """
        current = self._current()
        complete = len(current.present) == len(self._layout.clients)
        if current.certifying and complete and not self._state.stale_clients():
            current.reports = self._reporters
        tasks = {
            client: self._dual_task(client)
            for client in current.present
            if client in current.draws or client in current.reports
        }
        return self._request(LOCAL_DUAL, tasks)

    def _dual_task(self, client: ClientId) -> bytes:
        current, state = self._current(), self._state
        ranges, reports = current.draws.get(client, ()), current.reports.get(client, ())
        drawn = tuple(sorted({part.block for part in ranges}))
        touched = sorted({*drawn, *reports} & state.shared)
        return dual_task_to_bytes(
            DualTask(
                state=self._exchange.model_update(client, self._weights, drawn),
                norms=state.norms_of(client) if self._exchange.needs_norms(client) else None,
                products=state.products_of(touched),
                ranges=ranges,
                divisors=tuple(self._divisor(part.block) for part in ranges),
                gamma=self._rule.gamma_at(current.id),
                step_scale=self._rule.step_scale(self._held[client], self._layout.sample_count),
                report_blocks=reports,
            )
        )

    def _divisor(self, block: int) -> int:
        """|B_n|: the label holders of a sample; of these the active ones where sets of clients take turns."""
        holders = self._layout.label_holders_of(block)
        if self._settings.participation_rule.kind == "cyclic":
            return sum(client in self._current().active for client in holders)
        return len(holders)

    def _close_dual(self, results: Mapping[ClientId, bytes]) -> RoundReport | None:
        current = self._current()
        answers = self._without_failed(self._exchange.dual_results(results))
        if current.reports:
            shares = [answers[client].certificate for client in current.reports if client in answers]
            current.certificate = certify(
                [share for share in shares if share is not None],
                squared_norm=float(self._weights @ self._weights),
                lambda_=self._settings.lambda_,
                sample_count=self._layout.sample_count,
                gap_error=rounding_error(self._layout, self._settings.loss_function.lipschitz),
            )
        if (ending := self._verdict()) is not None:
            return ending
        changes = [answer.changes for answer in answers.values() if answer.changes is not None]
        current.changed = self._state.add_changes(changes, current.id)
        current.samples_updated = sum(
            part.stop - part.start for client in answers for part in current.draws.get(client, ())
        )
        return None

    def _verdict(self) -> RoundReport | None:
        """The end of the run, if the certificate or the round's purpose says so."""
        current = self._current()
        certificate, goal = current.certificate, self._settings.stop.gap
        if certificate is not None and goal is not None and certificate.gap <= goal:
            return self._report(Outcome.CONVERGED, f"the duality gap is at most {goal:g}")
        if certificate is not None and self._watch.diverges(certificate.gap):
            cure = "set h to fewer samples, or raise lambda"
            return self._report(Outcome.DIVERGED, f"the duality gap grows instead of falling; {cure}")
        if current.closing:
            return self._report(Outcome.FINISHED, "the run was to end here")
        return None

    def _primal_request(self) -> PhaseRequest | None:
        """The second PrimalAggregation, for those active who hold a changed block."""
        current, state = self._current(), self._state
        current.present = [client for client in current.present if client in current.active]
        complete = len(current.present) == len(self._layout.clients)
        current.reports = self._reporters if complete and current.changed else {}
        tasks = {}
        for client in current.present:
            blocks = [block for block in state.held[client] if block in current.changed]
            if blocks or client in current.reports:
                reports = current.reports.get(client, ())
                tasks[client] = self._exchange.primal_task(client, state.alpha_of(blocks), reports)
        return self._request(PRIMAL, tasks) if tasks else None

    def _close_primal(self, results: Mapping[ClientId, bytes]) -> None:
        current = self._current()
        answers = self._take_shares(results, current.id)
        if current.reports and current.reports.keys() <= answers.keys() and not self._state.stale_clients():
            regulariser = self._settings.lambda_ / 2.0 * float(self._weights @ self._weights)
            conjugates = sum(answers[client].conjugate_sum for client in current.reports)
            current.dual_after = -regulariser - conjugates / self._layout.sample_count

    def _take_shares(self, results: Mapping[ClientId, bytes], synced: RoundId) -> dict[ClientId, PrimalResult]:
        answers = self._without_failed(self._exchange.primal_results(results))
        for client, answer in answers.items():
            self._state.shares[client] = answer.share.applied_to(self._state.shares[client])
            self._state.synced[client] = synced
        self._weights = self._state.model(self._settings.lambda_)
        return answers

    def _take_products(self, results: Mapping[ClientId, bytes]) -> None:
        for client, answer in self._without_failed(self._exchange.product_results(results)).items():
            self._state.keep_products(client, answer.products)

    def _without_failed(self, answers: Answers[R]) -> dict[ClientId, R]:
        """The good answers; the other clients are left out of the rest of the round."""
        current = self._current()
        for client, reason in answers.failed.items():
            current.absences[client] = f"{current.phase}: {reason}"
            current.present.remove(client)
        return answers.good

    def _report(self, outcome: Outcome | None = None, reason: str = "") -> RoundReport:
        current, certificate = self._current(), self._current().certificate
        dual = current.dual_after
        if dual is None and certificate is not None and self._settings.participation_rule.kind != "all":
            dual = certificate.dual
        if dual is not None:
            self._pace.observe(dual)
        notes = [self._rule.note] if self._rule.note else []
        if current.certifying and certificate is None:
            notes.append("no certificate: a client was missing, or its part of the model is out of date")
        self._round_id, self._round = current.id, None
        metrics = RoundMetrics(
            round=current.id,
            dual_after=current.dual_after,
            samples_updated=current.samples_updated,
            participants=tuple(client for client in self._layout.clients if client in current.active),
            absences=current.absences,
            stale=self._state.stale_clients(),
            note="; ".join(notes),
            **({} if certificate is None else asdict(certificate)),
        )
        return RoundReport(metrics, outcome, reason)
