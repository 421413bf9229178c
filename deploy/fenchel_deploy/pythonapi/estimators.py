"""scikit-learn estimators that train over a federation of real processes on this machine, encrypted.

The rows and columns of X are dealt out to the parties of a grid. The parties prepare the features by encrypted sums and
train with corrective steps, to the optimum of mean loss + alpha/2·‖w‖² over prepared features, which the duality gap
certifies. The fitted estimator has the weights of the features as they are in X, and no tie to the federation.
"""

import uuid
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fenchel_common.data.datasets import Dataset
from fenchel_common.data.partition import partition
from fenchel_common.model import Model
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.pythonapi.warm import train

Array = NDArray[np.float64]


class _FederatedEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What classifier and regressor have in common."""

    def __init__(
        self,
        *,
        loss: str,
        alpha: float = 1e-2,
        gap: float = 1e-3,
        max_rounds: int = 1000,
        grid: tuple[int, int] = (2, 2),
        scale: str = "standard",
        fit_intercept: bool = True,
        cipher: str = "paillier",
        key_bits: int = 2048,
        random_state: int = 0,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.gap = gap
        self.max_rounds = max_rounds
        self.grid = grid
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.cipher = cipher
        self.key_bits = key_bits
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _train(self, X: Any, y: Array, weights: Array | None, settings: Mapping[str, object]) -> tuple[Array, Array]:
        """The weights (k, m) of raw features and the intercepts (k,), for one problem or one for each class."""
        dataset = Dataset("sample", X, y, self._names(X.shape[1]), weights)
        rows, columns = (min(asked, there) for asked, there in zip(self.grid, X.shape, strict=True))
        dealt = partition(dataset, grid=(rows, columns), seed=self.random_state)
        shards = {f"party-{number}": shard for number, shard in enumerate(dealt, 1)}
        trained = train(shards, self._config(settings, X, weighted=weights is not None))
        if trained.status == "exhausted":
            warnings.warn(trained.reason, ConvergenceWarning, stacklevel=3)
        self.n_iter_ = int(trained.outcome["rounds"])
        self.certificate_ = {name: trained.outcome["certificate"][name] for name in ("primal", "dual", "gap")}
        return self._raw(trained.models, dataset.features)

    def _names(self, width: int) -> tuple[str, ...]:
        # Names by position: those of a frame may occur more than once.
        return tuple(f"x{position}" for position in range(width))

    def _config(self, settings: Mapping[str, object], X: Any, *, weighted: bool) -> RunConfig:
        scale = "rms" if self.scale == "standard" and issparse(X) else self.scale
        features = {"scale": scale, "missing": "refuse", "intercept": self.fit_intercept}
        return RunConfig.from_mapping(
            {
                "name": f"fit-{uuid.uuid4().hex}",
                "settings": {
                    "loss": self.loss,
                    "lambda": float(self.alpha),
                    **({"sample_weights": True} if weighted else {}),
                    **settings,
                },
                **({"features": features} if scale != "none" or self.fit_intercept else {}),
                "cipher": self.cipher,
                "key": {"bits": self.key_bits},
                "stop": {"gap": float(self.gap), "rounds": self.max_rounds},
                "seed": self.random_state,
            }
        )

    def _raw(self, models: tuple[Model, ...], names: tuple[str, ...]) -> tuple[Array, Array]:
        """The weights and the intercepts for features and targets as they are, from the parts of the parties."""
        weights: dict[str, Array] = {}
        shares: dict[str, Array] = {}
        for model in models:
            for feature, own in zip(model.record.features, np.atleast_2d(model.weights.T).T, strict=True):
                weights[feature.name] = own / feature.scale
                shares[feature.name] = -own * feature.shift / feature.scale
        coefficients = np.array([weights[name] for name in names]).T
        intercepts = np.sum([shares[name] for name in names], axis=0)
        whole = models[0]
        if whole.intercept is not None:
            intercepts = intercepts + whole.intercept
        if (target := whole.record.target) is not None:
            return coefficients * target.scale, intercepts * target.scale + target.shift
        return coefficients, intercepts


def _is_logistic(estimator: Any) -> bool:
    if estimator.loss == "logistic":
        return True
    raise AttributeError(f"probabilities need loss='logistic'; this estimator has loss={estimator.loss!r}")


class FederatedClassifier(ClassifierMixin, _FederatedEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A linear classifier, trained over a federation of processes on this machine.

    Several classes are trained one against the rest, in one run.

    Parameters
    ----------
    loss
        "logistic", "hinge", "smoothed_hinge" or "squared_hinge"; probabilities need "logistic".
    alpha
        The weight of ‖w‖²/2, over prepared features; the intercept is not regularised.
    gap
        Training ends at this duality gap, which bounds how far the objective is above the least possible.
    max_rounds
        Training ends after so many rounds, with a `ConvergenceWarning`.
    grid
        Row groups times column groups, a party with processes of its own for each; less for fewer rows or columns.
    scale
        How features are prepared: "standard" (of sparse matrices the root of the mean square alone), "rms" or "none".
    fit_intercept
        Whether the model has an intercept.
    cipher
        "paillier", or "masks", which costs about what no encryption costs.
    key_bits
        The size of the key, 2048 or 3072.
    class_weight
        "balanced", a mapping from classes to weights, or None.
    random_state
        The seed of how rows are dealt out, and of the run.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As scikit-learn defines them.
    coef_, intercept_
        (1, m) and (1,), or (classes, m) and (classes,): of features as they are in X.
    n_iter_
        The number of rounds.
    certificate_
        The objective (`primal`), the dual value (`dual`) and their difference (`gap`).
    """

    def __init__(
        self,
        *,
        loss: str = "logistic",
        alpha: float = 1e-2,
        gap: float = 1e-3,
        max_rounds: int = 1000,
        grid: tuple[int, int] = (2, 2),
        scale: str = "standard",
        fit_intercept: bool = True,
        cipher: str = "paillier",
        key_bits: int = 2048,
        class_weight: str | Mapping[Any, float] | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            loss=loss,
            alpha=alpha,
            gap=gap,
            max_rounds=max_rounds,
            grid=grid,
            scale=scale,
            fit_intercept=fit_intercept,
            cipher=cipher,
            key_bits=key_bits,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Trains on X (n, m), dense or sparse, and the classes y (n,); samples of weight 0 are left out."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        X, y, weights = _weighted(X, np.asarray(y), sample_weight)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} needs samples of at least 2 classes; y has one class alone")
        settings = self._class_weights()
        if len(self.classes_) == 2:
            labels = np.where(codes == 1, 1.0, -1.0)
        else:
            labels = codes.astype(np.float64)
            settings["classes"] = [str(code) for code in range(len(self.classes_))]
        self.coef_, self.intercept_ = _by_class(*self._train(X, labels, weights, settings))
        return self

    def decision_function(self, X: Any) -> Array:
        """The scores of the rows: (n,) for two classes, positive for the second one; else (n, classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores = np.asarray(X @ self.coef_.T + self.intercept_)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        found: NDArray[Any] = self.classes_[chosen]
        return found

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class (n, classes): of several classes the logistic functions over their sum."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            positive = expit(scores)
            return np.column_stack([1.0 - positive, positive])
        parts = expit(scores)
        shares: Array = parts / parts.sum(axis=1, keepdims=True)
        return shares

    def _class_weights(self) -> dict[str, object]:
        if self.class_weight is None:
            return {}
        if isinstance(self.class_weight, str):
            return {"class_weight": self.class_weight}
        names = ("negative", "positive") if len(self.classes_) == 2 else map(str, range(len(self.classes_)))
        given = [float(self.class_weight.get(name, 1.0)) for name in self.classes_.tolist()]
        return {"class_weight": dict(zip(names, given, strict=True))}


class FederatedRegressor(RegressorMixin, _FederatedEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A linear regression, trained over a federation of processes on this machine; targets are standardised.

    Parameters
    ----------
    loss
        "squared", "huber" or "epsilon_insensitive", of standardised targets.
    alpha, gap, max_rounds, grid, scale, fit_intercept, cipher, key_bits, random_state
        As for `FederatedClassifier`.

    Attributes
    ----------
    coef_, intercept_
        (m,) and a number: of features and targets as they are.
    n_iter_, certificate_, n_features_in_, feature_names_in_
        As for `FederatedClassifier`; the certificate is that of standardised targets.
    """

    def __init__(
        self,
        *,
        loss: str = "squared",
        alpha: float = 1e-2,
        gap: float = 1e-3,
        max_rounds: int = 1000,
        grid: tuple[int, int] = (2, 2),
        scale: str = "standard",
        fit_intercept: bool = True,
        cipher: str = "paillier",
        key_bits: int = 2048,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            loss=loss,
            alpha=alpha,
            gap=gap,
            max_rounds=max_rounds,
            grid=grid,
            scale=scale,
            fit_intercept=fit_intercept,
            cipher=cipher,
            key_bits=key_bits,
            random_state=random_state,
        )

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Trains on X (n, m), dense or sparse, and the numbers y (n,); samples of weight 0 are left out."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        X, y, weights = _weighted(X, np.asarray(y, dtype=np.float64), sample_weight)
        coefficients, intercepts = self._train(X, y, weights, {"target_scale": "standard"})
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])
        return self

    def predict(self, X: Any) -> Array:
        """The number predicted for each row."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_ + self.intercept_)


def _weighted(X: Any, y: NDArray[Any], sample_weight: ArrayLike | None) -> tuple[Any, NDArray[Any], Array | None]:
    """The samples with positive weights, and these weights."""
    if sample_weight is None:
        return _matrix(X), y, None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != y.shape or not np.isfinite(weights).all() or (weights < 0.0).any():
        raise ValueError("sample_weight: give a finite number of at least 0 for each sample")
    counted = weights > 0.0
    if not counted.any():
        raise ValueError("sample_weight: every weight is zero")
    if np.ptp(weights[counted]) == 0.0:
        return _matrix(X[counted]), y[counted], None
    return _matrix(X[counted]), y[counted], weights[counted]


def _matrix(X: Any) -> Any:
    made: type[Any] = csr_array  # its many signatures do not take Any
    return made(X) if issparse(X) else X


def _by_class(weights: Array, intercepts: Array) -> tuple[Array, Array]:
    return np.atleast_2d(weights), np.atleast_1d(intercepts)
