"""The rules by which the server ends the training of any algorithm.

An algorithm judges its own gap, rounds and divergence, and ends a run with its report. The server enforces the limits
of the run's rounds and seconds, after which one closing round certifies the model. It also ends a run whose figures are
no longer finite.
"""

import math
from dataclasses import dataclass

from fenchel_common.metrics import RoundMetrics
from fenchel_server.store import Ending, RunStatus


@dataclass(frozen=True, slots=True)
class Limits:
    """The most training rounds and seconds of a run; None means no limit."""

    rounds: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Progress:
    """The number and seconds of all committed training rounds, also of those before a restart of the server."""

    rounds: int = 0
    seconds: float = 0.0

    def plus_round(self, *, seconds: float) -> "Progress":
        """The progress after one more round."""
        return Progress(self.rounds + 1, self.seconds + seconds)


def exhausted(progress: Progress, limits: Limits) -> str | None:
    """The limit that is reached, in words for the record, or None; with a limit the next round is the closing one."""
    if limits.rounds is not None and progress.rounds >= limits.rounds:
        return f"all {limits.rounds} rounds are done"
    if limits.seconds is not None and progress.seconds >= limits.seconds:
        return f"{limits.seconds:g} seconds of training are over"
    return None


def at_the_limit(limit: str, metrics: RoundMetrics, *, gap: float | None) -> Ending:
    """The ending of a run that reached a limit; `gap` is the one that was asked for, None without a certificate.

    `metrics` are those of the closing round, and `limit` says in words which limit it was.
    """
    if gap is None or (metrics.gap is not None and metrics.gap <= gap):
        return Ending(RunStatus.COMPLETED, limit)
    reached = "the model has no certificate" if metrics.gap is None else f"the duality gap is {metrics.gap:.3g}"
    return Ending(
        RunStatus.EXHAUSTED,
        f"{limit}, but {reached}, and {gap:g} was asked for; allow more rounds (stop.rounds) or seconds "
        "(stop.seconds), take a larger lambda, or bring the columns to a similar scale",
    )


def not_finite(metrics: RoundMetrics) -> Ending | None:
    """The ending of a run whose primal, dual or gap is infinite or not a number; None if they are finite."""
    figures = (metrics.primal, metrics.dual, metrics.gap)
    if all(value is None or math.isfinite(value) for value in figures):
        return None
    return Ending(
        RunStatus.DIVERGED, "the objective is no longer finite; take smaller steps or fewer of them in a round"
    )
