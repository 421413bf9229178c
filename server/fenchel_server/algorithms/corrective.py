"""HyFDCA with corrective steps at the server: one phase after the other.

A round begins with the weights that the round before decided (see `hull`). Clients make α of them, and
`inner_product`, `local_dual` and `primal` follow, three round trips, two if no sample is shared. Every block whose
holders are all there takes part; the others keep their α. In a group that has lost or regained a client all points but
the anchor are forgotten, because they would move blocks that must not move, or cannot be told to whoever missed them.

D cannot fall. A new α replaces the anchor only when the clients' own figures of it say that D is at least as large;
until then all that made it is kept, so that a round in which a client fails to open is void and harmless.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.corrective import DualTask, Opened, Opening, PrimalTask, ProductTask
from fenchel_common.algorithms.hyfdca import INNER_PRODUCT, LOCAL_DUAL, PRIMAL, CertificateShare, HyfdcaSettings
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.crypto.vectors import Vector, total
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import RoundMetrics
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.corrective_snapshot import KeptModel, snapshot_from_bytes, snapshot_to_bytes
from fenchel_server.algorithms.base import Outcome, RoundReport
from fenchel_server.algorithms.certificate import Certificate, certify, rounding_error
from fenchel_server.algorithms.corrective_exchange import CorrectiveExchange, Expected
from fenchel_server.algorithms.corrective_state import CorrectiveState
from fenchel_server.algorithms.exchange import Answers, Exchange
from fenchel_server.algorithms.state import blocks_of, joined
from fenchel_server.rounds.requests import PhaseRequest

Array = NDArray[np.float64]
R = TypeVar("R")

VOID: Final = "void: a client failed before its dual variables were on record"
UNCERTIFIED: Final = "no certificate: a client was missing"


@dataclass(slots=True)
class _Round:
    """A round under way.

    Attributes
    ----------
    live
        The blocks that take part, all of whose holders are there.
    playing
        Numbers of the groups with such blocks; one leaves when a client of it fails after the opening.
    present
        The clients of live blocks; one leaves when it fails.
    due
        Those of them that have not opened the round yet.
    """

    id: RoundId
    closing: bool
    certifying: bool
    live: frozenset[int]
    playing: set[int]
    present: list[ClientId]
    due: set[ClientId]
    phase: str = ""
    opened: dict[ClientId, Opened] = field(default_factory=dict)
    products: dict[ClientId, dict[int, Vector]] = field(default_factory=dict)
    points: dict[int, Vector] = field(default_factory=dict)
    failed: set[ClientId] = field(default_factory=set)
    certificate: Certificate | None = None
    samples_updated: int = 0
    dual_after: float | None = None
    absences: dict[ClientId, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class CorrectiveServer:
    """The server half of HyFDCA with `local = "corrective"`.

    Parameters
    ----------
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
        self._state.add_norms(Exchange(layout, key).openings(openings))

    @classmethod
    def restore(
        cls, snapshot: bytes, *, settings: HyfdcaSettings, layout: FederationLayout, key: PublicKey | int
    ) -> "CorrectiveServer":
        """A server that goes on where the snapshot was taken; every client then counts as restarted."""
        server = cls.__new__(cls)
        server._setup(settings, layout, key)
        saved = snapshot_from_bytes(snapshot, key)
        server._state.take(saved)
        server._round_id = saved.round_id
        server._weights = server._state.pending_model()
        for client in layout.clients:
            server._exchange.lose(client)
        return server

    def _setup(self, settings: HyfdcaSettings, layout: FederationLayout, key: PublicKey | int) -> None:
        if any(not layout.label_holders_of(block.id) for block in layout.blocks):
            raise InvalidInput("blocks: every sample needs a party that has its label")
        self._settings = settings
        self._layout = layout
        self._state = CorrectiveState(layout, settings.lambda_)
        self._exchange = CorrectiveExchange(layout, key)
        self._round_id = RoundId(0)
        self._round: _Round | None = None
        self._weights = np.zeros(len(layout.features))

    def model(self) -> Array:
        return self._weights.copy()

    def snapshot(self) -> bytes:
        return snapshot_to_bytes(self._state.snapshot(self._round_id))

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
        clients = frozenset(self._layout.clients)
        for client in restarted & clients:
            self._exchange.lose(client)
        live = frozenset(block.id for block in self._layout.blocks if available.issuperset(block.holders))
        present = [client for client in self._layout.clients if not live.isdisjoint(self._state.held[client])]
        closing = closing or round_id > self._settings.stop.rounds
        every = self._settings.certificates_every
        certifying = closing or (every > 0 and round_id % every == 0)
        playing = {self._state.group_of[client] for client in present}
        self._round = _Round(round_id, closing, certifying, live, playing, present, set(present))
        self._round.absences.update(dict.fromkeys(sorted(clients - available), "not there when the round began"))
        self._state.prepare(playing, available, round_id)
        self._weights = self._state.pending_model()
        return self._product_request() or self._dual_request()

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport:
        current = self._current()
        if phase != current.phase:
            raise InvalidInput(f"phase: {phase!r} is not the open phase {current.phase!r}")
        if phase == INNER_PRODUCT:
            return self._close_products(results) or self._dual_request()
        if phase == LOCAL_DUAL:
            return self._close_dual(results) or self._primal_request() or self._concluded()
        self._close_primal(results)
        return self._concluded()

    def _current(self) -> _Round:
        if self._round is None:
            raise InvalidInput("phase: no round is open")
        return self._round

    def _request(self, phase: str, tasks: dict[ClientId, bytes]) -> PhaseRequest:
        self._current().phase = phase
        return PhaseRequest(phase, tasks)

    def _live_blocks(self, client: ClientId) -> tuple[int, ...]:
        return tuple(block for block in self._state.held[client] if block in self._current().live)

    def _opening(self, client: ClientId) -> tuple[Opening, Array]:
        """The client's opening, and the model that it then has."""
        current, hull = self._current(), self._state.hulls[self._state.group_of[client]]
        model, change = self._exchange.model_part(client, self._weights)
        lost = self._exchange.needs_memory(client)
        opening = Opening(
            memory=self._state.memory(client, self._live_blocks(client)) if lost else None,
            model=change,
            anchor=hull.anchor_round,
            combination=None if hull.pending is None else replace(hull.pending, round_id=current.id),
            report_blocks=self._state.reported(client, current.live),
        )
        return opening, model

    def _product_request(self) -> PhaseRequest | None:
        tasks = {}
        for client in self._current().present:
            blocks = tuple(block for block in self._live_blocks(client) if block in self._state.shared)
            if blocks:
                opening, model = self._opening(client)
                self._exchange.expect(client, Expected(model, opening, blocks))
                tasks[client] = wire.product_task_to_bytes(ProductTask(opening, blocks))
        return self._request(INNER_PRODUCT, tasks) if tasks else None

    def _close_products(self, results: Mapping[ClientId, bytes]) -> RoundReport | None:
        current = self._current()
        for client, answer in self._without_failed(self._exchange.product_results(results)).items():
            self._take_opened(client, answer.opened)
            current.products[client] = dict(blocks_of(answer.products))
        return self._void() if current.failed else None

    def _take_opened(self, client: ClientId, opened: Opened) -> None:
        self._current().opened[client] = opened
        self._current().due.discard(client)

    def _void(self) -> RoundReport:
        self._current().notes.append(VOID)
        return self._report()

    def _dual_request(self) -> PhaseRequest:
        current = self._current()
        certifying = current.certifying and len(current.live) == len(self._layout.blocks)
        tasks = {}
        for client in current.present:
            certified = self._state.reported(client, current.live) if certifying else ()
            wanted = not current.closing or client in current.due or bool(certified)
            if client in self._layout.label_holders and wanted:
                tasks[client] = self._dual_task(client, certified)
        return self._request(LOCAL_DUAL, tasks)

    def _dual_task(self, client: ClientId, certified: tuple[int, ...]) -> bytes:
        current, state = self._current(), self._state
        opening, model = self._opening(client) if client in current.due else (None, None)
        blocks = () if current.closing else self._live_blocks(client)
        touched = sorted({*blocks, *certified} & state.shared)
        models = state.hulls[state.group_of[client]].models
        W = np.array([*(state.models[number].weights for number in models), self._weights])
        self._exchange.expect(client, Expected(model, opening, blocks))
        return wire.dual_task_to_bytes(
            DualTask(
                opening=opening,
                round_id=current.id,
                norms=state.norms_of(client) if self._exchange.needs_norms(client) else None,
                products=joined(touched, {block: self._product(block) for block in touched}),
                blocks=blocks,
                divisors=tuple(len(self._layout.label_holders_of(block)) for block in blocks),
                scale=self._samples(current.live) / self._samples(blocks) if blocks else 1.0,
                models=models,
                gram=W @ W.T,
                certificate_blocks=certified,
                certify_only=current.closing,
            )
        )

    def _samples(self, blocks: Iterable[int]) -> int:
        return sum(self._layout.blocks[block].size for block in blocks)

    def _product(self, block: int) -> Vector:
        return total([self._current().products[client][block] for client in self._layout.blocks[block].holders])

    def _close_dual(self, results: Mapping[ClientId, bytes]) -> RoundReport | None:
        current, state = self._current(), self._state
        answers = self._without_failed(self._exchange.dual_results(results))
        for client, answer in answers.items():
            if answer.opened is not None:
                self._take_opened(client, answer.opened)
        if current.due:
            return self._void()
        reached = state.reached(current.playing, current.opened, current.live)
        before = state.corrector.value([hull.anchor for hull in state.hulls])
        after = state.corrector.value(reached)
        self._certify([answer.certificate for answer in answers.values()], dual=max(before, after))
        if (ending := self._verdict()) is not None:
            return ending
        state.settle(
            reached, current.playing, current.opened, current.live, round_id=current.id, accepted=after >= before
        )
        for number in current.playing:
            for client in set(state.groups[number].clients) - current.opened.keys():
                self._exchange.lose(client)  # its blocks kept their α, but it does not know the anchor by its new name
        current.playing -= {state.group_of[client] for client in current.failed}
        by_block: dict[int, list[Vector]] = {}
        for client, answer in answers.items():
            if answer.point is not None and state.group_of[client] in current.playing:
                for block, vector in blocks_of(answer.point):
                    by_block.setdefault(block, []).append(vector)
                    current.samples_updated += self._layout.blocks[block].size
        current.points = {block: total(vectors) for block, vectors in by_block.items()}
        return None

    def _certify(self, shares: Iterable[CertificateShare | None], *, dual: float) -> None:
        self._current().certificate = certify(
            [share for share in shares if share is not None],
            squared_norm=float(self._weights @ self._weights),
            lambda_=self._settings.lambda_,
            sample_count=self._layout.sample_count,
            gap_error=rounding_error(self._layout, self._settings.loss_function.lipschitz),
            dual=dual,
        )

    def _verdict(self) -> RoundReport | None:
        """The end of the run, if the certificate or the round's purpose says so; nothing has changed then."""
        current, goal = self._current(), self._settings.stop.gap
        if current.certificate is not None and goal is not None and current.certificate.gap <= goal:
            return self._report(Outcome.CONVERGED, f"the duality gap is at most {goal:g}")
        if current.closing:
            return self._report(Outcome.FINISHED, "the run was to end here")
        return None

    def _primal_request(self) -> PhaseRequest | None:
        current, state = self._current(), self._state
        tasks = {}
        for client in current.present:
            number = state.group_of[client]
            point = joined(self._live_blocks(client), current.points) if number in current.playing else None
            if point is None:
                continue
            labels, vertex = client in self._layout.label_holders, state.groups[number].labelled
            self._exchange.expect(client, Expected(vertex=vertex))
            tasks[client] = wire.primal_task_to_bytes(
                PrimalTask(
                    anchor=state.hulls[number].anchor_round,
                    models=state.kept_models(number, current.id) if labels else (),
                    point=point,
                    report_blocks=state.reported(client, current.live),
                    vertex=vertex,
                )
            )
        return self._request(PRIMAL, tasks) if tasks else None

    def _close_primal(self, results: Mapping[ClientId, bytes]) -> None:
        current, state = self._current(), self._state
        asked = set(current.playing)
        answers = self._without_failed(self._exchange.primal_results(results))
        current.playing -= {state.group_of[client] for client in current.failed}
        points = {client: answer.point for client, answer in answers.items()}
        vertices = {client: answer.vertex for client, answer in answers.items() if answer.vertex is not None}
        for number in current.playing:
            state.keep_points(number, points, vertices, current.live, current.id)
        for number in asked - current.playing:
            # The others of the group have dropped the oldest model already, to make room for this round's.
            state.keep_models(number, [m for m in state.kept_models(number, current.id) if m != current.id])
        live = {block for number in current.playing for block in state.groups[number].blocks} & current.live
        state.point.update({block: current.points[block] for block in sorted(live)})
        products = {block: self._product(block) for block in sorted(live & state.shared)}
        state.models[current.id] = KeptModel(self._weights, products)

    def _concluded(self) -> RoundReport:
        """Ends a round that changed something with the corrective step."""
        current = self._current()
        current.dual_after = self._state.decide(current.playing, RoundId(current.id + 1))
        self._weights = self._state.pending_model()
        return self._report()

    def _without_failed(self, answers: Answers[R]) -> dict[ClientId, R]:
        """The good answers; the other clients are left out of the rest of the round."""
        current = self._current()
        for client, reason in answers.failed.items():
            current.absences[client] = f"{current.phase}: {reason}"
            current.present.remove(client)
            current.failed.add(client)
        return answers.good

    def _report(self, outcome: Outcome | None = None, reason: str = "") -> RoundReport:
        current = self._current()
        if current.certifying and current.certificate is None:
            current.notes.append(UNCERTIFIED)
        self._round_id, self._round = current.id, None
        metrics = RoundMetrics(
            round=current.id,
            dual_after=current.dual_after,
            samples_updated=current.samples_updated,
            participants=tuple(current.present),
            absences=current.absences,
            note="; ".join(current.notes),
            **({} if current.certificate is None else asdict(current.certificate)),
        )
        return RoundReport(metrics, outcome, reason)
