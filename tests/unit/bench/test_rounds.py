"""The bench of rounds: its fast simulation, its data sets, its summary."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidInput
from fenchel_common.objectives import primal
from fenchel_deploy.bench.fastpartial import FastPartial
from fenchel_deploy.bench.faststeps import FastSteps
from fenchel_deploy.bench.rounds import Sweep, run, summarise
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.experiments.collections import load_collected
from fenchel_deploy.inprocess.halves import hyfdca_halves
from support.problems import problem


@pytest.mark.parametrize("grid", [(2, 2), (4, 1), (1, 4)])
@pytest.mark.parametrize(
    "values",
    [{"local": "paper", "h": 7}, {"local": "paper", "h": 7, "row_norm": "unit"}, {"local": "theory"}],
    ids=["paper", "unit rows", "theory"],
)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_fast_simulation_equals_the_real_halves_up_to_fixed_point(
    grid: tuple[int, int], values: dict[str, object], loss: str
) -> None:
    case = problem(rows=150, columns=8, lambda_=0.05, loss=loss)
    shards = partition(case.data, grid=grid)
    settings = HyfdcaSettings.parse({"lambda": 0.05, "loss": loss, "seed": 3, "stop": {"gap": None}, **values})
    real, fast = hyfdca_halves(shards, settings), FastSteps(case.data, shards, settings)
    for _ in range(20):
        real.round()
        # The real halves tell the model that entered the round.
        np.testing.assert_allclose(fast.model(), real.weights(case.data.features), atol=1e-7)
        fast.round()
    assert fast.primal() == pytest.approx(case.primal(fast.model()), abs=1e-12)


@pytest.mark.parametrize("grid", [(2, 2), (4, 1), (1, 4)])
@pytest.mark.parametrize("participation", ["fraction:0.5", "fraction:0.75", "cyclic:2"])
@pytest.mark.parametrize(
    "values",
    [
        {"local": "paper", "h": 7, "certificate_every": 0},
        {"local": "theory", "certificate_every": 3},
        {"local": "paper", "h": 7, "certificate_every": 0, "second_inner_product": False},
    ],
    ids=["paper", "theory", "one inner product"],
)
def test_with_some_parties_the_fast_simulation_equals_the_real_halves_at_the_certificates(
    grid: tuple[int, int], participation: str, values: dict[str, object]
) -> None:
    """A closing round makes the model of α, and certifies it."""
    case = problem(rows=60, columns=6, lambda_=0.05)
    shards = partition(case.data, grid=grid)
    settings = HyfdcaSettings.parse(
        {"lambda": 0.05, "seed": 3, "participation": participation, "stop": {"gap": None}, **values}
    )
    for rounds in (3, 12):
        real, fast = hyfdca_halves(shards, settings), FastSteps(case.data, shards, settings)
        for _ in range(rounds):
            real.round()
            fast.round()
        assert real.round(closing=True).metrics.gap is not None
        np.testing.assert_allclose(fast.model(), real.weights(case.data.features), atol=1e-7)


@pytest.mark.parametrize("grid", [(2, 2), (4, 1), (1, 3)])
@pytest.mark.parametrize("participation", ["fraction:0.5", "fraction:0.8", "cyclic:2"])
def test_corrective_rounds_of_some_parties_equal_those_of_the_real_halves(
    grid: tuple[int, int], participation: str
) -> None:
    """A closing round measures the model with which the run ends."""
    case = problem(rows=60, columns=6, lambda_=0.05)
    shards = partition(case.data, grid=grid)
    settings = PartialSettings.parse(
        {"lambda": 0.05, "seed": 3, "participation": participation, "stop": {"gap": None}, "certificate_every": 0}
    )
    real, fast = hyfdca_halves(shards, settings), FastPartial(case.data, shards, settings)
    for _ in range(7):
        real.round()
        fast.round()
    metrics = real.round(closing=True).metrics
    ending = fast.ending()
    assert metrics.dual == pytest.approx(ending.dual, abs=1e-6)
    assert metrics.primal == pytest.approx(ending.primal, abs=1e-6)
    np.testing.assert_allclose(ending.model, real.weights(case.data.features), atol=1e-4)


def test_a_sweep_gives_a_row_for_each_setting_method_and_h_and_names_what_it_left_out() -> None:
    sweep = Sweep(
        datasets=["breast_cancer", "a9a"], lambdas=[1e-1], grids=[(2, 2), (2, 99)], columns=["contiguous"], rows=150
    )
    told: list[str] = []
    report = run(sweep, folder=None, repeat_encrypted=False, tell=told.append)
    assert [(row["method"], row["h"]) for row in report["results"]] == [
        *(("paper", h) for h in (1, 4, 16, 64, 256)),
        ("theory", "auto"),
        ("corrective", None),
    ]
    own = report["results"][-1]
    assert own["rounds_1e2"] <= own["rounds_1e3"] <= 10
    assert (own["monotone"], own["diverged"]) == (True, False)
    assert report["skipped"] == ["a9a: needs a9a.npz; name the folder that has it with --data"]
    assert any("2x99" in line for line in told)


def test_two_processes_measure_the_same_as_one() -> None:
    sweep = Sweep(
        lambdas=[1e-1],
        grids=[(2, 2), (1, 2)],
        columns=["contiguous"],
        methods=["corrective"],
        rows=60,
        participation=["cyclic:2"],
    )
    rows = [
        [
            {**row, "cpu_seconds": None}
            for row in run(each, folder=None, repeat_encrypted=False, tell=lambda _: None)["results"]
        ]
        for each in (sweep, replace(sweep, processes=2))
    ]
    assert [row["grid"] for row in rows[0]] == ["2x2", "1x2"]
    assert rows[0] == rows[1]


def test_the_rounds_of_corrective_are_those_before_the_one_that_certifies() -> None:
    sweep = Sweep(lambdas=[1e-1], grids=[(2, 2)], columns=["contiguous"], methods=["corrective"], rows=150)
    (row,) = run(sweep, folder=None, repeat_encrypted=False, tell=lambda _: None)["results"]
    data = load_collected("digits", None, rows=150)
    settings = CorrectiveSettings.parse({"lambda": 1e-1, "stop": {"gap": None}})
    federation = hyfdca_halves(partition(data, grid=(2, 2)), settings)
    optimum = solve_centralized(data.X, data.y, loss=settings.loss_function, lambda_=1e-1).primal
    errors = []
    for _ in range(row["rounds_1e3"] + 1):
        federation.round()
        w = federation.weights(data.features)
        errors.append(primal(data.X, data.y, w, loss=settings.loss_function, lambda_=1e-1) / optimum - 1.0)
    assert errors[-1] <= 1e-3 < errors[-2]
    assert row["last_error"] == errors[-1]


def row(method: str, h: int | None, rounds: int | None, **values: Any) -> dict[str, Any]:
    setting = {"dataset": "d", "lambda": 1e-3, "grid": "2x2", "columns": "contiguous", "loss": "hinge"}
    setting |= {"participation": "all", "seed": 0}
    rest = {"method": method, "h": h, "rounds_1e3": rounds, "monotone": True, "diverged": False}
    return setting | rest | values


def test_the_summary_compares_with_the_best_h_and_bounds_what_was_not_reached() -> None:
    results = [row("paper", 1, None, diverged=True), row("paper", 4, 100), row("corrective", None, 10)]
    results += [row("paper", 1, None, grid="4x4"), row("corrective", None, 20, grid="4x4")]
    summary = summarise(results, 399)
    assert summary["median_ratio"] == pytest.approx((0.1 + 20 / 400) / 2)
    assert summary["ninth_decile_ratio"] == summary["worst_ratio"] == pytest.approx(0.1)
    assert (summary["compared"], summary["paper_unreached"], summary["corrective_worse"]) == (2, 1, 0)
    assert (summary["paper_diverged"], summary["corrective_diverged"]) == (1, 0)


def test_the_summary_tells_rules_of_participation_and_seeds_apart() -> None:
    results = [
        row(method, h, rounds, participation=rule, seed=seed)
        for rule, seed, own in (("all", 0, 10), ("all", 1, 20), ("cyclic:2", 0, 50), ("cyclic:2", 1, 200))
        for method, h, rounds in (("paper", 4, 100), ("corrective", None, own))
    ]
    summary = summarise(results, 400)
    assert (summary["settings"], summary["compared"]) == (4, 4)
    assert summary["by_participation"] == {
        "all": {"median_ratio": pytest.approx(0.15), "ninth_decile_ratio": 0.2, "worst_ratio": 0.2},
        "cyclic:2": {"median_ratio": 1.25, "ninth_decile_ratio": 2.0, "worst_ratio": 2.0},
    }


def test_a_sweep_over_rules_and_seeds_names_both_in_its_rows_and_draws_by_the_seed() -> None:
    sweep = Sweep(
        lambdas=[1e-1],
        grids=[(2, 2)],
        columns=["contiguous"],
        methods=["theory", "corrective"],
        participation=["all", "fraction:0.5"],
        seeds=[4, 5],
        maximum_rounds=6,
        rows=60,
    )
    results = run(sweep, folder=None, repeat_encrypted=False, tell=lambda _: None)["results"]
    assert [(row["participation"], row["seed"], row["method"]) for row in results] == [
        (rule, seed, method)
        for rule in ("all", "fraction:0.5")
        for seed in (4, 5)
        for method in ("theory", "corrective")
    ]
    last = {(row["participation"], row["seed"]): row["last_error"] for row in results if row["method"] == "theory"}
    assert last["fraction:0.5", 4] != last["fraction:0.5", 5]
    assert last["all", 4] == last["all", 5], "these steps update all samples, and draw none"


def test_collected_data_sets_are_read_imputed_and_cut_to_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    X[0, 1] = np.nan
    np.savez(tmp_path / "heart_disease.npz", X=X, y=rng.integers(0, 5, size=40))
    images = rng.integers(0, 255, size=(30, 4, 4)).astype(np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=images, y_train=np.arange(30, dtype=np.uint8) % 10)
    heart = load_collected("heart_disease", tmp_path, rows=25)
    assert heart.X.shape == (25, 3)
    assert np.isfinite(np.asarray(heart.X)).all()
    assert set(heart.y) == {-1.0, 1.0}
    assert load_collected("mnist", tmp_path, rows=100).X.shape == (30, 16)
    assert len(load_collected("digits", None, rows=50).y) == 50


@pytest.mark.parametrize(("name", "message"), [("covtype", "needs covtype.npz"), ("iris", "is not one of")])
def test_a_data_set_that_is_missing_or_unknown_is_named(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_collected(name, tmp_path, rows=10)
