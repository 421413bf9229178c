"""Parties that are killed at random in the alignment and in the rounds; `support.killcampaign` does it at any size."""

from pathlib import Path

from fenchel_deploy.cli.exits import ExitCode
from support.killcampaign import DATASET, GAP, campaign, error_of, run_with_kills


def test_a_run_whose_parties_are_killed_at_random_reaches_the_certified_optimum(tmp_path: Path) -> None:
    with campaign(tmp_path, (2, 2)) as federation:
        killed, ended = run_with_kills(federation, seed=1, count=3)
        codes = federation.wait()
        error = error_of(federation.model(DATASET.features))
    assert len(killed) == 3
    assert killed[0][1].startswith("blind_")
    assert killed[-1][0] > 0
    assert set(codes.values()) == {ExitCode.DONE}
    assert -1e-9 <= error <= ended["outcome"]["certificate"]["gap"] <= GAP
