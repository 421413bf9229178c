"""A path of regularisations in one run, and how the best of them is chosen on samples that were held out.

A run with `[path]` goes through *legs*. A leg is the training with one λ, on all samples or without those of one fold.
With k folds and L λ, the first L legs are those of the first fold with each λ, largest first, then come those of the
second fold, and so on. The legs after these k·L are on all samples, again from the largest λ on. The last of them has
the λ that is chosen; its model is the run's. In a leg with a fold, the samples of the fold do not count in P and D, and
how well its model predicts them is measured. Server and parties follow the same rules, all of which are here.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fenchel_common.errors import InvalidInput
from fenchel_common.scoresums import ScoreFigures

FOLD_LABEL: Final = b"fenchel/v1/fold\x00"
MOST_LAMBDAS: Final = 100
MOST_FOLDS: Final = 20
LEAST_HELD_OUT: Final = 20
"""The fewest samples of a fold, so that how well they are predicted tells little of one of them."""
TRAINED: Final = -1
"""In place of a fold's number, of samples that are in none."""

Lambda = Annotated[float, Field(ge=1e-12, le=1e12)]


@dataclass(frozen=True, slots=True)
class Leg:
    """One leg: its λ, and the fold whose samples are held out, None for all samples."""

    number: int
    lambda_: float
    fold: int | None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run with a path has come.

    Attributes
    ----------
    leg, since
        The number of the leg under way, and the last round before it.
    measured
        The metric of each leg with a fold that has ended.
    """

    leg: int = 0
    since: int = 0
    measured: tuple[float, ...] = ()

    def with_value(self, value: float) -> "Progress":
        """The progress after the model of the leg has been measured on the samples of its fold."""
        return Progress(self.leg, self.since, (*self.measured, value))

    def next_leg(self, round_id: int) -> "Progress":
        """The progress after the leg has ended with a round."""
        return Progress(self.leg + 1, round_id, self.measured)


AT_THE_START: Final = Progress()


METRICS_IN_WORDS: Final = {"auc": "AUC", "log_loss": "log-loss", "rmse": "RMSE"}
"""The metrics of held-out samples, as people read them."""


class LambdaPath(BaseModel):
    """The section `[path]` of a run.

    `lambdas` are the values of λ; `largest`, `smallest` and `count` may stand in their place, for so many values whose
    logarithms are evenly spaced. `folds` are the folds of a cross-validation, `held_out` is the share of the samples of
    the one fold of a validation; without either, the last λ is chosen. `metric` is what is measured of the samples held
    out. `choose`: the "best" λ, or the largest λ whose mean metric is within "one_standard_error" of the best one's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    lambdas: Annotated[tuple[Lambda, ...], Field(strict=False, min_length=1, max_length=MOST_LAMBDAS)]
    folds: Annotated[int, Field(ge=0, le=MOST_FOLDS)] = 0
    held_out: Annotated[float, Field(ge=0.05, le=0.5)] | None = None
    metric: Literal["auc", "log_loss", "rmse"] | None = None
    choose: Literal["best", "one_standard_error"] = "best"

    @model_validator(mode="before")
    @classmethod
    def _spaced(cls, values: Any) -> Any:
        """The values with the λ themselves, largest first."""
        if not isinstance(values, Mapping):
            return values
        rest = {name: value for name, value in values.items() if name not in ("largest", "smallest", "count")}
        given: list[Any] = [values.get(name) for name in ("largest", "smallest", "count")]
        if any(value is not None for value in given):
            if "lambdas" in rest or not all(_is_number(value) for value in given):
                raise ValueError("give either lambdas, or largest, smallest and count")
            rest["lambdas"] = spaced(*given)
        known = rest.get("lambdas")
        if isinstance(known, Sequence) and all(_is_number(value) for value in known):
            if len(set(known)) < len(known):
                raise ValueError("lambdas: must be different from each other")
            rest["lambdas"] = tuple(sorted((float(value) for value in known), reverse=True))
        return rest

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.folds == 1:
            raise ValueError("folds: use at least 2; for one fold alone, give its share of the samples as held_out")
        if self.folds and self.held_out is not None:
            raise ValueError("give either folds or held_out")
        if self.splits == 0 and (self.metric is not None or self.choose != "best"):
            raise ValueError("metric and choose need folds or held_out")
        if self.splits and self.metric is None:
            raise ValueError('metric: choose λ by "auc", "log_loss" or "rmse"')
        if self.splits == 1 and self.choose == "one_standard_error":
            raise ValueError('choose: "one_standard_error" needs folds')
        return self

    @property
    def splits(self) -> int:
        """In how many ways samples are held out."""
        return self.folds or (self.held_out is not None)

    def least_held_out(self, samples: int) -> int:
        """About how many of so many samples are in a fold, if the metric needs their scores one by one; else 0."""
        if self.metric != "auc":
            return 0
        return int(samples * (self.held_out or 1.0 / max(self.folds, 1)))

    @property
    def legs(self) -> int:
        """The most legs of the run."""
        return (self.splits + 1) * len(self.lambdas)

    def leg(self, number: int) -> Leg:
        split, position = divmod(number, len(self.lambdas))
        return Leg(number, self.lambdas[position], split if split < self.splits else None)

    def starts_anew(self, number: int) -> bool:
        """Whether a leg begins at a model of zeros; every other leg begins where the one before ended."""
        return number % len(self.lambdas) == 0

    def is_last(self, progress: Progress) -> bool:
        """Whether the leg under way is the run's last one."""
        before = self.splits * len(self.lambdas)
        if progress.leg < before:
            return False
        chosen = self.chosen(progress.measured) if self.splits else len(self.lambdas) - 1
        return progress.leg >= before + chosen

    def measured_in(self, figures: ScoreFigures) -> float:
        """The metric; `InvalidInput` if the samples held out are too few for it."""
        value = None if self.metric is None else figures.named().get(self.metric)
        if value is None:
            raise InvalidInput(f"path.metric: {self.metric} cannot be told of so few samples; use fewer folds")
        return value

    def scores(self, measured: Sequence[float]) -> list[tuple[float, float]]:
        """For each λ the mean of the metric over the folds, and its standard error, which is 0 with one fold."""
        count = len(self.lambdas)
        return [_mean_and_error(measured[position::count]) for position in range(count)]

    def chosen(self, measured: Sequence[float], rule: str | None = None) -> int:
        """The position of the λ that a rule chooses, by default that of the path; the largest of equally good ones."""
        sign = 1.0 if self.metric == "auc" else -1.0
        scores = [(sign * mean, error) for mean, error in self.scores(measured)]
        best, error = max(scores, key=lambda score: score[0])
        enough = best - error if (rule or self.choose) == "one_standard_error" else best
        return next(position for position, (mean, _) in enumerate(scores) if mean >= enough)

    def folds_of(self, ids: Sequence[str], *, seed: int) -> NDArray[np.int64]:
        """(n,) the fold of each sample, or `TRAINED`; the same at every holder of a sample."""
        hashes = np.array([_hash_of(name, seed) for name in ids], dtype=np.uint64)
        if self.folds:
            return (hashes % np.uint64(self.folds)).astype(np.int64)
        bound = np.uint64(int((self.held_out or 0.0) * 2.0**64))
        return np.where(hashes < bound, 0, TRAINED).astype(np.int64)


def spaced(largest: float, smallest: float, count: int) -> tuple[float, ...]:
    """So many values from the largest to the smallest, each the same fraction of the one before, in six digits."""
    if not 0.0 < smallest < largest or not 2 <= count <= MOST_LAMBDAS:
        raise ValueError(f"largest must be above smallest, and count from 2 to {MOST_LAMBDAS}")
    steps = (position / (count - 1) for position in range(count))
    exact = (math.exp((1.0 - t) * math.log(largest) + t * math.log(smallest)) for t in steps)
    return tuple(float(f"{value:.6g}") for value in exact)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _hash_of(name: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(FOLD_LABEL + seed.to_bytes(8, "big") + name.encode()).digest()[:8], "big")


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return mean, 0.0
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
