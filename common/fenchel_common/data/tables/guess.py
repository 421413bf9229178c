"""The declaration of a table that has none, guessed from its profile. Each guess is said in a note."""

import re
from collections.abc import Sequence
from typing import Final

from fenchel_common.data.tables.declaration import (
    DECLARATION_FILE,
    Declaration,
    FeatureDeclaration,
    LabelDeclaration,
    Scalar,
)
from fenchel_common.data.tables.profile import FORMULA, ColumnProfile, TableProfile
from fenchel_common.errors import InvalidInput

ID_NAME: Final = re.compile(
    r"(.*[_\- .])?(id|ids|uid|mrn|key|identifier)"
    r"|(patient|person|subject|sample|case|customer)([_\- .]?(id|no|nr|number))?",
    re.IGNORECASE,
)
LABEL_NAMES: Final = ("label", "labels", "y", "target", "outcome", "class")
POSITIVES: Final = (
    ("1", "0"),
    ("1", "-1"),
    ("2", "1"),
    ("yes", "no"),
    ("y", "n"),
    ("true", "false"),
    ("t", "f"),
    ("positive", "negative"),
    ("pos", "neg"),
    ("case", "control"),
)
"""Pairs of labels, the positive one first; letters may be capital or small."""
SHOWN_COLUMNS: Final = 100
DATE: Final = re.compile(r"\d{4}-\d\d-\d\d.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}")


def guessed(
    profile: TableProfile, *, id_columns: Sequence[str] = (), label: str | None = None, positive: str | None = None
) -> tuple[Declaration, list[str]]:
    """A declaration of the whole table, and a note on each guess; what is given is not guessed.

    Raises `InvalidInput` where a guess would be a gamble: no column of ids, or two labels of which none is known as the
    positive one.
    """
    notes: list[str] = []
    if profile.matrix:
        declared = _label_of(profile, profile.labels, positive, notes)
        declared = None if declared is None else declared.model_copy(update={"column": None})
        if profile.declaration.libsvm.ids == "rows" and profile.declaration.format == "libsvm":
            notes.append('the lines have no "# id", so the number of its line is the id of a sample')
        return profile.declaration.model_copy(update={"label": declared}), notes
    by_name = {column.name: column for column in profile.columns}
    for name in (*id_columns, *([label] if label else [])):
        if name not in by_name:
            raise InvalidInput(f"{profile.source}: has no column {name!r}; its columns are {', '.join(by_name)}")
    ids = list(id_columns) or [_guessed_id(profile, notes)]
    rest = [column for column in profile.columns if column.name not in ids]
    labelled = by_name[label] if label else _guessed_label(rest, notes)
    declared_label = _label_of(profile, labelled, positive, notes)
    used, left_out = _uses([column for column in rest if column is not labelled], notes)
    missing = sum(by_name[name].missing for name in used)
    if missing:
        notes.append(
            f'{missing} cells of features are missing, and missing = "impute": a run with [features] fills in the mean '
            'over all parties; or change it to "drop" or "fill"'
        )
    return (
        Declaration.from_mapping(
            profile.declaration.model_dump(exclude_defaults=True)
            | {"id": ids[0] if len(ids) == 1 else ids, "leave_out": left_out}
            | ({"missing": "impute"} if missing else {})
            | ({} if declared_label is None else {"label": declared_label.model_dump(exclude_defaults=True)})
            | {"features": {name: feature.model_dump(exclude_defaults=True) for name, feature in used.items()}},
            source=profile.source,
        ),
        notes,
    )


def _guessed_id(profile: TableProfile, notes: list[str]) -> str:
    for column in profile.columns:
        if ID_NAME.fullmatch(column.name):
            notes.append(f"column {column.name!r} has the ids, by its name")
            return column.name
    raise InvalidInput(
        f"{profile.source}: no column is named like an id (id, patient_id, …); say which one has the ids: `fenchel "
        f'data init FILE --id COLUMN`, or id = "COLUMN" in {DECLARATION_FILE}; the columns are '
        f"{', '.join(column.name for column in profile.columns[:SHOWN_COLUMNS])}"
    )


def _guessed_label(columns: Sequence[ColumnProfile], notes: list[str]) -> ColumnProfile | None:
    for column in columns:
        if column.name.lower() in LABEL_NAMES:
            notes.append(f"column {column.name!r} has the labels, by its name")
            return column
    notes.append(
        "there are no labels: no column is named label, y, target, outcome or class; if one has them, name it, or it "
        f"becomes a feature: `fenchel data init FILE --label COLUMN`, or [label] in {DECLARATION_FILE}"
    )
    return None


def _label_of(
    profile: TableProfile, column: ColumnProfile | None, positive: str | None, notes: list[str]
) -> LabelDeclaration | None:
    if column is None:
        return None
    values = list(column.values or {})
    if len(values) > 2 and column.kind == "text" and positive is None:
        notes.append(f"the labels in {column.name!r} are the names of {len(values)} classes, which run.toml must list")
        return LabelDeclaration(column=column.name, type="names")
    if len(values) != 2:
        if column.kind != "number" or positive is not None or len(values) == 1:
            raise InvalidInput(
                f"{profile.source}: column {column.name!r}: two labels are needed, and there are "
                f"{len(values) or 'many'} different values; name both in {DECLARATION_FILE}, or choose another column"
            )
        notes.append(f"the labels in {column.name!r} are numbers, not two classes")
        return LabelDeclaration(column=column.name, type="number")
    if positive is not None:
        if positive not in values:
            raise InvalidInput(f"{profile.source}: column {column.name!r}: no cell has the value given as positive")
        other = values[1 - values.index(positive)]
        return LabelDeclaration(column=column.name, positive=_scalar(positive), negative=_scalar(other))
    small = {value.lower(): value for value in values}
    for yes, no in POSITIVES:
        if small.keys() == {yes, no}:
            notes.append(f"which label of {column.name!r} is positive follows from the usual words and numbers")
            return LabelDeclaration(column=column.name, positive=_scalar(small[yes]), negative=_scalar(small[no]))
    raise InvalidInput(
        f"{profile.source}: column {column.name!r}: which of its two values is positive? Say it by `fenchel data init "
        f"FILE --positive VALUE`, or under [label] in {DECLARATION_FILE}"
    )


def _scalar(text: str) -> Scalar:
    """The value as a person would write it in TOML."""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else text


def _uses(columns: Sequence[ColumnProfile], notes: list[str]) -> tuple[dict[str, FeatureDeclaration], list[str]]:
    used: dict[str, FeatureDeclaration] = {}
    left_out = []
    for column in columns:
        if column.missing == column.rows:
            notes.append(f"column {column.name!r} is left out: every cell is missing")
        elif column.kind == "number":
            used[column.name] = FeatureDeclaration()
            continue
        elif column.bad is not None and column.bad.fault == FORMULA:
            notes.append(f"column {column.name!r} is left out: the cell in row {column.bad.first_row} {FORMULA}")
        elif column.kind == "text" and column.values is not None and _is_category(column):
            used[column.name] = FeatureDeclaration(type="category", values=sorted(column.values))
            notes.append(f"column {column.name!r} is a category of {len(column.values)} values, a feature each")
            continue
        else:
            reason = "dates, or texts that hardly repeat" if column.kind == "text" else "neither numbers nor texts"
            notes.append(f"column {column.name!r} is left out: {reason}")
        left_out.append(column.name)
    return used, left_out


def _is_category(column: ColumnProfile) -> bool:
    """Whether the texts repeat, as names of persons do not, and are no dates."""
    values = column.values or {}
    repeats = 2 * len(values) <= column.rows - column.missing
    return repeats and not all(DATE.fullmatch(value) for value in values)
