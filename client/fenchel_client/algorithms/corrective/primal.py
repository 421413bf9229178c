"""The answer to `primal`: the client opens the figures, ends the round and measures the new point and vertex."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec, together
from fenchel_client.algorithms.corrective.book import CorrectiveBook
from fenchel_client.algorithms.corrective.measures import conjugates_and_products
from fenchel_client.algorithms.corrective.points import POINT, VERTEX, Memory, PendingPoints
from fenchel_client.algorithms.corrective.round import ClientRound
from fenchel_client.algorithms.corrective.scales import own_length, own_reach
from fenchel_client.algorithms.corrective.scores import RoundScores
from fenchel_client.algorithms.corrective.settlement import RoundFigures, Settlement, settle
from fenchel_client.algorithms.corrective.vertices import told_vertex, vertex_to_tell
from fenchel_client.algorithms.duals import checked_duals
from fenchel_client.algorithms.rows import PartyRows, Positions
from fenchel_common.algorithms.corrective.formats import SampleFormats
from fenchel_common.algorithms.corrective.messages import (
    FIGURES_FIELD,
    MODEL_FIELD,
    NUMBERS_FIELD,
    POINT_FIELD,
    VERTEX_FIELD,
    Objectives,
    PrimalResult,
    PrimalTask,
)
from fenchel_common.algorithms.corrective.scores import scores_due
from fenchel_common.blocks import BlockVector
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Deviation, Loss

Array = NDArray[np.float64]

CountRight = Callable[[Array, Positions], tuple[int, int]]
"""From the scores of one class, of how many samples at these positions the party knows the scores of all classes, and
of how many among them the class with the largest score is right."""

GAP_TOLERANCE: Final = 1e-6
"""P − D may be below zero by rounding errors in slots of 64 bits, which are many times smaller."""


@dataclass(frozen=True, slots=True)
class EndOfRound:
    """A client's answer to `primal`, and what it keeps.

    Attributes
    ----------
    memory
        The memory to store; None in a round that certifies only.
    predictions
        (n,) x_i·w of the best model.
    scores
        If the round may end the run.
    """

    result: PrimalResult
    memory: Memory | None
    predictions: Array
    scores: RoundScores | None


def end_round(
    rows: PartyRows,
    codec: RowCodec,
    current: ClientRound,
    task: PrimalTask,
    book: CorrectiveBook,
    *,
    norms: Array,
    lambda_: float,
    loss: Loss,
    formats: SampleFormats,
    goal: float | None,
    right: CountRight | None = None,
) -> EndOfRound:
    """The client's answer, with what the client keeps.

    Parameters
    ----------
    current
        The round as `with_combination` gives it.
    norms
        ‖x_i‖² of the whole rows.
    goal
        The gap at which the run ends, if there is one.
    right
        Counts samples by the scores of all classes, in the problem of several that is last under way.
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
        live_share=plan.live_samples / rows.sample_count,
        lambda_=lambda_,
        reach=current.reach,
    )
    _check_gap(settlement, complete=plan.complete, error=narrow_error(rows, settlement.objectives, loss=loss))
    features, best, scores = plan.feature_blocks, settlement.memory.best, None
    objectives = settlement.objectives if plan.objectives else None
    if scores_due(objectives, closing=plan.closing, leg_over=plan.leg_over, goal=goal):
        least = int(min(figures.positive, figures.samples - figures.positive))
        counts = None if right is None else right(best.predictions, rows.positions_of(plan.report_blocks))
        scores = RoundScores.of(rows, codec, best, book, least_in_class=least, norms=norms, loss=loss, right=counts)
    result = PrimalResult(
        point=None,
        vertex=None,
        conjugates_and_products=None,
        model=codec.to_features(MODEL_FIELD, settlement.model, features) if features else None,
        objectives=objectives,
        accepted=settlement.accepted,
        scores=None if scores is None else scores.vector,
    )
    if (task.vertex is None) != (plan.closing or rows.y is not None):
        raise InvalidInput("vertex: must be there for a client without labels, unless the round certifies only")
    if (task.point is None) != plan.closing:
        raise InvalidInput("point: must be there unless the round certifies only")
    if task.point is None:
        return EndOfRound(result, None, best.predictions, scores)
    pending = PendingPoints(
        _new_point(rows, codec, current, task.point, settlement, book, loss=loss),
        _new_vertex(rows, codec, current, task.vertex, settlement, book, loss=loss, formats=formats),
        relative=not plan.complete,
    )
    models = _models(rows, settlement.memory, pending, lambda_=lambda_)
    reports = current.plan.report_blocks
    points, positions = list(pending.by_kind().values()), rows.positions_of(reports)
    numbers = conjugates_and_products(rows, settlement.memory, points, positions, loss=loss)
    if formats.shares is not None:
        lengths = [own_length(model, lambda_=lambda_) for model in models.values()]
        numbers = np.array([*numbers, *lengths, own_reach(rows, book.layout.holders, reports, norms)])
    among = together(plan.contributors)
    measured = replace(
        result,
        point=codec.to_features(POINT_FIELD, models[POINT], among=among),
        vertex=codec.to_features(VERTEX_FIELD, models[VERTEX], among=among),
        conjugates_and_products=codec.to_numbers(NUMBERS_FIELD, numbers, contributors=plan.participants),
    )
    return EndOfRound(measured, replace(settlement.memory, pending=pending), best.predictions, scores)


def narrow_error(rows: PartyRows, objectives: Objectives, *, loss: Loss) -> float:
    """A bound on the error of P by inner products in narrow slots."""
    mean = objectives.product_error
    # Of errors with the mean e the root mean square is at most e·√N.
    return loss.mean_error(Deviation(mean, mean * math.sqrt(rows.sample_count)), mean_loss=objectives.primal)


def _check_gap(settlement: Settlement, *, complete: bool, error: float) -> None:
    """Refuses figures by which P is below D: no sum of honest parties has them, but for rounding errors."""
    primal, dual = settlement.objectives.primal, settlement.objectives.dual
    if complete and primal - dual + error < -GAP_TOLERANCE * (1.0 + abs(primal)):
        raise InvalidInput("figures: P is below D; a party or the server has altered them")


def _new_point(
    rows: PartyRows,
    codec: RowCodec,
    current: ClientRound,
    point: BlockVector,
    settlement: Settlement,
    book: CorrectiveBook,
    *,
    loss: Loss,
) -> Array:
    """The new point, which equals the anchor on all samples that are not live.

    Parameters
    ----------
    point
        The sum of the clients' solutions of their local problems.
    """
    if point.blocks != current.plan.live_blocks:
        raise InvalidInput("point.blocks: must be the blocks that take part")
    average = settlement.memory.anchor.alpha.copy()
    origins = book.of_holders(book.duals, POINT_FIELD, labelled=True)
    average[current.live] = checked_duals(point, rows, codec, origins, loss=loss)
    return average


def _new_vertex(
    rows: PartyRows,
    codec: RowCodec,
    current: ClientRound,
    told: BlockVector | None,
    settlement: Settlement,
    book: CorrectiveBook,
    *,
    loss: Loss,
    formats: SampleFormats,
) -> Array:
    """The new vertex, which equals the anchor on all samples that are not live."""
    vertex, live = settlement.memory.anchor.alpha.copy(), current.live
    if rows.y is None:
        vertex[live] = told_vertex(rows, codec, current, told, book, loss=loss)
    elif current.plan.tells_vertices:
        vertex[live] = vertex_to_tell(rows, current, loss=loss, formats=formats)[live]
    else:
        vertex[live] = loss.subgradient(settlement.predictions[live], rows.y[live])
    return vertex


def _models(rows: PartyRows, memory: Memory, pending: PendingPoints, *, lambda_: float) -> dict[str, Array]:
    """The client's contributions to the models of the pending points, by kind."""
    base = memory.anchor.alpha if pending.relative else np.zeros(rows.count)
    scale = lambda_ * rows.sample_count
    return {kind: rows.held.pull(alpha - base) / scale for kind, alpha in pending.by_kind().items()}
