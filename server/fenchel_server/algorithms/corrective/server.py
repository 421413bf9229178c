"""HyFDCA with corrective steps at the server: it adds what it cannot read and relays the sums.

`inner_product`, `local_dual` and `primal` make a round, three round trips; where every client has whole rows the first
is not needed. Every block whose holders are all there takes part; the others keep their α. The points are in the
clients' memories. When a client has lost its memory, or others take part than before, all forget every point but the
anchor: the others would move blocks that must not move, or cannot be told to whoever missed them.

The model on record is the best one, at which P was least so far; whoever gets the anchor anew gets it too.

D cannot fall. New dual variables replace the anchor only where the clients' own figures say that D is at least as
large, and the anchor's ciphertexts are replaced in the same moment; so a round in which a client fails before that is
void and harmless.
"""

from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field
from typing import Final, TypeVar

from fenchel_common.algorithms.corrective.messages import Anchor, DualResult, DualTask, Opening, PrimalTask, Products
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.blocks import BlockVector, joined, joined_on, summed
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector, total
from fenchel_common.errors import InvalidInput, StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import RoundMetrics
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.corrective_snapshot import CorrectiveState, state_from_bytes, state_to_bytes
from fenchel_server.algorithms.certificate import Certificate
from fenchel_server.algorithms.corrective.exchange import CorrectiveExchange, certified
from fenchel_server.algorithms.phased import Answers, OpenRound, PhasedServer, is_due, not_there
from fenchel_server.algorithms.rownorms import read_openings
from fenchel_server.contract import Outcome, PhaseRequest, RoundReport

R = TypeVar("R")

VOID: Final = "void: a client failed before the new dual variables were on record"
UNTOLD: Final = "void: a client failed to tell its part of the model"
STANDSTILL: Final = "void: no sample had all its holders there"
UNCERTIFIED: Final = "no certificate: a client was missing"


@dataclass(slots=True, kw_only=True)
class _Round(OpenRound):
    """The clients of live blocks take part.

    Attributes
    ----------
    live
        The blocks that take part, all of whose holders are there.
    openings
        What each client is told first.
    """

    certifying: bool
    collapse: bool
    live: frozenset[int]
    openings: dict[ClientId, Opening] = field(default_factory=dict)
    products: dict[ClientId, Products] = field(default_factory=dict)
    duals: dict[ClientId, DualResult] = field(default_factory=dict)
    certificate: Certificate | None = None
    samples_updated: int = 0
    notes: list[str] = field(default_factory=list)


class CorrectiveServer(PhasedServer[CorrectiveSettings, _Round]):
    """The server half of HyFDCA with `local = "corrective"`.

    Parameters
    ----------
    openings
        What each client's `opening` gave: the encrypted squared norms of its parts of shared rows.
    """

    def __init__(
        self,
        settings: CorrectiveSettings,
        *,
        layout: FederationLayout,
        key: RunKey,
        openings: Mapping[ClientId, bytes],
    ) -> None:
        norms = summed(read_openings(openings, layout=layout, key=key, privacy=settings.privacy).values())
        state = CorrectiveState(RoundId(0), sound=frozenset(layout.clients), norms=norms)
        self._setup(settings, layout, key, state)

    @classmethod
    def restore(
        cls, snapshot: bytes, *, settings: CorrectiveSettings, layout: FederationLayout, key: RunKey
    ) -> "CorrectiveServer":
        """A server that goes on where the snapshot was taken; a client without its memory will say so."""
        state = state_from_bytes(snapshot, key=key, share_key=key.by_feature(settings.privacy))
        if not state.makers <= set(layout.clients):
            raise StateDamaged("the snapshot is of other clients than the layout")
        server = cls.__new__(cls)
        server._setup(settings, layout, key, state)
        return server

    def _setup(
        self, settings: CorrectiveSettings, layout: FederationLayout, key: RunKey, state: CorrectiveState
    ) -> None:
        super().__init__(settings, layout, round_id=state.round_id)
        self._state = state
        self._exchange = CorrectiveExchange(layout, key, privacy=settings.privacy)
        self._has_norms: set[ClientId] = set()
        self._vertices = layout.label_holders == frozenset(layout.clients)

    def last_state(self, client: ClientId) -> bytes:
        return wire.model_to_bytes(self._features_of(client, self._state.model))

    def snapshot(self) -> bytes:
        return state_to_bytes(self._state)

    def _forget(self, clients: Set[ClientId]) -> None:
        self._state.sound -= clients
        self._has_norms -= clients

    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> _Round:
        state = self._state
        held = self.layout.sample_index
        live = held.complete(available)
        present = [client for client in self.layout.clients if not live.isdisjoint(held.of(client))]
        makers = frozenset(present)
        collapse = makers != state.makers or not makers <= state.sound or state.concluded != round_id - 1
        state.collapses += collapse and state.anchor > 0
        state.makers = makers
        return _Round(
            id=round_id,
            closing=closing,
            present=present,
            absences=not_there(frozenset(self.layout.clients) - available),
            certifying=closing or is_due(round_id, self.settings.certificate_every),
            collapse=collapse,
            live=live,
        )

    def _first_request(self) -> PhaseRequest:
        current = self._current()
        features = self.layout.feature_index.first_holders(frozenset(current.present))
        current.openings = {client: self._opening(client, features.get(client, ())) for client in current.present}
        return self._product_request() or self._dual_request()

    def _take(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport:
        if phase == INNER_PRODUCT:
            return self._close_products(results) or self._dual_request()
        if phase == LOCAL_DUAL:
            return self._close_dual(results) or self._primal_request()
        return self._close_primal(results)

    @property
    def _complete(self) -> bool:
        """Whether every sample takes part."""
        return len(self._current().live) == len(self.layout.blocks)

    def _live_blocks(self, client: ClientId) -> tuple[int, ...]:
        return tuple(block for block in self.layout.sample_index.of(client) if block in self._current().live)

    def _features_of(self, client: ClientId, blocks: Mapping[int, Vector]) -> BlockVector | None:
        return joined_on(self.layout.feature_index.of(client), blocks)

    def _opening(self, client: ClientId, feature_blocks: tuple[int, ...]) -> Opening:
        current, state = self._current(), self._state
        lost = None
        if current.collapse and client not in state.sound:
            lost = Anchor(
                alpha=joined_on(self.layout.sample_index.of(client), state.alpha),
                weights=self._features_of(client, state.weights),
                model=self._features_of(client, state.model),
            )
        return Opening(
            after=state.concluded,
            anchor=state.anchor,
            collapse=current.collapse,
            lost=lost,
            live_blocks=self._live_blocks(client),
            report_blocks=tuple(block for block in self.layout.reporters.get(client, ()) if block in current.live),
            feature_blocks=feature_blocks,
            point=None if current.collapse else self._features_of(client, state.point),
            vertex=None if current.collapse else self._features_of(client, state.vertex),
            conjugates=None if current.collapse else state.conjugates,
        )

    @property
    def _new_points(self) -> int:
        return 2 if self._current().collapse or self._vertices else 1

    def _product_request(self) -> PhaseRequest | None:
        """Not needed where every client has whole rows: it then finds inner products and Gram matrix by itself."""
        if self.layout.partition == "horizontal":
            return None
        openings = self._current().openings
        return self._request(
            INNER_PRODUCT, {client: wire.product_task_to_bytes(opening) for client, opening in openings.items()}
        )

    def _close_products(self, results: Mapping[ClientId, bytes]) -> RoundReport | None:
        current = self._current()
        read = self._exchange.products(current.openings, results, new=self._new_points)
        current.products = self._without_failed(read)
        if len({answer.gram.length for answer in current.products.values()}) > 1:
            raise InvalidInput("gram: clients disagree on what they remember")
        return self._void_after(read)

    def _dual_request(self) -> PhaseRequest:
        current = self._current()
        points = summed(answer.point for answer in current.products.values())
        vertices = summed(answer.vertex for answer in current.products.values())
        gram = total([answer.gram for answer in current.products.values()]) if current.products else None
        held, labelled = self.layout.sample_index, self.layout.label_index.holders
        live_samples = sum(held.sizes[block] for block in current.live)
        tasks = {}
        for client in current.present:
            blocks = self._live_blocks(client)
            shared = [block for block in blocks if block in held.shared]
            norms = None
            if client not in self._has_norms:
                norms = joined(held.shared_of(client), self._state.norms)
            products = None
            if gram is not None:
                vertex = joined(shared, vertices) if vertices else None
                products = Products(joined(shared, points), vertex, gram)
            tasks[client] = wire.dual_task_to_bytes(
                DualTask(
                    opening=None if current.products else current.openings[client],
                    round_id=current.id,
                    norms=norms,
                    products=products,
                    divisors=tuple(len(labelled[block]) for block in blocks),
                    scale=live_samples / sum(held.sizes[block] for block in blocks),
                    certify_only=current.closing,
                )
            )
        return self._request(LOCAL_DUAL, tasks)

    def _close_dual(self, results: Mapping[ClientId, bytes]) -> RoundReport | None:
        current = self._current()
        solving = frozenset() if current.closing else self.layout.label_holders
        read = self._exchange.duals(current.openings, results, solving=solving)
        current.duals = self._without_failed(read)
        self._has_norms |= current.duals.keys()
        if (void := self._void_after(read)) is not None:
            return void
        if len({answer.combination for answer in current.duals.values()}) > 1:
            raise InvalidInput("combination: clients found different weights for the same points")
        current.samples_updated = sum(
            self.layout.sample_index.sizes[block]
            for client, answer in current.duals.items()
            if answer.point is not None
            for block in self._live_blocks(client)
        )
        return None

    def _primal_request(self) -> PhaseRequest:
        current = self._current()
        points = summed(answer.point for answer in current.duals.values())
        figures = total([answer.figures for answer in current.duals.values()])
        tasks = {
            client: wire.primal_task_to_bytes(
                PrimalTask(
                    round_id=current.id,
                    point=joined(self._live_blocks(client), points) if points else None,
                    figures=figures,
                    relative=not self._complete,
                    vertex=self._vertices and bool(points),
                    report=current.certifying and self._complete,
                )
            )
            for client in current.present
        }
        return self._request(PRIMAL, tasks)

    def _close_primal(self, results: Mapping[ClientId, bytes]) -> RoundReport:
        current, state = self._current(), self._state
        report = current.certifying and self._complete
        solved = not current.closing
        openings = {client: current.openings[client] for client in current.present}
        read = self._exchange.primals(openings, results, solved=solved, vertex=solved and self._vertices, report=report)
        if len({(answer.accepted, answer.figures) for answer in read.good.values()}) > 1:
            raise InvalidInput("figures: clients opened the same sums to different numbers")
        if len({0 if each.conjugates is None else each.conjugates.length for each in read.good.values()}) > 1:
            raise InvalidInput("conjugates: clients disagree on what they remember")
        answers = self._without_failed(read)
        model = summed(answer.model for answer in answers.values())
        told = model.keys() == {block for opening in openings.values() for block in opening.feature_blocks}
        if not answers:
            return self._void(VOID)
        if current.closing and not told:
            return self._void(UNTOLD)
        first = next(iter(answers.values()))
        weights = state.weights | summed(answer.weights for answer in current.duals.values())
        if told:
            # Features of the absent have no new weight in a round that begins anew, and the anchor's in others.
            state.model = (state.model if current.collapse else weights) | model
            if first.figures is not None:
                current.certificate = certified(first.figures, state, settings=self.settings, layout=self.layout)
        if (ending := self._verdict()) is not None:
            return ending
        if first.accepted:
            state.anchor, state.weights = current.id, weights
            state.alpha |= summed(answer.alpha for answer in current.duals.values())
        # If the best model is another one to the clients than on record, all of them get the one on record.
        state.concluded, state.sound = current.id, frozenset(current.present if told else ())
        state.relative_rounds += not self._complete
        state.point = summed(answer.point for answer in answers.values())
        state.vertex = summed(answer.vertex for answer in answers.values())
        state.conjugates = total([answer.conjugates for answer in answers.values() if answer.conjugates is not None])
        return self._report()

    def _verdict(self) -> RoundReport | None:
        """The end of the run, if the certificate or the round's purpose says so."""
        current, goal = self._current(), self.settings.stop.gap
        if current.certificate is not None and goal is not None and current.certificate.gap <= goal:
            return self._report(Outcome.CONVERGED, f"the duality gap is at most {goal:g}")
        if current.closing:
            return self._report(Outcome.FINISHED, "the run was to end here")
        return None

    def _without_failed(self, answers: Answers[R]) -> dict[ClientId, R]:
        """The good answers; the memory of the other clients is in doubt."""
        self._forget(answers.failed.keys())
        return super()._without_failed(answers)

    def _void_after(self, read: Answers[R]) -> RoundReport | None:
        """The end of a round that cannot go on."""
        if not read.failed and not read.good:
            return self._void(STANDSTILL)
        return self._void(VOID) if read.failed else None

    def _void(self, reason: str) -> RoundReport:
        self._current().notes.append(reason)
        return self._report()

    def _report(self, outcome: Outcome | None = None, reason: str = "") -> RoundReport:
        current = self._current()
        if current.certifying and current.certificate is None:
            current.notes.append(UNCERTIFIED)
        self._state.round_id = current.id
        metrics = RoundMetrics(
            round=current.id,
            samples_updated=current.samples_updated,
            participants=tuple(current.present),
            absences=current.absences,
            note="; ".join(current.notes),
            **({} if current.certificate is None else asdict(current.certificate)),
        )
        return self._ended(metrics, outcome, reason)
