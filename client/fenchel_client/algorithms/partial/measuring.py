"""The measurement of a model in a round in which all parties take part.

All pairs are complete then, and every party knows the inner products of its rows with all their models. So the
combination with their points is measured, and not the one with which the round began.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec
from fenchel_client.algorithms.corrective.points import ANCHOR, BEST, MODEL, Entry, Memory, Name
from fenchel_client.algorithms.corrective.settlement import RoundFigures, interpolated, primal_values
from fenchel_client.algorithms.partial.book import PartialBook
from fenchel_client.algorithms.partial.state import Missing, PartyState, Steps
from fenchel_client.algorithms.rows import PartyRows
from fenchel_common.algorithms.corrective.messages import FIGURES_FIELD, Objectives
from fenchel_common.algorithms.partial.messages import DualTask, PrimalTask
from fenchel_common.errors import InvalidInput

Array = NDArray[np.float64]


def measured_memory(
    steps: Steps, rows: PartyRows, codec: RowCodec, before: PartyState, task: DualTask, book: PartialBook
) -> Memory:
    """The memory with the combination of the round as its model, and with exact inner products; raises `Missing`.

    `before` is the state before the points of the round join the combination.
    """
    shared = tuple(sorted(rows.shared))
    alone = rows.positions_of([block for block in rows.positions if block not in rows.shared])
    told = (None, None) if task.measured is None else (task.measured.point, task.measured.vertex)
    sums: dict[Name, Array] = {}
    for name, vector in zip((BEST, ANCHOR), told, strict=True):
        if (() if vector is None else vector.blocks) != shared:
            raise InvalidInput("measured.blocks: must be all shared blocks of this client")
        if vector is not None:
            sums[(name, 0)] = codec.from_blocks(vector, book.of_holders(book.products_here, name))

    def exact(name: Name, entry: Entry) -> Entry:
        values = rows.products(alone, entry.weights)
        if shared:
            at = rows.positions_of(shared)
            values[at] = sums[name] if name in sums else before.predictions.get(name, unknown)[at]
        if np.isnan(values).any():
            raise Missing
        return replace(entry, products=values)

    unknown = np.full(rows.count, np.nan)
    round_steps = book.progress.rounds[-1]
    memory = steps.joined(before, round_steps)
    entries = {name: exact(name, entry) for name, entry in memory.entries.items()}
    return steps.reached(replace(memory, entries=entries), round_steps.id)[0]


def objectives_of(
    rows: PartyRows, codec: RowCodec, memory: Memory, task: PrimalTask, book: PartialBook, *, lambda_: float
) -> tuple[Array, Objectives]:
    """The measured model, and P there and D at the combination of the round.

    `memory` is as `measured_memory` gives it.
    """
    if task.figures is None:
        raise InvalidInput("figures: must be there in a round that measures")
    figures = RoundFigures.of(codec.from_numbers(task.figures, book.of_all(book.duals_here, FIGURES_FIELD)))
    if figures.samples != rows.sample_count:
        raise InvalidInput("figures: the parties reported on another number of samples than there are")
    round_id = book.round_id
    primals = primal_values(memory, round_id, losses=figures.losses, lambda_=lambda_)
    step = int(np.argmin(primals))
    (mean, anchor) = memory.rows([(BEST, 0), (MODEL, round_id)])
    norms = float(memory.gram[mean, mean]), float(memory.gram[anchor, anchor])
    dual = -figures.conjugate - lambda_ / 2.0 * norms[1]
    dual -= figures.shortfall(float(np.sqrt(max(norms[1], 0.0))), lambda_=lambda_)
    model = interpolated(memory.best.weights, memory.entries[(MODEL, round_id)].weights, step)
    objectives = Objectives(
        primal=primals[step],
        dual=dual,
        accuracy=figures.accuracies[step],
        squared_norm=max(norms),
        row_norm=figures.row_norm,
    )
    return model, objectives
