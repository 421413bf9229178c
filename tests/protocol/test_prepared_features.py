"""Features prepared by encrypted sums: the model is that of the pooled table, standardised and imputed in one place."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_client.party import Party
from fenchel_client.task import Task
from fenchel_common.data.shard import Shard
from fenchel_common.errors import DataUnfit, InvalidConfig
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.losses import LOSSES
from fenchel_common.model import read_model
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import INTRODUCE, LAYOUT, PREPARE
from fenchel_common.wire.setup import terms_to_bytes
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.folders import whole_model
from fenchel_server.store import Ending, RunStatus
from support.federation import InProcessFederation, handler_of
from support.records import RUN
from support.tables import small_dataset

Array = NDArray[np.float64]

FIRST = ClientId("p1")
LAMBDA = 0.1
DATA = small_dataset(90, 6)
"""Six features, of which each row misses some."""
UNITS = np.array([1.0, 5000.0, 0.01, 1.0, 40.0, 1e6])
SHIFTS = np.array([0.0, 20_000.0, 5.0, -3.0, 0.0, 1e7])


def table() -> Array:
    """A pooled table with columns of very different scales and missing cells."""
    X: Array = np.asarray(DATA.X, dtype=np.float64) * UNITS + SHIFTS
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    return X


TABLE = table()


def held(rows: range, columns: list[int], *, labels: bool = True, X: Array = TABLE) -> Shard:
    names = tuple(DATA.features[column] for column in columns)
    own = list(rows)
    part = X[np.ix_(own, columns)]
    imputed = frozenset(name for name, column in zip(names, part.T, strict=True) if np.isnan(column).any())
    return Shard(tuple(f"s{row}" for row in own), names, part, DATA.y[own] if labels else None, imputed)


def two_sites() -> dict[str, Shard]:
    """A clinic and a lab at each of two sites; the clinics hold the same features, and so do the labs."""
    clinic, lab = [0, 1, 2], [3, 4, 5]
    return {
        "p1": held(range(45), clinic),
        "p2": held(range(45), lab, labels=False),
        "p3": held(range(45, 90), clinic),
        "p4": held(range(45, 90), lab, labels=False),
    }


def config(**changes: object) -> RunConfig:
    values: dict[str, object] = {
        "name": "test",
        "privacy": "plain",
        "benchmark": True,
        "key": {"bits": 2048},
        "alignment": "hmac",
        "settings": {"lambda": LAMBDA},
        "stop": {"gap": 1e-5},
        "features": {},
    }
    return RunConfig.from_mapping(values | changes)


@dataclass(frozen=True)
class Trained:
    run: InProcessFederation
    ending: Ending
    directory: Path

    @property
    def w(self) -> Array:
        return whole_model(map(read_model, self.directory.glob("*/*.model")), DATA.features)

    def scaling(self, name: str) -> dict[str, float]:
        """The shift, scale or missing value of each feature, from the parties' model files."""
        found: dict[str, float] = {}
        for path in self.directory.glob("*/*.model"):
            for feature in read_model(path).record.features:
                value = getattr(feature, name)
                assert found.setdefault(feature.name, value) == value, "the same at every holder"
        return found


def trained(directory: Path, shards: Mapping[str, Shard], terms: RunConfig) -> Trained:
    run = InProcessFederation(directory, shards, terms, release_model_to_server=False)
    return Trained(run, run.drive(), directory)


def standardised(X: Array) -> Array:
    """What scikit-learn's StandardScaler and mean imputation give."""
    prepared = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    return np.where(np.isnan(prepared), 0.0, prepared)


def check_optimal(w: Array, X: Array, y: Array, *, gap: float = 1e-5) -> None:
    best = solve_centralized(X, y, loss=LOSSES["hinge"], lambda_=LAMBDA)
    reached = primal(X, y, w, loss=LOSSES["hinge"], lambda_=LAMBDA)
    assert best.primal - 1e-9 <= reached <= best.primal + 2 * gap


@pytest.mark.parametrize("algorithm", ["corrective", "paper"])
def test_the_model_is_that_of_the_pooled_standardised_table(tmp_path: Path, algorithm: str) -> None:
    settings = {"lambda": LAMBDA, "local": algorithm}
    gap = 1e-5 if algorithm == "corrective" else 1e-2
    done = trained(tmp_path, two_sites(), config(settings=settings, stop={"gap": gap}))
    assert done.ending.status is RunStatus.COMPLETED
    check_optimal(done.w, standardised(TABLE), DATA.y, gap=gap)
    means = dict(zip(DATA.features, np.nanmean(TABLE, axis=0).tolist(), strict=True))
    deviations = dict(zip(DATA.features, np.nanstd(TABLE, axis=0).tolist(), strict=True))
    assert done.scaling("shift") == pytest.approx(means, rel=1e-12)
    assert done.scaling("missing") == pytest.approx(means, rel=1e-12)
    assert done.scaling("scale") == pytest.approx(deviations, rel=1e-9)


@pytest.mark.parametrize("cipher", ["paillier", "masks"])
def test_an_encrypted_run_gives_the_same_model(tmp_path: Path, cipher: str) -> None:
    terms = config(privacy="sealed", benchmark=False, cipher=cipher, stop={"gap": 1e-3})
    done = trained(tmp_path, two_sites(), terms)
    assert done.ending.status is RunStatus.COMPLETED
    check_optimal(done.w, standardised(TABLE), DATA.y, gap=1e-3)
    phases = [phase.phase for phase in done.run.transport.phases if phase.round == 0]
    assert phases[-2:] == [LAYOUT, PREPARE]


def test_a_run_that_divides_by_the_root_of_the_mean_square_keeps_zeros(tmp_path: Path) -> None:
    X = np.where(np.random.default_rng(2).random(DATA.X.shape) < 0.6, 0.0, np.asarray(DATA.X) * UNITS)
    shards = {
        name: replace(part, X=csr_array(part.X)) if name == "p1" else part
        for name, part in {
            "p1": held(range(45), [0, 1, 2], X=X),
            "p2": held(range(90), [3, 4, 5], X=X),
            "p3": held(range(45, 90), [0, 1, 2], X=X),
        }.items()
    }
    done = trained(tmp_path, shards, config(features={"scale": "rms"}))
    assert done.ending.status is RunStatus.COMPLETED
    check_optimal(done.w, X / np.sqrt((X**2).mean(axis=0)), DATA.y)


def test_entries_that_an_earlier_party_gives_count_once(tmp_path: Path) -> None:
    shards = {"p1": held(range(60), [0, 1, 2, 3]), "p2": held(range(30, 90), [2, 3, 4, 5])}
    done = trained(tmp_path, shards, config(overlap="first"))
    assert done.ending.status is RunStatus.COMPLETED
    X = TABLE.copy()
    X[:30, 4:] = np.nan
    X[60:, :2] = np.nan
    check_optimal(done.w, standardised(X), DATA.y)


def test_a_party_that_restarts_in_mid_run_prepares_its_features_as_before(tmp_path: Path) -> None:
    shards = two_sites()
    run = InProcessFederation(tmp_path, shards, config(), release_model_to_server=False)
    restarted: list[int] = []

    def restart(phase: object) -> None:
        if getattr(phase, "round", 0) == 2 and not restarted:
            restarted.append(2)
            old = run.parties[FIRST]
            fresh = Party(old._live_kit, shards["p1"], state=tmp_path / "p1", consent=old._consent)
            run.transport.restart(FIRST, handler_of(fresh))

    run.transport.after_phase = restart
    done = Trained(run, run.drive(), tmp_path)
    assert restarted
    assert done.ending.status is RunStatus.COMPLETED
    check_optimal(done.w, standardised(TABLE), DATA.y)


def test_missing_cells_without_a_rule_and_sparse_tables_with_centring_are_refused_before_any_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    shards = two_sites()
    cases = [
        (shards["p1"], config(features=None), "cells are missing, as are some"),
        (shards["p1"], config(features={"missing": "refuse"}), "cells are missing, as are some"),
        (replace(shards["p1"], X=csr_array(np.ones((45, 3)))), config(), "the table is sparse"),
    ]
    for number, (changed, terms, reason) in enumerate(cases):
        done = trained(tmp_path / str(number), {**shards, "p1": changed}, terms)
        assert "p1 (refused: its data do not fit this run)" in done.ending.reason
        assert {phase.phase for phase in done.run.transport.phases} == {"introduce"}
        with pytest.raises(DataUnfit, match=reason):
            done.run.parties[FIRST].handle(Task(RUN, RoundId(0), INTRODUCE, terms_to_bytes(terms)))


def test_imputed_samples_need_features_of_mean_zero_and_noise_needs_fixed_ones() -> None:
    with pytest.raises(InvalidConfig, match="needs features of mean 0"):
        config(samples="impute", features=None)
    with pytest.raises(InvalidConfig, match="needs features of mean 0"):
        config(samples="impute", features={"scale": "rms"})
    config(samples="impute")
    with pytest.raises(InvalidConfig, match="does not cover a scale"):
        config(release={"epsilon": 1.0, "delta": 1e-5, "row_bound": 1.0})
