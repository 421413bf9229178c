"""Data sets of the literature for experiments, from a folder of NumPy archives.

Each is a problem of two classes without missing values, at most `rows` rows drawn at random. The folder must
have: `a9a.npz` (x_train, y_train), `mnist.npz` (x_train, y_train), `covtype.npz` (X, y), `heart_disease.npz` (X with
NaN where a value is missing, y), `news20_rebuilt.npz` (the parts of a CSR matrix whose rows have the length 1, y).
`digits` and `breast_cancer` come with scikit-learn. The path of any other .npz file of a problem of two classes can
take the place of a name.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.data.datasets import BUILT_IN, Dataset, load_dataset, numbered_features, prepared
from fenchel_common.data.shard import Matrix, load_arrays, matrix_from_arrays
from fenchel_common.errors import InvalidInput

Table = tuple[Matrix, NDArray[np.bool_]]
Archive = Mapping[str, NDArray[np.generic]]


def load_collected(name: str, folder: Path | None, *, rows: int | None, seed: int = 0) -> Dataset:
    """The named data set, with all its rows if `rows` is None.

    Raises `InvalidInput` if it is unknown or its file is missing.
    """
    if name in BUILT_IN or name.endswith(".npz"):
        whole = load_dataset(name)
        chosen = _chosen(len(whole.y), rows, seed)
        return Dataset(whole.name, whole.X[chosen], whole.y[chosen], whole.features)
    if name not in READERS:
        raise InvalidInput(f"dataset: {name!r} is not one of: {', '.join([*BUILT_IN, *READERS])}")
    if folder is None or not (folder / f"{name}.npz").is_file():
        raise InvalidInput(f"{name}: needs {name}.npz; name the folder that has it with --data")
    X, positive = READERS[name](load_arrays(folder / f"{name}.npz"))
    chosen, features = _chosen(len(positive), rows, seed), numbered_features(X.shape[1])
    if name in UNIT_ROWS:
        return Dataset(name, X[chosen], np.where(positive[chosen], 1.0, -1.0), features)
    return prepared(name, X[chosen], positive[chosen], features)


def _chosen(count: int, rows: int | None, seed: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(seed).permutation(count)[:rows])


def _a9a(archive: Archive) -> Table:
    return archive["x_train"].astype(np.float64), archive["y_train"].astype(np.int64) > 0


def _mnist(archive: Archive) -> Table:
    images = archive["x_train"].astype(np.float64)
    return images.reshape(len(images), -1), archive["y_train"].astype(np.int64) % 2 == 0


def _covtype(archive: Archive) -> Table:
    return archive["X"].astype(np.float64), archive["y"].astype(np.int64) == 2


def _heart_disease(archive: Archive) -> Table:
    X = archive["X"].astype(np.float64)
    return np.where(np.isnan(X), np.nanmean(X, axis=0), X), archive["y"].astype(np.int64) > 0


def _news20(archive: Archive) -> Table:
    return matrix_from_arrays(archive), archive["y"].astype(np.int64) > 0


READERS: Final[Mapping[str, Callable[[Archive], Table]]] = {
    "a9a": _a9a,
    "mnist": _mnist,
    "covtype": _covtype,
    "heart_disease": _heart_disease,
    "news20_rebuilt": _news20,
}
UNIT_ROWS: Final = frozenset({"news20_rebuilt"})
"""The sets that are used as they are: their rows have the length 1."""
