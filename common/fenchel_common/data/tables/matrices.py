"""What the formats have in common that are a matrix with ids of its own: LIBSVM and NPZ."""

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.data.canonical import canonical
from fenchel_common.data.tables.declaration import DECLARATION_FILE, Declaration, LabelDeclaration
from fenchel_common.data.tables.profile import MAX_VALUES, ColumnProfile, TableProfile
from fenchel_common.data.tables.raw import RawTable
from fenchel_common.errors import InvalidInput

LABELS: Final = "y"
"""The name of the labels of such a file, for leave_out."""
PROFILED_COLUMNS: Final = 2000


class MatrixReader(ABC):
    """Reads files of one format that is a matrix of numbers with ids, and maybe labels that are numbers."""

    @abstractmethod
    def options(self, path: Path, declaration: Declaration) -> Declaration:
        """The declaration with what the file itself tells of how it is to be read."""

    @abstractmethod
    def matrix(self, path: Path, declaration: Declaration) -> RawTable:
        """The file's matrix, ids and labels as they are."""

    def columns(self, path: Path, declaration: Declaration) -> tuple[str, ...] | None:  # noqa: ARG002 - of the interface
        return None

    def read(self, path: Path, declaration: Declaration) -> RawTable:
        if declaration.id is not None or declaration.features is not None:
            raise InvalidInput(
                f"{path}: has ids and names of features of its own; take id and [features] out of {DECLARATION_FILE}"
            )
        raw = self.matrix(path, self.options(path, declaration))
        if declaration.label is not None:
            raw = replace(raw, y=_declared_labels(raw, declaration.label))
        return _without(raw, declaration.leave_out)

    def profile(self, path: Path, declaration: Declaration) -> TableProfile:
        declaration = self.options(path, declaration)
        raw = self.matrix(path, declaration)
        rows, width = raw.X.shape
        shown = range(width if width <= PROFILED_COLUMNS else 0)
        columns = [_profile_of(raw.features[position], _column(raw, position)) for position in shown]
        labels = None if raw.y is None else _profile_of(LABELS, raw.y)
        return TableProfile(str(path), rows, width, declaration, columns, labels, matrix=True)


def _declared_labels(raw: RawTable, label: LabelDeclaration) -> NDArray[np.float64]:
    if raw.y is None:
        raise InvalidInput(f"{raw.source}: has no labels; take [label] out of {DECLARATION_FILE}")
    if label.column is not None:
        raise InvalidInput(f"{raw.source}: has labels of its own; take column out of [label] in {DECLARATION_FILE}")
    if label.weight is not None:
        raise InvalidInput(
            f"{raw.source}: has no columns to be weights; take weight out of [label] in {DECLARATION_FILE}, and give "
            "weights as the array `weights` of an NPZ file"
        )
    if label.type != "classes":
        return raw.y
    classes, y = label.classes(), np.full(len(raw.y), np.nan)
    known = np.isnan(raw.y)
    for value in np.unique(raw.y[~known]):
        text = canonical(float(value)) if float(value).is_integer() else repr(float(value))
        if text in classes:
            y[raw.y == value] = classes[text]
            known |= raw.y == value
    if not known.all():
        raise InvalidInput(
            f"{raw.source}: row {int((~known).argmax()) + 1}: the label is neither the positive nor the negative one "
            f"of {DECLARATION_FILE}; correct it there or here (`fenchel data inspect` shows the values)"
        )
    return y


def _without(raw: RawTable, leave_out: list[str]) -> RawTable:
    names = set(leave_out)
    unknown = sorted(names - {LABELS, *raw.features})
    if unknown:
        raise InvalidInput(f"{raw.source}: has no column {unknown[0]!r}, which leave_out in {DECLARATION_FILE} names")
    if names - {LABELS}:
        kept = np.array([position for position, name in enumerate(raw.features) if name not in names], dtype=np.int64)
        raw = replace(raw, features=tuple(raw.features[position] for position in kept), X=raw.X[:, kept])
    return replace(raw, y=None, weights=None) if LABELS in names else raw


def _column(raw: RawTable, position: int) -> NDArray[np.float64]:
    if isinstance(raw.X, csr_array):
        return raw.X[:, [position]].toarray().reshape(-1)
    return raw.X[:, position]


def _profile_of(name: str, cells: NDArray[np.float64]) -> ColumnProfile:
    present = cells[np.isfinite(cells)]
    values, counts = np.unique(present, return_counts=True)
    texts = Counter(
        {f"{value:.12g}": int(count) for value, count in zip(values[: MAX_VALUES + 1], counts, strict=False)}
    )
    return ColumnProfile(
        name=name,
        kind="number",
        rows=len(cells),
        missing=int(np.isnan(cells).sum()),
        values=dict(texts) if len(values) <= MAX_VALUES else None,
        low=float(present.min()) if len(present) else None,
        high=float(present.max()) if len(present) else None,
        whole=bool((present == np.rint(present)).all()),
    )
