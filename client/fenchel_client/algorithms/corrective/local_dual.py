"""The answer to `local_dual`: the client combines the points, and solves its local problem at the combination."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec
from fenchel_client.algorithms.corrective.local_rows import found_locally
from fenchel_client.algorithms.corrective.measures import figures_of
from fenchel_client.algorithms.corrective.points import MODEL, Combination, best_combination, combined
from fenchel_client.algorithms.corrective.round import ClientRound, rounded_towards_zero
from fenchel_client.algorithms.duals import feasible_duals
from fenchel_client.algorithms.rows import PartyRows
from fenchel_common.algorithms.corrective.messages import DualResult, DualTask
from fenchel_common.algorithms.dual import alpha_format
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss

Array = NDArray[np.float64]


def with_combination(
    rows: PartyRows, current: ClientRound, round_id: int, *, lambda_: float, loss: Loss
) -> tuple[ClientRound, Combination]:
    """The best combination of the points, and the round with it as its model; samples not live keep the anchor's α."""
    combination = best_combination(current.memory, lambda_=lambda_, modulus=loss.conjugate_modulus)
    anchor = current.memory.anchor.alpha

    def feasible(alpha: Array) -> Array:
        corrected = anchor.copy()
        corrected[current.live] = feasible_duals(rows, current.live, alpha[current.live], loss)
        return corrected

    memory = combined(current.memory, combination, round_id, feasible=feasible)
    return replace(current, memory=memory), combination


def dual_result(
    rows: PartyRows,
    codec: RowCodec,
    current: ClientRound,
    combination: Combination,
    task: DualTask,
    *,
    norms: Array,
    lambda_: float,
    loss: Loss,
) -> DualResult:
    """The client's answer, from the round as `with_combination` gives it.

    Parameters
    ----------
    norms
        ‖x_i‖² of the whole rows.
    """
    start, model = current.start, current.memory.entries[(MODEL, task.round_id)]
    point = alpha = weights = None
    if rows.y is not None and not task.certify_only:
        solution = _local_point(rows, current, task, norms=norms, lambda_=lambda_, loss=loss)
        point = codec.to_blocks(start.live_blocks, solution, alpha_format(loss))
    reports = rows.positions_of(start.report_blocks)
    figures = figures_of(rows, current.memory, task.round_id, reports, norms=norms, loss=loss)
    if start.report_blocks:
        alpha = codec.to_blocks(start.report_blocks, rounded_towards_zero(model.alpha), alpha_format(loss))
    if start.feature_blocks:
        weights = codec.to_features(model.weights, start.feature_blocks)
    return DualResult(point, codec.to_numbers(figures), alpha, weights, combination.digest())


def _local_point(
    rows: PartyRows, current: ClientRound, task: DualTask, *, norms: Array, lambda_: float, loss: Loss
) -> Array:
    """The solution of the local problem divided by |B_n| on the live samples, and zero on all others."""
    live_blocks = current.start.live_blocks
    if len(task.divisors) != len(live_blocks):
        raise InvalidInput("divisors: must be one for each live block")
    solution = found_locally(
        rows,
        current.memory,
        current.memory.entries[(MODEL, task.round_id)],
        live=current.live,
        norms=norms,
        strength=task.scale / (lambda_ * rows.sample_count),
        loss=loss,
    )
    sizes = [len(rows.positions[block]) for block in live_blocks]
    values = np.zeros(rows.count)
    # Rounded towards zero, so that the sum of the label holders' contributions is feasible.
    values[current.live] = rounded_towards_zero(solution / np.repeat(task.divisors, sizes))
    return values
