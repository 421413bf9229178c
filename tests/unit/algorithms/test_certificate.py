"""Certificates, the watch for divergence and the automatic number of samples."""

import math

import pytest

from fenchel_common.algorithms.hyfdca.messages import Figures
from fenchel_common.algorithms.hyfdca.pace import GROW, INITIAL_FRACTION, SHRINK, SMALLEST_FRACTION, Pace, follows_dual
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.ids import ClientId
from fenchel_common.losses import LOSSES, Deviation, Fit
from fenchel_server.algorithms.certificate import Rounding, rounded_products
from fenchel_server.algorithms.hyfdca.certificate import DivergenceWatch, certify, gap_error
from support.layouts import small_federation_layout

HINGE = LOSSES["hinge"]


def test_figures_make_primal_dual_and_gap() -> None:
    rounding = Rounding(predictions=Deviation(1e-9, 1e-9), model=0.0, figures=0.0)
    figures = Figures(mean_loss=0.4, mean_conjugate=-0.3, accuracy=0.8, regulariser=0.2)
    certificate = certify(figures, settings=HyfdcaSettings.parse({"local": "paper", "lambda": 0.1}), rounding=rounding)
    assert certificate.primal == pytest.approx(0.2 + 0.4)
    assert certificate.dual == pytest.approx(-0.2 + 0.3)
    assert certificate.gap == pytest.approx(0.5 + 1e-9)
    assert certificate.fit.accuracy == 0.8


def test_a_certificate_of_regression_has_a_mean_error_and_no_accuracy() -> None:
    rounding = Rounding(predictions=Deviation(1e-9, 2e-9), model=0.0, figures=0.0)
    figures = Figures(mean_loss=0.25, mean_conjugate=-0.3, accuracy=0.25, regulariser=0.2)
    settings = {"local": "paper", "lambda": 0.1, "loss": "squared"}
    certificate = certify(figures, settings=HyfdcaSettings.parse(settings), rounding=rounding)
    assert certificate.fit == Fit(rmse=0.5)
    # l' is 2·√l: at a mean loss of 1/4 its root mean square is 1, and the second derivative is 2.
    assert certificate.gap_error == pytest.approx(2e-9 + (2e-9) ** 2)
    standardised = HyfdcaSettings.parse({**settings, "target_scale": "standard"})
    assert certify(figures, settings=standardised, rounding=rounding).fit == Fit(rmse=0.5, r2=0.75)


def test_the_rounding_error_counts_the_holders_of_shared_samples_only() -> None:
    """Of five samples three are held by both parties, and each part is off by 2^-33 at most."""
    off = rounded_products(small_federation_layout())
    assert off.mean == pytest.approx(3 * 2 * 2.0**-33 / 5)
    assert off.root_mean_square == pytest.approx(math.sqrt(3 / 5) * 2 * 2.0**-33)


def test_the_error_of_the_model_counts_the_holders_of_each_feature() -> None:
    """δ² = Σ (holders·2^-33)²: in the small layout every one of three features has one holder."""
    rounding = Rounding.of(small_federation_layout(), contributions=2)
    assert rounding.model == pytest.approx(math.sqrt(3) * 2.0**-33)
    assert rounding.figures == pytest.approx(2 * 2.0**-33)


@pytest.mark.parametrize("direction", [-1.0, 1.0])
def test_the_gap_error_covers_a_model_that_is_off_by_as_much_as_it_can_be(direction: float) -> None:
    """λ(‖w̃‖δ + δ²/2) ≥ |λ/2‖w̃‖² − λ/2‖w‖²| whenever ‖w̃ − w‖ ≤ δ, and it is tight."""
    lambda_, norm, off = 0.3, 2.0, 1e-3
    rounding = Rounding(predictions=Deviation(0.0, 0.0), model=off, figures=0.0)
    figures = Figures(mean_loss=0.0, mean_conjugate=0.0, accuracy=0.0, regulariser=lambda_ / 2.0 * norm**2)
    difference = abs(lambda_ / 2.0 * (norm + direction * off) ** 2 - figures.regulariser)
    assert (
        difference
        <= gap_error(figures, lambda_=lambda_, loss=HINGE, rounding=rounding)
        <= difference + lambda_ * off**2 * (1.0 + 1e-9)
    )


def test_several_poor_certificates_in_a_row_are_divergence_and_one_good_one_forgives() -> None:
    watch = DivergenceWatch(initial_gap=1.0)
    assert not any(watch.diverges(gap) for gap in (0.5, 3.0, 3.0, 3.0, 3.0, 0.4))
    assert [watch.diverges(3.0) for _ in range(5)] == [False, False, False, False, True]


def test_a_gap_many_times_the_best_is_poor_while_it_is_large() -> None:
    watch = DivergenceWatch(initial_gap=1.0)
    watch.diverges(0.01)
    assert [watch.diverges(0.5) for _ in range(5)][-1]


def test_the_first_gap_stands_in_where_the_loss_at_zero_depends_on_the_labels() -> None:
    watch = DivergenceWatch(initial_gap=None)
    assert not any(watch.diverges(gap) for gap in (8.0, 7.0, 6.0, 7.5, 5.0))
    assert [watch.diverges(9.0) for _ in range(5)] == [False, False, False, False, True]


def test_a_small_gap_may_tremble() -> None:
    watch = DivergenceWatch(initial_gap=1.0)
    watch.diverges(1e-9)
    assert not any(watch.diverges(1e-4) for _ in range(20))


def paces(duals: list[float | None]) -> list[float]:
    """The fractions of rounds 1, 2, …, given D at the end of each round, or None if it is not known."""
    pace, fractions = Pace(), [Pace().fraction]
    for dual in duals:
        pace = pace.after_round(dual)
        fractions.append(pace.fraction)
    return fractions


def test_the_pace_of_a_round_is_that_of_two_rounds_before_corrected_by_what_that_one_did() -> None:
    """D rises through rounds 1 and 2 and falls by round 3, which the end of round 4 shows."""
    first, second, third, fourth, fifth = paces([0.1, 0.2, 0.3, 0.2])
    assert first == second == INITIAL_FRACTION
    assert third == fourth == pytest.approx(INITIAL_FRACTION * GROW)
    assert fifth == pytest.approx(third * SHRINK)


def test_one_fall_is_answered_once() -> None:
    """Round 2 was too much, the others were not: only the round that follows its judgement is cut."""
    fractions = paces([0.1, 0.2, 0.1, 0.2, 0.3])
    assert [later < INITIAL_FRACTION for later in fractions] == [False, False, False, True, False, True]
    assert fractions[5] == pytest.approx(fractions[3] * GROW)


def test_a_round_without_a_known_dual_keeps_the_pace() -> None:
    fractions = paces([0.1, 0.2, None, None, 0.1])
    assert fractions[2] == fractions[3] == fractions[4] == pytest.approx(INITIAL_FRACTION * GROW)
    assert fractions[5] == pytest.approx(fractions[3] * SHRINK)


def test_the_pace_stays_between_its_smallest_share_and_all_samples() -> None:
    assert paces([float(step) for step in range(400)])[-1] == 1.0
    assert paces([-float(step) for step in range(400)])[-1] == SMALLEST_FRACTION


@pytest.mark.parametrize(
    ("values", "expected"),
    [({}, True), ({"h": 4}, False), ({"h": 0.5}, False), ({"local": "theory"}, False)],
)
def test_the_dual_is_followed_where_the_number_of_samples_is_chosen_by_it(
    values: dict[str, object], expected: bool
) -> None:
    assert follows_dual(HyfdcaSettings.parse({"local": "paper", **values})) is expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"h": 7}, 7),
        ({"h": 1000}, 40),
        ({"h": 0.25}, 10),
        ({"h": 0.001}, 1),
        ({"h": "auto"}, 4),
        ({"h": "auto", "local": "theory"}, 30),
    ],
)
def test_the_number_of_samples_lies_between_one_and_what_the_client_holds(
    values: dict[str, object], expected: int
) -> None:
    sample_counts = {ClientId("a"): 40, ClientId("b"): 30}
    assert Pace().samples(HyfdcaSettings.parse({"local": "paper", **values}), sample_counts, ClientId("a")) == expected
