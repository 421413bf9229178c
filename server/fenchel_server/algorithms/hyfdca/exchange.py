"""The server's knowledge of each client's memory, and the check whether an answer fits its task.

A task has only the vectors that its client lacks. The server concludes from the answered tasks which vectors a client
has. After a missing or rejected answer it assumes nothing about that client's memory, and sends everything again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fenchel_common.algorithms.dual import LOCAL_DUAL, PRIMAL
from fenchel_common.algorithms.hyfdca.messages import (
    FIGURE_COUNT,
    SYNC,
    DualResult,
    DualTask,
    Figures,
    LastState,
    PrimalTask,
    ProductTask,
)
from fenchel_common.blocks import BlockVector, check_fresh, joined_on
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.privacy import Privacy
from fenchel_common.wire import hyfdca as wire
from fenchel_common.wire.parsing import Body
from fenchel_common.wire.scope import Scope
from fenchel_server.algorithms.answers import check_blocks, check_fresh_numbers, check_presence
from fenchel_server.algorithms.intake import Answers, PhaseSums

CHANGES: Final = "changes"
RESTATED: Final = "restated"
FIGURES: Final = "figures"


@dataclass(frozen=True, slots=True)
class HyfdcaAnswer:
    """What is kept of an answer: the vectors that the server stores for the client alone, and the opened figures."""

    contribution: BlockVector | None = None
    products: BlockVector | None = None
    figures: Figures | None = None


@dataclass(slots=True)
class _Peer:
    """The server's knowledge of one client's memory.

    Attributes
    ----------
    model
        The model that the client has, by block; None if that is unknown.
    has_norms
        Whether the client has the row norms of its shared blocks.
    lost
        Whether the client may lack any of its dual variables.
    """

    model: tuple[Vector, ...] | None = ()
    has_norms: bool = False
    lost: bool = False

    def doubt(self) -> None:
        self.model, self.has_norms = None, False


@dataclass(frozen=True, slots=True)
class _Pending:
    """A task that was sent: what the client has once it answers, and the required content of the answer."""

    model: tuple[Vector, ...] | None
    norms: bool = False
    blocks: tuple[int, ...] = ()
    restated: tuple[int, ...] = ()
    figures: bool = False


class Exchange:
    """Makes the tasks of a phase and reads their results.

    The caller makes the tasks of one phase, reads its results, and ends the phase before it makes the next task.
    """

    def __init__(self, layout: FederationLayout, key: RunKey, *, privacy: Privacy, alpha_format: VectorFormat) -> None:
        self._scopes = Scope.of_every_client(layout, key=key, privacy=privacy, alpha_format=alpha_format)
        self._peers = {client: _Peer() for client in layout.clients}
        self._pending: dict[ClientId, _Pending] = {}

    def lose(self, client: ClientId) -> None:
        """Notes that the client has lost its memory, or that its memory is unknown."""
        self._peers[client].doubt()
        self._peers[client].lost = True

    def has_lost(self, client: ClientId) -> bool:
        return self._peers[client].lost

    def needs_norms(self, client: ClientId) -> bool:
        return not self._peers[client].has_norms

    def primal_task(self, client: ClientId, alpha: BlockVector | None, totals: Vector | None = None) -> bytes:
        self._pending[client] = _Pending(self._peers[client].model, figures=totals is not None)
        return wire.primal_task_to_bytes(PrimalTask(alpha, totals))

    def product_task(self, client: ClientId, model: Mapping[int, Vector], blocks: tuple[int, ...]) -> bytes:
        """A task for the inner products of these blocks."""
        parts, update = self._model_update(client, model)
        self._pending[client] = _Pending(parts, blocks=blocks)
        return wire.product_task_to_bytes(ProductTask(update))

    def dual_task(
        self,
        client: ClientId,
        model: Mapping[int, Vector],
        *,
        norms: BlockVector | None,
        products: BlockVector | None,
        drawn: tuple[int, ...],
        restated: tuple[int, ...],
        figures: bool,
    ) -> bytes:
        """A task for changes in the drawn blocks, for dual variables to restate, and for figures if they are due."""
        parts, update = self._model_update(client, model)
        self._pending[client] = _Pending(parts, norms is not None, drawn, restated, figures)
        return wire.dual_task_to_bytes(DualTask(update, norms, products))

    def _model_update(
        self, client: ClientId, model: Mapping[int, Vector]
    ) -> tuple[tuple[Vector, ...], BlockVector | None]:
        """The blocks of w on the client's features, and the vector of them, or None if the client has them."""
        peer = self._peers[client]
        blocks = self._scopes[client].feature_blocks
        parts = tuple(model[block] for block in blocks if block in model)
        # A sum that has not changed is the same object: see `HyfdcaState.summed_contributions`.
        known = (
            peer.model is not None
            and len(peer.model) == len(parts)
            and all(old is new for old, new in zip(peer.model, parts, strict=True))
        )
        return parts, None if known else joined_on(blocks, model)

    def read(self, phase: str, client: ClientId, body: Body) -> tuple[HyfdcaAnswer, PhaseSums]:
        """The answer of a client to the task that was made last for it; raises a `FenchelError` to reject the answer.

        The sums have the names of the fields of `DualResult`.
        """
        pending, scope = self._pending[client], self._scopes[client]
        if phase in (SYNC, PRIMAL):
            primal = wire.primal_result_from_bytes(body, scope)
            check_fresh(primal.contribution, tuple(scope.feature_blocks), "contribution")
            check_presence(primal.figures, pending.figures, "figures")
            return HyfdcaAnswer(contribution=primal.contribution, figures=primal.figures), PhaseSums()
        if phase == LOCAL_DUAL:
            return HyfdcaAnswer(), self._dual_sums(wire.dual_result_from_bytes(body, scope), pending)
        products = wire.product_result_from_bytes(body, scope).products
        check_fresh(products, pending.blocks, "products")
        return HyfdcaAnswer(products=products), PhaseSums()

    def _dual_sums(self, result: DualResult, pending: _Pending) -> PhaseSums:
        check_blocks(result.changes, pending.blocks, "changes")
        check_blocks(result.restated, pending.restated, "restated")
        check_presence(result.figures, pending.figures, "figures")
        if result.figures is not None:
            check_fresh_numbers(result.figures, "figures", length=FIGURE_COUNT)
        return PhaseSums.of({CHANGES: result.changes, RESTATED: result.restated}, {FIGURES: result.figures})

    def ended(self, answers: Answers[HyfdcaAnswer]) -> Answers[HyfdcaAnswer]:
        """Ends the phase: notes what each client has now, and returns the answers that count.

        All clients that opened the same totals must have found the same figures. An answer that differs from the first
        one is rejected.
        """
        good, failed = dict(answers.good), dict(answers.failed)
        opened = {client: answer.figures for client, answer in good.items() if answer.figures is not None}
        first = next(iter(opened), None)
        for client, figures in opened.items():
            if first is not None and figures != opened[first]:
                del good[client]
                failed[client] = f"rejected: figures: differ from those that {first} found"
        asked, self._pending = self._pending, {}
        for client in failed:
            self._peers[client].doubt()
        for client in good:
            peer, pending = self._peers[client], asked[client]
            peer.model, peer.lost = pending.model, False
            peer.has_norms = peer.has_norms or pending.norms
        return Answers(good, failed, answers.sums)


def last_state(model: BlockVector | None) -> bytes:
    """The message that gives a client the final model."""
    return wire.state_to_bytes(LastState(model))
