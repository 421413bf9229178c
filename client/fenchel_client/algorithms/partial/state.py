"""What a party remembers between the rounds of a run with some of the parties.

Everything that all parties know follows from the sums that the server relays, in the order of the records. So a party
that was away, or has lost its memory, goes through the rounds that it missed, and has then the same bits as all others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec
from fenchel_client.algorithms.corrective.points import (
    ANCHOR,
    BEST,
    MODEL,
    POINT,
    POINTS,
    VERTEX,
    Combination,
    Entry,
    Memory,
    Name,
    best_combination,
    combined,
    combined_row,
    extended,
)
from fenchel_client.algorithms.corrective.products import COARSE_UNIT
from fenchel_client.algorithms.corrective.round import initial_memory
from fenchel_client.algorithms.corrective.simplex_qp import dot
from fenchel_client.algorithms.duals import checked_duals, feasible_duals
from fenchel_client.algorithms.partial.book import PartialBook
from fenchel_client.algorithms.rows import PartyRows, Positions
from fenchel_common.algorithms.corrective.messages import COUNT_UNIT
from fenchel_common.algorithms.corrective.pairs import REMEMBERED
from fenchel_common.algorithms.partial.messages import Facts, OfPair
from fenchel_common.algorithms.partial.progress import RoundSteps
from fenchel_common.blocks import BlockVector
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss

Array = NDArray[np.float64]

KINDS: Final = (POINT, VERTEX)
CONJUGATES_FIELD: Final = "conjugates"
MEAN: Final = "mean"
WEIGHT_OF_NEWEST: Final = 0.5
"""The mean model moves by this fraction of the way to the anchor's model whenever points join the combination."""


def field_of(kind: str, born: int) -> str:
    """The name of a field of one of a pair's points; a message may have those of several pairs."""
    return f"{kind}/{born}"


class Missing(Exception):
    """The party lacks a sum that it needs to follow the run."""


@dataclass(frozen=True, slots=True)
class OpenPair:
    """A pair that is not solved.

    Attributes
    ----------
    alpha
        The dual variables of its points, by kind.
    base
        The anchor of the round that made it.
    whole
        Whether its conjugates are those of its points, which differ from the anchor on all samples; otherwise they are
        by how much they differ from the anchor's.
    """

    alpha: Mapping[str, Array]
    base: Entry
    whole: bool = False


@dataclass(frozen=True, slots=True)
class PartyState:
    """What the party knows after a round.

    Attributes
    ----------
    round_id
        The last round that it has gone through.
    memory
        The anchor, the mean model (as `BEST`) and the remembered points. Predictions of these entries are not used.
    pairs
        The pairs that are not solved, by the round that made them.
    values, models, conjugates, grams
        The opened sums of rounds that it has still to go through, and of open pairs.
    predictions
        x_i·w of the party's samples for each point of a pair, NaN where it is not known.
    start
        The pair that is the anchor itself, while the length of its model is not known.
    """

    round_id: int
    memory: Memory
    pairs: Mapping[int, OpenPair] = field(default_factory=dict)
    values: Mapping[int, Mapping[str, Array]] = field(default_factory=dict)
    models: Mapping[int, Mapping[str, Array]] = field(default_factory=dict)
    conjugates: Mapping[int, Array] = field(default_factory=dict)
    grams: Mapping[int, Array] = field(default_factory=dict)
    predictions: Mapping[Name, Array] = field(default_factory=dict)
    start: int | None = None

    def model_of(self, born: int, kind: str) -> Array:
        """The model of a point of a complete pair, on the party's features."""
        if born not in self.models or born not in self.pairs:
            raise Missing
        return np.asarray(self.pairs[born].base.weights + self.models[born][kind])


def first_state(rows: PartyRows) -> PartyState:
    """The state before the first round: anchor and mean model are zero."""
    return PartyState(0, initial_memory(rows))


class Combining:
    """How points of complete pairs join the combination, on some rows.

    `features` is the number of features of the federation.
    """

    def __init__(self, rows: PartyRows, *, features: int, lambda_: float, loss: Loss) -> None:
        self._rows, self._lambda, self._loss = rows, lambda_, loss
        self._feature_count = features
        self._every: Positions = np.arange(rows.count)
        self._nothing = np.zeros(rows.count)

    def joined(self, state: PartyState, steps: RoundSteps) -> Memory:
        """The memory with the points of the pairs that a round solves; raises `Missing`."""
        if not steps.solved:
            return state.memory
        if steps.id not in state.grams or not set(steps.solved) <= state.pairs.keys() & state.models.keys():
            raise Missing
        new = {
            (kind, born): Entry(
                weights=state.model_of(born, kind),
                products=self._nothing,
                alpha=state.pairs[born].alpha[kind],
                conjugate_part=_conjugate_part(state.pairs[born], float(state.conjugates[born][position])),
            )
            for born in steps.solved
            for position, kind in enumerate(KINDS)
        }
        memory, width = state.memory, len(state.memory.entries) + len(new)
        rows = gram_rows(state.grams[steps.id], (len(new), width), features=self._feature_count)
        if state.start in steps.solved:
            # Anchor, mean model and both points of this pair are the same; it is the first that is solved.
            memory = replace(memory, gram=np.full((2, 2), rows[0, 0]))
        return extended(memory, new, gram=rows, spread=np.zeros((len(new), width)))

    def reached(self, memory: Memory, round_id: int) -> tuple[Memory, Combination]:
        """The memory with the best combination of its points as the model of a round, and the combination."""

        def feasible(alpha: Array) -> Array:
            return feasible_duals(self._rows, self._every, alpha, self._loss)

        combination = best_combination(memory, lambda_=self._lambda, modulus=0.0)
        return combined(memory, combination, round_id, feasible=feasible), combination

    def solved(self, state: PartyState, steps: RoundSteps) -> PartyState:
        """The state after the points of complete pairs have joined the combination; raises `Missing`."""
        if not steps.solved:
            return state
        memory = self._accepted(*self.reached(self.joined(state, steps), steps.id), steps.id)
        open_pairs = {born: pair for born, pair in state.pairs.items() if born not in steps.solved}
        names = set(memory.entries)
        return replace(
            state,
            memory=_averaged(memory),
            pairs=open_pairs,
            values={born: one for born, one in state.values.items() if born >= steps.id},
            models={born: one for born, one in state.models.items() if born in open_pairs or born >= steps.id},
            conjugates={born: one for born, one in state.conjugates.items() if born in open_pairs or born >= steps.id},
            grams={number: one for number, one in state.grams.items() if number > steps.id},
            predictions={
                name: one
                for name, one in state.predictions.items()
                if name in names or name[1] in open_pairs or name[1] >= steps.id
            },
            start=None if state.start in steps.solved else state.start,
        )

    def _accepted(self, memory: Memory, combination: Combination, round_id: int) -> Memory:
        """The memory with the combination as its anchor if D is larger there, and without points that are too old."""
        conjugates = np.array([memory.entries[name].conjugate_part for name in combination.names])
        name = (MODEL, round_id)
        found = replace(memory.entries[name], conjugate_part=dot(conjugates, combination.weights))
        (row,) = memory.rows([name])
        before = memory.anchor.conjugate_part - self._lambda / 2.0 * float(memory.gram[0, 0])
        after = found.conjugate_part - self._lambda / 2.0 * float(memory.gram[row, row])
        points = [one for one in memory.entries if one[0] in POINTS[1:]][-len(KINDS) * REMEMBERED :]
        accepted = after > before
        kept = memory.rows([name if accepted else (ANCHOR, 0), (BEST, 0), *points])
        entries = {(ANCHOR, 0): found if accepted else memory.anchor, (BEST, 0): memory.best}
        entries |= {one: memory.entries[one] for one in points}
        grid = np.ix_(kept, kept)
        return Memory(round_id if accepted else memory.anchor_round, entries, memory.gram[grid], memory.spread[grid])


class Steps(Combining):
    """The steps by which a state follows from another one, for one party."""

    def __init__(self, rows: PartyRows, codec: RowCodec, *, features: int, lambda_: float, loss: Loss) -> None:
        super().__init__(rows, features=features, lambda_=lambda_, loss=loss)
        self._codec = codec

    def absorbed(self, state: PartyState, facts: Facts, book: PartialBook) -> PartyState:
        """The state with sums that the server has relayed; those that the party knows already are not opened."""
        values = {
            born: self.opened_values(of, born, book)
            for born, of in facts.values.items()
            if born > state.round_id and born in book.duals
        }
        models, conjugates = {}, {}
        for born, given in facts.models.items():
            if born in state.models or born not in book.shares:
                continue
            models[born] = dict.fromkeys(KINDS, np.zeros(self._rows.X.shape[1])) | {
                kind: self._codec.from_features(vector, book.model_origins(born, field_of(kind, born)))
                for kind, vector in _vectors(given.models, book.moved_features(born))
            }
            numbers = self._codec.from_numbers(given.conjugates, book.conjugate_origins(born, CONJUGATES_FIELD))
            if numbers[-1] * COUNT_UNIT != book.progress.live_samples_of(born):
                raise InvalidInput("models.conjugates: must be of all live samples")
            conjugates[born] = numbers[: len(KINDS)]
        grams = {
            number: self._codec.from_numbers(gram, book.gram_origins(number))
            for number, gram in facts.grams.items()
            if number > state.round_id and number in book.grams
        }
        return replace(
            state,
            values={**state.values, **values},
            models={**state.models, **models},
            conjugates={**state.conjugates, **conjugates},
            grams={**state.grams, **grams},
            predictions={**state.predictions, **self._predictions(state, facts, book)},
        )

    def opened_values(self, given: OfPair, born: int, book: PartialBook) -> dict[str, Array]:
        """(n,) the dual variables of a pair's points on the party's live blocks, NaN on others."""
        stamps = book.duals_here if born == book.round_id else book.duals[born]
        due = tuple(block for block in book.layout.holders if book.point_origins(stamps, POINT)(block))
        origins = {POINT: book.point_origins(stamps, POINT), VERTEX: book.vertex_origins(stamps, VERTEX)}
        found = {}
        for kind, vector in _vectors(given, due):
            values = np.full(self._rows.count, np.nan)
            duals = checked_duals(vector, self._rows, self._codec, origins[kind], loss=self._loss)
            values[self._rows.positions_of(vector.blocks)] = duals
            found[kind] = values
        return found

    def through(self, state: PartyState, steps: RoundSteps, book: PartialBook) -> PartyState:
        """The state after a round that the party missed; raises `Missing`."""
        state = self.solved(state, steps)
        if steps.born:
            state = self.with_pair(state, steps, state.values.get(steps.id), book)
        return replace(state, round_id=steps.id)

    def with_pair(
        self, state: PartyState, steps: RoundSteps, values: Mapping[str, Array] | None, book: PartialBook
    ) -> PartyState:
        """The state with the new pair of a round, which equals the anchor where `values` are not given."""
        # After other rounds only the changes of conjugates are known.
        born, whole = steps.id, book.start is None and steps.live_samples == self._rows.sample_count
        stamps = book.duals_here if born == book.round_id and born not in book.duals else book.duals[born]
        if values is None and any(book.point_origins(stamps, POINT)(block) for block in book.layout.holders):
            raise Missing
        anchor = state.memory.anchor
        alpha = {
            kind: anchor.alpha if not values else np.where(np.isnan(values[kind]), anchor.alpha, values[kind])
            for kind in KINDS
        }
        return replace(state, pairs={**state.pairs, born: OpenPair(alpha, anchor, whole)})

    def _predictions(self, state: PartyState, facts: Facts, book: PartialBook) -> dict[Name, Array]:
        """The predictions that facts give, with those that the party knew."""
        found: dict[Name, Array] = {}
        for born, given in facts.predictions.items():
            for kind, vector in zip(KINDS, (given.point, given.vertex), strict=True):
                if vector is None or not set(vector.blocks) <= set(book.predicted(born)):
                    raise InvalidInput("predictions.blocks: have not been given by all holders")
                values = state.predictions.get((kind, born), np.full(self._rows.count, np.nan)).copy()
                origins = book.prediction_origins(born, field_of(kind, born))
                values[self._rows.positions_of(vector.blocks)] = self._codec.from_blocks(vector, origins)
                found[(kind, born)] = values
        return found


def _conjugate_part(pair: OpenPair, number: float) -> float:
    """c of one of a pair's points, from its number in the sum of the conjugates."""
    return -number if pair.whole else pair.base.conjugate_part - number


def _vectors(given: OfPair, due: tuple[int, ...]) -> list[tuple[str, BlockVector]]:
    """The vectors of both points, which must be on the blocks that are due; none without such blocks."""
    found = [(kind, vector) for kind, vector in zip(KINDS, (given.point, given.vertex), strict=True) if vector]
    if [vector.blocks for _, vector in found] != ([due, due] if due else []):
        raise InvalidInput("pair: must be on exactly the blocks that are due")
    return found


def _averaged(memory: Memory) -> Memory:
    """The memory in which the mean model has moved towards the anchor's."""
    anchor, mean, share = memory.anchor, memory.best, WEIGHT_OF_NEWEST
    moved = replace(mean, weights=(1.0 - share) * mean.weights + share * anchor.weights)
    rows = memory.rows([(BEST, 0), (ANCHOR, 0)])
    row = combined_row(memory.gram, rows, np.array([1.0 - share, share]))[0]
    gram, at = memory.gram.copy(), rows[0]
    gram[at, :] = gram[:, at] = row[:-1]
    gram[at, at] = row[-1]
    return replace(memory, entries={**memory.entries, (BEST, 0): moved}, gram=gram)


def gram_numbers(rows: Array, *, features: int) -> Array:
    """The party's Gram parts as it sends them, with the number of features that they cover."""
    coarse = np.round(rows / COARSE_UNIT)
    return np.concatenate([coarse, rows - coarse * COARSE_UNIT, [features / COUNT_UNIT]])


def gram_rows(numbers: Array, shape: tuple[int, int], *, features: int) -> Array:
    """The rows of new entries from the sums of all parts, which must cover all `features` once."""
    count = shape[0] * shape[1]
    if len(numbers) != 2 * count + 1 or numbers[-1] * COUNT_UNIT != features:
        raise InvalidInput("gram: must have the products of the new entries on all features")
    return (numbers[:count] * COARSE_UNIT + numbers[count:-1]).reshape(shape)
