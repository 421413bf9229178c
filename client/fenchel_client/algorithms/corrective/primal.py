"""The answer to `primal`: the client opens the figures, ends the round and measures the new point and vertex."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.corrective.measures import conjugates_and_products
from fenchel_client.algorithms.corrective.points import POINT, VERTEX, Memory, PendingPoints
from fenchel_client.algorithms.corrective.round import ClientRound
from fenchel_client.algorithms.corrective.settlement import RoundFigures, Settlement, settle
from fenchel_client.algorithms.holdings import Holdings
from fenchel_common.algorithms.corrective.messages import PrimalResult, PrimalTask
from fenchel_common.blocks import BlockVector
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss

Array = NDArray[np.float64]


def end_round(
    own: Holdings, current: ClientRound, task: PrimalTask, *, lambda_: float, loss: Loss
) -> tuple[PrimalResult, Memory | None]:
    """The client's answer, and the memory to store; None in a round that certifies only.

    Parameters
    ----------
    current
        The round as `with_combination` gives it.
    """
    settlement = settle(
        current.memory,
        task.round_id,
        RoundFigures.of(own.from_figures(task.figures)),
        collapse=current.start.collapse,
        relative=task.relative,
        lambda_=lambda_,
    )
    features = current.start.feature_blocks
    result = PrimalResult(
        point=None,
        vertex=None,
        conjugates_and_products=None,
        model=own.to_features(settlement.memory.best.weights, features) if features else None,
        objectives=settlement.objectives if task.report else None,
        accepted=settlement.accepted,
    )
    if task.point is None:
        return result, None
    pending = _pending_points(own, current, task, task.point, settlement, loss=loss)
    measured = _measured(own, current, settlement.memory, pending, result, lambda_=lambda_, loss=loss)
    return measured, replace(settlement.memory, pending=pending)


def _pending_points(
    own: Holdings, current: ClientRound, task: PrimalTask, point: BlockVector, settlement: Settlement, *, loss: Loss
) -> PendingPoints:
    """The new point and vertex; both equal the anchor on all samples that are not live.

    Parameters
    ----------
    point
        The sum of the clients' solutions of their local problems.
    """
    if point.blocks != current.start.live_blocks:
        raise InvalidInput("point.blocks: must be the blocks that take part")
    anchor = settlement.memory.anchor.alpha
    average, vertex = anchor.copy(), None
    average[current.live] = own.duals_from(point)
    if task.vertex:
        vertex = anchor.copy()
        vertex[current.live] = loss.subgradient(settlement.predictions[current.live], own.labels()[current.live])
    return PendingPoints(average, vertex, task.relative)


def _measured(
    own: Holdings,
    current: ClientRound,
    memory: Memory,
    pending: PendingPoints,
    result: PrimalResult,
    *,
    lambda_: float,
    loss: Loss,
) -> PrimalResult:
    """The result with the client's contribution to the models, conjugates and products of the pending points."""
    base = memory.anchor.alpha if pending.relative else np.zeros(own.rows)
    scale = lambda_ * own.sample_count
    points = pending.by_kind()
    models = {kind: own.to_features(np.asarray(own.X.T @ (alpha - base)) / scale) for kind, alpha in points.items()}
    reports = own.positions(current.start.report_blocks)
    numbers = conjugates_and_products(own, memory, list(points.values()), reports, loss=loss)
    return replace(
        result,
        point=models[POINT],
        vertex=models.get(VERTEX),
        conjugates_and_products=own.to_figures(numbers),
    )
