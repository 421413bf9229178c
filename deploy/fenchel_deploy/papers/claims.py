"""Sentences of the papers, and whether they hold in the measured rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fenchel_deploy.papers.definitions import ClaimPlan, Operand
from fenchel_deploy.papers.journal import UNIT, ReadRow

HOLDS: Final = "holds"
FAILS: Final = "does not hold"
UNTESTED: Final = "cannot be tested here"
PRINTED: Final = "printed_"
"""The beginning of the names of columns that have values of the paper."""
COMPARED: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "less than": lambda left, right: left < right,
    "more than": lambda left, right: left > right,
    "at most": lambda left, right: left <= right,
    "at least": lambda left, right: left >= right,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a sentence holds, why, and the units of the rows on which this is based."""

    says: str
    word: str
    why: str
    units: tuple[str, ...] = ()


def judged(claims: Sequence[ClaimPlan], rows: Sequence[ReadRow], *, as_printed: bool) -> list[Verdict]:
    """The verdict on each claim.

    Unless the rows are `as_printed`, of the paper's data set and size, no claim is judged that names printed values or
    is about the whole data set.
    """
    return [_judged(claim, rows, as_printed=as_printed) for claim in claims]


def _judged(claim: ClaimPlan, rows: Sequence[ReadRow], *, as_printed: bool) -> Verdict:
    if claim.untestable or claim.left is None or claim.op is None or claim.right is None:
        return Verdict(claim.says, UNTESTED, claim.untestable)
    if claim.whole and not as_printed:
        return Verdict(claim.says, UNTESTED, "the printed hyper-parameters are for the whole data set of the paper")
    columns = [side.column for side in (claim.left, claim.right) if isinstance(side, Operand)]
    if not as_printed and any(column.startswith(PRINTED) for column in columns):
        return Verdict(claim.says, UNTESTED, "printed values are of another data set or size than these rows")
    left = _values(claim.left, claim.each, rows)
    right = _values(claim.right, claim.each, rows) if isinstance(claim.right, Operand) else None
    pairs: list[tuple[str, float, float, tuple[str, ...]]] = []
    for place, (value, unit) in left.items():
        if right is None:
            assert isinstance(claim.right, int | float)
            pairs.append((", ".join(place), value, float(claim.right), (unit,)))
        elif place in right:
            other, other_unit = right[place]
            pairs.append((", ".join(place), value, other, (unit, other_unit)))
    if not pairs:
        return Verdict(claim.says, UNTESTED, "no row of this form has the values that it compares")
    compare = COMPARED[claim.op]
    failing = [pair for pair in pairs if not compare(pair[1], pair[2])]
    units = tuple(dict.fromkeys(unit for pair in (failing or pairs) for unit in pair[3]))
    if not failing:
        return Verdict(claim.says, HOLDS, f"in {len(pairs)} of {len(pairs)} comparisons", units)
    shown = "; ".join(f"{place}: {left:.4g} is not {claim.op} {right:.4g}" for place, left, right, _ in failing)
    return Verdict(claim.says, FAILS, f"not in {len(failing)} of {len(pairs)} comparisons: {shown}", units)


def _values(operand: Operand, each: Sequence[str], rows: Sequence[ReadRow]) -> dict[tuple[str, ...], tuple[float, str]]:
    """By the cells of `each`, the value of the last row that fits, and its unit."""
    found = {}
    for row in rows:
        if all(row[column] == cell for column, cell in operand.where.items()) and row[operand.column]:
            value = float(row[operand.column]) * operand.times
            found[tuple(row[column] for column in each)] = (value, row[UNIT])
    return found
