"""The demonstration: a training by real processes on this machine."""

import tempfile
from pathlib import Path

from fenchel_deploy.local import LocalFederation
from fenchel_deploy.training import Report, Tell, Training, TrainingOptions


def run_demo(options: TrainingOptions, *, directory: Path | None, tell: Tell) -> Report:
    """Runs the federation and returns the figures; `tell` gets the server's events as they come."""
    training = Training.prepare(options)
    tell({"event": "centralized", "primal": training.optimum.primal})
    with tempfile.TemporaryDirectory(prefix="fenchel-demo-") as scratch:
        place = directory or Path(scratch)
        with LocalFederation(place, training.shards, training.config("demo")) as federation:
            return training.follow(federation, tell)
