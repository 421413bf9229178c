"""What is in a table: the profile that guesses are made of and `fenchel data inspect` prints.

A profile shows cells, which are secrets of the party.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

from fenchel_common.data.tables.declaration import Declaration

MAX_VALUES: Final = 50
"""A column of text with more different values is no category."""
FORMULA: Final = 'begins with "=": it is a formula of a spreadsheet; export the table with values instead of formulas'
MISSING_CODES: Final = (-9.0, -99.0, -999.0, -9999.0)
FEW_CODES: Final = 6
ENOUGH_ROWS: Final = 30
"""In a shorter table, few different numbers mean nothing."""


@dataclass(frozen=True, slots=True)
class BadCells:
    """Cells that are no numbers; in a column of numbers they are mistakes."""

    count: int
    first_row: int
    fault: str


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """One column.

    `first_missing` is the row of the first missing cell. `values` has the number of cells by canonical text, or None
    where there are more than MAX_VALUES. `low` and `high` are of numbers alone.
    """

    name: str
    kind: Literal["number", "text", "other"]
    rows: int
    missing: int
    first_missing: int | None = None
    values: dict[str, int] | None = None
    low: float | None = None
    high: float | None = None
    whole: bool = False
    bad: BadCells | None = None

    @property
    def constant(self) -> bool:
        return self.missing < self.rows and (
            (self.values is not None and len(self.values) == 1) or (self.low is not None and self.low == self.high)
        )

    def suspicions(self) -> list[str]:
        """What a person should look at; none of it hinders the reading."""
        found = []
        if self.missing == self.rows:
            found.append("every cell is missing")
        elif self.constant:
            found.append("every cell is the same")
        elif self.rows >= ENOUGH_ROWS and self.whole and self.values and 2 < len(self.values) <= FEW_CODES:
            found.append(f"only {len(self.values)} different whole numbers: are they codes of a category?")
        if self.low in MISSING_CODES:
            found.append(f"the least value is {self.low:g}: does it mean that the value is missing?")
        return found


@dataclass(frozen=True, slots=True)
class TableProfile:
    """A whole table.

    `declaration` has what was found out about the file itself (its format, the delimiter) and nothing about columns.
    For formats that are a matrix with ids of its own, `labels` is the profile of the labels, and `columns` has the
    features as long as they are not too many.
    """

    source: str
    rows: int
    width: int
    declaration: Declaration
    columns: list[ColumnProfile] = field(default_factory=list)
    labels: ColumnProfile | None = None
    matrix: bool = False
