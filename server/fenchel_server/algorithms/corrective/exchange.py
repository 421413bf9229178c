"""Reads the answers of clients to a phase of corrective HyFDCA, and rejects those that do not fit the task."""

from dataclasses import dataclass
from typing import Final

from fenchel_common.algorithms.corrective.messages import (
    ALPHA_FIELD,
    FIGURES_FIELD,
    GRAM_FIELD,
    MODEL_FIELD,
    NUMBERS_FIELD,
    POINT_FIELD,
    SCORES_FIELD,
    VERTEX_FIELD,
    WEIGHTS_FIELD,
    DualResult,
    Objectives,
    PrimalResult,
    Products,
)
from fenchel_common.algorithms.corrective.scores import scores_due
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, MEASURED
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.scoresums import ScoreFigures
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.parsing import Body
from fenchel_common.wire.scope import Scope
from fenchel_server.algorithms.answers import check_blocks, check_fresh_numbers, check_presence
from fenchel_server.algorithms.corrective.round import CorrectiveRound
from fenchel_server.algorithms.intake import PhaseSums

LOST: Final = "it has lost its memory of the run"


@dataclass(frozen=True, slots=True)
class CorrectiveAnswer:
    """What is kept of an answer beside its vectors: the fields of `DualResult` and of `PrimalResult` in clear.

    `figures` says how well the model predicts, in an answer to `measured`.
    """

    combination: bytes = b""
    accepted: bool = False
    objectives: Objectives | None = None
    figures: ScoreFigures | None = None


Parts = tuple[CorrectiveAnswer, PhaseSums]
"""What is kept of an answer, and its vectors, to be added; the sums have the names of the fields of the messages."""


def product_parts(answer: Products) -> Parts:
    """The parts of an answer to `inner_product`."""
    vectors = {POINT_FIELD: answer.point, VERTEX_FIELD: answer.vertex}
    return CorrectiveAnswer(), PhaseSums.of(vectors, {GRAM_FIELD: answer.gram})


def dual_parts(answer: DualResult) -> Parts:
    """The parts of an answer to `local_dual`."""
    by_sample = {POINT_FIELD: answer.point, VERTEX_FIELD: answer.vertex, ALPHA_FIELD: answer.alpha}
    vectors = {**by_sample, WEIGHTS_FIELD: answer.weights}
    kept = CorrectiveAnswer(combination=answer.combination)
    return kept, PhaseSums.of(vectors, {FIGURES_FIELD: answer.figures})


def primal_parts(answer: PrimalResult) -> Parts:
    """The parts of an answer to `primal`."""
    vectors = {POINT_FIELD: answer.point, VERTEX_FIELD: answer.vertex, MODEL_FIELD: answer.model}
    kept = CorrectiveAnswer(accepted=answer.accepted, objectives=answer.objectives)
    return kept, PhaseSums.of(vectors, {NUMBERS_FIELD: answer.conjugates_and_products, SCORES_FIELD: answer.scores})


class CorrectiveExchange:
    """Reads the answers of clients, for one layout, key and settings.

    Each method expects the round as it was when the phase began, and raises a `FenchelError` to reject the answer.
    """

    def __init__(self, layout: FederationLayout, key: RunKey, settings: CorrectiveSettings) -> None:
        formats = settings.formats(len(layout.clients))
        self._figure_count = settings.figure_count
        self._goal = settings.stop.gap
        self._shared = layout.sample_index.shared
        self._label_holders = layout.label_holders
        self._scopes = Scope.of_every_client(
            layout, key=key, privacy=settings.privacy, alpha_format=formats.alpha, product_formats=formats.products
        )

    def read(self, phase: str, current: CorrectiveRound, client: ClientId, body: Body) -> Parts:
        """The answer of a client to a phase."""
        if phase == INNER_PRODUCT:
            return self._product(current, client, body)
        if phase == LOCAL_DUAL:
            return self._dual(current, client, body)
        if phase == MEASURED:
            return CorrectiveAnswer(figures=wire.measured_result_from_bytes(body)), PhaseSums()
        return self._primal(current, client, body)

    def _product(self, current: CorrectiveRound, client: ClientId, body: Body) -> Parts:
        answer = wire.product_result_from_bytes(body, self._scopes[client])
        if answer is None:
            raise InvalidInput(LOST)
        summed = frozenset[int]() if current.blank else self._shared
        blocks = tuple(block for block in current.blocks[client].live if block in summed)
        check_blocks(answer.point, blocks, "point")
        check_blocks(answer.vertex, blocks, "vertex")
        check_fresh_numbers(answer.gram, "gram")
        return product_parts(answer)

    def _dual(self, current: CorrectiveRound, client: ClientId, body: Body) -> Parts:
        answer = wire.dual_result_from_bytes(body, self._scopes[client])
        if answer is None:
            raise InvalidInput(LOST)
        blocks = current.blocks[client]
        solving = client in self._label_holders and not current.closing
        check_blocks(answer.point, blocks.live if solving else (), "point")
        check_blocks(answer.vertex, () if current.closing else blocks.told, "vertex")
        check_blocks(answer.alpha, blocks.reports, "alpha")
        check_blocks(answer.weights, blocks.features, "weights")
        check_fresh_numbers(answer.figures, "figures", length=self._figure_count)
        return dual_parts(answer)

    def _primal(self, current: CorrectiveRound, client: ClientId, body: Body) -> Parts:
        answer = wire.primal_result_from_bytes(body, self._scopes[client])
        solved = not current.closing
        features = tuple(self._scopes[client].feature_blocks)
        check_blocks(answer.point, features if solved else (), "point")
        check_blocks(answer.vertex, features if solved else (), "vertex")
        check_blocks(answer.model, current.blocks[client].features, "model")
        check_presence(answer.conjugates_and_products, solved, "conjugates_and_products")
        check_presence(answer.objectives, current.reports_objectives, "objectives")
        due = scores_due(answer.objectives, closing=current.closing, leg_over=current.leg_over, goal=self._goal)
        check_presence(answer.scores, due, SCORES_FIELD)
        if answer.scores is not None:
            check_fresh_numbers(answer.scores, SCORES_FIELD)
        if answer.conjugates_and_products is not None:
            check_fresh_numbers(answer.conjugates_and_products, "conjugates_and_products")
        return primal_parts(answer)
