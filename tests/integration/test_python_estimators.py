"""Estimators over federations of real processes: the optimum, scikit-learn's tools, and processes that end."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from fenchel import FederatedClassifier, FederatedRegressor, close_all
from fenchel_deploy.pythonapi import warm

ALPHA = 0.01
CHEAP_CHECKS = frozenset(
    {
        "check_no_attributes_set_in_init",
        "check_do_not_raise_errors_in_init_or_set_param",
        "check_estimators_unfitted",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_get_params_invariance",
        "check_set_params",
        "check_parameters_default_constructible",
        "check_dict_unchanged",
        "check_dont_overwrite_attributes",
        "check_estimators_nan_inf",
        "check_estimators_pickle",
        "check_n_features_in",
        "check_fit2d_1feature",
        "check_classifiers_one_label",
        "check_classifiers_regression_target",
        "check_supervised_y_2d",
        "check_dataframe_column_names_consistency",
    }
)
"""Checks of scikit-learn that train little; docs/python.md tells of all."""


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    yield
    children = _federations_of(psutil.Process())
    close_all()
    assert not psutil.wait_procs(children, timeout=20.0)[1]


def _federations_of(process: psutil.Process) -> list[psutil.Process]:
    """Of each federation the server, the clients, and the process of which they are forks."""
    return [child for child in process.children(recursive=True) if "fenchel_deploy" in " ".join(child.cmdline())]


@pytest.fixture(scope="module")
def classifier() -> Any:
    X, y = load_breast_cancer(return_X_y=True)
    return FederatedClassifier(alpha=ALPHA).fit(X, y)


def test_the_objective_is_within_the_gap_of_scikit_learns_on_the_pooled_table(classifier: Any) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    prepared, signs = StandardScaler().fit_transform(X), np.where(y == 1, 1.0, -1.0)
    pooled = LogisticRegression(C=1.0 / (ALPHA * len(y)), tol=1e-10, max_iter=10_000).fit(prepared, y)
    own = classifier.coef_[0] * X.std(axis=0)

    def objective(scores: Any, w: Any) -> float:
        return float(np.logaddexp(0.0, -signs * scores).mean() + ALPHA / 2.0 * (w @ w))

    least = objective(pooled.decision_function(prepared), pooled.coef_[0])
    reached = objective(classifier.decision_function(X), own)
    assert -1e-9 <= reached - least <= classifier.certificate_["gap"] <= 1e-3
    assert reached == pytest.approx(classifier.certificate_["primal"], abs=1e-6)


def test_a_second_training_uses_the_same_processes_and_gives_the_same_model_for_the_same_data(classifier: Any) -> None:
    before = {child.pid for child in _federations_of(psutil.Process())}
    X, y = load_breast_cancer(return_X_y=True)
    again = clone(classifier).fit(X, y)
    assert {child.pid for child in _federations_of(psutil.Process())} == before
    assert len(before) == 6
    assert np.array_equal(again.coef_, classifier.coef_)


def test_a_pickled_estimator_has_no_secret_and_predicts_the_same(classifier: Any) -> None:
    X, _ = load_breast_cancer(return_X_y=True)
    pickled = pickle.dumps(classifier)
    assert b"PRIVATE" not in pickled
    assert len(pickled) < 4096
    assert np.array_equal(pickle.loads(pickled).predict(X), classifier.predict(X))  # noqa: S301 - made above


def test_a_grid_search_over_an_encrypted_federation_chooses_as_over_the_pooled_table() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:200, :6], y[:200]
    options: dict[str, Any] = {"cv": 2, "scoring": "neg_log_loss"}
    alphas = (1.0, 0.01)
    federated = GridSearchCV(FederatedClassifier(gap=1e-4), {"alpha": list(alphas)}, **options).fit(X, y)
    pooled = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10))
    strengths = {"logisticregression__C": [1.0 / (alpha * 100) for alpha in alphas]}
    central = GridSearchCV(pooled, strengths, **options).fit(X, y)
    for ours, theirs in zip(*(one.cv_results_["mean_test_score"] for one in (federated, central)), strict=True):
        assert ours == pytest.approx(theirs, abs=5e-3)
    assert federated.best_index_ == central.best_index_


def test_the_distance_to_ridge_regression_is_within_what_the_gap_allows() -> None:
    X, y = load_diabetes(return_X_y=True)
    ours = FederatedRegressor(alpha=0.1, gap=1e-5, cipher="masks").fit(X, y)
    # The loss is the square, of standardised targets.
    ridge = make_pipeline(StandardScaler(), Ridge(alpha=0.1 * len(y) / 2.0)).fit(X, y)
    apart = (ours.coef_ * X.std(axis=0) - ridge[-1].coef_) / y.std()
    # P is strongly convex with modulus alpha: P(w) - P(w*) ≥ alpha/2·‖w - w*‖².
    assert 0.1 / 2.0 * (apart @ apart) <= ours.certificate_["gap"] <= 1e-5
    assert ours.intercept_ == pytest.approx(ridge[-1].intercept_ - ours.coef_ @ X.mean(axis=0), abs=0.02 * y.std())


def test_several_classes_sparse_matrices_and_weights_train() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    weighted = FederatedClassifier(cipher="masks", class_weight={"versicolor": 2.0}, alpha=1e-3)
    weighted.fit(csr_array(X), names, sample_weight=np.where(np.arange(len(y)) % 50 == 0, 0.0, 1.0))
    assert weighted.coef_.shape == (3, 4)
    assert weighted.score(X, names) > 0.9
    assert weighted.predict_proba(X).sum(axis=1) == pytest.approx(1.0)


def test_a_training_that_used_up_its_rounds_warns() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="gap"):
        FederatedClassifier(cipher="masks", gap=1e-5, max_rounds=1).fit(X, y == 1)


def test_an_interrupt_leaves_no_process_and_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[psutil.Process] = []
    folders: list[Path] = []

    def interrupted(self: Any, federation: Any, _name: str) -> Any:
        seen.extend(_federations_of(psutil.Process()))
        folders.append(federation.state.parent)
        raise KeyboardInterrupt

    X, y = load_iris(return_X_y=True)
    close_all()
    monkeypatch.setattr(warm.WarmFederation, "_followed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        FederatedClassifier(cipher="masks", grid=(1, 2)).fit(X, y == 1)
    assert len(seen) == 4
    assert not psutil.wait_procs(seen, timeout=20.0)[1]
    assert not folders[0].exists()


def test_the_processes_end_with_a_program_that_is_killed() -> None:
    program = textwrap.dedent("""
        import sys, psutil
        from sklearn.datasets import load_iris
        from fenchel import FederatedClassifier
        X, y = load_iris(return_X_y=True)
        FederatedClassifier(cipher="masks", grid=(1, 2)).fit(X, y == 1)
        print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
        sys.stdin.read()
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        children = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        assert len(children) == 4
        os.kill(process.pid, signal.SIGKILL)
    assert not psutil.wait_procs(children, timeout=30.0)[1]


@pytest.mark.parametrize("kind", [FederatedClassifier, FederatedRegressor], ids=lambda kind: kind.__name__)
def test_scikit_learns_checks_hold(kind: Any) -> None:
    checked = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(kind(grid=(1, 2), cipher="masks")):
            name = getattr(check, "func", check).__name__
            if name in CHEAP_CHECKS:
                check(estimator)
                checked.add(name)
    assert len(checked) >= 13
