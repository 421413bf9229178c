"""How far fixed point can have put the certificate of corrective HyFDCA off."""

import math

import pytest

from fenchel_common.algorithms.corrective.messages import Figures
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.crypto.vectors import PlainCipher
from fenchel_common.ids import RoundId
from fenchel_common.wire.corrective_snapshot import CorrectiveState
from fenchel_server.algorithms.corrective.exchange import certified
from support.layouts import small_federation_layout

CIPHER = PlainCipher(2048)
HALF = 2.0**-33
SETTINGS = CorrectiveSettings.parse({"local": "corrective", "lambda": 0.5})
FIGURES = Figures(primal=0.75, dual=0.5, accuracy=0.875, squared_norm=9.0, row_norm=2.0)


def test_the_gap_allows_for_every_rounding() -> None:
    """Two clients and three features with one holder each; three of five samples are shared by both.

    Inner products, two sums of losses, the Gram matrix, the model on record, and D's w, which is rounded once.
    """
    certificate = certified(FIGURES, CorrectiveState(RoundId(3)), settings=SETTINGS, layout=small_federation_layout())
    model = math.sqrt(3) * HALF
    losses = 3 * 2 * HALF / 5 + FIGURES.row_norm * model
    sums = (2.0 + 0.5) * 2 * HALF
    drift = 2 * model
    expected = losses + sums + 0.5 * (3.0 * drift + drift**2 / 2.0)
    assert certificate.gap_error == pytest.approx(expected, rel=1e-12)
    assert certificate.gap == 0.25 + certificate.gap_error
    assert (certificate.primal, certificate.dual, certificate.accuracy) == (0.75, 0.5, 0.875)


def test_every_collapse_and_relative_round_widens_the_gap() -> None:
    """A collapse cuts α by up to 2^-32 a sample, which moves w by that times the mean row norm, divided by λ."""
    layout = small_federation_layout()

    def error(state: CorrectiveState) -> float:
        return certified(FIGURES, state, settings=SETTINGS, layout=layout).gap_error

    calm = error(CorrectiveState(RoundId(3)))
    relative = error(CorrectiveState(RoundId(3), relative_rounds=1))
    collapsed = error(CorrectiveState(RoundId(3), collapses=1))
    model, cut = math.sqrt(3) * HALF, 2 * HALF * FIGURES.row_norm / 0.5
    assert relative - calm == pytest.approx(0.5 * 3.0 * model, rel=1e-6)
    assert collapsed - calm == pytest.approx(0.5 * 3.0 * (model + cut), rel=1e-6)


def test_a_squared_norm_that_rounding_put_below_zero_is_zero() -> None:
    figures = Figures(primal=1.0, dual=0.0, accuracy=0.5, squared_norm=-1e-12, row_norm=1.0)
    certificate = certified(figures, CorrectiveState(RoundId(1)), settings=SETTINGS, layout=small_federation_layout())
    assert math.isfinite(certificate.gap)
