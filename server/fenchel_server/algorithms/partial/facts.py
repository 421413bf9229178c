"""The sums that each client of a run with some of the parties has got, and those that it lacks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fenchel_common.algorithms.partial.messages import Facts, Models, Start
from fenchel_common.algorithms.partial.progress import Progress
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire.partial_snapshot import PartialState


@dataclass(frozen=True, slots=True)
class Told:
    """The sums that a client has got: of which pairs values and models, of which rounds Gram rows, and predictions.

    `norms` and `start` say whether it has got the row norms, and the anchor before the first round of pairs.
    """

    values: frozenset[int] = frozenset()
    models: frozenset[int] = frozenset()
    grams: frozenset[int] = frozenset()
    predictions: Mapping[int, frozenset[int]] = field(default_factory=dict)
    norms: bool = False
    start: bool = False

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
            self.start or facts.start is not None,
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
        if pair.complete and pair.born not in told.models and not pair.is_start:
            assert stored.conjugates is not None, "a pair has its conjugates from the round that made it"
            models[pair.born] = Models(stored.models.within(features), stored.conjugates)
        useful = pair.born in progress.remembered or (pair.complete and not pair.solved)
        whole = whole_products(client, pair.born, progress, layout) if useful else frozenset()
        if new := whole - told.predictions.get(pair.born, frozenset()):
            predictions[pair.born] = stored.predictions.within(new)
    grams = {number: gram for number, gram in state.grams.items() if number not in told.grams}
    start = None
    if state.start is not None and not told.start:
        start = Start(state.start.alpha.within(sorted(samples)), state.start.weights.within(sorted(features)))
    return Facts(values, models, grams, predictions, start)


def whole_products(client: ClientId, born: int, progress: Progress, layout: FederationLayout) -> frozenset[int]:
    """The shared blocks of a client all of whose holders have given their products with a pair's models."""
    index, given = layout.sample_index, progress.pair(born).multiplied
    return frozenset(block for block in index.shared_of(client) if given.issuperset(index.holders[block]))
