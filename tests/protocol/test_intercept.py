"""A run with an intercept: the model is that of the pooled table with an intercept that is not regularised."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC

from fenchel_client.party import Party
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidConfig
from fenchel_common.ids import ClientId
from fenchel_common.intercept import INTERCEPT
from fenchel_common.losses import LOSSES
from fenchel_common.model import find_model, read_model
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.folders import whole_model
from fenchel_server.store import Ending, RunStatus
from support.federation import InProcessFederation, handler_of

Array = NDArray[np.float64]

LAMBDA = 0.01
GAP = 1e-4
NAMES = tuple(f"f{column}" for column in range(6))
FIRST = ClientId("p1")


def table(rows: int = 100, positives: int = 10) -> tuple[Array, Array]:
    """Features that tell the classes apart only in part; a tenth of the rows is positive."""
    rng = np.random.default_rng(3)
    y = np.where(np.arange(rows) < positives, 1.0, -1.0)
    X = rng.normal(size=(rows, len(NAMES))) + np.outer(y, [0.8, 0.4, 0.0, 0.6, 0.0, 0.2])
    order = rng.permutation(rows)
    return X[order] * [1.0, 50.0, 1.0, 0.1, 1.0, 1000.0] + [0.0, 20.0, 5.0, 0.0, -3.0, 0.0], y[order]


X, Y = table()
PREPARED = (X - X.mean(axis=0)) / X.std(axis=0)


def held(rows: range, columns: range, *, labels: bool) -> Shard:
    ids, names = tuple(f"s{row}" for row in rows), tuple(NAMES[column] for column in columns)
    return Shard(ids, names, X[np.ix_(rows, columns)], Y[list(rows)] if labels else None)


def clinics_and_labs(*, labels: bool = False) -> dict[str, Shard]:
    return {
        "p1": held(range(45), range(3), labels=True),
        "p2": held(range(45), range(3, 6), labels=labels),
        "p3": held(range(45, 100), range(3), labels=True),
        "p4": held(range(45, 100), range(3, 6), labels=labels),
    }


def whole_rows() -> dict[str, Shard]:
    return {"p1": held(range(45), range(6), labels=True), "p2": held(range(45, 100), range(6), labels=True)}


def config(**changes: object) -> RunConfig:
    values: dict[str, object] = {
        "name": "test",
        "privacy": "plain",
        "benchmark": True,
        "key": {"bits": 2048},
        "alignment": "hmac",
        "settings": {"lambda": LAMBDA},
        "stop": {"gap": GAP},
        "features": {"intercept": True},
    }
    return RunConfig.from_mapping(values | changes)


def ended(directory: Path, shards: Mapping[str, Shard], terms: RunConfig) -> tuple[Ending, InProcessFederation]:
    run = InProcessFederation(directory, shards, terms, release_model_to_server=False)
    return run.drive(), run


def model_in(directory: Path) -> tuple[Array, float]:
    """Weights and intercept; the intercept is the same in the files of all parties with labels, and in no other."""
    found = set()
    parts = [read_model(path) for path in directory.glob("*/*.model")]
    for part in parts:
        assert INTERCEPT not in part.names
        assert part.record.all_features == len(NAMES)
        assert part.record.intercept == ("elsewhere" if part.intercept is None else "held")
        found |= set() if part.intercept is None else {float(part.intercept)}
    (intercept,) = found
    return whole_model(parts, NAMES), intercept


def objective(w: Array, intercept: float, loss: str, prepared: Array = PREPARED, *, y: Array = Y) -> float:
    """P without regularisation of the intercept."""
    values = LOSSES[loss].value(prepared @ w + intercept, y)
    return float(LAMBDA / 2.0 * w @ w + values.mean())


def optimum(loss: str, prepared: Array = PREPARED) -> float:
    """The least P over weights and intercept, by scikit-learn's solvers, none of which regularises the intercept."""
    strength = 1.0 / (LAMBDA * len(Y))
    solver = {
        "hinge": SVC(kernel="linear", C=strength, tol=1e-6),
        "logistic": LogisticRegression(C=strength, tol=1e-10, max_iter=10_000),
        "squared": Ridge(alpha=LAMBDA * len(Y) / 2.0),
    }[loss].fit(prepared, Y)
    return objective(np.ravel(solver.coef_), float(np.ravel(solver.intercept_)[0]), loss, prepared)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_the_certified_model_is_within_the_gap_of_the_optimum_with_an_intercept(tmp_path: Path, loss: str) -> None:
    ending, _ = ended(tmp_path, clinics_and_labs(), config(settings={"lambda": LAMBDA, "loss": loss}))
    assert ending.status is RunStatus.COMPLETED, ending.reason
    w, intercept = model_in(tmp_path)
    best = optimum(loss)
    assert best - 1e-6 <= objective(w, intercept, loss) <= best + GAP
    assert intercept < -0.3
    part = find_model(tmp_path / "p2")
    assert part.intercept is None
    certificate = part.record.certificate
    assert (certificate.dual or 1.0) <= best + 1e-6
    assert objective(w, intercept, loss) - best <= (certificate.gap or 0.0) + 1e-6


@pytest.mark.parametrize("shards", [clinics_and_labs(labels=True), whole_rows()], ids=["labels twice", "whole rows"])
def test_one_party_gives_the_constant_feature_of_a_sample_also_if_several_have_its_label(
    tmp_path: Path, shards: dict[str, Shard]
) -> None:
    ending, _ = ended(tmp_path, shards, config())
    assert ending.status is RunStatus.COMPLETED, ending.reason
    assert objective(*model_in(tmp_path), "hinge") <= optimum("hinge") + GAP


def test_ciphers_give_the_model_of_a_run_in_clear_to_the_last_bit(tmp_path: Path) -> None:
    models = []
    sealed: dict[str, object] = {"privacy": "sealed", "benchmark": False}
    ways: dict[str, dict[str, object]] = {"plain": {}, "paillier": sealed, "masks": {**sealed, "cipher": "masks"}}
    for name, changes in ways.items():
        ending, _ = ended(tmp_path / name, clinics_and_labs(), config(stop={"gap": 1e-3}, precision=64, **changes))
        assert ending.status is RunStatus.COMPLETED, ending.reason
        models.append(model_in(tmp_path / name))
    for w, intercept in models[1:]:
        np.testing.assert_array_equal(w, models[0][0])
        assert intercept == models[0][1]


def test_a_party_that_restarts_in_mid_run_goes_on_with_its_intercept(tmp_path: Path) -> None:
    shards = clinics_and_labs()
    run = InProcessFederation(tmp_path, shards, config(), release_model_to_server=False)
    restarted: list[int] = []

    def restart(phase: object) -> None:
        if getattr(phase, "round", 0) == 3 and not restarted:
            restarted.append(3)
            old = run.parties[FIRST]
            fresh = Party(old._live_kit, shards["p1"], state=tmp_path / "p1", consent=old._consent)
            run.transport.restart(FIRST, handler_of(fresh))

    run.transport.after_phase = restart
    assert run.drive().status is RunStatus.COMPLETED
    assert restarted
    assert objective(*model_in(tmp_path), "hinge") <= optimum("hinge") + GAP


def test_sparse_tables_have_an_intercept_too(tmp_path: Path) -> None:
    shards = {
        name: Shard(shard.ids, shard.features, csr_array(shard.X), shard.y)
        for name, shard in clinics_and_labs().items()
    }
    ending, _ = ended(tmp_path, shards, config(features={"scale": "rms", "intercept": True}))
    assert ending.status is RunStatus.COMPLETED, ending.reason
    prepared = X / np.sqrt((X**2).mean(axis=0))
    w, intercept = model_in(tmp_path)
    assert objective(w, intercept, "hinge", prepared) <= optimum("hinge", prepared) + GAP


def test_algorithms_without_an_intercept_and_gaps_too_small_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"features\.intercept: only algorithm = 'hyfdca' with"):
        config(settings={"lambda": LAMBDA, "local": "paper"})
    with pytest.raises(InvalidConfig, match=r"features\.intercept: only algorithm = 'hyfdca' with"):
        config(algorithm="fedavg", settings={"loss": "logistic"})
    with pytest.raises(InvalidConfig, match=r"not certified below 1e-05"):
        config(stop={"gap": 1e-6})
    with pytest.raises(InvalidConfig, match=r"settings\.intercept: the whole run has one"):
        config(settings={"intercept": True})


def test_a_column_of_the_name_of_the_constant_feature_is_refused(tmp_path: Path) -> None:
    shards = clinics_and_labs()
    p1 = shards["p1"]
    shards["p1"] = Shard(p1.ids, (INTERCEPT, *p1.features[1:]), p1.X, p1.y)
    ending, _ = ended(tmp_path, shards, config())
    assert "p1 (refused: its data do not fit this run)" in ending.reason


def test_each_of_several_classes_has_an_intercept_of_its_own(tmp_path: Path) -> None:
    kinds = np.arange(float(len(Y))) % 10.0 // 4.0  # two common classes and a rare one
    shards = {
        name: replace(shard, y=kinds[[int(one[1:]) for one in shard.ids]]) for name, shard in whole_rows().items()
    }
    settings = {"lambda": LAMBDA, "loss": "logistic", "classes": [0, 1, 2]}
    ending, _ = ended(tmp_path, shards, config(settings=settings))
    assert ending.status is RunStatus.COMPLETED, ending.reason
    part = find_model(tmp_path / "p2")
    assert part.names == NAMES
    weights, intercepts = part.weights, part.intercept
    assert intercepts is not None
    assert (weights.shape, intercepts.shape) == ((6, 3), (3,))
    for kind in range(3):
        y = np.where(kinds == kind, 1.0, -1.0)
        best = LogisticRegression(C=1.0 / (LAMBDA * len(Y)), tol=1e-10, max_iter=10_000).fit(PREPARED, y)
        least = objective(np.ravel(best.coef_), float(best.intercept_[0]), "logistic", y=y)
        assert least - 1e-6 <= objective(weights[:, kind], intercepts[kind], "logistic", y=y) <= least + GAP
