"""`fenchel demo`: a demonstration by processes on this machine."""

import tempfile
from pathlib import Path

from fenchel_deploy.demonstration import Demonstration, DemonstrationOptions, Report, Tell
from fenchel_deploy.local import LocalFederation


def run_demo(options: DemonstrationOptions, *, directory: Path | None, tell: Tell) -> Report:
    """Runs the federation in `directory`, or in a temporary folder, and returns the report.

    `tell` gets the server's events as they come.
    """
    demonstration = Demonstration.prepare(options)
    tell({"event": "centralized", "primal": demonstration.optimum.primal})
    with tempfile.TemporaryDirectory(prefix="fenchel-demo-") as scratch:
        folder = directory or Path(scratch)
        config = demonstration.config("demo")
        with LocalFederation(folder, demonstration.shards, config, tables=options.tables) as federation:
            return demonstration.compare(federation, tell)
