"""Features scaled by extremes or quartiles over all holders, which encrypted counts alone find."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_client.party import Party
from fenchel_client.task import Task
from fenchel_common.data.shard import Shard
from fenchel_common.errors import DataUnfit, InvalidConfig, Refusal
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.losses import LOSSES
from fenchel_common.model import read_model
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import INTRODUCE, LAYOUT, PREPARE, ROWS, SEARCH
from fenchel_common.wire.setup import terms_to_bytes
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.folders import whole_model
from fenchel_server.store import RunStatus
from support.federation import InProcessFederation, handler_of
from support.records import RUN

Array = NDArray[np.float64]

FIRST = ClientId("p1")
LAMBDA = 0.01
NAMES = ("age", "bilirubin", "constant", "huge", "own", "rare", "stage", "time")
SHARED = list(range(8))
N = 60


def pooled_table() -> tuple[Array, Array]:
    """Negative, huge and tied values, a constant, a column of nine values, missing cells, and labels."""
    rng = np.random.default_rng(12)
    y = np.where(rng.random(N) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(N, len(NAMES))) + 0.4 * y[:, np.newaxis]
    X[:, 0] = np.rint(50.0 + 10.0 * X[:, 0])
    X[:, 1] = -np.exp(X[:, 1])
    X[:, 2] = 0.1
    X[:, 3] *= 1e9
    X[:, 6] = rng.integers(0, 3, size=N)
    X[:, 7] = 1.7e9 + 20.0 * X[:, 7]
    X[rng.random(X.shape) < 0.1] = np.nan
    X[9:, 5] = np.nan
    X[:9, 5] = np.arange(9.0)
    return X, y


X, Y = pooled_table()


def held(rows: range, columns: list[int], *, labels: bool = True) -> Shard:
    part, names = X[np.ix_(rows, columns)], tuple(NAMES[column] for column in columns)
    imputed = frozenset(name for name, column in zip(names, part.T, strict=True) if np.isnan(column).any())
    return Shard(tuple(f"s{row}" for row in rows), names, part, Y[list(rows)] if labels else None, imputed)


def clinics_and_lab() -> dict[str, Shard]:
    """Three clinics with the same features, and a lab that alone has one."""
    shared = [column for column in SHARED if NAMES[column] != "own"]
    return {
        "p1": held(range(20), shared),
        "p2": held(range(20, 40), shared),
        "p3": held(range(40, N), shared),
        "p4": held(range(N), [NAMES.index("own")], labels=False),
    }


def config(scale: str, *, features: Mapping[str, object] | None = None, **changes: object) -> RunConfig:
    values: dict[str, object] = {
        "name": "test",
        "privacy": "plain",
        "benchmark": True,
        "key": {"bits": 2048},
        "alignment": "hmac",
        "settings": {"lambda": LAMBDA},
        "stop": {"gap": 1e-4},
        "features": {"scale": scale} | dict(features or {}),
        "acknowledge_extremes": True,
    }
    return RunConfig.from_mapping(values | changes)


def expected(scale: str) -> tuple[Array, Array]:
    """The shift and scale of each feature, from the pooled table by numpy."""
    shift, divisor = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    for position, name in enumerate(NAMES):
        column = X[~np.isnan(X[:, position]), position].astype(np.float32).astype(np.float64)
        lower, median, upper = np.quantile(column, [0.25, 0.5, 0.75], method="inverted_cdf")
        if name == "constant":
            divisor[position] = 1.0
        elif name in ("rare", "time"):
            continue  # Too few values, and values too close together: standardised.
        elif scale == "minmax":
            shift[position], divisor[position] = column.min(), column.max() - column.min()
        else:
            shift[position], divisor[position] = median, upper - lower
    return shift, divisor


def prepared(scale: str) -> Array:
    shift, divisor = expected(scale)
    return (np.where(np.isnan(X), np.nanmean(X, axis=0), X) - shift) / divisor


def figures_in(directory: Path, name: str) -> Array:
    """(m,) shift or scale of each feature, from the files of all models."""
    found: dict[str, float] = {}
    for path in directory.glob("*/*.model"):
        for feature in read_model(path).record.features:
            value = getattr(feature, name)
            assert found.setdefault(feature.name, value) == value, "the same at every holder"
    return np.array([found[feature] for feature in NAMES])


def model_in(directory: Path) -> Array:
    return whole_model(map(read_model, directory.glob("*/*.model")), NAMES)


def check_optimal(w: Array, table: Array, *, gap: float) -> None:
    best = solve_centralized(table, Y, loss=LOSSES["hinge"], lambda_=LAMBDA).primal
    assert best - 1e-6 <= primal(table, Y, w, loss=LOSSES["hinge"], lambda_=LAMBDA) <= best + gap + 1e-6


def driven(directory: Path, terms: RunConfig) -> InProcessFederation:
    run = InProcessFederation(directory, clinics_and_lab(), terms, release_model_to_server=False)
    assert run.drive().status is RunStatus.COMPLETED
    return run


@pytest.mark.parametrize("scale", ["minmax", "quantile"])
def test_the_model_is_that_of_the_pooled_table_scaled_in_one_place(
    tmp_path: Path, scale: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "fenchel_client.firstresults"):
        run = driven(tmp_path, config(scale))
    shift, divisor = expected(scale)
    searched = ~np.isin(NAMES, ["constant", "rare", "time"])
    np.testing.assert_array_equal(figures_in(tmp_path, "shift")[searched], shift[searched])
    np.testing.assert_array_equal(figures_in(tmp_path, "scale")[searched], divisor[searched])
    np.testing.assert_allclose(figures_in(tmp_path, "shift"), shift, rtol=1e-12)
    np.testing.assert_allclose(figures_in(tmp_path, "scale"), divisor, rtol=1e-6)
    check_optimal(model_in(tmp_path), prepared(scale), gap=1e-4)
    phases = [phase.phase for phase in run.transport.phases if phase.round == 0]
    assert phases[-2 - len(SEARCH) :] == [LAYOUT, PREPARE, *SEARCH]
    said = [record.message for record in caplog.records if record.name == "fenchel_client.firstresults"]
    few = [one for one in said if "'rare': fewer than 10 values at all holders together" in one]
    same = [one for one in said if "'constant': all values are the same at all holders together" in one]
    assert (len(few), len(same), len(said)) == (3, 3, 6)


def test_prepared_values_are_between_0_and_1() -> None:
    table = prepared("minmax")[:, ~np.isin(NAMES, ["constant", "rare", "time"])]
    np.testing.assert_allclose([table.min(), table.max()], [0.0, 1.0], atol=1e-6)


def test_ciphers_give_the_same_model_to_the_last_bit(tmp_path: Path) -> None:
    for cipher in ("paillier", "masks"):
        terms = config("quantile", privacy="sealed", benchmark=False, cipher=cipher, precision=64, stop={"gap": 1e-3})
        driven(tmp_path / cipher, terms)
    driven(tmp_path / "plain", config("quantile", stop={"gap": 1e-3}))
    for name in ("shift", "scale"):
        figures = [figures_in(tmp_path / cipher, name) for cipher in ("paillier", "masks", "plain")]
        np.testing.assert_array_equal(figures[0], figures[1])
        np.testing.assert_array_equal(figures[0], figures[2])
    np.testing.assert_array_equal(model_in(tmp_path / "paillier"), model_in(tmp_path / "masks"))
    check_optimal(model_in(tmp_path / "masks"), prepared("quantile"), gap=1e-3)


def test_rows_of_length_one_and_an_intercept_follow_on_the_search(tmp_path: Path) -> None:
    run = driven(tmp_path, config("minmax", features={"rows": "unit", "intercept": True}))
    phases = [phase.phase for phase in run.transport.phases if phase.round == 0]
    assert phases[-2:] == [SEARCH[-1], ROWS]
    np.testing.assert_allclose(figures_in(tmp_path, "scale"), expected("minmax")[1], rtol=1e-6)


@pytest.mark.parametrize("moment", [PREPARE, SEARCH[3], SEARCH[-1], "local_dual"])
def test_a_party_may_restart_in_the_midst_of_the_search(tmp_path: Path, moment: str) -> None:
    run = InProcessFederation(tmp_path, clinics_and_lab(), config("minmax"), release_model_to_server=False)
    restarted: list[str] = []

    def restart(phase: object) -> None:
        if getattr(phase, "phase", "") == moment and not restarted:
            restarted.append(moment)
            old = run.parties[FIRST]
            fresh = Party(old._live_kit, clinics_and_lab()["p1"], state=tmp_path / "p1", consent=old._consent)
            run.transport.restart(FIRST, handler_of(fresh))

    run.transport.after_phase = restart
    assert run.drive().status is RunStatus.COMPLETED
    assert restarted
    check_optimal(model_in(tmp_path), prepared("minmax"), gap=1e-4)


@pytest.mark.parametrize("again", [SEARCH[1], SEARCH[4]])
def test_a_step_out_of_turn_is_refused(tmp_path: Path, again: str) -> None:
    run = InProcessFederation(tmp_path, clinics_and_lab(), config("minmax"), release_model_to_server=False)
    party = run.parties[FIRST]
    refused: list[str] = []

    def handle(task: Task) -> bytes:
        answer = party.handle(task)
        if task.phase == SEARCH[1]:
            with pytest.raises(Refusal, match="out of turn"):
                party.handle(replace(task, phase=again))
            refused.append(again)
        return answer

    run.transport.restart(FIRST, handle)
    assert run.drive().status is RunStatus.COMPLETED
    assert refused


@pytest.mark.parametrize("scale", ["minmax", "quantile"])
def test_a_sparse_table_is_refused(tmp_path: Path, scale: str) -> None:
    run = InProcessFederation(tmp_path, clinics_and_lab(), config(scale), release_model_to_server=False)
    old, shard = run.parties[FIRST], clinics_and_lab()["p1"]
    sparse = Shard(shard.ids, shard.features, csr_array(np.ones((len(shard.ids), len(shard.features)))), shard.y)
    party = Party(old._live_kit, sparse, state=tmp_path / "other", consent=old._consent)
    with pytest.raises(DataUnfit, match="the table is sparse, and the run shifts features"):
        party.handle(Task(RUN, RoundId(0), INTRODUCE, terms_to_bytes(config(scale))))


@pytest.mark.parametrize("scale", ["minmax", "quantile"])
def test_extremes_must_be_acknowledged(scale: str) -> None:
    with pytest.raises(InvalidConfig, match="values of single samples; set acknowledge_extremes = true"):
        config(scale, acknowledge_extremes=False)


def test_fewer_than_ten_values_are_never_enough() -> None:
    with pytest.raises(InvalidConfig, match=r"features\.fewest_values = 9: must be greater than or equal to 10"):
        config("minmax", features={"fewest_values": 9})
