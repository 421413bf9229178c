"""When training ends, as far as the server can tell without knowing the algorithm.

The algorithm judges its own gap, rounds and divergence, and ends a run with its report. The server watches over the
limits that hold for every algorithm: the run's rounds and seconds, after which it has the model certified in one
closing round, and figures that are no longer numbers.
"""

import math
from dataclasses import dataclass

from fenchel_common.metrics import RoundMetrics
from fenchel_server.store import Ending, RunStatus


@dataclass(frozen=True, slots=True)
class Limits:
    """Where to stop whatever the algorithm says; None means never."""

    rounds: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Progress:
    """What the committed training rounds amount to, in this life of the server and those before."""

    rounds: int = 0
    seconds: float = 0.0

    def plus_round(self, *, seconds: float) -> "Progress":
        """The progress after one more round."""
        return Progress(self.rounds + 1, self.seconds + seconds)


def exhausted(progress: Progress, limits: Limits) -> str | None:
    """Which limit is reached, in words fit for the record; the next round is then the closing one."""
    if limits.rounds is not None and progress.rounds >= limits.rounds:
        return f"all {limits.rounds} rounds are done"
    if limits.seconds is not None and progress.seconds >= limits.seconds:
        return f"{limits.seconds:g} seconds of training are over"
    return None


def not_finite(metrics: RoundMetrics) -> Ending | None:
    """Divergence beyond what the algorithm can judge: a figure that is no number."""
    figures = (metrics.primal, metrics.dual, metrics.gap)
    if all(value is None or math.isfinite(value) for value in figures):
        return None
    return Ending(
        RunStatus.DIVERGED, "the objective is no longer finite; take smaller steps or fewer of them in a round"
    )
