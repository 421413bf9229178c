"""What the server may assume about each client's memory in corrective HyFDCA, and whether an answer fits its task.

A client that fails to answer, or whose answer is refused, is told everything again with its next opening.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.corrective import DualResult, Opened, Opening, PrimalResult, ProductResult
from fenchel_common.algorithms.hyfdca import BlockVector
from fenchel_common.changes import ArrayChange
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.errors import FenchelError, InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.hyfdca import Scope
from fenchel_server.algorithms.exchange import SANE_MAGNITUDE, Answers, check_fresh

Array = NDArray[np.float64]
R = TypeVar("R")


@dataclass(slots=True)
class _Peer:
    """`model` is what the client surely has; None if its memory is lost or in doubt."""

    model: Array | None
    has_norms: bool = False

    def lose(self) -> None:
        self.model, self.has_norms = None, False


@dataclass(frozen=True, slots=True)
class Expected:
    """What a client's answer must cover; `model` is what it has from then on, if its task opened the round."""

    model: Array | None = None
    opening: Opening | None = None
    blocks: tuple[int, ...] = ()
    vertex: bool = False


class CorrectiveExchange:
    """Keeps what each client knows and reads the answers of a phase."""

    def __init__(self, layout: FederationLayout, key: PublicKey | int) -> None:
        self._layout = layout
        self._scopes = {
            client: Scope(
                key=key,
                slots=layout.slots,
                features=len(layout.client_features[client]),
                blocks={block: layout.blocks[block].size for block in layout.blocks_of(client)},
            )
            for client in layout.clients
        }
        self._peers = {client: _Peer(np.zeros(len(layout.client_features[client]))) for client in layout.clients}
        self._expected: dict[ClientId, Expected] = {}

    def lose(self, client: ClientId) -> None:
        """The client has lost its state, or has one that the server cannot vouch for."""
        self._peers[client].lose()

    def needs_memory(self, client: ClientId) -> bool:
        return self._peers[client].model is None

    def needs_norms(self, client: ClientId) -> bool:
        return not self._peers[client].has_norms

    def model_part(self, client: ClientId, weights: Array) -> tuple[Array, ArrayChange | None]:
        """w on the client's features, and what of it the client lacks."""
        model = weights[self._layout.client_features[client]]
        change = ArrayChange.between(self._peers[client].model, model)
        return model, change if change.is_whole or len(change.values) else None

    def expect(self, client: ClientId, expected: Expected) -> None:
        self._expected[client] = expected

    def product_results(self, results: Mapping[ClientId, bytes]) -> Answers[ProductResult]:
        return self._answers(results, self._product_result)

    def dual_results(self, results: Mapping[ClientId, bytes]) -> Answers[DualResult]:
        answers = self._answers(results, self._dual_result)
        for client in answers.good:
            self._peers[client].has_norms = True
        return answers

    def primal_results(self, results: Mapping[ClientId, bytes]) -> Answers[PrimalResult]:
        return self._answers(results, self._primal_result)

    def _answers(self, results: Mapping[ClientId, bytes], read: Callable[[ClientId, bytes, Expected], R]) -> Answers[R]:
        answers: Answers[R] = Answers({}, {})
        for client, expected in self._expected.items():
            if client not in results:
                answers.failed[client] = "no result"
                self.lose(client)
                continue
            try:
                answers.good[client] = read(client, results[client], expected)
            except FenchelError as error:
                answers.failed[client] = f"rejected: {error}"
                self.lose(client)
            else:
                if expected.model is not None:
                    self._peers[client].model = expected.model
        self._expected = {}
        return answers

    def _product_result(self, client: ClientId, data: bytes, expected: Expected) -> ProductResult:
        result = wire.product_result_from_bytes(data, self._scopes[client])
        check_fresh(result.products, expected.blocks, "products")
        _check_opened(result.opened, expected.opening)
        return result

    def _dual_result(self, client: ClientId, data: bytes, expected: Expected) -> DualResult:
        result = wire.dual_result_from_bytes(data, self._scopes[client])
        _check_opened(result.opened, expected.opening)
        _check_vector(result.point, expected.blocks, "point")
        return result

    def _primal_result(self, client: ClientId, data: bytes, expected: Expected) -> PrimalResult:
        result = wire.primal_result_from_bytes(data, self._scopes[client])
        if (result.vertex is not None) != expected.vertex:
            raise InvalidInput("vertex: must be there if and only if it was asked for")
        _check_sane([result.point.share, *([] if result.vertex is None else [result.vertex.share])])
        return result


def _check_opened(opened: Opened | None, opening: Opening | None) -> None:
    if (opened is not None) != (opening is not None):
        raise InvalidInput("opened: must be there if and only if the task opened the round")
    if opened is not None and opening is not None:
        due = opening.report_blocks if opening.combination is not None else ()
        _check_vector(opened.alpha, due, "opened.alpha")
        _check_sane([opened.share])


def _check_vector(vector: BlockVector | None, blocks: tuple[int, ...], name: str) -> None:
    if (vector is not None) != bool(blocks):
        raise InvalidInput(f"{name}: must be there if and only if blocks were asked for")
    if vector is not None:
        check_fresh(vector, blocks, name)


def _check_sane(shares: Iterable[Array]) -> None:
    if any(np.abs(share).max(initial=0.0) > SANE_MAGNITUDE for share in shares):
        raise InvalidInput("share: an entry is beyond all measure")
