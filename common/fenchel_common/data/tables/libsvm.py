"""LIBSVM files: a line for each sample, with its label and the index:value pairs of its entries that are not zero.

The id of a sample is the text after "#" at the end of its line; in a file without such texts it is the number of the
line. The feature of index 17 has the name "x17" at every party.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.data.canonical import canonical
from fenchel_common.data.tables.declaration import DECLARATION_FILE, Declaration
from fenchel_common.data.tables.matrices import MatrixReader
from fenchel_common.data.tables.raw import RawTable
from fenchel_common.errors import InvalidInput

MAX_INDEX: Final = 1 << 24
"""Every column has a name in memory, so that a slip of the pen in an index would cost gigabytes."""
MISSING_LABELS: Final = (b"?", b"nan", b"NaN")


class LibsvmReader(MatrixReader):
    """Reads .libsvm, .svm and .svmlight files."""

    def options(self, path: Path, declaration: Declaration) -> Declaration:
        if "ids" in declaration.libsvm.model_fields_set:
            return declaration
        first = next(_lines(path), (1, b""))[1]
        how = "comment" if b"#" in first else "rows"
        return declaration.model_copy(update={"libsvm": declaration.libsvm.model_copy(update={"ids": how})})

    def matrix(self, path: Path, declaration: Declaration) -> RawTable:
        numbered = declaration.libsvm.ids == "rows"
        ids: list[str] = []
        labels: list[float] = []
        values: list[NDArray[np.float64]] = []
        indices: list[NDArray[np.int32]] = []
        lengths = [0]
        for row, line in _lines(path):
            body, _, comment = line.partition(b"#")
            label, columns, entries = _parsed(body, path, row)
            ids.append(str(row) if numbered else _id(comment, path, row))
            labels.append(label)
            indices.append(columns)
            values.append(entries)
            lengths.append(len(columns))
        first, last = _bounds(indices)
        count = declaration.libsvm.features
        if count is not None and last - min(first, 1) >= count:
            raise InvalidInput(
                f"{path}: has entries of index {last}, but features = {count} under [libsvm] in {DECLARATION_FILE}"
            )
        width = count if count is not None else last + 1 - first
        all_columns = np.concatenate([np.zeros(0, dtype=np.int32), *indices]) - np.int32(first)
        indices.clear()
        all_values = np.concatenate([np.zeros(0), *values])
        values.clear()
        X = csr_array((all_values, all_columns, np.cumsum(lengths)), shape=(len(ids), width))
        features = tuple(f"x{index}" for index in range(first, first + width))
        return RawTable(str(path), ids, features, X, np.array(labels))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, numbered from 1."""
    with path.open("rb") as file:
        row = 0
        for line in file:
            if line.strip():
                row += 1
                yield row, line


def _parsed(body: bytes, path: Path, row: int) -> tuple[float, NDArray[np.int32], NDArray[np.float64]]:
    label, *pairs = body.split(None, 1) or [b""]
    try:
        target = np.nan if label in MISSING_LABELS else float(label)
    except ValueError:
        raise InvalidInput(f"{path}: row {row}: the label is not a number; write 1 and -1 for two classes") from None
    try:
        flat = np.array(pairs[0].replace(b":", b" ").split() if pairs else [], dtype=np.float64)
        if pairs and pairs[0].count(b":") * 2 != len(flat):
            raise ValueError
    except ValueError:
        raise InvalidInput(
            f"{path}: row {row}: has an entry that is not of the form INDEX:VALUE, two numbers; correct that line"
        ) from None
    columns, values = flat[0::2], flat[1::2]
    if len(columns) and not (columns[0] >= 0 and columns[-1] < MAX_INDEX and (columns == np.rint(columns)).all()):
        raise InvalidInput(f"{path}: row {row}: an index must be a whole number from 0 to {MAX_INDEX - 1}")
    if (np.diff(columns) <= 0).any():
        raise InvalidInput(f"{path}: row {row}: indices must ascend, and none may occur twice; sort the entries")
    return target, columns.astype(np.int32), values.copy()


def _id(comment: bytes, path: Path, row: int) -> str:
    try:
        return canonical(comment.decode())
    except ValueError:
        raise InvalidInput(
            f'{path}: row {row}: has no id, in UTF-8, after "#", as other rows do; add it, or write ids = "rows" under '
            f"[libsvm] in {DECLARATION_FILE} to use the numbers of the lines"
        ) from None


def _bounds(indices: list[NDArray[np.int32]]) -> tuple[int, int]:
    """The first index, 1 unless the file counts from 0, and the last."""
    filled = [columns for columns in indices if len(columns)]
    if not filled:
        return 1, 1
    return min(1, *(int(columns[0]) for columns in filled)), max(int(columns[-1]) for columns in filled)


READER = LibsvmReader()
