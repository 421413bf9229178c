"""What the server of a run with some of the parties keeps, and the sums that each client lacks."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fenchel_common.algorithms.corrective.messages import POINT_FIELD, VERTEX_FIELD
from fenchel_common.algorithms.partial.messages import Facts, Models, OfPair
from fenchel_common.algorithms.partial.progress import Progress
from fenchel_common.blocks import BlockSum
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_server.algorithms.intake import PhaseSums

KINDS: Final = (POINT_FIELD, VERTEX_FIELD)
NOTHING: Final = BlockSum()


@dataclass(frozen=True, slots=True)
class SumsOfPair:
    """A vector by block for each of the two points of a pair."""

    point: BlockSum = NOTHING
    vertex: BlockSum = NOTHING

    def plus(self, sums: PhaseSums, suffix: str) -> "SumsOfPair":
        """With the sums of the fields of a phase whose names end so."""
        point, vertex = (sums.by_block(kind + suffix) for kind in KINDS)
        return SumsOfPair(self.point.plus(point), self.vertex.plus(vertex))

    def within(self, blocks: frozenset[int]) -> OfPair:
        """On those of the blocks that the sums have."""
        return OfPair(self.point.within(sorted(blocks)), self.vertex.within(sorted(blocks)))


NO_SUMS: Final = SumsOfPair()


@dataclass(frozen=True, slots=True)
class StoredPair:
    """The sums of a pair: dual variables by sample, models by feature, inner products by sample, conjugates."""

    values: SumsOfPair
    models: SumsOfPair = NO_SUMS
    predictions: SumsOfPair = NO_SUMS
    conjugates: Vector | None = None


@dataclass(frozen=True, slots=True)
class Best:
    """The certificate of the best model: P, the largest D so far, the bounds on their errors, and the accuracy."""

    primal: float
    dual: float
    primal_error: float
    dual_error: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class PartialState:
    """All that the server knows between two rounds, beside the records.

    Attributes
    ----------
    pairs
        By the round that made them; all pairs of the run, because a client that has lost its memory needs them.
    grams
        The Gram rows of solved pairs, by the round in which they were solved.
    gathered
        The sum of the Gram parts of the pairs that are being gathered.
    model, latest
        The best model, and the mean model of rounds since; `latest` is empty if the best one is newer.
    """

    norms: BlockSum = NOTHING
    pairs: Mapping[int, StoredPair] = field(default_factory=dict)
    grams: Mapping[int, Vector] = field(default_factory=dict)
    gathered: Vector | None = None
    model: BlockSum = NOTHING
    latest: BlockSum = NOTHING
    best: Best | None = None

    @property
    def released(self) -> BlockSum:
        """The model that the parties would get if the run ended here."""
        return self.latest if self.latest.pieces else self.model

    def with_shares(self, sums: PhaseSums, progress: Progress) -> "PartialState":
        """After `catch_up`; `progress` is that before its record."""
        pairs = {
            pair.born: replace(self.pairs[pair.born], models=self.pairs[pair.born].models.plus(sums, f"/{pair.born}"))
            for pair in progress.pairs
            if pair.open and progress.owing(pair.born)
        }
        return replace(self, pairs={**self.pairs, **pairs})

    def with_products(self, sums: PhaseSums, progress: Progress) -> "PartialState":
        """After `inner_product`; `progress` is that before its record."""
        born = {one for client in progress.round.participants for one in progress.unmultiplied(client)}
        pairs = {
            one: replace(self.pairs[one], predictions=self.pairs[one].predictions.plus(sums, f"/{one}")) for one in born
        }
        return replace(self, pairs={**self.pairs, **pairs})


@dataclass(frozen=True, slots=True)
class Told:
    """The sums that a client has got: of which pairs values and models, of which rounds Gram rows, and predictions."""

    values: frozenset[int] = frozenset()
    models: frozenset[int] = frozenset()
    grams: frozenset[int] = frozenset()
    predictions: Mapping[int, frozenset[int]] = field(default_factory=dict)
    norms: bool = False

    def plus(self, facts: Facts) -> "Told":
        """With facts that the client has got too."""
        predictions = {
            born: self.predictions.get(born, frozenset()) | frozenset(() if of.point is None else of.point.blocks)
            for born, of in facts.predictions.items()
        }
        return Told(
            self.values | facts.values.keys(),
            self.models | facts.models.keys(),
            self.grams | facts.grams.keys(),
            {**self.predictions, **predictions},
            self.norms,
        )


def facts_for(client: ClientId, told: Told, state: PartialState, progress: Progress, layout: FederationLayout) -> Facts:
    """The sums that a client lacks."""
    samples, features = frozenset(layout.sample_index.of(client)), frozenset(layout.feature_index.of(client))
    values, models, predictions = {}, {}, {}
    for pair in progress.pairs:
        stored = state.pairs[pair.born]
        of_samples = stored.values.within(samples)
        if pair.born not in told.values and of_samples.point is not None:
            values[pair.born] = of_samples
        if pair.complete and pair.born not in told.models:
            assert stored.conjugates is not None, "a pair has its conjugates from the round that made it"
            models[pair.born] = Models(stored.models.within(features), stored.conjugates)
        useful = pair.born in progress.remembered or (pair.complete and not pair.solved)
        whole = whole_products(client, pair.born, progress, layout) if useful else frozenset()
        if new := whole - told.predictions.get(pair.born, frozenset()):
            predictions[pair.born] = stored.predictions.within(new)
    grams = {number: gram for number, gram in state.grams.items() if number not in told.grams}
    return Facts(values, models, grams, predictions)


def whole_products(client: ClientId, born: int, progress: Progress, layout: FederationLayout) -> frozenset[int]:
    """The shared blocks of a client all of whose holders have given their products with a pair's models."""
    index, given = layout.sample_index, progress.pair(born).multiplied
    return frozenset(block for block in index.shared_of(client) if given.issuperset(index.holders[block]))
