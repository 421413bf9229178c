"""DualFL's settings, its momentum sequence (3.4), and the criteria (3.7) and (3.8)."""

import math

import numpy as np
import pytest

from fenchel_client.algorithms.averaging.dualfl import NORM_PRECISION, smoothness
from fenchel_common.algorithms.averaging.dualfl import DualflSettings, gap_bound, next_momentum
from fenchel_common.algorithms.fitting import check_partition
from fenchel_common.errors import InvalidConfig


def test_without_rho_the_momentum_is_that_of_fista() -> None:
    t, betas = 1.0, []
    for _ in range(50):
        following, beta = next_momentum(t, 0.0)
        assert following == pytest.approx((1.0 + math.sqrt(1.0 + 4.0 * t * t)) / 2.0)
        assert beta == pytest.approx((t - 1.0) / following)
        t = following
        betas.append(beta)
    assert betas[0] == 0.0
    assert betas == sorted(betas)


@pytest.mark.parametrize("rho", [1e-3, 0.05, 0.5])
def test_with_rho_the_momentum_settles_at_that_of_a_strongly_convex_problem(rho: float) -> None:
    t, beta = 1.0, 0.0
    for _ in range(2000):
        t, beta = next_momentum(t, rho)
    assert t == pytest.approx(1.0 / math.sqrt(rho))
    assert beta == pytest.approx((1.0 - math.sqrt(rho)) / (1.0 + math.sqrt(rho)))


def test_the_local_criterion_is_3_7_without_rho_and_3_8_with_it() -> None:
    assert gap_bound(3, clients=4, rho=0.0, nu=0.1, gamma=0.5) == pytest.approx(1.0 / (4 * 0.1 * 4**4.5))
    assert gap_bound(3, clients=4, rho=0.25, nu=0.1, gamma=0.5) == pytest.approx((0.5 / 1.5) ** 3 / 4)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"lambda": 0.0}, "alpha above 0"),
        ({"lambda": 0.01, "nu": 0.02}, "at most lambda"),
        ({"rho": 1.0}, "below 1"),
        ({"rho": -0.1}, "below 1"),
        ({"loss": "hinge", "local_solver": "lbfgs"}, "use dual"),
        ({"loss": "multinomial", "local_solver": "dual"}, "accelerated or lbfgs"),
        ({"local_solver": "newton"}, "local_solver"),
        ({"loss": "squared"}, "choose one of"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_what_would(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidConfig, match=complaint):
        DualflSettings.parse(values)


def test_alpha_makes_a_problem_without_regularisation_strongly_convex() -> None:
    settings = DualflSettings.parse({"lambda": 0.0, "alpha": 0.25})
    assert settings.strong_convexity == settings.duality == 0.25


def test_only_horizontal_shards_are_taken_and_others_are_told_where_to_go() -> None:
    check_partition("dualfl", "horizontal")
    for split in ("vertical", "hybrid"):
        with pytest.raises(InvalidConfig, match=f"dualfl takes horizontal shards.*{split} shards choose.*hyfdca"):
            check_partition("dualfl", split)


@pytest.mark.parametrize("rows", [7, 30, 31])
def test_the_smoothness_constant_is_never_below_that_of_the_largest_singular_value(rows: int) -> None:
    X = np.random.default_rng(rows).standard_normal((rows, 30))
    settings = DualflSettings.parse({"lambda": 0.5})
    exact = 0.1 * np.linalg.norm(X, 2) ** 2 * 0.25 + 0.5
    assert exact <= smoothness(settings, X, loss_weight=0.1) <= exact / (1.0 - NORM_PRECISION)


def test_the_smoothness_constant_of_a_table_without_values_is_that_of_the_ridge() -> None:
    settings = DualflSettings.parse({"lambda": 0.5})
    assert smoothness(settings, np.zeros((3, 2)), loss_weight=0.1) == 0.5
