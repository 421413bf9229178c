"""How a run ends at its limit of rounds or seconds."""

import pytest

from fenchel_common.ids import RoundId
from fenchel_common.metrics import RoundMetrics
from fenchel_server.rounds.stopping import at_the_limit
from fenchel_server.store import RunStatus

LIMIT = "all 4 rounds are done"


@pytest.mark.parametrize(("reached", "asked"), [(None, None), (0.5, None), (1e-3, 1e-3), (1e-4, 1e-3)])
def test_a_run_that_met_its_goal_is_completed(reached: float | None, asked: float | None) -> None:
    ending = at_the_limit(LIMIT, RoundMetrics(RoundId(5), gap=reached), gap=asked)
    assert (ending.status, ending.reason) == (RunStatus.COMPLETED, LIMIT)


@pytest.mark.parametrize(
    ("reached", "words"), [(None, "the model has no certificate"), (0.25, "the duality gap is 0.25")]
)
def test_a_run_short_of_its_gap_is_exhausted_with_advice(reached: float | None, words: str) -> None:
    ending = at_the_limit(LIMIT, RoundMetrics(RoundId(5), gap=reached), gap=1e-3)
    assert ending.status is RunStatus.EXHAUSTED
    assert ending.reason.startswith(f"{LIMIT}, but {words}, and 0.001 was asked for; allow more rounds")
