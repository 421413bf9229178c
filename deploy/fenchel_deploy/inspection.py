"""What Fenchel would read of a party's table, for the party's own eyes: it shows cells, and nothing of it is sent."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from fenchel_common.classlabels import class_code
from fenchel_common.data.canonical import RULE
from fenchel_common.data.categories import listed_names
from fenchel_common.data.tables.declaration import Declaration
from fenchel_common.data.tables.guess import guessed
from fenchel_common.data.tables.profile import ColumnProfile, TableProfile
from fenchel_common.data.tables.raw import missing_cell
from fenchel_common.data.tables.source import LoadedShard, TableFile, load_shard
from fenchel_common.errors import FenchelError, InvalidInput

SHOWN_VALUES: Final = 12


@dataclass(frozen=True, slots=True)
class Inspection:
    """Findings on a table.

    `declaration` is None where it could not be guessed, and `loaded` where there are problems.
    """

    profile: TableProfile
    declaration: Declaration | None
    declared: bool
    guesses: tuple[str, ...]
    problems: tuple[str, ...]
    loaded: LoadedShard | None

    def as_json(self) -> dict[str, object]:
        return {
            "file": self.profile.source,
            "rows": self.profile.rows,
            "width": self.profile.width,
            "declared": self.declared,
            "id_rule": RULE,
            "columns": [self._column(column) for column in self.columns()],
            "guesses": list(self.guesses),
            "problems": list(self.problems),
            "cautions": [] if self.loaded is None else list(self.loaded.cautions),
            "shard": None if self.loaded is None else self.shard_facts(self.loaded),
        }

    def shard_facts(self, loaded: LoadedShard) -> dict[str, object]:
        """Counts of the shard; labels of several classes by their names."""
        shard = loaded.shard
        features = len(listed_names(shard.features, shard.categories))
        facts: dict[str, object] = {"samples": len(shard.ids), "features": features, "labels": None}
        if shard.y is not None:
            names = self._class_names()
            labels, counts = np.unique(shard.y, return_counts=True)
            facts["labels"] = (
                {names.get(label, f"{label:+g}"): int(count) for label, count in zip(labels, counts, strict=True)}
                if len(labels) <= SHOWN_VALUES
                else "numbers"
                if not names
                else f"{len(labels)} classes"
            )
        return facts

    def _class_names(self) -> dict[float, str]:
        """The names of classes by their codes, if the labels are names of several classes."""
        label = None if self.declaration is None else self.declaration.label
        if label is None or label.type != "names":
            return {}
        labels = [column for column in self.columns() if self.use_of(column) == "label"]
        return {class_code(text): text for column in labels for text in column.values or {}}

    def columns(self) -> list[ColumnProfile]:
        labels = [] if self.profile.labels is None else [self.profile.labels]
        return [*labels, *self.profile.columns]

    def use_of(self, column: ColumnProfile) -> str:
        """What a column is used for: id, label, weight, number, category or left out; empty if that is not known."""
        declaration = self.declaration
        if declaration is None:
            return ""
        if column.name in declaration.leave_out:
            return "left out"
        if column is self.profile.labels or (declaration.label is not None and column.name == declaration.label.column):
            return "label"
        if declaration.label is not None and column.name == declaration.label.weight:
            return "weight"
        if declaration.id is not None and column.name in declaration.id_columns:
            return "id"
        if declaration.features is None:
            return "number"
        return declaration.features[column.name].type if column.name in declaration.features else ""

    def _column(self, column: ColumnProfile) -> dict[str, object]:
        values = column.values
        return {
            "name": column.name,
            "use": self.use_of(column),
            "type": column.kind,
            "missing": column.missing,
            "least": column.low,
            "greatest": column.high,
            "values": None if values is None or len(values) > SHOWN_VALUES else values,
            "suspicions": column.suspicions(),
        }


def inspect(path: Path) -> Inspection:
    """Profiles the table, and reads it if nothing is wrong with its columns."""
    table = TableFile.find(path)
    profile = table.profile()
    declaration = table.declaration
    guesses: list[str] = []
    problems: list[str] = []
    if declaration is None:
        try:
            declaration, guesses = guessed(profile)
        except InvalidInput as error:
            problems.append(str(error))
    loaded: LoadedShard | None = None
    if declaration is not None:
        problems += bad_cells(profile, declaration)
    if not problems:
        try:
            loaded = load_shard(path)
        except FenchelError as error:
            problems.append(str(error))
    return Inspection(profile, declaration, table.declaration is not None, tuple(guesses), tuple(problems), loaded)


def bad_cells(profile: TableProfile, declaration: Declaration) -> list[str]:
    """The columns with cells that are refused, all of them: reading stops at the first."""
    used = declaration.features or {}
    missing = [
        missing_cell(profile.source, column.first_missing, column.name, column.missing)
        for column in profile.columns
        if column.name in used
        and column.first_missing is not None
        and (used[column.name].missing or declaration.missing) == "refuse"
    ]
    return missing + [
        f"{profile.source}: row {column.bad.first_row}, column {column.name!r}: the cell {column.bad.fault} "
        f"(such cells in this column: {column.bad.count})"
        for column in profile.columns
        if column.bad is not None and column.name in used and used[column.name].type == "number"
    ]
