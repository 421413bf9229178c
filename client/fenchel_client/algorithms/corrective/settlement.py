"""What the figures of a corrective round settle: the anchor, the best model, and where the next vertex is cut.

The new dual variables are the anchor if D there is at least what it was. The best model is on the way from the best one
so far to that of the round, wherever P is least. So D does not fall, and P does not rise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective.hull import (
    ANCHOR,
    BEST,
    MODEL,
    VERTEX,
    Memory,
    Name,
    Place,
    combined_row,
    extended,
)
from fenchel_common.algorithms.corrective.messages import FIGURES, MEMORY, STEPS, Figures
from fenchel_common.errors import InvalidInput

Array = NDArray[np.float64]

BETTER: Final = "better"


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """Means over all samples: of losses and correct predictions at each step to the round's model, l*, ‖x_i‖ and α²."""

    losses: Sequence[float]
    accuracies: Sequence[float]
    conjugate: float
    row_norm: float
    spread: float

    @classmethod
    def of(cls, sums: Array) -> "RoundFigures":
        """From what `figures_of` gives, added up."""
        if len(sums) != FIGURES:
            raise InvalidInput(f"figures: must be {FIGURES}")
        losses, accuracies, rest = np.split(sums, [STEPS + 1, 2 * (STEPS + 1)])
        return cls(losses.tolist(), accuracies.tolist(), *rest.tolist())


@dataclass(frozen=True, slots=True)
class Settlement:
    """The memory after a round, its certificate's figures, and x_i·q of the model q at which the next vertex is cut.

    `accepted`: the round's dual variables are the anchor from now on.
    """

    memory: Memory
    figures: Figures
    accepted: bool
    predictions: Array


def settle(
    memory: Memory, round_id: int, sums: RoundFigures, *, collapse: bool, relative: bool, lambda_: float
) -> Settlement:
    """Parameters as they are in the round's opening and its primal task."""
    name, place = (MODEL, round_id), memory.anchor_place
    if name not in memory.places:
        raise InvalidInput("round: is not the one under way")
    reached = dual_value(memory, name, value=-sums.conjugate, lambda_=lambda_)
    before = dual_value(memory, (ANCHOR, 0), value=place.value, lambda_=lambda_)
    accepted = not collapse and reached >= before
    if collapse:
        before = reached
        known = {**memory.places, (ANCHOR, 0): replace(place, value=-sums.conjugate)}
        memory = replace(memory, places=known, spread=np.full_like(memory.spread, sums.spread))
    primals = primal_values(memory, round_id, losses=sums.losses, lambda_=lambda_)
    step = int(np.argmin(primals))
    cut_at = min(step + 1, STEPS)
    if relative:
        # Without everybody P is not known. A round that begins anew has nothing better than the best model.
        step, cut_at = 0 if collapse else STEPS, STEPS
    figures = Figures(
        primal=primals[step],
        dual=max(before, reached),
        accuracy=sums.accuracies[step],
        squared_norm=largest_squared_norm(memory, round_id, step),
        row_norm=sums.row_norm,
    )
    return Settlement(
        memory=settled(memory, round_id, value=-sums.conjugate, accepted=accepted, step=step),
        figures=figures,
        accepted=accepted,
        predictions=on_the_way(memory.best_place.predictions, memory.places[name].predictions, cut_at),
    )


def dual_value(memory: Memory, name: Name, *, value: float, lambda_: float) -> float:
    """D at a place whose c is `value`."""
    (row,) = memory.rows([name])
    return value - lambda_ / 2.0 * float(memory.gram[row, row])


def on_the_way(start: Array, end: Array, step: int) -> Array:
    """From `start` at step 0 to `end` at the last."""
    t = step / STEPS
    return (1.0 - t) * start + t * end


def primal_values(memory: Memory, round_id: int, *, losses: Sequence[float], lambda_: float) -> list[float]:
    """P at every step from the best model to that of the round, where the mean losses are `losses`."""
    return [
        lambda_ / 2.0 * squared + loss for squared, loss in zip(_squared_norms(memory, round_id), losses, strict=True)
    ]


def largest_squared_norm(memory: Memory, round_id: int, step: int) -> float:
    """Of the anchor's model, that of the round and the one at a step towards it."""
    norms = _squared_norms(memory, round_id)
    return max(norms[step], norms[STEPS], float(memory.gram[0, 0]))


def _squared_norms(memory: Memory, round_id: int) -> list[float]:
    best, model = memory.rows([(BEST, 0), (MODEL, round_id)])
    start, across, end = (float(memory.gram[pair]) for pair in ((best, best), (best, model), (model, model)))
    return [
        (1.0 - t) * (1.0 - t) * start + 2.0 * t * (1.0 - t) * across + t * t * end
        for t in (step / STEPS for step in range(STEPS + 1))
    ]


def settled(memory: Memory, round_id: int, *, value: float, accepted: bool, step: int) -> Memory:
    """The memory after a round, without what is old.

    If accepted, the round's dual variables become the anchor, and c there is `value`. The best model is the one at
    `step`.
    """
    memory = _with_better(memory, round_id, step)
    models = memory.named(MODEL)[-MEMORY:]
    vertices = [number for number in memory.named(VERTEX) if number in models]
    source = (MODEL, round_id) if accepted else (ANCHOR, 0)
    anchor = replace(memory.places[source], value=value) if accepted else memory.places[source]
    rest = [*((VERTEX, number) for number in vertices), *((MODEL, number) for number in models)]
    rows = memory.rows([source, (BETTER, 0), *rest])
    places = {(ANCHOR, 0): anchor, (BEST, 0): memory.places[(BETTER, 0)]}
    for name in rest:
        places[name] = replace(memory.places[name], values=np.zeros(0)) if name[0] == MODEL else memory.places[name]
    grid = np.ix_(rows, rows)
    return Memory(round_id if accepted else memory.anchor, places, memory.gram[grid], memory.spread[grid])


def _with_better(memory: Memory, round_id: int, step: int) -> Memory:
    """The memory with the model at a step from the best one so far to that of the round."""
    names = [(BEST, 0), (MODEL, round_id)]
    start, end = (memory.places[name] for name in names)
    place = Place(
        weights=on_the_way(start.weights, end.weights, step),
        predictions=on_the_way(start.predictions, end.predictions, step),
        values=np.zeros(0),
    )
    rows, shares = memory.rows(names), np.array([1.0 - step / STEPS, step / STEPS])
    return extended(
        memory,
        {(BETTER, 0): place},
        gram=combined_row(memory.gram, rows, shares),
        spread=np.zeros((1, len(memory.places) + 1)),
    )
