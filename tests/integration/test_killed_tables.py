"""Tables with categories and missing cells over real processes, any of which is killed (kill -9) while they prepare."""

from pathlib import Path

import numpy as np

from fenchel_common.setup import ROWS, SEARCH, VOCABULARY
from fenchel_deploy.demonstration import Demonstration, DemonstrationOptions
from fenchel_deploy.local import LocalFederation
from support.clinictables import whole_table, write_tables
from support.kills import kill_client, kill_server

SERVER = "server"


KILLED = [(VOCABULARY, "north"), (SEARCH[2], SERVER), (ROWS, "lab"), ("primal", SERVER)]


def test_the_run_reaches_the_optimum_of_the_pooled_table_whoever_is_killed(tmp_path: Path) -> None:
    tables = write_tables(tmp_path / "tables", whole_table(), "outcome")
    features = {"scale": "minmax", "rows": "unit", "indicators": True, "intercept": True}
    options = DemonstrationOptions(dataset="tables", tables=tables, features=features, loss="logistic")
    demonstration = Demonstration.prepare(options)
    folder = tmp_path / "run"
    with LocalFederation(folder, demonstration.shards, demonstration.config("killed"), tables=tables) as federation:
        for phase, name in KILLED:
            next(event for event in federation.events() if event["event"] == "phase" and event["phase"] == phase)
            if name == SERVER:
                kill_server(federation)
                federation.start_server()
            else:
                kill_client(federation, name)
                federation.start_client(name)
        (ended,) = [event for event in federation.events() if event["event"] == "ended"]
        codes = federation.wait()
        weights = federation.model(demonstration.dataset.features)
    assert ended["status"] == "completed", ended["reason"]
    assert set(codes.values()) == {0}
    best = demonstration.problems.solved().primal
    assert best * (1.0 - 1e-5) <= demonstration.problems.objective(weights) <= best * (1.0 + 1e-3)
    assert np.isfinite(weights).all()
