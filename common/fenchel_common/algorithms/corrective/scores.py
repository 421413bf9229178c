"""The measurement of a corrective run's final model, and when it is due.

A round that may end the run measures the model that it leaves: with its answer to `primal`, each party gives the sums
of `fenchel_common.scoresums` over the samples that it reports on. If the run, or the problem of one class, does end, a
phase `measured` follows, in which the parties open the totals and tell the figures.
"""

from fenchel_common.algorithms.corrective.messages import Objectives


def scores_due(objectives: Objectives | None, *, closing: bool, leg_over: bool, goal: float | None) -> bool:
    """Whether an answer to `primal` with these objectives must have sums of scores.

    `leg_over` says whether a leg of a path has had its last round.

    The server adds a bound on rounding errors to P − D. So the sums are there whenever it finds that the run has
    converged, and perhaps a round earlier.
    """
    if objectives is None:
        return False
    return closing or leg_over or (goal is not None and objectives.primal - objectives.dual <= goal)
