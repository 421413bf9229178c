"""What a run with a path found for each λ, from its committed rounds."""

from collections.abc import Sequence
from dataclasses import dataclass

from fenchel_common.metrics import RoundMetrics
from fenchel_common.selection import LambdaPath


@dataclass(frozen=True, slots=True)
class PathRow:
    """One λ of a path.

    Attributes
    ----------
    rounds
        Of all legs with this λ.
    primal, gap
        Of the leg on all samples; None if there was none.
    mean, error
        The mean of the metric over the folds, and its standard error; None without folds.
    chosen
        By which rules this λ is the one: "best", "one_standard_error".
    taken
        Whether the run's model is the one with this λ.
    """

    lambda_: float
    rounds: int
    primal: float | None
    gap: float | None
    mean: float | None = None
    error: float | None = None
    chosen: tuple[str, ...] = ()
    taken: bool = False


def path_table(path: LambdaPath, rounds: Sequence[RoundMetrics]) -> tuple[PathRow, ...]:
    """One row for each λ, largest first; metrics only if all folds have ended."""
    last_of = {metrics.leg: metrics for metrics in rounds}
    count, before = len(path.lambdas), path.splits * len(path.lambdas)
    ended = [last_of[leg].scores for leg in range(before) if leg in last_of]
    told = [scores for scores in ended if scores is not None]
    scores: Sequence[tuple[float | None, float | None]] = [(None, None)] * count
    words: list[tuple[str, ...]] = [()] * count
    if before and len(told) == before:
        measured = [path.measured_in(scores) for scores in told]
        scores = path.scores(measured)
        rules = {"best": path.chosen(measured, "best")}
        if path.folds:
            rules["one_standard_error"] = path.chosen(measured, "one_standard_error")
        words = [tuple(rule for rule, chosen in rules.items() if chosen == position) for position in range(count)]
    final = max(last_of, default=0)
    return tuple(
        PathRow(
            lambda_=lambda_,
            rounds=sum(metrics.leg % count == position and not metrics.closing for metrics in rounds),
            primal=None if (whole := last_of.get(before + position)) is None else whole.primal,
            gap=None if whole is None else whole.gap,
            mean=scores[position][0],
            error=scores[position][1],
            chosen=words[position],
            taken=before + position == final,
        )
        for position, lambda_ in enumerate(path.lambdas)
    )
