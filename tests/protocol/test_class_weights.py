"""Several classes with weights of classes and samples: every class reaches scikit-learn's optimum for these weights."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.classlabels import class_code
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidConfig, InvalidInput
from fenchel_common.labelrules import LabelRules
from fenchel_common.labelscaling import LabelScaling
from fenchel_common.losses import LOSSES
from fenchel_common.model import read_model
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import PREPARE
from fenchel_deploy.folders import whole_model
from fenchel_server.store import RunStatus
from support.federation import InProcessFederation

Array = NDArray[np.float64]

NAMES = ("red", "green", "blue")
FEATURES = tuple(f"x{column}" for column in range(6))
LAMBDA, GAP, ROWS = 0.05, 1e-4, 90
RNG = np.random.default_rng(11)
KIND = RNG.permutation(np.repeat([0, 1, 2], [50, 30, 10]))
X = RNG.standard_normal((ROWS, 6)) + RNG.standard_normal((3, 6))[KIND]
WEIGHTS = RNG.uniform(0.5, 3.0, size=ROWS)


def sites(*, weighted: bool) -> dict[str, Shard]:
    """Two parties have the labels of the same samples; of the others one party has the labels, and one has none."""
    y = np.array([class_code(NAMES[kind]) for kind in KIND])

    def held(rows: range, columns: range, *, labels: bool) -> Shard:
        ids, names, own = tuple(f"s{row}" for row in rows), tuple(FEATURES[column] for column in columns), list(rows)
        given = WEIGHTS[own] if labels and weighted else None
        return Shard(ids, names, X[np.ix_(own, list(columns))], y[own] if labels else None, weights=given)

    return {
        "p1": held(range(50), range(3), labels=True),
        "p2": held(range(50), range(3, 6), labels=True),
        "p3": held(range(50, ROWS), range(3), labels=True),
        "p4": held(range(50, ROWS), range(3, 6), labels=False),
    }


def config(settings: Mapping[str, object], **changes: object) -> RunConfig:
    values: dict[str, object] = {
        "name": "test",
        "privacy": "plain",
        "benchmark": True,
        "key": {"bits": 2048},
        "alignment": "hmac",
        "settings": {"lambda": LAMBDA, "loss": "logistic", "classes": NAMES, **settings},
        "stop": {"gap": GAP},
        "seed": 1,
    }
    return RunConfig.from_mapping(values | changes)


def trained(directory: Path, shards: Mapping[str, Shard], terms: RunConfig) -> tuple[Array, InProcessFederation]:
    run = InProcessFederation(directory, shards, terms, release_model_to_server=False)
    ending = run.drive()
    assert ending.status is RunStatus.COMPLETED, ending.reason
    return whole_model(map(read_model, directory.glob("*/*.model")), FEATURES), run


def objective(w: Array, y: Array, weights: Array) -> float:
    return float(LAMBDA / 2.0 * w @ w + (weights * LOSSES["logistic"].value(X @ w, y)).mean())


@pytest.mark.parametrize(
    ("chosen", "weighted"), [("balanced", False), ({"red": 0.5, "blue": 4.0}, False), ("balanced", True)]
)
def test_every_class_reaches_the_optimum_of_scikit_learn(
    tmp_path: Path, chosen: str | dict[str, float], weighted: bool
) -> None:
    settings = {"class_weight": chosen, "sample_weights": weighted}
    model, run = trained(tmp_path, sites(weighted=weighted), config(settings))
    phases = [phase.phase for phase in run.transport.phases if phase.round == 0]
    assert (phases[-2] == PREPARE) == (chosen == "balanced")
    for code, name in enumerate(NAMES):
        y = np.where(code == KIND, 1.0, -1.0)
        by_class = {1.0: chosen.get(name, 1.0)} if isinstance(chosen, dict) else chosen
        counted = compute_sample_weight({-1.0: 1.0, **by_class} if isinstance(by_class, dict) else by_class, y)
        solver = LogisticRegression(C=1.0 / (LAMBDA * ROWS), fit_intercept=False, tol=1e-10, max_iter=10_000)
        if weighted:
            counted *= WEIGHTS
            solver.fit(X, y, sample_weight=counted)
        else:
            solver.set_params(class_weight=by_class).fit(X, y)
        best = objective(np.ravel(solver.coef_), y, counted)
        assert best - 1e-7 <= objective(model[:, code], y, counted) <= best + GAP


def test_encrypted_runs_give_the_models_of_a_run_in_clear_to_the_last_bit(tmp_path: Path) -> None:
    settings, sealed = {"class_weight": "balanced", "sample_weights": True}, {"privacy": "sealed", "benchmark": False}
    ways: dict[str, dict[str, object]] = {"plain": {}, "sealed": {**sealed}}
    models = [
        trained(tmp_path / name, sites(weighted=True), config(settings, stop={"gap": 5e-2}, **changes))[0]
        for name, changes in ways.items()
    ]
    assert models[0].all()
    np.testing.assert_array_equal(models[1], models[0])


def test_weights_of_classes_that_a_run_does_not_have_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"class_weight: 'pink' is no class of the run; give red, green, blue"):
        config({"class_weight": {"red": 2.0, "pink": 2.0}})
    with pytest.raises(InvalidConfig, match=r"class_weight: 'red' is no class of the run; give positive, negative"):
        config({"class_weight": {"red": 2.0}, "classes": ()})


def test_a_class_without_samples_and_one_that_is_too_rare_cannot_be_balanced() -> None:
    rules = CorrectiveSettings.parse({"classes": NAMES, "class_weight": "balanced"}).label_rules
    assert isinstance(rules, LabelRules)
    codes = [class_code(name) for name in NAMES]
    with pytest.raises(InvalidInput, match="a class has no samples, or all of them"):
        LabelScaling.of_labels(rules, np.array(codes[:2] * 5))
    with pytest.raises(InvalidInput, match="raise largest_weight"):
        LabelScaling.of_labels(rules, np.array([codes[0], *codes[1:] * 30]))
    scaling = LabelScaling.of_labels(rules, np.array([codes[0], *codes[1:] * 4]))
    assert scaling.positive == pytest.approx((4.5, 9.0 / 8.0, 9.0 / 8.0))
    assert LabelScaling.from_bytes(scaling.to_bytes()) == scaling
