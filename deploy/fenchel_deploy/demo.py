"""`fenchel demo`: a demonstration by processes on this machine."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from fenchel_deploy.demonstration import Demonstration, DemonstrationOptions, Report
from fenchel_deploy.folders import SERVER, kit_folder
from fenchel_deploy.local import LocalFederation
from fenchel_deploy.running import Tell


def run_demo(
    options: DemonstrationOptions,
    *,
    directory: Path | None,
    tell: Tell,
    beside: Callable[[Path, Path], str] | None = None,
) -> Report:
    """Runs the federation in `directory`, or in a temporary folder, and returns the report.

    `tell` gets the server's events as they come. `models` in the report are the folders of the parties' models, where
    they stay after this call. `beside` gets the server's state folder and kit when the server runs; it serves a page of
    them, and returns its address.
    """
    demonstration = Demonstration.prepare(options)
    if demonstration.optimum is not None:
        tell({"event": "centralized", "primal": demonstration.optimum.primal})
    with tempfile.TemporaryDirectory(prefix="fenchel-demo-") as scratch:
        folder = directory or Path(scratch)
        config = demonstration.config("demo")
        with LocalFederation(folder, demonstration.shards, config, tables=options.tables) as federation:
            if beside is not None:
                tell({"event": "dashboard", "address": beside(federation.state, kit_folder(folder, SERVER))})
            report = demonstration.compare(federation, tell)
            kept = federation.models() if directory else []
            return {**report, "models": [str(path) for path in kept]}
