"""Reads the answers of clients to a phase of corrective HyFDCA, and rejects those that do not fit the task."""

from collections.abc import Iterable, Mapping
from typing import Final

from fenchel_common.algorithms.corrective.formats import SampleFormats
from fenchel_common.algorithms.corrective.messages import FIGURE_COUNT, DualResult, PrimalResult, Products
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.privacy import Privacy
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.scope import Scope
from fenchel_server.algorithms.answers import check_agree, check_blocks, check_fresh_numbers, check_presence
from fenchel_server.algorithms.corrective.round import CorrectiveRound
from fenchel_server.algorithms.phased import Answers, read_answers

LOST: Final = "it has lost its memory of the run"


class CorrectiveExchange:
    """Reads the answers of clients, for one layout, key and privacy level.

    Each method expects the round as it was when the phase began, and gives the good answers and the failures of the
    round's clients.
    """

    def __init__(self, layout: FederationLayout, key: RunKey, *, privacy: Privacy, formats: SampleFormats) -> None:
        self._shared = layout.sample_index.shared
        self._label_holders = layout.label_holders
        self._scopes = Scope.of_every_client(
            layout, key=key, privacy=privacy, alpha_format=formats.alpha, product_formats=formats.products
        )

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
            summed = frozenset[int]() if current.blank else self._shared
            blocks = tuple(block for block in current.blocks[client].live if block in summed)
            two_models = current.collapse or current.starts[client].vertex is not None
            check_blocks(answer.point, blocks, "point")
            check_blocks(answer.vertex, blocks if two_models else (), "vertex")
            check_fresh_numbers(answer.gram, "gram")
            return answer

        return read_answers(current.starts, results, read)

    def duals(self, current: CorrectiveRound, results: Mapping[ClientId, bytes]) -> Answers[DualResult]:
        """The answers to `local_dual`."""

        def read(client: ClientId, body: bytes) -> DualResult:
            answer = wire.dual_result_from_bytes(body, self._scopes[client])
            if answer is None:
                raise InvalidInput(LOST)
            blocks = current.blocks[client]
            solving = client in self._label_holders and not current.closing
            check_blocks(answer.point, blocks.live if solving else (), "point")
            check_blocks(answer.alpha, blocks.reports, "alpha")
            check_blocks(answer.weights, blocks.features, "weights")
            check_fresh_numbers(answer.figures, "figures", length=FIGURE_COUNT)
            return answer

        return read_answers(current.starts, results, read)

    def primals(self, current: CorrectiveRound, results: Mapping[ClientId, bytes]) -> Answers[PrimalResult]:
        """The answers to `primal`."""
        solved = not current.closing

        def read(client: ClientId, body: bytes) -> PrimalResult:
            answer = wire.primal_result_from_bytes(body, self._scopes[client])
            features = tuple(self._scopes[client].feature_blocks)
            check_blocks(answer.point, features if solved else (), "point")
            check_blocks(answer.vertex, features if solved and self.vertices else (), "vertex")
            check_blocks(answer.model, current.blocks[client].features, "model")
            check_presence(answer.conjugates_and_products, solved, "conjugates_and_products")
            check_presence(answer.objectives, current.reports_objectives, "objectives")
            if answer.conjugates_and_products is not None:
                check_fresh_numbers(answer.conjugates_and_products, "conjugates_and_products")
            return answer

        return read_answers(current.starts, results, read)


def check_same_formats(answers: Iterable[Products]) -> None:
    """Refuses inner products with one model in different formats: all clients choose by the same numbers."""
    listed = list(answers)
    for name, vectors in (("point", [one.point for one in listed]), ("vertex", [one.vertex for one in listed])):
        formats = (vector.vector.format for vector in vectors if vector is not None)
        check_agree(formats, f"{name}: clients chose different formats")
