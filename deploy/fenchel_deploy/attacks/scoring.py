"""Scores of attacks: how near they came to the truth. No attack imports this module.

`cosine` is the mean of |cos| between estimates and rows. Chance is the mean of the same estimates against as many
rows that nobody in the federation holds, so it includes whatever rows of one kind have in common.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_deploy.attacks.rows import Estimate

Array = NDArray[np.float64]

ROW_FOUND: Final = 0.95
"""From this cosine on a row counts as found."""


@dataclass(frozen=True, slots=True)
class Score:
    """`value` against the truth, `chance` against what cannot have been learnt, `found` rows of `total`.

    `strangers_found` is the number of rows of nobody that would count as found.
    """

    value: float
    chance: float
    found: int
    strangers_found: int
    total: int
    guesses: int


def row_score(estimates: Sequence[Estimate], rows: Array, strangers: Array) -> Score:
    """The mean |cos| of the estimates with their rows, or with the nearest row where they name none."""
    value, found = _nearness(estimates, rows)
    chance, strangers_found = _nearness(estimates, strangers)
    return Score(value, chance, found, strangers_found, len(rows), len(estimates))


def support_score(estimates: Sequence[Estimate], rows: Array, strangers: Array) -> Score:
    """The mean F1 of the estimated supports with the supports of their rows."""
    values = [_f1(one.direction, rows[_known_row(one)]) for one in estimates]
    chance = [_f1(one.direction, strangers[_known_row(one)]) for one in estimates]
    found, strangers_found = (sum(one >= ROW_FOUND for one in scores) for scores in (values, chance))
    return Score(_mean(values), _mean(chance), found, strangers_found, len(rows), len(estimates))


def match_rate(guessed: Sequence[object], true: Sequence[object]) -> float:
    """How many of the guesses are right, one by one."""
    return sum(one == other for one, other in zip(guessed, true, strict=True)) / max(len(true), 1)


def majority_rate(true: Sequence[object]) -> float:
    """How many guesses are right when all are the most frequent truth."""
    return max(Counter(true).values(), default=0) / max(len(true), 1)


def pooled(scores: Sequence[Score]) -> Score:
    """One score for several parties; every party with a guess has the same weight."""
    guessed = [score for score in scores if score.guesses]
    return Score(
        _mean([score.value for score in guessed]),
        _mean([score.chance for score in guessed]),
        sum(score.found for score in scores),
        sum(score.strangers_found for score in scores),
        sum(score.total for score in scores),
        sum(score.guesses for score in scores),
    )


def _nearness(estimates: Sequence[Estimate], rows: Array) -> tuple[float, int]:
    """The mean |cos| of the estimates, and how many rows are found."""
    cosines = [_cosines(one, rows) for one in estimates]
    nearest = [int(near.argmax()) if one.row is None else one.row for one, near in zip(estimates, cosines, strict=True)]
    values = [float(near[row]) for row, near in zip(nearest, cosines, strict=True)]
    found = {row for row, value in zip(nearest, values, strict=True) if value >= ROW_FOUND}
    return _mean(values), len(found)


def _cosines(estimate: Estimate, rows: Array) -> Array:
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(estimate.direction)
    return np.asarray(np.abs(rows @ estimate.direction) / np.maximum(norms, 1e-300), dtype=np.float64)


def _f1(estimate: Array, row: Array) -> float:
    guessed, true = estimate != 0.0, row != 0.0
    return 2.0 * float((guessed & true).sum()) / max(float(guessed.sum() + true.sum()), 1.0)


def _known_row(estimate: Estimate) -> int:
    assert estimate.row is not None, "a support belongs to a known row"
    return estimate.row


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
