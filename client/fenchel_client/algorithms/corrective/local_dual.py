"""The answer to `local_dual`: the client combines the points, and solves its local problem at the combination."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec, together
from fenchel_client.algorithms.corrective.local_rows import found_locally
from fenchel_client.algorithms.corrective.measures import figures_of
from fenchel_client.algorithms.corrective.points import MODEL, Combination, best_combination, combined
from fenchel_client.algorithms.corrective.round import ClientRound, rounded_towards_zero
from fenchel_client.algorithms.corrective.vertices import vertex_to_tell
from fenchel_client.algorithms.duals import feasible_duals
from fenchel_client.algorithms.rows import PartyRows
from fenchel_common.algorithms.corrective.formats import SampleFormats
from fenchel_common.algorithms.corrective.messages import (
    ALPHA_FIELD,
    FIGURES_FIELD,
    POINT_FIELD,
    VERTEX_FIELD,
    WEIGHTS_FIELD,
    DualResult,
)
from fenchel_common.losses import Loss

Array = NDArray[np.float64]


def with_combination(
    rows: PartyRows, current: ClientRound, *, lambda_: float, loss: Loss
) -> tuple[ClientRound, Combination]:
    """The best combination of the points, and the round with it as its model; samples not live keep the anchor's α."""
    combination = best_combination(current.memory, lambda_=lambda_, modulus=loss.conjugate_modulus)
    anchor = current.memory.anchor.alpha

    def feasible(alpha: Array) -> Array:
        corrected = anchor.copy()
        corrected[current.live] = feasible_duals(rows, current.live, alpha[current.live], loss)
        return corrected

    memory = combined(current.memory, combination, current.plan.round_id, feasible=feasible)
    return replace(current, memory=memory), combination


def dual_result(
    rows: PartyRows,
    codec: RowCodec,
    current: ClientRound,
    combination: Combination,
    *,
    norms: Array,
    lambda_: float,
    loss: Loss,
    formats: SampleFormats,
    constant: float = 0.0,
) -> DualResult:
    """The client's answer, from the round as `with_combination` gives it.

    Parameters
    ----------
    norms
        ‖x_i‖² of the whole rows.
    constant
        The value of the constant feature in every whole row, if the run has one.
    """
    plan, model = current.plan, current.memory.entries[(MODEL, current.plan.round_id)]
    point = alpha = weights = vertex = None
    if rows.y is not None and not plan.closing:
        solution = _local_point(
            rows, current, norms=norms, lambda_=lambda_, loss=loss, formats=formats, constant=constant
        )
        point = codec.to_blocks(
            POINT_FIELD, plan.live_blocks, solution, formats.alpha, among=together(plan.labelled_contributors)
        )
    if plan.told_blocks and not plan.closing:
        told = vertex_to_tell(rows, current, loss=loss, formats=formats)
        vertex = codec.to_blocks(VERTEX_FIELD, plan.told_blocks, told, formats.alpha)
    reports = rows.positions_of(plan.report_blocks)
    figures = figures_of(rows, current.memory, plan.round_id, reports, norms=norms, loss=loss, constant=constant)
    if plan.report_blocks:
        reported = rounded_towards_zero(model.alpha, formats)
        alpha = codec.to_blocks(ALPHA_FIELD, plan.report_blocks, reported, formats.alpha)
    if plan.feature_blocks:
        weights = codec.to_features(WEIGHTS_FIELD, model.weights, plan.feature_blocks)
    found = codec.digest(combination.to_bytes())
    summed = codec.to_numbers(FIGURES_FIELD, figures, contributors=plan.participants)
    return DualResult(point, summed, alpha, weights, found, vertex)


def _local_point(
    rows: PartyRows,
    current: ClientRound,
    *,
    norms: Array,
    lambda_: float,
    loss: Loss,
    formats: SampleFormats,
    constant: float,
) -> Array:
    """The solution of the local problem divided by |B_n| on the live samples, and zero on all others."""
    plan = current.plan
    model = current.memory.entries[(MODEL, plan.round_id)]
    # The point is combined with others in the next round: with a path, perhaps under the next λ.
    smaller = lambda_ / plan.lambda_ahead
    solution = found_locally(
        rows,
        current.memory,
        replace(model, products=model.predictions * smaller),
        live=current.live,
        norms=norms,
        strength=plan.scale / (plan.lambda_ahead * rows.sample_count),
        loss=loss,
        constant=constant,
    )
    sizes = [len(rows.positions[block]) for block in plan.live_blocks]
    values = np.zeros(rows.count)
    # Rounded towards zero, so that the sum of the label holders' contributions is feasible.
    values[current.live] = rounded_towards_zero(solution / np.repeat(plan.divisors, sizes), formats)
    return values
