"""The rows of an experiment on disk, one line of CSV each, so that a killed experiment continues where it was.

A unit of work writes all its rows at once. The column `unit` names it, and `rows` says how many rows it has: a unit
whose last rows are missing, because the process was killed while it wrote, is dropped and measured again.
"""

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from fenchel_common.errors import InvalidInput

Cell = str | int | float | bool | None
Row = Mapping[str, Cell]
ReadRow = Mapping[str, str]

UNIT: Final = "unit"
ROWS: Final = "rows"
FILE: Final = "rows.csv"
PLAN: Final = "plan.json"


class Journal:
    """The rows in a folder, for one plan: a folder with rows of another plan is refused."""

    def __init__(self, folder: Path, columns: Sequence[str], plan: Mapping[str, object]) -> None:
        self._path = folder / FILE
        self._columns = (UNIT, ROWS, *columns)
        folder.mkdir(parents=True, exist_ok=True)
        self._check_plan(folder / PLAN, plan)
        self._lines = self._whole_units()
        _write_atomically(self._path, _line(self._columns) + "".join(self._lines))

    @property
    def path(self) -> Path:
        return self._path

    @property
    def done(self) -> frozenset[str]:
        """The units that have all their rows."""
        return frozenset(row[UNIT] for row in self.rows())

    def append(self, unit: str, rows: Sequence[Row]) -> None:
        """Writes all rows of a unit; they are on the disk when this returns."""
        lines = [
            _line([unit, str(len(rows)), *(_text(row.get(column)) for column in self._columns[2:])]) for row in rows
        ]
        with self._path.open("a", encoding="utf-8", newline="") as file:
            file.write("".join(lines))
            file.flush()
            os.fsync(file.fileno())
        self._lines += lines

    def rows(self) -> list[ReadRow]:
        """All rows, as read from the file."""
        return read_rows("".join([_line(self._columns), *self._lines]))

    def _whole_units(self) -> list[str]:
        if not self._path.exists():
            return []
        text = self._path.read_text(encoding="utf-8")
        # A line without its end was being written.
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        if not lines:
            return []
        found = list(csv.reader(lines[1:]))
        counts = Counter(cells[0] for cells in found)
        whole = {cells[0] for cells in found if len(cells) == len(self._columns) and counts[cells[0]] == int(cells[1])}
        return [line for line, cells in zip(lines[1:], found, strict=True) if cells[0] in whole]

    def _check_plan(self, path: Path, plan: Mapping[str, object]) -> None:
        text = json.dumps({**plan, "columns": self._columns}, indent=1, sort_keys=True) + "\n"
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise InvalidInput(
                f"{path.parent}: has the rows of another plan (another form, data set or version of the experiment); "
                "name another folder with --out, or remove this one"
            )
        _write_atomically(path, text)


def read_rows(text: str) -> list[ReadRow]:
    """The rows of a CSV text with a line of column names."""
    return list(csv.DictReader(io.StringIO(text)))


def _line(cells: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _write_atomically(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
