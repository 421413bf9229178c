"""The end of a corrective round, from its opened figures: the anchor, the best model, the model of the next vertex.

The combined dual variables become the anchor if they are not the anchor itself and D there is at least D at the anchor.
The new best model is the one with the least P among equal steps from the best model to the model of the round. So D
does not fall, and P does not rise. If not all samples are live P is not known, and the best model stays; the run would
then end with the model of these steps at which P is least by the live samples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective.points import (
    ANCHOR,
    BEST,
    MODEL,
    VERTEX,
    Entry,
    Memory,
    Name,
    combined_row,
    extended,
)
from fenchel_common.algorithms.corrective.messages import (
    BALANCE_COUNT,
    COUNT_UNIT,
    FIGURE_COUNT,
    MEMORY,
    STEPS,
    Objectives,
)
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.errors import InvalidInput
from fenchel_common.layout import MAX_CLIENTS

Array = NDArray[np.float64]

ROUNDING: Final = 2.0 * PRODUCT_FORMAT.error_bound(MAX_CLIENTS)

BETTER: Final = "better"


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """The opened figures of a round, as means over all samples.

    Attributes
    ----------
    losses, accuracies
        The mean loss and the accuracy at each of the `STEPS` + 1 models from the best one to that of the round. With a
        loss of regression, mean squared errors stand in the place of accuracies.
    conjugate, spread
        The means of l*(−α_i) and of α_i², at the combined dual variables.
    row_norm
        The mean of ‖x_i‖.
    samples
        The number of samples on which parties reported.
    positive
        How many of them are of class +1; 0 with a loss of regression.
    balance
        In a run with an intercept: of the samples with α_i > 0, and of those with α_i < 0, the means of |α_i|, of
        |α_i|·‖x_i‖ and of −l*(−α_i) above zero, each divided by the number of all samples.
    """

    losses: Sequence[float]
    accuracies: Sequence[float]
    conjugate: float
    row_norm: float
    spread: float
    samples: float
    positive: float = 0.0
    balance: tuple[Sequence[float], ...] = ()

    @classmethod
    def of(cls, sums: Array) -> "RoundFigures":
        """The figures in the opened sum of all parties' `figures_of`."""
        if len(sums) not in (FIGURE_COUNT, FIGURE_COUNT + BALANCE_COUNT):
            raise InvalidInput("figures: has another length than the run's figures")
        losses, accuracies, rest, sides = np.split(sums, [STEPS + 1, 2 * (STEPS + 1), FIGURE_COUNT])
        conjugate, row_norm, spread, *counts = rest.tolist()
        samples, positive = (count * COUNT_UNIT for count in counts)
        balance = tuple(side.tolist() for side in np.split(sides, 2)) if len(sides) else ()
        return cls(losses.tolist(), accuracies.tolist(), conjugate, row_norm, spread, samples, positive, balance)

    def shortfall(self, length: float, *, lambda_: float) -> float:
        """How much less D may be at dual variables that sum to zero; `length` is ‖w‖ at those of the figures.

        The larger of the two sides is shrunk until both have the same sum (docs/corrective.md). 0 without an intercept.
        """
        if not self.balance:
            return 0.0
        larger, smaller = sorted(self.balance, key=lambda side: side[0], reverse=True)
        total, moved, gain = larger
        if total <= 0.0:
            return 0.0
        # The figures are rounded to fixed point: one unit of each party, on both sides.
        cut = min((total - smaller[0] + ROUNDING) / total, 1.0)
        return cut * (length * moved + gain + cut * moved**2 / (2.0 * lambda_))


@dataclass(frozen=True, slots=True)
class Settlement:
    """A party's knowledge at the end of a round.

    Attributes
    ----------
    memory
        The memory after the round, without pending points.
    accepted
        Whether the combined dual variables are the anchor from now on.
    model
        The model that the parties would get if the run ended here, on the party's own features.
    predictions
        x_i·q of the model q at which the next vertex is computed.
    """

    memory: Memory
    objectives: Objectives
    accepted: bool
    model: Array
    predictions: Array


def settle(
    memory: Memory,
    round_id: int,
    figures: RoundFigures,
    *,
    collapse: bool,
    live_share: float,
    lambda_: float,
    reach: float = 0.0,
) -> Settlement:
    """The end of a round; `collapse` says how it began.

    Parameters
    ----------
    memory
        With the model of the round, as `combined` gives it.
    live_share
        The share of all samples that are live; 1 if P is known.
    reach
        As for `product_scale`.
    """
    name, anchor = (MODEL, round_id), memory.anchor
    if name not in memory.entries:
        raise InvalidInput("round: must be the one under way")
    reached = dual_value(memory, name, conjugate_part=-figures.conjugate, lambda_=lambda_)
    before = dual_value(memory, (ANCHOR, 0), conjugate_part=anchor.conjugate_part, lambda_=lambda_)
    accepted = not collapse and (reached > before or (reached == before and _moved(memory, name)))
    shortfall = figures.shortfall(_length(memory, name), lambda_=lambda_)
    if collapse:
        # The combination is the anchor itself, and its c and ‖α‖² are known only now.
        before = reached
        corrected = replace(anchor, conjugate_part=-figures.conjugate, shortfall=shortfall)
        entries = {**memory.entries, (ANCHOR, 0): corrected}
        memory = replace(memory, entries=entries, spread=np.full_like(memory.spread, figures.spread))
    losses = [loss / live_share for loss in figures.losses]
    primals = primal_values(memory, round_id, losses=losses, lambda_=lambda_)
    found = int(np.argmin(primals))
    step, vertex_step = found, min(found + 1, STEPS)
    if live_share < 1.0:
        # After a collapse there is no newer model than the best one.
        found, step, vertex_step = 0 if collapse else found, 0, STEPS
    after = settled(
        memory, round_id, conjugate_part=-figures.conjugate, accepted=accepted, step=step, shortfall=shortfall
    )
    objectives = Objectives(
        primal=primals[step],
        dual=max(before, reached) - after.anchor.shortfall,
        accuracy=figures.accuracies[step],
        squared_norm=largest_squared_norm(memory, round_id, step),
        row_norm=figures.row_norm,
        product_error=after.best.error * reach,
    )
    return Settlement(
        memory=after,
        objectives=objectives,
        accepted=accepted,
        model=interpolated(memory.best.weights, memory.entries[name].weights, found),
        predictions=interpolated(memory.best.predictions, memory.entries[name].predictions, vertex_step),
    )


def dual_value(memory: Memory, name: Name, *, conjugate_part: float, lambda_: float) -> float:
    """D at an entry whose c is `conjugate_part`."""
    (row,) = memory.rows([name])
    return conjugate_part - lambda_ / 2.0 * float(memory.gram[row, row])


def _moved(memory: Memory, name: Name) -> bool:
    """Whether the combination is another one than the anchor alone, whose products it would have to the last bit."""
    anchor, row = memory.rows([(ANCHOR, 0), name])
    return not np.array_equal(memory.gram[row, :row], memory.gram[anchor, :row])


def _length(memory: Memory, name: Name) -> float:
    (row,) = memory.rows([name])
    return math.sqrt(max(float(memory.gram[row, row]), 0.0))


V = TypeVar("V", Array, float)


def interpolated(start: V, end: V, step: int) -> V:
    """The values after `step` of the `STEPS` equal steps from `start` to `end`."""
    t = step / STEPS
    return (1.0 - t) * start + t * end


def primal_values(memory: Memory, round_id: int, *, losses: Sequence[float], lambda_: float) -> list[float]:
    """P after each step from the best model to that of the round, from the mean losses there."""
    return [
        lambda_ / 2.0 * squared + loss for squared, loss in zip(_squared_norms(memory, round_id), losses, strict=True)
    ]


def largest_squared_norm(memory: Memory, round_id: int, step: int) -> float:
    """The largest ‖w‖² of three models: the anchor's, that of the round, and the one after a step towards that one."""
    norms = _squared_norms(memory, round_id)
    return max(norms[step], norms[STEPS], float(memory.gram[0, 0]))


def _squared_norms(memory: Memory, round_id: int) -> list[float]:
    best, model = memory.rows([(BEST, 0), (MODEL, round_id)])
    start, across, end = (float(memory.gram[pair]) for pair in ((best, best), (best, model), (model, model)))
    return [
        (1.0 - t) * (1.0 - t) * start + 2.0 * t * (1.0 - t) * across + t * t * end
        for t in (step / STEPS for step in range(STEPS + 1))
    ]


def settled(
    memory: Memory, round_id: int, *, conjugate_part: float, accepted: bool, step: int, shortfall: float = 0.0
) -> Memory:
    """The memory after a round, without the point and without models and vertices that are too old.

    Parameters
    ----------
    conjugate_part, shortfall
        Of the combined dual variables.
    accepted
        Whether the combined dual variables become the anchor.
    step
        The step from the best model towards that of the round at which the new best model is.
    """
    memory = _with_better(memory, round_id, step)
    models = memory.rounds_of(MODEL)[-MEMORY:]
    vertices = [vertex_round for vertex_round in memory.rounds_of(VERTEX) if vertex_round in models]
    source = (MODEL, round_id) if accepted else (ANCHOR, 0)
    anchor = memory.entries[source]
    if accepted:
        anchor = replace(anchor, conjugate_part=conjugate_part, shortfall=shortfall)
    rest = [*((VERTEX, number) for number in vertices), *((MODEL, number) for number in models)]
    rows = memory.rows([source, (BETTER, 0), *rest])
    entries = {(ANCHOR, 0): anchor, (BEST, 0): memory.entries[(BETTER, 0)]}
    for name in rest:
        entry = memory.entries[name]
        entries[name] = replace(entry, alpha=np.zeros(0)) if name[0] == MODEL else entry
    grid = np.ix_(rows, rows)
    return Memory(round_id if accepted else memory.anchor_round, entries, memory.gram[grid], memory.spread[grid])


def _with_better(memory: Memory, round_id: int, step: int) -> Memory:
    """The memory with one more entry: the model after a step from the best one to that of the round."""
    names = [(BEST, 0), (MODEL, round_id)]
    start, end = (memory.entries[name] for name in names)
    better = Entry(
        weights=interpolated(start.weights, end.weights, step),
        products=interpolated(start.predictions, end.predictions, step),
        alpha=np.zeros(0),
        error=interpolated(start.error, end.error, step),
    )
    rows, fractions = memory.rows(names), np.array([1.0 - step / STEPS, step / STEPS])
    return extended(
        memory,
        {(BETTER, 0): better},
        gram=combined_row(memory.gram, rows, fractions),
        spread=np.zeros((1, len(memory.entries) + 1)),
    )
