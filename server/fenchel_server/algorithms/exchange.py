"""What the server may assume about each client's memory, and whether an answer fits its task.

A task tells a client only what it lacks. What it has is known from the tasks that it has answered; when an answer fails
to come, or is refused, everything about that client's memory is in doubt and is told again in full.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.hyfdca import (
    BlockVector,
    DualResult,
    PrimalResult,
    PrimalTask,
    ProductResult,
    ProductTask,
    StateUpdate,
)
from fenchel_common.changes import ArrayChange
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.errors import FenchelError, InvalidInput, ResultRejected
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire import hyfdca as wire

Array = NDArray[np.float64]
R = TypeVar("R")

SANE_MAGNITUDE: Final = 1e100  # of an entry of ŵ_k: sums of these, divided by λN, stay finite


@dataclass(slots=True)
class _Peer:
    """`model` is what the client surely has; `lost` says that it must forget all before it takes anything."""

    model: Array | None
    share_known: bool = True
    has_norms: bool = False
    lost: bool = False

    def doubt(self) -> None:
        self.model, self.share_known, self.has_norms = None, False, False


@dataclass(frozen=True, slots=True)
class _Pending:
    """What the client will have once it answers, and the blocks that its answer must cover."""

    model: Array | None
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answers(Generic[R]):
    """The good answers to a phase, and for every other client that had a task the reason."""

    good: dict[ClientId, R]
    failed: dict[ClientId, str]


class Exchange:
    """Makes the tasks of a phase and takes its results."""

    def __init__(self, layout: FederationLayout, key: PublicKey | int) -> None:
        self._layout = layout
        self._scopes = {
            client: wire.Scope(
                key=key,
                slots=layout.slots,
                features=len(layout.client_features[client]),
                blocks={block: layout.blocks[block].size for block in layout.blocks_of(client)},
            )
            for client in layout.clients
        }
        self._peers = {client: _Peer(model=np.zeros(len(layout.client_features[client]))) for client in layout.clients}
        self._pending: dict[ClientId, _Pending] = {}

    def lose(self, client: ClientId) -> None:
        """The client has lost its state, or has one that the server cannot vouch for."""
        self._peers[client].doubt()
        self._peers[client].lost = True

    def has_lost(self, client: ClientId) -> bool:
        return self._peers[client].lost

    def needs_norms(self, client: ClientId) -> bool:
        return not self._peers[client].has_norms

    def primal_task(self, client: ClientId, alpha: BlockVector | None, conjugate_blocks: tuple[int, ...] = ()) -> bytes:
        peer = self._peers[client]
        self._pending[client] = _Pending(peer.model, ())
        state = StateUpdate(reset=peer.lost, alpha=alpha)
        return wire.primal_task_to_bytes(
            PrimalTask(state, whole=not peer.share_known, conjugate_blocks=conjugate_blocks)
        )

    def product_task(self, client: ClientId, weights: Array, blocks: tuple[int, ...]) -> bytes:
        return wire.product_task_to_bytes(ProductTask(self.model_update(client, weights, blocks), blocks))

    def model_update(self, client: ClientId, weights: Array, blocks: tuple[int, ...]) -> StateUpdate:
        """w on the client's features, as far as it lacks it, for a task whose answer must cover `blocks`."""
        peer = self._peers[client]
        model = weights[self._layout.client_features[client]]
        self._pending[client] = _Pending(model, blocks)
        change = ArrayChange.between(peer.model, model)
        return StateUpdate(reset=peer.lost, model=change if change.is_whole or len(change.values) else None)

    def primal_results(self, results: Mapping[ClientId, bytes]) -> Answers[PrimalResult]:
        answers = self._answers(results, self._primal_result)
        for client in answers.good:
            self._peers[client].share_known = True
        return answers

    def product_results(self, results: Mapping[ClientId, bytes]) -> Answers[ProductResult]:
        return self._answers(results, self._product_result)

    def dual_results(self, results: Mapping[ClientId, bytes]) -> Answers[DualResult]:
        answers = self._answers(results, self._dual_result)
        for client in answers.good:
            self._peers[client].has_norms = True
        return answers

    def openings(self, given: Mapping[ClientId, bytes]) -> dict[ClientId, BlockVector]:
        """Each client's encrypted squared row norms of its shared blocks."""
        norms = {}
        for client in self._layout.clients:
            blocks = tuple(
                block for block in self._layout.blocks_of(client) if len(self._layout.blocks[block].holders) > 1
            )
            if blocks and client not in given:
                raise InvalidInput(f"openings: the row norms of {client} are missing")
            if blocks:
                norms[client] = self._opening(client, given[client], blocks)
        return norms

    def _opening(self, client: ClientId, data: bytes, blocks: tuple[int, ...]) -> BlockVector:
        try:
            norms = wire.product_result_from_bytes(data, self._scopes[client]).products
            check_fresh(norms, blocks, "opening")
        except FenchelError as error:
            raise ResultRejected(client, str(error)) from None
        return norms

    def _answers(self, results: Mapping[ClientId, bytes], read: Callable[[ClientId, bytes, _Pending], R]) -> Answers[R]:
        answers: Answers[R] = Answers({}, {})
        for client, pending in self._pending.items():
            peer = self._peers[client]
            if client not in results:
                answers.failed[client] = "no result"
                peer.doubt()
                continue
            try:
                answers.good[client] = read(client, results[client], pending)
            except FenchelError as error:
                answers.failed[client] = f"rejected: {error}"
                peer.doubt()
            else:
                peer.model, peer.lost = pending.model, False
        self._pending = {}
        return answers

    def _primal_result(self, client: ClientId, data: bytes, _pending: _Pending) -> PrimalResult:
        result = wire.primal_result_from_bytes(data, self._scopes[client])
        if not result.share.is_whole and not self._peers[client].share_known:
            raise InvalidInput("share: must be whole, as the task asked")
        if np.abs(result.share.values).max(initial=0.0) > SANE_MAGNITUDE:
            raise InvalidInput("share.values: an entry is beyond all measure")
        return result

    def _product_result(self, client: ClientId, data: bytes, pending: _Pending) -> ProductResult:
        result = wire.product_result_from_bytes(data, self._scopes[client])
        check_fresh(result.products, pending.blocks, "products")
        return result

    def _dual_result(self, client: ClientId, data: bytes, pending: _Pending) -> DualResult:
        result = wire.dual_result_from_bytes(data, self._scopes[client])
        if (result.changes is not None) != bool(pending.blocks):
            raise InvalidInput("changes: must be there if and only if samples were drawn")
        if result.changes is not None:
            check_fresh(result.changes, pending.blocks, "changes")
        return result


def check_fresh(vector: BlockVector, blocks: tuple[int, ...], name: str) -> None:
    if vector.blocks != blocks:
        raise InvalidInput(f"{name}.blocks: are not the blocks that were asked for")
    if vector.vector.terms != 1:
        raise InvalidInput(f"{name}.vector: must be freshly made, with one term")
