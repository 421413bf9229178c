"""Rows divided by their lengths over all holders: the model is that of the pooled table, divided in one place."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.svm import SVC

from fenchel_client.party import Party
from fenchel_common.data.shard import Shard
from fenchel_common.ids import ClientId
from fenchel_common.losses import LOSSES
from fenchel_common.model import find_model, read_model
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import LAYOUT, PREPARE, ROWS
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.folders import whole_model
from fenchel_server.store import RunStatus
from support.federation import InProcessFederation, handler_of

Array = NDArray[np.float64]

LAMBDA = 0.01
GAP = 1e-4
NAMES = tuple(f"f{column}" for column in range(6))
FIRST = ClientId("p1")
RNG = np.random.default_rng(8)
Y = np.where(RNG.random(90) < 0.5, 1.0, -1.0)
X = (RNG.normal(size=(90, 6)) + np.outer(Y, [0.5, 0.3, 0.0, 0.4, 0.1, 0.0])) * [1.0, 90.0, 3.0, 1.0, 1e4, 0.1]


def held(rows: range, columns: range, *, labels: bool) -> Shard:
    ids, names = tuple(f"s{row}" for row in rows), tuple(NAMES[column] for column in columns)
    return Shard(ids, names, X[np.ix_(rows, columns)], Y[list(rows)] if labels else None)


def clinics_and_labs() -> dict[str, Shard]:
    """The second site has no lab: its rows lack three features."""
    return {
        "p1": held(range(45), range(3), labels=True),
        "p2": held(range(45), range(3, 6), labels=False),
        "p3": held(range(45, 90), range(3), labels=True),
    }


def pooled(scale: str) -> Array:
    there = X.copy()
    there[45:, 3:] = np.nan
    if scale == "standard":
        prepared = (there - np.nanmean(there, axis=0)) / np.nanstd(there, axis=0)
    else:
        prepared = there / np.sqrt(np.nanmean(there**2, axis=0))
    prepared = np.where(np.isnan(there), 0.0, prepared)
    return np.asarray(prepared / np.linalg.norm(prepared, axis=1, keepdims=True))


def config(**changes: object) -> RunConfig:
    values: dict[str, object] = {
        "name": "test",
        "privacy": "plain",
        "benchmark": True,
        "key": {"bits": 2048},
        "alignment": "hmac",
        "settings": {"lambda": LAMBDA},
        "stop": {"gap": GAP},
        "features": {"rows": "unit"},
    }
    return RunConfig.from_mapping(values | changes)


def model_in(directory: Path) -> Array:
    parts = [read_model(path) for path in directory.glob("*/*.model")]
    assert all(part.record.unit_rows for part in parts)
    return whole_model(parts, NAMES)


def check_optimal(w: Array, prepared: Array, *, gap: float = GAP) -> None:
    best = solve_centralized(prepared, Y, loss=LOSSES["hinge"], lambda_=LAMBDA).primal
    assert best - 1e-6 <= primal(prepared, Y, w, loss=LOSSES["hinge"], lambda_=LAMBDA) <= best + gap + 1e-6


def test_the_model_is_that_of_the_pooled_table_with_rows_of_length_one(tmp_path: Path) -> None:
    run = InProcessFederation(tmp_path, clinics_and_labs(), config(), release_model_to_server=False)
    assert run.drive().status is RunStatus.COMPLETED
    check_optimal(model_in(tmp_path), pooled("standard"))
    assert [phase.phase for phase in run.transport.phases if phase.round == 0][-3:] == [LAYOUT, PREPARE, ROWS]


@pytest.mark.parametrize("local", ["paper", "theory"])
def test_other_steps_train_on_the_same_rows(tmp_path: Path, local: str) -> None:
    terms = config(settings={"lambda": 0.1, "local": local}, stop={"gap": 0.05})
    run = InProcessFederation(tmp_path, clinics_and_labs(), terms, release_model_to_server=False)
    assert run.drive().status is RunStatus.COMPLETED
    prepared, w = pooled("standard"), model_in(tmp_path)
    best = solve_centralized(prepared, Y, loss=LOSSES["hinge"], lambda_=0.1).primal
    assert primal(prepared, Y, w, loss=LOSSES["hinge"], lambda_=0.1) <= best + 0.05


def test_sparse_rows_are_divided_too(tmp_path: Path) -> None:
    shards = {
        name: Shard(shard.ids, shard.features, csr_array(shard.X), shard.y)
        for name, shard in clinics_and_labs().items()
    }
    terms = config(features={"scale": "rms", "rows": "unit"})
    run = InProcessFederation(tmp_path, shards, terms, release_model_to_server=False)
    assert run.drive().status is RunStatus.COMPLETED
    check_optimal(model_in(tmp_path), pooled("rms"))


def test_ciphers_give_the_same_model_to_the_last_bit(tmp_path: Path) -> None:
    models = []
    for cipher in ("paillier", "masks"):
        terms = config(privacy="sealed", benchmark=False, cipher=cipher, precision=64, stop={"gap": 1e-3})
        run = InProcessFederation(tmp_path / cipher, clinics_and_labs(), terms, release_model_to_server=False)
        assert run.drive().status is RunStatus.COMPLETED
        models.append(model_in(tmp_path / cipher))
    np.testing.assert_array_equal(models[0], models[1])
    check_optimal(models[0], pooled("standard"), gap=1e-3)


@pytest.mark.parametrize("moment", [ROWS, "local_dual"])
def test_a_party_that_restarts_divides_its_rows_as_before(tmp_path: Path, moment: str) -> None:
    shards = clinics_and_labs()
    run = InProcessFederation(tmp_path, shards, config(), release_model_to_server=False)
    restarted: list[str] = []

    def restart(phase: object) -> None:
        if getattr(phase, "phase", "") == moment and not restarted:
            restarted.append(moment)
            old = run.parties[FIRST]
            fresh = Party(old._live_kit, shards["p1"], state=tmp_path / "p1", consent=old._consent)
            run.transport.restart(FIRST, handler_of(fresh))

    run.transport.after_phase = restart
    assert run.drive().status is RunStatus.COMPLETED
    assert restarted
    check_optimal(model_in(tmp_path), pooled("standard"))


def test_the_intercept_is_not_divided(tmp_path: Path) -> None:
    terms = config(features={"rows": "unit", "intercept": True})
    run = InProcessFederation(tmp_path, clinics_and_labs(), terms, release_model_to_server=False)
    assert run.drive().status is RunStatus.COMPLETED
    part = find_model(tmp_path / "p1")
    intercept, gap = part.intercept, part.record.certificate.gap
    assert intercept is not None
    assert gap is not None
    w, prepared = model_in(tmp_path), pooled("standard")
    reached = LAMBDA / 2.0 * w @ w + LOSSES["hinge"].value(prepared @ w + intercept, Y).mean()
    solved = SVC(kernel="linear", C=1.0 / (LAMBDA * len(Y)), tol=1e-6).fit(prepared, Y)
    v, b = np.ravel(solved.coef_), float(np.ravel(solved.intercept_)[0])
    best = LAMBDA / 2.0 * v @ v + LOSSES["hinge"].value(prepared @ v + b, Y).mean()
    assert best - 1e-5 <= reached <= best + gap + 1e-5


def test_an_algorithm_of_whole_rows_divides_them_without_any_sum(tmp_path: Path) -> None:
    shards = {
        "p1": held(range(45), range(6), labels=True),
        "p2": held(range(45, 90), range(6), labels=True),
    }
    terms = config(algorithm="fedavg", settings={"loss": "logistic"}, stop={"gap": None, "rounds": 2})
    run = InProcessFederation(tmp_path, shards, terms, release_model_to_server=False)
    assert run.drive().status is RunStatus.COMPLETED
    assert np.isfinite(model_in(tmp_path)).all()
