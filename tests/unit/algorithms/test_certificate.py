"""Certificates, the watch for divergence and the automatic number of samples."""

import pytest

from fenchel_common.algorithms.hyfdca import CertificateShare, HyfdcaSettings
from fenchel_common.ids import ClientId
from fenchel_server.algorithms.certificate import DivergenceWatch, certify, rounding_error
from fenchel_server.algorithms.pace import Pace
from support.layouts import small_federation_layout


def test_shares_add_up_to_primal_dual_and_gap() -> None:
    shares = [CertificateShare(3, 1.5, -0.5, 2), CertificateShare(2, 0.5, -1.0, 2)]
    certificate = certify(shares, squared_norm=4.0, lambda_=0.1, sample_count=5, gap_error=1e-9)
    assert certificate is not None
    assert certificate.primal == pytest.approx(0.2 + 0.4)
    assert certificate.dual == pytest.approx(-0.2 + 0.3)
    assert certificate.gap == pytest.approx(0.5 + 1e-9)
    assert certificate.accuracy == pytest.approx(0.8)


def test_shares_that_miss_a_sample_certify_nothing() -> None:
    shares = [CertificateShare(3, 1.5, -0.5, 2)]
    assert certify(shares, squared_norm=0.0, lambda_=0.1, sample_count=5, gap_error=0.0) is None


def test_the_rounding_error_counts_the_holders_of_shared_samples_only() -> None:
    """Of five samples three are held by both parties, and each part is off by 2^-33 at most."""
    assert rounding_error(small_federation_layout(), lipschitz=1.0) == pytest.approx(3 * 2 * 2.0**-33 / 5)


def test_several_poor_certificates_in_a_row_are_divergence_and_one_good_one_forgives() -> None:
    watch = DivergenceWatch(initial_gap=1.0)
    assert not any(watch.diverges(gap) for gap in (0.5, 3.0, 3.0, 3.0, 3.0, 0.4))
    assert [watch.diverges(3.0) for _ in range(5)] == [False, False, False, False, True]


def test_a_gap_many_times_the_best_is_poor_while_it_is_large() -> None:
    watch = DivergenceWatch(initial_gap=1.0)
    watch.diverges(0.01)
    assert [watch.diverges(0.5) for _ in range(5)][-1]


def test_a_small_gap_may_tremble() -> None:
    watch = DivergenceWatch(initial_gap=1.0)
    watch.diverges(1e-9)
    assert not any(watch.diverges(1e-4) for _ in range(20))


def test_the_pace_grows_while_the_dual_rises_and_is_cut_when_it_falls() -> None:
    pace = Pace()
    pace.observe(0.1)
    first = pace.share
    pace.observe(0.2)
    assert pace.share > first
    grown = pace.share
    pace.observe(0.1)
    assert pace.share < grown
    for step in range(200):
        pace.observe(1.0 + step)
    assert pace.share == 1.0


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
    held = {ClientId("a"): 40, ClientId("b"): 30}
    assert Pace().samples(HyfdcaSettings.parse(values), held, ClientId("a")) == expected
