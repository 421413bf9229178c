"""Whole data sets, which demonstrations and experiments split into shards.

Conditioning. Dense columns are standardised (mean 0, variance 1; constant columns become 0); sparse columns are
divided by their largest magnitude and not centred, which would fill them. Then one factor brings the mean squared
row norm to 1. The dual step of a sample has the curvature ‖x_i‖²/(λN), so that λ means the same on every data set and
the theorems' assumption ‖x_i‖ ≤ 1 holds on average. There is no intercept, as in the paper: centred columns and
balanced classes need none.

Labels become −1 and +1; the class that sorts first becomes −1. The numbers to predict of `diabetes` are standardised.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.data.shard import Matrix, float_array, load_arrays, matrix_from_arrays
from fenchel_common.errors import InvalidInput
from fenchel_common.objectives import squared_row_norms


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """X (N, M) conditioned as the module says, y (N,) of −1 and +1 or numbers, and a name for each column.

    `weights` (N,) says how much each sample counts; None if each counts once.
    """

    name: str
    X: Matrix
    y: NDArray[np.float64]
    features: tuple[str, ...]
    weights: NDArray[np.float64] | None = None


def load_dataset(name: str) -> Dataset:
    """`breast_cancer`, `digits` (even against odd), `diabetes` (regression), or the path of an .npz file.

    The file has X, or CSR parts, and y of two classes.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if not name.endswith(".npz"):
        raise InvalidInput(f"dataset: {name!r} is unknown; give {', '.join(BUILT_IN)} or the path of an .npz file")
    arrays = load_arrays(Path(name))
    if "y" not in arrays:
        raise InvalidInput(f"y: missing in {name}; save X and y together with numpy.savez")
    X = matrix_from_arrays(arrays)
    return prepared(Path(name).stem, X, float_array(arrays["y"], "y"), numbered_features(X.shape[1]))


def numbered_features(count: int) -> tuple[str, ...]:
    """Names for columns without names: x and the number, with leading zeros so that names sort as columns do."""
    width = len(str(max(count - 1, 0)))
    return tuple(f"x{column:0{width}d}" for column in range(count))


# scikit-learn is imported only where it is used: the import takes a second in every process of a federation.


def _breast_cancer() -> Dataset:
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    features = tuple(str(name).replace(" ", "_") for name in bunch.feature_names)
    return prepared("breast_cancer", bunch.data, bunch.target, features)


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    features = tuple(str(name) for name in bunch.feature_names)
    return prepared("digits", bunch.data, bunch.target % 2 == 0, features)


def _diabetes() -> Dataset:
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    progression = np.asarray(bunch.target, dtype=np.float64)
    y = (progression - progression.mean()) / progression.std()
    return Dataset("diabetes", _conditioned(bunch.data), y, tuple(str(name) for name in bunch.feature_names))


BUILT_IN: Final[dict[str, Callable[[], Dataset]]] = {
    "breast_cancer": _breast_cancer,
    "digits": _digits,
    "diabetes": _diabetes,
}


def prepared(name: str, X: Matrix, labels: NDArray[np.generic], features: tuple[str, ...]) -> Dataset:
    """A data set of raw columns and labels of two classes, conditioned as the module says."""
    if labels.shape != (X.shape[0],) or not len(labels):
        raise InvalidInput(f"y: has the shape {labels.shape}, but X has {X.shape[0]} rows; give one label for each row")
    values = X.data if isinstance(X, csr_array) else X
    if not np.isfinite(values).all():
        raise InvalidInput("X: has NaN or infinite values; impute or drop them first")
    classes = np.unique(labels)
    if len(classes) != 2:
        raise InvalidInput(f"y: has {len(classes)} classes; keep two, or merge them into two")
    y = np.where(labels == classes[1], 1.0, -1.0)
    return Dataset(name, _conditioned(X), y, features)


def _conditioned(X: Matrix) -> Matrix:
    if isinstance(X, csr_array):
        largest = np.asarray(abs(X).max(axis=0).todense(), dtype=np.float64).reshape(-1)
        columns: Matrix = csr_array(X.multiply(1.0 / np.where(largest > 0.0, largest, 1.0)))
    else:
        deviation = X.std(axis=0)
        # A constant column's computed deviation may be a rounding error instead of zero.
        constant = deviation <= 1e-12 * np.abs(X).max(axis=0)
        columns = np.where(constant, 0.0, (X - X.mean(axis=0)) / np.where(constant, 1.0, deviation))
    mean_square = float(squared_row_norms(columns).mean())
    if mean_square == 0.0:
        raise InvalidInput("X: every column is constant, so there is nothing to learn from")
    scaled: Matrix = columns * (1.0 / np.sqrt(mean_square))
    return scaled
