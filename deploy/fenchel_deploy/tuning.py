"""A path of regularisations over a federation on this machine: `fenchel tune`."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fenchel_common.errors import FederationFailed
from fenchel_common.runconfig import RunConfig
from fenchel_common.selection import LambdaPath
from fenchel_deploy.demonstration import LOG_CHARACTERS, Demonstration, DemonstrationOptions, Report
from fenchel_deploy.local import LocalFederation
from fenchel_deploy.running import Tell
from fenchel_server.store.base import WITH_MODEL


def run_tune(
    options: DemonstrationOptions, path: LambdaPath, *, separate: bool, directory: Path | None, tell: Tell
) -> Report:
    """Trains with every λ of the path in one run, and reports what it found for each.

    `options` must have a gap. With `separate`, each λ also gets a run of its own on all samples, with a federation of
    its own, and the report has the rounds and the seconds of both ways. `tell` gets the servers' events.
    """
    demonstration = Demonstration.prepare(options)
    values = demonstration.config("tune").model_dump(exclude_none=True)
    settings = {name: value for name, value in values["settings"].items() if name != "lambda"}
    config = RunConfig.from_mapping({**values, "settings": settings, "path": path.model_dump(exclude_none=True)})
    with tempfile.TemporaryDirectory(prefix="fenchel-tune-") as scratch:
        ended, seconds = _trained(demonstration, config, directory or Path(scratch), tell)
    outcome = ended["outcome"]
    return {
        "dataset": demonstration.dataset.name,
        "clients": len(demonstration.shards),
        "loss": options.parsed().loss,
        "gap": options.gap,
        "metric": path.metric,
        "choose": path.choose,
        "folds": path.splits,
        "status": ended["status"],
        "reason": ended["reason"],
        "rounds": outcome["rounds"],
        "seconds": seconds,
        "path": outcome["path"],
        "separate": _separate_runs(demonstration, path.lambdas, tell) if separate else None,
    }


def _separate_runs(demonstration: Demonstration, lambdas: Sequence[float], tell: Tell) -> Report:
    """The rounds and the seconds of one run for each λ, from the start of its federation to its end."""
    runs = []
    for lambda_ in lambdas:
        own = replace(demonstration, options=replace(demonstration.options, lambda_=lambda_))
        with tempfile.TemporaryDirectory(prefix="fenchel-tune-") as scratch:
            ended, seconds = _trained(own, own.config("separate"), Path(scratch), tell)
        runs.append({"lambda_": lambda_, "rounds": ended["outcome"]["rounds"], "seconds": seconds})
    return {
        "runs": runs,
        "rounds": sum(run["rounds"] for run in runs),
        "seconds": sum(run["seconds"] for run in runs),
    }


def _trained(
    demonstration: Demonstration, config: RunConfig, directory: Path, tell: Tell
) -> tuple[Mapping[str, Any], float]:
    """The last event of a run that ended with a model, and how long its federation took, set-up included."""
    began, ended = time.monotonic(), None
    tables = demonstration.options.tables
    with LocalFederation(directory, demonstration.shards, config, tables=tables) as federation:
        for event in federation.events():
            tell(event)
            if event["event"] == "ended":
                ended = event
        federation.wait()
        if ended is None or ended["status"] not in WITH_MODEL:
            reason = "the server ended before the run did" if ended is None else ended["reason"]
            log = federation.log("server")[-LOG_CHARACTERS:]
            raise FederationFailed(f"the federation did not finish: {reason}\n{log}")
    return ended, time.monotonic() - began
