"""The demonstration: a data set split over made-up hospitals, trained by real processes, beside the optimum."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fenchel_common.algorithms.hyfdca import HyfdcaSettings
from fenchel_common.data.datasets import Dataset, load_dataset
from fenchel_common.data.partition import partition
from fenchel_common.errors import FederationFailed
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.local import LocalFederation

GOAL = 1e-3
"""The relative distance to the centralized optimum that the demonstration promises."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What `fenchel demo` can vary."""

    dataset: str = "breast_cancer"
    grid: tuple[int, int] = (2, 2)
    columns: Literal["contiguous", "shuffled"] = "contiguous"
    loss: str = "hinge"
    lambda_: float = 1e-2
    local: Literal["paper", "theory"] = "paper"
    h: str | int | float = "auto"
    participation: str = "all"
    privacy: Literal["paper", "plain"] = "paper"
    key_bits: int = 2048
    key_kind: Literal["standard", "subgroup"] = "standard"
    gap: float | None = None
    rounds: int = 1000
    seed: int = 0


Event = Mapping[str, Any]


def run_demo(options: DemoOptions, *, directory: Path | None, tell: Callable[[Event], None]) -> dict[str, Any]:
    """Runs the federation and returns the figures; `tell` gets the server's events as they come."""
    dataset = load_dataset(options.dataset)
    shards = partition(dataset, grid=options.grid, columns=options.columns, seed=options.seed)
    names = [f"hospital-{number}" for number in range(1, len(shards) + 1)]
    loss = HyfdcaSettings.parse({"loss": options.loss, "lambda": options.lambda_}).loss_function
    optimum = solve_centralized(dataset.X, dataset.y, loss=loss, lambda_=options.lambda_)
    tell({"event": "centralized", "primal": optimum.primal})
    # P(w) ≤ P* + gap, so this gap proves the promised distance.
    config = _config(options, gap=options.gap or GOAL * optimum.primal)
    with tempfile.TemporaryDirectory(prefix="fenchel-demo-") as scratch:
        place = directory or Path(scratch)
        with LocalFederation(place, dict(zip(names, shards, strict=True)), config) as federation:
            ended = _follow(federation, tell)
            weights = federation.model(dataset.features)
    federated_primal = primal(dataset.X, dataset.y, weights, loss=loss, lambda_=options.lambda_)
    outcome = ended["outcome"]
    return {
        "primal": federated_primal,
        "dual": outcome["certificate"]["dual"],
        "gap": outcome["certificate"]["gap"],
        "centralized_primal": optimum.primal,
        "relative_error": (federated_primal - optimum.primal) / optimum.primal,
        "accuracy": float((np.sign(dataset.X @ weights) == dataset.y).mean()),
        "centralized_accuracy": optimum.accuracy,
        "rounds": outcome["rounds"],
        "rtc_per_round": outcome["rtc_per_round"],
        "clients": len(shards),
        "key_bits": options.key_bits,
        "privacy": options.privacy,
        "dataset": dataset.name,
        "status": ended["status"],
        "reason": ended["reason"],
        "seconds": outcome["seconds"],
        "bytes": outcome["bytes"],
        "server_saw": what_the_server_saw(options, dataset),
    }


def reached(report: Mapping[str, Any], options: DemoOptions) -> bool:
    """Whether the run got where it was asked to go, as its own certificate and the comparison say."""
    if report["status"] != "completed" or report["gap"] is None:
        return False
    if options.gap is not None:
        return bool(report["gap"] <= options.gap)
    return bool(report["relative_error"] <= GOAL)


def what_the_server_saw(options: DemoOptions, dataset: Dataset) -> dict[str, str]:
    """For each kind of value, the form in which it reached the server."""
    hidden = "in clear" if options.privacy == "plain" else "ciphertext"
    return {
        "rows, labels, sample ids": "never",
        "which rows parties share": "as pseudonyms",
        "feature names": f"in clear ({len(dataset.features)})",
        "dual variables and their changes": hidden,
        "inner products, row norms": hidden,
        "each party's share of the model": "in clear, each round",
        "sums of losses over each party's rows": "in clear, at certificates",
    }


def _config(options: DemoOptions, *, gap: float) -> RunConfig:
    settings: dict[str, object] = {
        "loss": options.loss,
        "lambda": options.lambda_,
        "local": options.local,
        "h": options.h,
        "participation": options.participation,
    }
    return RunConfig.from_mapping(
        {
            "name": "demo",
            "settings": settings,
            "privacy": options.privacy,
            "benchmark": options.privacy == "plain",
            "key": {"bits": options.key_bits, "kind": options.key_kind},
            "round": {"deadline_s": 60.0, "quorum": 0.5},
            "stop": {"gap": gap, "rounds": options.rounds},
            "seed": options.seed,
        }
    )


def _follow(federation: LocalFederation, tell: Callable[[Event], None]) -> Event:
    ended: Event | None = None
    for event in federation.events():
        tell(event)
        if event["event"] == "ended":
            ended = event
    federation.wait()
    if ended is None or ended["outcome"] is None or ended["status"] not in ("completed", "diverged"):
        reason = ended["reason"] if ended else "the server ended before the run did"
        raise FederationFailed(f"the federation did not finish: {reason}\n{federation.log('server')[-2000:]}")
    return ended
