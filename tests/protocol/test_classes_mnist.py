"""One-vs-rest on MNIST over four parties, a quadrant of the table each, beside scikit-learn on the whole table.

The suite trains on some of the images. FENCHEL_MNIST_ROWS=6000 trains on as many as the table of docs/losses.md.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from fenchel_common.data.datasets import Dataset, numbered_features, of_classes
from support.classes import class_run, objective, of_class

NAMES = tuple(str(digit) for digit in range(10))
LAMBDA = 2e-3
ROWS = int(os.environ.get("FENCHEL_MNIST_ROWS", "500"))


def images() -> Dataset:
    folder = os.environ.get("FENCHEL_DATA", "")
    if not folder or not (Path(folder) / "mnist.npz").exists():
        pytest.skip("FENCHEL_DATA does not name the folder with mnist.npz")
    with np.load(Path(folder) / "mnist.npz") as arrays:
        X, y = arrays["x_train"][:ROWS].reshape(ROWS, -1) / 255.0, arrays["y_train"][:ROWS].astype(np.float64)
    return of_classes(Dataset("mnist", X, y, numbered_features(X.shape[1])), NAMES)


def central_model(data: Dataset) -> NDArray[np.float64]:
    fits = [
        LogisticRegression(C=1.0 / (LAMBDA * len(data.y)), fit_intercept=False, tol=1e-8, max_iter=5000).fit(
            data.X, of_class(data, name).y
        )
        for name in NAMES
    ]
    return np.stack([fit.coef_[0] for fit in fits], axis=1)


def test_ten_digits_over_quadrants_are_told_apart_as_by_scikit_learn() -> None:
    data = images()
    stop = {"gap": 1e-4, "rounds": 60}
    run = class_run(data, loss="logistic", classes=NAMES, stop=stop, lambda_=LAMBDA)
    report = run.run()
    assert report.metrics.gap is not None
    assert report.metrics.gap <= 1e-4
    found, central = run.weights(data.features), central_model(data)
    for position, name in enumerate(NAMES):
        reached, best = (
            objective(data, name, w[:, position], loss="logistic", lambda_=LAMBDA) for w in (found, central)
        )
        assert abs(reached / best - 1.0) <= 1e-3
    predicted, expected = ((data.X @ w).argmax(axis=1) for w in (found, central))
    assert (predicted == expected).mean() >= 0.99
