"""A shard: the rows and columns of the federation's table that one party holds."""

import math
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.data.canonical import canonical
from fenchel_common.data.categories import Category, Vocabulary, expanded, expanded_names
from fenchel_common.errors import InvalidInput, Refusal

Matrix = NDArray[np.float64] | csr_array

CSR_PARTS: Final = ("data", "indices", "indptr", "shape")
SHOWN_DUPLICATES: Final = 5
DEFLATE_RATIO: Final = 1032
"""The most bytes that one deflated byte can expand to."""


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """Rows with their ids, columns with their names, and labels where the party has them.

    Attributes
    ----------
    ids
        One for each row; the same person has the same id at every party. The order has no meaning.
    features
        One name for each column; the same measurement has the same name at every party.
    X
        (rows, features), dense or CSR, finite but for NaN in cells that a run is to fill in.
    y
        (rows,) or None for a party without labels.
    imputed
        The features with such cells.
    categories
        Columns that are not features yet: which features they become is up to the run.
    weights
        (rows,) how much each sample counts, or None; only with labels.
    label_names
        What the table calls the labels −1 and +1; None if it has names for none or for several classes.
    fills
        The columns whose missing cells the table itself fills in, with the number that a feature gets there.
    """

    ids: tuple[str, ...]
    features: tuple[str, ...]
    X: Matrix
    y: NDArray[np.float64] | None
    imputed: frozenset[str] = frozenset()
    categories: tuple[Category, ...] = ()
    weights: NDArray[np.float64] | None = None
    label_names: tuple[str, str] | None = None
    fills: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.X.shape != (len(self.ids), len(self.features)):
            raise InvalidInput(
                f"X: has the shape {self.X.shape}, but there are {len(self.ids)} ids and {len(self.features)} "
                "features; give one row for each id and one column for each feature"
            )
        if not self.ids or not (self.features or self.categories):
            raise InvalidInput("X: a shard needs at least one row and one feature")
        if any(category.codes.shape != (len(self.ids),) for category in self.categories):
            raise InvalidInput(f"categories: must have a code for each of {len(self.ids)} ids")
        self._check_finite()
        if self.y is not None and self.y.shape != (len(self.ids),):
            raise InvalidInput(f"y: has the shape {self.y.shape}, but there are {len(self.ids)} ids")
        if self.y is not None and not np.isfinite(self.y).all():
            raise InvalidInput("y: has NaN or infinite labels; drop those rows first")
        self._check_weights()
        self._check_names()

    def __repr__(self) -> str:
        labels = "with" if self.y is not None else "without"
        return f"Shard({len(self.ids)} rows, {len(self.features)} features, {labels} labels)"

    def expanded(self, vocabulary: Vocabulary | None = None) -> "Shard":
        """The same rows with all categories as features; without a vocabulary, one feature for each value here."""
        chosen = Vocabulary.listed(self.categories) if vocabulary is None else vocabulary
        X, features = expanded(self.X, self.features, self.categories, chosen)
        gaps = [category for category in self.categories if category.missing]
        imputed = self.imputed | set(expanded_names((), gaps, replace(chosen, indicators=frozenset())))
        return replace(self, features=features, X=X, imputed=imputed, categories=())

    def save(self, path: Path) -> None:
        """Writes an .npz file: `ids`, `features`, `X` or the parts of a CSR matrix, and maybe `y` and `weights`."""
        assert not self.categories, "an .npz file has features alone"
        arrays: dict[str, NDArray[np.generic]] = {
            "ids": np.array(self.ids, dtype=np.str_),
            "features": np.array(self.features, dtype=np.str_),
        }
        if isinstance(self.X, csr_array):
            arrays |= {"data": self.X.data, "indices": self.X.indices, "indptr": self.X.indptr}
            arrays["shape"] = np.array(self.X.shape)
        else:
            arrays["X"] = self.X
        if self.y is not None:
            arrays["y"] = self.y
        if self.weights is not None:
            arrays["weights"] = self.weights
        with path.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path) -> "Shard":
        ids, features, X, y, weights = load_parts(path)
        return cls(ids, features, X, y, weights=weights)

    def _check_finite(self) -> None:
        """Refuses NaN but in columns that a run is to fill in, and infinite values."""
        free = np.array([name in self.imputed for name in self.features], dtype=bool)
        if isinstance(self.X, csr_array):
            entries = np.flatnonzero(~(np.isfinite(self.X.data) | (np.isnan(self.X.data) & free[self.X.indices])))
            if not len(entries):
                return
            row = int(np.searchsorted(self.X.indptr, entries[0], side="right")) - 1
            count, position = len(entries), int(self.X.indices[entries[0]])
        else:
            finite = np.isfinite(self.X)
            if free.any():
                finite |= np.isnan(self.X) & free
            if finite.all():
                return
            count = int((~finite).sum())
            row, position = divmod(int(finite.argmin()), self.X.shape[1])
        raise InvalidInput(
            f"X: row {row + 1}, column {self.features[position]!r}: is NaN or infinite, as are {count - 1} more cells; "
            "fill them in or drop these rows"
        )

    def _check_weights(self) -> None:
        if self.weights is None:
            return
        if self.y is None:
            raise InvalidInput("weights: samples without labels have no weights; leave the weights out")
        if self.weights.shape != (len(self.ids),):
            raise InvalidInput(f"weights: has the shape {self.weights.shape}, but there are {len(self.ids)} ids")
        if not (np.isfinite(self.weights) & (self.weights > 0.0)).all():
            raise InvalidInput("weights: must be positive numbers; leave out samples that are not to count")

    def _check_names(self) -> None:
        check_ids(self.ids, "ids")
        names = (*self.features, *(category.column for category in self.categories))
        if len(set(names)) != len(names):
            twice = [name for name, count in Counter(names).items() if count > 1]
            raise InvalidInput(f"features: {twice[0]!r} occurs more than once; give every column its own name")
        if any(not name for name in (*self.ids, *names)):
            raise InvalidInput("ids, features: an empty name is not allowed")


def check_ids(ids: Sequence[str], where: str) -> None:
    """Refuses ids of which one occurs twice, by the numbers of their rows: the message may stand in a log."""
    if len(set(ids)) == len(ids):
        return
    first: dict[str, int] = {}
    pairs = [(first[sample], row) for row, sample in enumerate(ids, 1) if first.setdefault(sample, row) != row]
    shown = "; ".join(f"rows {one} and {other}" for one, other in pairs[:SHOWN_DUPLICATES])
    more = f"; and {len(pairs) - SHOWN_DUPLICATES} rows more" if len(pairs) > SHOWN_DUPLICATES else ""
    raise Refusal(
        f"{where}: {shown} have the same id{more}; keep one row for each id, or make ids of several columns",
        public_reason="ids: its shard has duplicate ids",
    )


Parts = tuple[tuple[str, ...], tuple[str, ...], Matrix, NDArray[np.float64] | None, NDArray[np.float64] | None]


def load_parts(path: Path) -> Parts:
    """Ids, names of features, X, y and weights of an .npz file, each checked by itself."""
    arrays = load_arrays(path)
    for name in ("ids", "features"):
        if name not in arrays:
            raise InvalidInput(f"{name}: missing in {path}; a shard needs ids, features and X (or a CSR matrix)")
    try:
        ids, features = _ids(arrays["ids"]), _texts(arrays["features"], "features")
        y = float_array(arrays["y"], "y") if "y" in arrays else None
        weights = float_array(arrays["weights"], "weights") if "weights" in arrays else None
        return ids, features, matrix_from_arrays(arrays), y, weights
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def load_arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    """All arrays of an .npz file, none of them pickled."""
    try:
        with path.open("rb") as file:
            return arrays_in(file, source=str(path))
    except FileNotFoundError:
        raise InvalidInput(f"{path}: there is no such file") from None
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror}") from None


def arrays_in(file: IO[bytes], *, source: str) -> dict[str, NDArray[np.generic]]:
    """All arrays of an open .npz file, none of them pickled; `source` names the file in messages."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise InvalidInput(f"{source}: is a single array; save X and y together with numpy.savez")
            assert archive.zip is not None, "open until the block ends"
            for member in archive.zip.infolist():
                _check_announced_size(archive.zip, member, source)
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile):
        raise InvalidInput(f"{source}: not a readable .npz file of plain arrays; write it with numpy.savez") from None


def _check_announced_size(archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: str) -> None:
    """Refuses an array of Python objects, and one whose header announces more bytes than its file has.

    The memory for the announced size would be taken first.
    """
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError("an array of plain numbers or texts has a header of version 1 or 2")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
        if dtype.hasobject:
            name = member.filename.removesuffix(".npy")
            raise InvalidInput(
                f"{source}: {name}: is an array of Python objects, which are not read for safety; save "
                f"{name}.astype(str) for texts or {name}.astype(float) for numbers"
            )
        announced = file.tell() + math.prod(shape) * dtype.itemsize
    if announced != member.file_size or member.file_size > DEFLATE_RATIO * max(member.compress_size, 1):
        raise ValueError("an array is not as large as it says")


def matrix_from_arrays(arrays: Mapping[str, NDArray[np.generic]]) -> Matrix:
    """`X`, or the CSR matrix whose parts are `data`, `indices`, `indptr` and `shape`, checked to be consistent."""
    if "X" in arrays:
        dense = float_array(arrays["X"], "X")
        if dense.ndim != 2:
            raise InvalidInput(f"X: must have two dimensions, not {dense.ndim}")
        return dense
    missing = [part for part in CSR_PARTS if part not in arrays]
    if missing:
        raise InvalidInput(f"X: missing; give X, or a CSR matrix as {', '.join(CSR_PARTS)}")
    indices, indptr, shape = (_int_array(arrays[part], part) for part in CSR_PARTS[1:])
    data = float_array(arrays["data"], "data")
    if shape.shape != (2,) or (shape < 0).any():
        raise InvalidInput("shape: must be two numbers, rows and columns")
    try:
        matrix = csr_array((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise InvalidInput(f"data, indices, indptr, shape: not a CSR matrix: {error}") from None
    matrix.sum_duplicates()
    return matrix


def float_array(array: NDArray[np.generic], field: str) -> NDArray[np.float64]:
    if array.dtype.kind not in "fiub":
        raise InvalidInput(f"{field}: must be numbers, not {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64)


def _int_array(array: NDArray[np.generic], field: str) -> NDArray[np.int64]:
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InvalidInput(f"{field}: must be a one-dimensional array of integers")
    return array.astype(np.int64)


def _ids(array: NDArray[np.generic]) -> tuple[str, ...]:
    """The canonical texts of ids that are texts or numbers."""
    if array.ndim != 1 or array.dtype.kind not in "Uiuf":
        raise InvalidInput("ids: must be a one-dimensional array of texts or whole numbers")
    found = []
    for row, value in enumerate(_texts(array, "ids") if array.dtype.kind == "U" else array.tolist(), 1):
        try:
            found.append(canonical(value))
        except ValueError as error:
            raise InvalidInput(f"ids: row {row}: the id {error}; give every row an id of its own") from None
    return tuple(found)


def _texts(array: NDArray[np.generic], field: str) -> tuple[str, ...]:
    if array.dtype.kind != "U" or array.ndim != 1:
        raise InvalidInput(f"{field}: must be a one-dimensional array of texts")
    codes = np.frombuffer(array.astype(array.dtype.newbyteorder("<")).tobytes(), dtype="<u4")
    if ((codes > sys.maxunicode) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any():
        raise InvalidInput(f"{field}: has characters that Unicode does not have")
    return tuple(str(text) for text in array)
