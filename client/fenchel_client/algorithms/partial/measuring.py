"""The measurement of a model in a round in which all parties take part."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec
from fenchel_client.algorithms.corrective.points import ANCHOR, BEST, MODEL, Entry, Memory, combined_row, extended
from fenchel_client.algorithms.corrective.settlement import RoundFigures, interpolated, primal_values
from fenchel_client.algorithms.partial.book import PartialBook
from fenchel_client.algorithms.partial.state import PartyState
from fenchel_client.algorithms.rows import PartyRows
from fenchel_common.algorithms.corrective.messages import FIGURES_FIELD, Objectives
from fenchel_common.algorithms.partial.messages import DualTask, PrimalTask
from fenchel_common.errors import InvalidInput

Array = NDArray[np.float64]


def measured_memory(rows: PartyRows, codec: RowCodec, before: PartyState, task: DualTask, book: PartialBook) -> Memory:
    """The memory that entered the round with the anchor as its model, and with exact inner products."""
    shared, memory = tuple(sorted(rows.shared)), before.memory
    alone = rows.positions_of([block for block in rows.positions if block not in rows.shared])
    told = (None, None) if task.measured is None else (task.measured.point, task.measured.vertex)
    exact = []
    for name, vector, entry in zip((BEST, ANCHOR), told, (memory.best, memory.anchor), strict=True):
        if (() if vector is None else vector.blocks) != shared:
            raise InvalidInput("measured.blocks: must be all shared blocks of this client")
        values = rows.products(alone, entry.weights)
        if vector is not None:
            origins = book.of_holders(book.products_here, name)
            values[rows.positions_of(shared)] = codec.from_blocks(vector, origins)
        exact.append(replace(entry, products=values))
    mean, anchor = exact
    memory = replace(memory, entries={**memory.entries, (BEST, 0): mean})
    row = combined_row(memory.gram, memory.rows([(ANCHOR, 0)]), np.ones(1))
    new: dict[tuple[str, int], Entry] = {(MODEL, book.round_id): anchor}
    return extended(memory, new, gram=row, spread=np.zeros_like(row))


def objectives_of(
    rows: PartyRows, codec: RowCodec, memory: Memory, task: PrimalTask, book: PartialBook, *, lambda_: float
) -> tuple[Array, Objectives]:
    """The measured model, and P there and D at the anchor that entered the round.

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
    model = interpolated(memory.best.weights, memory.anchor.weights, step)
    objectives = Objectives(
        primal=primals[step],
        dual=dual,
        accuracy=figures.accuracies[step],
        squared_norm=max(norms),
        row_norm=figures.row_norm,
    )
    return model, objectives
