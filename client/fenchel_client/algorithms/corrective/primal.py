"""The answer to `primal`: the client opens the figures, ends the round and measures the new point and vertex."""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec
from fenchel_client.algorithms.corrective.book import CorrectiveBook
from fenchel_client.algorithms.corrective.measures import conjugates_and_products
from fenchel_client.algorithms.corrective.points import POINT, VERTEX, Memory, PendingPoints
from fenchel_client.algorithms.corrective.round import ClientRound
from fenchel_client.algorithms.corrective.settlement import RoundFigures, Settlement, settle
from fenchel_client.algorithms.duals import checked_duals
from fenchel_client.algorithms.rows import PartyRows
from fenchel_common.algorithms.corrective.messages import (
    FIGURES_FIELD,
    MODEL_FIELD,
    NUMBERS_FIELD,
    POINT_FIELD,
    VERTEX_FIELD,
    PrimalResult,
    PrimalTask,
)
from fenchel_common.blocks import BlockVector
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss

Array = NDArray[np.float64]

GAP_TOLERANCE: Final = 1e-6
"""P − D may be below zero by rounding errors of fixed point, which are many times smaller."""


def end_round(
    rows: PartyRows,
    codec: RowCodec,
    current: ClientRound,
    task: PrimalTask,
    book: CorrectiveBook,
    *,
    lambda_: float,
    loss: Loss,
) -> tuple[PrimalResult, Memory | None]:
    """The client's answer, and the memory to store; None in a round that certifies only.

    Parameters
    ----------
    current
        The round as `with_combination` gives it.
    """
    plan = current.plan
    figures = RoundFigures.of(codec.from_numbers(task.figures, book.of_all(book.duals, FIGURES_FIELD)))
    if figures.samples != plan.live_samples:
        raise InvalidInput("figures: the parties reported on another number of samples than there are")
    settlement = settle(
        current.memory,
        plan.round_id,
        figures,
        collapse=plan.collapse,
        relative=not plan.complete,
        lambda_=lambda_,
    )
    _check_gap(settlement, complete=plan.complete)
    features = plan.feature_blocks
    result = PrimalResult(
        point=None,
        vertex=None,
        conjugates_and_products=None,
        model=codec.to_features(MODEL_FIELD, settlement.memory.best.weights, features) if features else None,
        objectives=settlement.objectives if plan.objectives else None,
        accepted=settlement.accepted,
    )
    if (task.point is None) != plan.closing:
        raise InvalidInput("point: must be there unless the round certifies only")
    if task.point is None:
        return result, None
    pending = _pending_points(rows, codec, current, task.point, settlement, book, loss=loss)
    measured = _measured(rows, codec, current, settlement.memory, pending, result, lambda_=lambda_, loss=loss)
    return measured, replace(settlement.memory, pending=pending)


def _check_gap(settlement: Settlement, *, complete: bool) -> None:
    """Refuses figures by which P is below D: no sum of honest parties has them, but for rounding errors."""
    primal, dual = settlement.objectives.primal, settlement.objectives.dual
    if complete and primal - dual < -GAP_TOLERANCE * (1.0 + abs(primal)):
        raise InvalidInput("figures: P is below D; a party or the server has altered them")


def _pending_points(
    rows: PartyRows,
    codec: RowCodec,
    current: ClientRound,
    point: BlockVector,
    settlement: Settlement,
    book: CorrectiveBook,
    *,
    loss: Loss,
) -> PendingPoints:
    """The new point and vertex; both equal the anchor on all samples that are not live.

    Parameters
    ----------
    point
        The sum of the clients' solutions of their local problems.
    """
    if point.blocks != current.plan.live_blocks:
        raise InvalidInput("point.blocks: must be the blocks that take part")
    anchor = settlement.memory.anchor.alpha
    average, vertex = anchor.copy(), None
    origins = book.of_holders(book.duals, POINT_FIELD, labelled=True)
    average[current.live] = checked_duals(point, rows, codec, origins, loss=loss)
    if current.plan.vertices:
        vertex = anchor.copy()
        vertex[current.live] = loss.subgradient(settlement.predictions[current.live], rows.labels()[current.live])
    return PendingPoints(average, vertex, not current.plan.complete)


def _measured(
    rows: PartyRows,
    codec: RowCodec,
    current: ClientRound,
    memory: Memory,
    pending: PendingPoints,
    result: PrimalResult,
    *,
    lambda_: float,
    loss: Loss,
) -> PrimalResult:
    """The result with the client's contribution to the models, conjugates and products of the pending points."""
    base = memory.anchor.alpha if pending.relative else np.zeros(rows.count)
    scale = lambda_ * rows.sample_count
    points = pending.by_kind()
    fields = {POINT: POINT_FIELD, VERTEX: VERTEX_FIELD}
    models = {
        kind: codec.to_features(
            fields[kind], np.asarray(rows.X.T @ (alpha - base)) / scale, among=current.plan.contributors
        )
        for kind, alpha in points.items()
    }
    reports = rows.positions_of(current.plan.report_blocks)
    numbers = conjugates_and_products(rows, memory, list(points.values()), reports, loss=loss)
    return replace(
        result,
        point=models[POINT],
        vertex=models.get(VERTEX),
        conjugates_and_products=codec.to_numbers(NUMBERS_FIELD, numbers, among=current.plan.contributors),
    )
