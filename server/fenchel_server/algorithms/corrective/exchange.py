"""Reads the answers of clients to a phase of corrective HyFDCA, and rejects those that do not fit the task."""

from collections.abc import Mapping
from typing import Final

from fenchel_common.algorithms.corrective.messages import FIGURE_COUNT, DualResult, PrimalResult, Products
from fenchel_common.blocks import BlockVector, check_fresh
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.privacy import Privacy
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.scope import Scope
from fenchel_server.algorithms.corrective.round import CorrectiveRound
from fenchel_server.algorithms.phased import Answers, read_answers

LOST: Final = "it has lost its memory of the run"


class CorrectiveExchange:
    """Reads the answers of clients, for one layout, key and privacy level.

    Each method expects the round as it was when the phase began, and gives the good answers and the failures of the
    round's clients.
    """

    def __init__(self, layout: FederationLayout, key: RunKey, *, privacy: Privacy) -> None:
        self._shared = layout.sample_index.shared
        self._label_holders = layout.label_holders
        self._scopes = Scope.of_every_client(layout, key=key, privacy=privacy)

    @property
    def vertices(self) -> bool:
        """Whether the clients can compute vertices: all of them must have labels."""
        return self._label_holders == self._scopes.keys()

    def products(self, current: CorrectiveRound, results: Mapping[ClientId, bytes]) -> Answers[Products]:
        """The answers to `inner_product`."""

        def read(client: ClientId, body: bytes) -> Products:
            answer = wire.product_result_from_bytes(body, self._scopes[client])
            if answer is None:
                raise InvalidInput(LOST)
            start = current.starts[client]
            blocks = tuple(block for block in start.live_blocks if block in self._shared)
            _check(answer.point, blocks, "point")
            _check(answer.vertex, blocks if start.collapse or start.vertex is not None else (), "vertex")
            _check_terms(answer.gram, "gram")
            return answer

        return read_answers(current.starts, results, read)

    def duals(self, current: CorrectiveRound, results: Mapping[ClientId, bytes]) -> Answers[DualResult]:
        """The answers to `local_dual`."""

        def read(client: ClientId, body: bytes) -> DualResult:
            answer = wire.dual_result_from_bytes(body, self._scopes[client])
            if answer is None:
                raise InvalidInput(LOST)
            start = current.starts[client]
            solving = client in self._label_holders and not current.closing
            _check(answer.point, start.live_blocks if solving else (), "point")
            _check(answer.alpha, start.report_blocks, "alpha")
            _check(answer.weights, start.feature_blocks, "weights")
            _check_terms(answer.figures, "figures")
            if answer.figures.length != FIGURE_COUNT:
                raise InvalidInput(f"figures: must have {FIGURE_COUNT} values")
            return answer

        return read_answers(current.starts, results, read)

    def primals(self, current: CorrectiveRound, results: Mapping[ClientId, bytes]) -> Answers[PrimalResult]:
        """The answers to `primal`."""
        solved = not current.closing

        def read(client: ClientId, body: bytes) -> PrimalResult:
            answer = wire.primal_result_from_bytes(body, self._scopes[client])
            features = tuple(self._scopes[client].feature_blocks)
            _check(answer.point, features if solved else (), "point")
            _check(answer.vertex, features if solved and self.vertices else (), "vertex")
            _check(answer.model, current.starts[client].feature_blocks, "model")
            _check_presence(answer.conjugates_and_products, solved, "conjugates_and_products")
            _check_presence(answer.objectives, current.reports_objectives, "objectives")
            if answer.conjugates_and_products is not None:
                _check_terms(answer.conjugates_and_products, "conjugates_and_products")
            return answer

        return read_answers(current.starts, results, read)


def _check(vector: BlockVector | None, blocks: tuple[int, ...], name: str) -> None:
    _check_presence(vector, bool(blocks), name)
    if vector is not None:
        check_fresh(vector, blocks, name)


def _check_presence(value: object | None, due: bool, name: str) -> None:
    if (value is not None) != due:
        raise InvalidInput(f"{name}: must be there if and only if the task asks for it")


def _check_terms(vector: Vector, name: str) -> None:
    if vector.terms != 1:
        raise InvalidInput(f"{name}: must be freshly made, with one term")
