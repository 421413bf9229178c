"""The server's knowledge of each client's memory, and the check whether an answer fits its task.

A task has only the vectors that its client lacks. The server concludes from the answered tasks which vectors a client
has. After a missing or rejected answer it assumes nothing about that client's memory, and sends everything again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from fenchel_common.algorithms.dual import ProductResult
from fenchel_common.algorithms.hyfdca.messages import (
    FIGURE_COUNT,
    DualResult,
    DualTask,
    LastState,
    PrimalResult,
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
from fenchel_common.wire.scope import Scope
from fenchel_server.algorithms.answers import check_blocks, check_fresh_numbers, check_presence
from fenchel_server.algorithms.phased import Answers, read_answers

R = TypeVar("R")


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

    The caller makes the tasks of one phase, and hands in its results before it makes the next task.
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

    def primal_results(self, results: Mapping[ClientId, bytes]) -> Answers[PrimalResult]:
        """The answers to `sync` or `primal`.

        All clients that opened the same totals must have found the same figures. An answer that differs from the first
        one is rejected.
        """
        answers = self._answers(results, self._primal_result)
        opened = {client: answer.figures for client, answer in answers.good.items() if answer.figures is not None}
        first = next(iter(opened), None)
        for client, figures in opened.items():
            if first is not None and figures != opened[first]:
                del answers.good[client]
                answers.failed[client] = f"rejected: figures: differ from those that {first} found"
                self._peers[client].doubt()
        return answers

    def product_results(self, results: Mapping[ClientId, bytes]) -> Answers[ProductResult]:
        """The answers to `inner_product` or `inner_product_after`."""
        return self._answers(results, self._product_result)

    def dual_results(self, results: Mapping[ClientId, bytes]) -> Answers[DualResult]:
        """The answers to `local_dual`."""
        return self._answers(results, self._dual_result)

    def _answers(self, results: Mapping[ClientId, bytes], read: Callable[[ClientId, bytes, _Pending], R]) -> Answers[R]:
        asked, self._pending = self._pending, {}
        answers = read_answers(asked, results, lambda client, body: read(client, body, asked[client]))
        for client in answers.failed:
            self._peers[client].doubt()
        for client in answers.good:
            peer, pending = self._peers[client], asked[client]
            peer.model, peer.lost = pending.model, False
            peer.has_norms = peer.has_norms or pending.norms
        return answers

    def _primal_result(self, client: ClientId, data: bytes, pending: _Pending) -> PrimalResult:
        result = wire.primal_result_from_bytes(data, self._scopes[client])
        check_fresh(result.contribution, tuple(self._scopes[client].feature_blocks), "contribution")
        check_presence(result.figures, pending.figures, "figures")
        return result

    def _product_result(self, client: ClientId, data: bytes, pending: _Pending) -> ProductResult:
        result = wire.product_result_from_bytes(data, self._scopes[client])
        check_fresh(result.products, pending.blocks, "products")
        return result

    def _dual_result(self, client: ClientId, data: bytes, pending: _Pending) -> DualResult:
        result = wire.dual_result_from_bytes(data, self._scopes[client])
        check_blocks(result.changes, pending.blocks, "changes")
        check_blocks(result.restated, pending.restated, "restated")
        check_presence(result.figures, pending.figures, "figures")
        if result.figures is not None:
            check_fresh_numbers(result.figures, "figures", length=FIGURE_COUNT)
        return result


def last_state(model: BlockVector | None) -> bytes:
    """The message that gives a client the final model."""
    return wire.state_to_bytes(LastState(model))
