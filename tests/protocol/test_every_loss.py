"""Every loss with every local method of HyFDCA that takes it: the run ends at the centralized optimum, with proof.

The goal of each run is a certified gap of 0.1 % of the optimal objective (equations 1 and 2 of the HyFDCA paper).
"""

import math
from typing import Final

import numpy as np
import pytest
from sklearn.metrics import r2_score

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import LARGEST_TARGET, alpha_format
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.errors import InvalidConfig, InvalidInput
from fenchel_common.losses import LOSSES
from fenchel_server.contract import Outcome
from support import corrective, hyfdca
from support.problems import ClassWeight, Problem, problem
from support.simulation import Simulation

GOAL: Final = 1e-3
"""The certified gap at which the runs stop, as a fraction of the optimal objective."""
GRIDS: Final = ((2, 2), (4, 1), (1, 4))
BOUNDED: Final = [name for name, loss in LOSSES.items() if math.isfinite(loss.lipschitz)]
UNBOUNDED: Final = [name for name in LOSSES if name not in BOUNDED]


def check_end(run: Simulation, case: Problem) -> None:
    """Runs to the end, and compares what the run tells with the whole data."""
    last = run.run()
    metrics, weights = last.metrics, run.weights(case.data.features)
    assert last.outcome is Outcome.CONVERGED
    assert metrics.gap is not None
    assert metrics.gap_error is not None
    assert -1e-9 <= corrective.error_of(run, case) <= metrics.gap <= GOAL * case.optimum
    tolerated = 1e-4 * GOAL * case.optimum * run.settings.label_rules.largest
    assert 0.0 < metrics.gap_error <= tolerated, "fixed point is no part of the result"
    assert metrics.dual is not None
    assert metrics.dual <= case.optimum + metrics.gap_error
    predictions, y = case.data.X @ weights, case.labels if case.labels.ndim == 1 else case.labels[:, 0]
    if case.loss.regression:
        assert metrics.accuracy is None
        assert metrics.figures["rmse"] == pytest.approx(math.sqrt(float(((predictions - y) ** 2).mean())), rel=1e-6)
    else:
        assert metrics.accuracy == pytest.approx(float(((predictions >= 0.0) == (y > 0.0)).mean()), abs=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("grid", GRIDS)
def test_corrective_steps_reach_the_optimum(loss: str, grid: tuple[int, int]) -> None:
    case = problem(rows=120, columns=8, lambda_=0.01, loss=loss)
    run = corrective.simulation(case, grid, stop={"gap": GOAL * case.optimum, "rounds": 40})
    check_end(run, case)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("grid", GRIDS)
def test_steps_of_the_practical_variant_reach_the_optimum(loss: str, grid: tuple[int, int]) -> None:
    """Algorithm 5, with an exact dual step of each loss."""
    case = problem(rows=120, columns=8, lambda_=0.01, loss=loss)
    run = hyfdca.simulation(case, grid, stop={"gap": GOAL * case.optimum, "rounds": 500})
    check_end(run, case)


@pytest.mark.parametrize("loss", BOUNDED)
@pytest.mark.parametrize("grid", GRIDS)
def test_steps_of_the_theorems_reach_the_optimum(loss: str, grid: tuple[int, int]) -> None:
    """Algorithm 3, for losses with a bounded slope."""
    case = problem(rows=60, columns=6, lambda_=0.3, loss=loss)
    run = hyfdca.simulation(case, grid, local="theory", stop={"gap": GOAL * case.optimum, "rounds": 200})
    check_end(run, case)


@pytest.mark.parametrize("loss", [name for name, loss in LOSSES.items() if not loss.regression])
@pytest.mark.parametrize("weight", [0.2, 5.0])
def test_class_weights_reach_the_optimum_with_every_local_method(loss: str, weight: float) -> None:
    case = problem(rows=80, columns=8, lambda_=0.05, loss=loss, class_weight=(1.0, weight))
    stop = {"gap": GOAL * case.optimum, "rounds": 500}
    check_end(corrective.simulation(case, stop=stop), case)
    check_end(hyfdca.simulation(case, stop=stop), case)
    if loss in BOUNDED:
        case = problem(rows=60, columns=6, lambda_=0.3, loss=loss, class_weight=(1.0, weight))
        stop = {"gap": GOAL * case.optimum, "rounds": 500}
        check_end(hyfdca.simulation(case, local="theory", stop=stop), case)


@pytest.mark.parametrize("loss", LOSSES)
def test_sample_weights_reach_the_optimum(loss: str) -> None:
    """Beside balanced classes, if the loss has classes."""
    classes: ClassWeight = None if LOSSES[loss].regression else "balanced"
    case = problem(rows=60, columns=8, lambda_=0.1, loss=loss, class_weight=classes, sample_weights=True)
    stop = {"gap": GOAL * case.optimum, "rounds": 500}
    check_end(corrective.simulation(case, stop=stop), case)
    check_end(hyfdca.simulation(case, stop=stop), case)


@pytest.mark.parametrize("loss", [name for name, loss in LOSSES.items() if loss.regression])
def test_standardised_numbers_reach_the_optimum_and_tell_the_explained_variance(loss: str) -> None:
    """The labels are numbers about 10,000, far beyond what a run takes as it is."""
    case = problem(rows=80, columns=8, lambda_=0.1, loss=loss, target_scale="standard")
    assert np.abs(case.data.y).max() > LARGEST_TARGET
    stop = {"gap": GOAL * case.optimum, "rounds": 500}
    for run in (corrective.simulation(case, stop=stop), hyfdca.simulation(case, stop=stop)):
        check_end(run, case)
        figures = run.reports[-1].metrics.figures
        assert figures["r2"] == pytest.approx(r2_score(case.labels, case.data.X @ run.weights(case.data.features)))


@pytest.mark.parametrize("labels", ["all", "first"])
def test_an_encrypted_run_with_weights_reaches_the_optimum(labels: str) -> None:
    case = problem(rows=60, columns=6, lambda_=0.05, loss="logistic", class_weight="balanced", sample_weights=True)
    stop = {"gap": GOAL * case.optimum, "rounds": 40}
    run = corrective.at_level(case, (2, 2), "sealed", labels=labels, stop=stop)
    check_end(run, case)
    assert run.alpha(case.ids).max() > 1.0


@pytest.mark.parametrize("loss", UNBOUNDED)
def test_the_theorems_do_not_cover_a_slope_without_a_bound(loss: str) -> None:
    with pytest.raises(InvalidConfig, match=f"loss: .*bounded slope, which {loss} does not have; use local"):
        HyfdcaSettings.parse({"loss": loss, "local": "theory"})


@pytest.mark.parametrize("loss", ["squared", "epsilon_insensitive"])
@pytest.mark.parametrize("labels", ["all", "first"])
def test_encrypted_regression_reaches_the_optimum(loss: str, labels: str) -> None:
    """With a real key; dual variables beyond 1 pass, also where a party without labels checks them."""
    case = problem(rows=60, columns=6, lambda_=0.05, loss=loss)
    stop = {"gap": GOAL * case.optimum, "rounds": 40}
    run = corrective.at_level(case, (2, 2), "sealed", labels=labels, stop=stop)
    check_end(run, case)
    alpha = run.alpha(case.ids)
    assert alpha.min() < 0.0 < alpha.max()
    assert np.abs(alpha).max() < alpha_format(case.loss).bound
    if loss == "squared":
        assert np.abs(alpha).max() > 1.0


@pytest.mark.parametrize("local", ["corrective", "paper"])
def test_numbers_too_large_for_the_formats_are_refused_before_a_run(local: str) -> None:
    settings = (CorrectiveSettings if local == "corrective" else HyfdcaSettings).parse(
        {"loss": "huber", "local": local}
    )
    settings.check_labels(np.array([-LARGEST_TARGET, 0.25]))
    with pytest.raises(
        InvalidInput, match=r"must not exceed 500 in magnitude; let the run have target_scale = 'standard'"
    ) as refused:
        settings.check_labels(np.array([7531.0, 0.25]))
    assert "7531" not in str(refused.value)
