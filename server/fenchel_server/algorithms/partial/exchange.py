"""Reads the answers of clients while some of the parties take part, and rejects those that do not fit the task."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fenchel_common.algorithms.corrective.messages import (
    FIGURES_FIELD,
    GRAM_FIELD,
    MODEL_FIELD,
    POINT_FIELD,
    VERTEX_FIELD,
    Objectives,
)
from fenchel_common.algorithms.corrective.pairs import CATCH_UP, PAIR_DUALS, PAIR_PRODUCTS
from fenchel_common.algorithms.partial.messages import OfPair
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire import partial as wire
from fenchel_common.wire.parsing import Body
from fenchel_common.wire.scope import Scope
from fenchel_server.algorithms.answers import check_blocks, check_fresh_numbers, check_presence
from fenchel_server.algorithms.intake import PhaseSums
from fenchel_server.algorithms.partial.round import PartialRound

LOST: Final = "it lacks sums of earlier rounds"
CONJUGATES_FIELD: Final = "conjugates"
MEAN_FIELD: Final = "mean"
ANCHOR_FIELD: Final = "anchor"


@dataclass(frozen=True, slots=True)
class PartialAnswer:
    """What is kept of an answer beside its vectors."""

    combination: bytes = b""
    moved: bool = False
    objectives: Objectives | None = None


Parts = tuple[PartialAnswer, PhaseSums]


class PartialExchange:
    """Reads the answers of clients, for one layout, key and settings."""

    def __init__(self, layout: FederationLayout, key: RunKey, settings: PartialSettings) -> None:
        formats = settings.formats(len(layout.clients))
        self._figure_count = settings.figure_count
        self._layout = layout
        self._scopes = Scope.of_every_client(
            layout, key=key, privacy=settings.privacy, alpha_format=formats.alpha, product_formats=formats.products
        )

    def read(self, phase: str, current: PartialRound, client: ClientId, body: Body) -> Parts:
        """The answer of a client to a phase; raises a `FenchelError` to reject it."""
        if phase == CATCH_UP:
            return self._shares(current, client, body)
        if phase == PAIR_PRODUCTS:
            return self._products(current, client, body)
        if phase == PAIR_DUALS:
            return self._dual(current, client, body)
        return self._primal(current, client, body)

    def _shares(self, current: PartialRound, client: ClientId, body: Body) -> Parts:
        shares = wire.catch_up_result_from_bytes(body, self._scopes[client])
        if shares is None:
            raise InvalidInput(LOST)
        if tuple(shares) != current.progress.owed(client):
            raise InvalidInput("shares: must be of the pairs of which the client owes its share")
        features = tuple(self._layout.feature_index.of(client))
        return PartialAnswer(), _sums_of(shares, features, "shares")

    def _products(self, current: PartialRound, client: ClientId, body: Body) -> Parts:
        answer = wire.product_result_from_bytes(body, self._scopes[client])
        if answer is None:
            raise InvalidInput(LOST)
        shared = tuple(self._layout.sample_index.shared_of(client))
        due = current.progress.unmultiplied(client) if shared else ()
        if tuple(answer.products) != due:
            raise InvalidInput("products: must be with the models of the pairs that the client has not answered for")
        check_presence(answer.gram, bool(current.progress.next_batch), GRAM_FIELD)
        if answer.gram is not None:
            check_fresh_numbers(answer.gram, GRAM_FIELD)
        measured = answer.measured or OfPair(None, None)
        blocks = shared if current.measures else ()
        check_blocks(measured.point, blocks, MEAN_FIELD)
        check_blocks(measured.vertex, blocks, ANCHOR_FIELD)
        sums = PhaseSums.of({MEAN_FIELD: measured.point, ANCHOR_FIELD: measured.vertex}, {GRAM_FIELD: answer.gram})
        return PartialAnswer(), _sums_of(answer.products, shared, "products").plus(sums)

    def _dual(self, current: PartialRound, client: ClientId, body: Body) -> Parts:
        answer = wire.dual_result_from_bytes(body, self._scopes[client])
        if answer is None:
            raise InvalidInput(LOST)
        solving = client in self._layout.label_holders
        check_blocks(answer.point, current.live_of(client) if solving else (), POINT_FIELD)
        check_blocks(answer.vertex, current.reports_of(client), VERTEX_FIELD)
        check_presence(answer.figures, current.measures, FIGURES_FIELD)
        if answer.figures is not None:
            check_fresh_numbers(answer.figures, FIGURES_FIELD, length=self._figure_count)
        sums = PhaseSums.of({POINT_FIELD: answer.point, VERTEX_FIELD: answer.vertex}, {FIGURES_FIELD: answer.figures})
        return PartialAnswer(combination=answer.combination, moved=answer.moved), sums

    def _primal(self, current: PartialRound, client: ClientId, body: Body) -> Parts:
        answer = wire.primal_result_from_bytes(body, self._scopes[client])
        trains, owns = bool(current.choices.owners), client in current.choices.owners
        check_presence(answer.share, owns, "share")
        check_presence(answer.conjugates, trains, CONJUGATES_FIELD)
        check_presence(answer.objectives, current.measures, "objectives")
        check_blocks(answer.model, current.features_of(client), MODEL_FIELD)
        if answer.conjugates is not None:
            check_fresh_numbers(answer.conjugates, CONJUGATES_FIELD, length=3)
        shares = {} if answer.share is None else {int(current.id): answer.share}
        sums = PhaseSums.of({MODEL_FIELD: answer.model}, {CONJUGATES_FIELD: answer.conjugates})
        features = tuple(self._layout.feature_index.of(client))
        return PartialAnswer(objectives=answer.objectives), _sums_of(shares, features, "share").plus(sums)


def _sums_of(pairs: Mapping[int, OfPair], blocks: tuple[int, ...], name: str) -> PhaseSums:
    """The vectors of pairs under names of their own."""
    vectors: dict[str, BlockVector | None] = {}
    for born, of in pairs.items():
        for kind, vector in ((POINT_FIELD, of.point), (VERTEX_FIELD, of.vertex)):
            check_blocks(vector, blocks, f"{name}.{kind}")
            vectors[f"{kind}/{born}"] = vector
    return PhaseSums.of(vectors, {})
