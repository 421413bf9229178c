"""The optimum under a constraint, against a general solver, and what a demonstration compares with it."""

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint, minimize

from fenchel_common.algorithms.averaging.fedsgm import FedsgmSettings
from fenchel_common.data.heterogeneous import Split
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidInput
from fenchel_deploy.constrainedreference import ConstrainedProblem
from fenchel_deploy.demonstration import Demonstration, DemonstrationOptions
from support.problems import problem

DATA = problem(rows=90, columns=5, loss="logistic", lambda_=0.05).data
SHARDS = partition(DATA, grid=(3, 1))


def over(settings: FedsgmSettings) -> ConstrainedProblem:
    found = ConstrainedProblem.of(settings, SHARDS)
    assert found is not None
    return found


@pytest.mark.parametrize("lambda_", [0.0, 0.05])
@pytest.mark.parametrize("label", [-1, 1])
def test_the_constrained_optimum_is_that_of_a_general_solver(label: int, lambda_: float) -> None:
    settings = FedsgmSettings.parse({"lambda": lambda_, "tolerance": 0.5, "constrained_label": label})
    whole = over(settings)
    found = whole.solved()
    assert found is not None
    bound = NonlinearConstraint(lambda w: np.array([whole.constraint(w)]), -np.inf, 0.5)
    best = minimize(whole.objective, np.zeros(5), constraints=[bound], method="SLSQP", options={"ftol": 1e-10})
    assert whole.constraint(found.w) <= 0.5
    assert found.primal == pytest.approx(whole.objective(found.w))
    assert found.primal == pytest.approx(float(best.fun), rel=1e-3)


def test_a_constraint_that_does_not_bind_leaves_the_optimum_of_the_objective() -> None:
    settings = FedsgmSettings.parse({"lambda": 0.05, "tolerance": 50.0})
    whole = over(settings)
    found = whole.solved()
    assert found is not None
    free = minimize(whole.objective, np.zeros(5), options={"gtol": 1e-9})
    assert found.primal == pytest.approx(float(free.fun), rel=2e-2)


def test_a_constraint_that_no_model_meets_is_told() -> None:
    settings = FedsgmSettings.parse({"lambda": 1.0, "tolerance": 1e-6})
    with pytest.raises(InvalidInput, match="no model was found with a constraint of at most 1e-06"):
        over(settings).solved()


def test_the_optimum_under_any_other_constraint_is_not_computed() -> None:
    assert over(FedsgmSettings.parse({"constraint": "l1_norm"})).solved() is None


@pytest.mark.parametrize(("algorithm", "loss", "lambda_"), [("fedsgm", "logistic", 0.0), ("hyfdca", "hinge", 0.01)])
def test_a_demonstration_trains_with_the_default_loss_of_its_algorithm(
    algorithm: str, loss: str, lambda_: float
) -> None:
    demonstration = Demonstration.of(DATA, DemonstrationOptions(algorithm=algorithm, grid=(2, 1)))
    settings = demonstration.options.parsed()
    assert (settings.loss, settings.lambda_) == (loss, lambda_)
    assert (demonstration.constrained is None) == (algorithm == "hyfdca")


def test_a_stratified_demonstration_gives_all_parties_the_same_class_ratio() -> None:
    options = DemonstrationOptions(algorithm="fedsgm", grid=(3, 1), split=Split.parse("stratified"))
    shards = Demonstration.of(DATA, options).shards.values()
    counts = [np.count_nonzero(shard.y == label) for shard in shards for label in (-1.0, 1.0)]
    assert np.ptp(counts[::2]) <= 1
    assert np.ptp(counts[1::2]) <= 1
