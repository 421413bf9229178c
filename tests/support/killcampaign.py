"""A federation of many real processes whose parties are killed at random, in the alignment and in the rounds.

    python -m support.killcampaign KxQ SEED KILLS

trains on the digits, with masks, and prints which party was killed at the beginning of which phase, how the run ended,
and how far its model is from the optimum of the pooled table.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.data.datasets import load_dataset
from fenchel_common.losses import LOSSES
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.local import LocalFederation
from support.kills import kill_client
from support.tables import named_shards

DATASET: Final = load_dataset("digits")
LOSS, LAMBDA, GAP = "hinge", 0.01, 1e-4
OFTEN: Final = 0.4
"""The share of phases that begin with a kill, until there were enough."""

Killed = tuple[int, str, str]
"""The round and the phase that began, and the party."""


def campaign(directory: Path, grid: tuple[int, int]) -> LocalFederation:
    """A federation that waits for whoever is gone."""
    config = RunConfig.from_mapping(
        {
            "name": "campaign",
            "cipher": "masks",
            "settings": {"loss": LOSS, "lambda": LAMBDA},
            "round": {"deadline_s": 120.0, "quorum": 0.5, "wait_s": 120.0},
            "stop": {"gap": GAP, "rounds": 400},
        }
    )
    return LocalFederation(directory, named_shards(DATASET, grid=grid), config)


def run_with_kills(federation: LocalFederation, seed: int, count: int) -> tuple[list[Killed], dict[str, Any]]:
    """Kills `count` parties and starts each again at once; who was killed when, and the event of the run's end."""
    rng, killed = np.random.default_rng(seed), list[Killed]()
    for event in federation.events():
        if event["event"] == "ended":
            return killed, event
        # Before the alignment nothing is kept, and the set-up would begin again each time.
        late = event["event"] == "phase" and (event["round"] or event["phase"].startswith("blind_"))
        if late and len(killed) < count and rng.random() < OFTEN:
            name = str(rng.choice(sorted(federation.clients)))
            kill_client(federation, name)
            federation.start_client(name)
            killed.append((event["round"], event["phase"], name))
    raise AssertionError("the server ended before the run")


def error_of(weights: NDArray[np.float64]) -> float:
    """How far the objective is above the optimum of the pooled table."""
    optimum = solve_centralized(DATASET.X, DATASET.y, loss=LOSSES[LOSS], lambda_=LAMBDA).primal
    return primal(DATASET.X, DATASET.y, weights, loss=LOSSES[LOSS], lambda_=LAMBDA) - optimum


def main(grid: str, seed: str, count: str) -> Iterator[str]:
    """The lines that the command prints."""
    rows, columns = (int(number) for number in grid.split("x"))
    with tempfile.TemporaryDirectory(prefix="fenchel-kills-") as directory:
        with campaign(Path(directory), (rows, columns)) as federation:
            killed, ended = run_with_kills(federation, int(seed), int(count))
            federation.wait()
        yield from (f"round {number}, {phase}: killed {name}" for number, phase, name in killed)
        yield json.dumps({**ended["outcome"], "error": error_of(federation.model(DATASET.features))})


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in main(*sys.argv[1:]))
