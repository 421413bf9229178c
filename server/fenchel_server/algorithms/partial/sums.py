"""What the sums of a phase add to the state of the server."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fenchel_common.algorithms.corrective.messages import (
    FIGURES_FIELD,
    GRAM_FIELD,
    MODEL_FIELD,
    POINT_FIELD,
    VERTEX_FIELD,
)
from fenchel_common.algorithms.partial.progress import Progress
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.privacy import Privacy
from fenchel_common.wire.corrective import model_to_bytes
from fenchel_common.wire.partial_snapshot import NOTHING, PartialState, StoredPair, SumsOfPair
from fenchel_server.algorithms.intake import PhaseSums
from fenchel_server.algorithms.partial.exchange import ANCHOR_FIELD, CONJUGATES_FIELD, MEAN_FIELD
from fenchel_server.algorithms.partial.round import PartialRound
from fenchel_server.algorithms.rownorms import summed_row_norms

KINDS: Final = (POINT_FIELD, VERTEX_FIELD)


def first_state(
    preparations: Mapping[ClientId, bytes], *, layout: FederationLayout, key: RunKey, privacy: Privacy
) -> PartialState:
    """The state before the first round; raises as `summed_row_norms` does."""
    return PartialState(norms=summed_row_norms(preparations, layout=layout, key=key, privacy=privacy))


def with_shares(state: PartialState, sums: PhaseSums, progress: Progress) -> PartialState:
    """The state after `catch_up`; `progress` is that before its record."""
    open_pairs = [pair.born for pair in progress.pairs if pair.open and progress.owing(pair.born)]
    pairs = {
        born: replace(state.pairs[born], models=_plus(state.pairs[born].models, sums, born)) for born in open_pairs
    }
    return replace(state, pairs={**state.pairs, **pairs})


def with_products(state: PartialState, sums: PhaseSums, progress: Progress, *, solved: int | None) -> PartialState:
    """The state after `pair_products`; `progress` is that before its record.

    `solved` is the round if the Gram parts of its batch cover all features now.
    """
    useful = {born for client in progress.round.participants for born in progress.unmultiplied(client)}
    pairs = {
        born: replace(state.pairs[born], predictions=_plus(state.pairs[born].predictions, sums, born))
        for born in useful
    }
    state = replace(state, pairs={**state.pairs, **pairs})
    if (part := sums.total(GRAM_FIELD)) is None:
        return state
    older = state.gathered if progress.gathered else None
    gathered = part if older is None else older.plus(part)
    if solved is None:
        return replace(state, gathered=gathered)
    return replace(state, grams={**state.grams, solved: gathered}, gathered=None)


def measured_products(sums: PhaseSums) -> SumsOfPair:
    """The sums of the inner products with mean and anchor."""
    return SumsOfPair(sums.by_block(MEAN_FIELD), sums.by_block(ANCHOR_FIELD))


def new_pair(sums: PhaseSums) -> tuple[SumsOfPair, Vector | None]:
    """The values of the round's pair, and the sum of the figures."""
    return SumsOfPair(sums.by_block(POINT_FIELD), sums.by_block(VERTEX_FIELD)), sums.total(FIGURES_FIELD)


def with_pair(current: PartialRound, sums: PhaseSums) -> PartialState:
    """The state after `pair_primal`, with the round's pair if it made one."""
    if not current.choices.owners:
        return current.state
    born = int(current.id)
    pair = StoredPair(current.values, _plus(SumsOfPair(), sums, born), conjugates=sums.total(CONJUGATES_FIELD))
    return replace(current.state, pairs={**current.state.pairs, born: pair})


def with_model(current: PartialRound, sums: PhaseSums) -> PartialState:
    """The state with the model of the round."""
    state, model = current.state, sums.by_block(MODEL_FIELD)
    if not current.measures:
        return replace(state, latest=state.released.overlaid_with(model))
    return replace(state, model=model if current.better else state.model, latest=NOTHING)


def released_bytes(state: PartialState, client: ClientId, layout: FederationLayout) -> bytes:
    """The model that a client would get if the run ended here."""
    return model_to_bytes(state.released.within(layout.feature_index.of(client)))


def _plus(sums: SumsOfPair, given: PhaseSums, born: int) -> SumsOfPair:
    """The sums of a pair with those of a phase."""
    point, vertex = (given.by_block(f"{kind}/{born}") for kind in KINDS)
    return SumsOfPair(sums.point.plus(point), sums.vertex.plus(vertex))
