"""The tutorial: its files and commands, run as they stand, train the model of the pooled and prepared table."""

import csv
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fenchel_common.losses import LOSSES
from fenchel_common.model import find_model, read_model
from fenchel_common.model.joining import joined
from fenchel_common.objectives import primal
from fenchel_common.runsections import FeaturesConfig
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.export.columns import ColumnModel
from fenchel_deploy.export.pipeline import pipeline
from fenchel_deploy.folders import whole_model
from fenchel_deploy.tablefolder import pooled, read_tables, table_folders

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
DEMO = "## All of it in one command"
BLOCK = re.compile(r"```(?P<language>\w+)\n(?P<text>.*?)```\n", re.DOTALL)
FILE = re.compile(r"`(\w+\.toml)`")
PORT = "9092"
LAMBDA = 0.1
KINDS = ("clinic", "lab")


def script(text: str) -> str:
    """One shell script with the files, the commands and the Python code of the tutorial, in their order."""
    parts, end = ["set -e"], 0
    for block in BLOCK.finditer(text):
        if block["language"] == "toml":
            name = FILE.findall(text[end : block.start()])[-1]
            parts.append(f"cat > {name} <<'END'\n{block['text']}END")
        elif block["language"] == "python":
            parts.append(f"python - <<'END'\n{block['text']}END")
        else:
            assert block["language"] == "sh"
            parts.append(block["text"])
        end = block.end()
    return "\n".join(parts)


def run(text: str, folder: Path) -> str:
    """What the script prints. With FENCHEL_DATA the patients are those of the heart disease data."""
    found = subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    logs = "".join(path.read_text() for path in folder.glob("*.log"))
    assert found.returncode == 0, found.stdout + found.stderr + logs
    return found.stdout


def free_port() -> int:
    with socket.create_server(("localhost", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder after all parts of the tutorial but the last, and what was printed."""
    folder = tmp_path_factory.mktemp("tutorial")
    text = TUTORIAL.read_text().partition(DEMO)[0]
    assert PORT in text
    return folder, run(script(text.replace(PORT, str(free_port()))), folder)


def test_the_tutorial_ends_with_the_model_of_the_pooled_and_prepared_table(walked: tuple[Path, str]) -> None:
    folder, said = walked
    assert "the duality gap is at most 0.0004" in said
    logs = "".join(path.read_text() for path in folder.glob("*.log"))
    assert "are the same at all holders" not in logs, "nobody reads of a feature that the run made for nothing"
    assert re.search(r"^cholesterol +[+-]0\.\d{3} for each", said, re.MULTILINE), "the weights of a lab"
    table = pooled("hospitals", read_tables(table_folders(folder / "hospitals")), FeaturesConfig())
    parts = map(read_model, (folder / "private").glob("*/*.model"))
    weights = whole_model(parts, table.features)
    loss = LOSSES["logistic"]
    best = solve_centralized(table.X, table.y, loss=loss, lambda_=LAMBDA).primal
    reached = primal(table.X, table.y, weights, loss=loss, lambda_=LAMBDA)
    assert best - 1e-9 <= reached <= (1 + 1e-3) * best
    if "FENCHEL_DATA" in os.environ:
        told = re.search(r"The objective is (\S+); training on the pooled table.* gives (\S+)\. ", TUTORIAL.read_text())
        assert told is not None
        assert [float(figure) for figure in told.groups()] == pytest.approx([reached, best], abs=2e-6)


def test_predictions_are_those_of_scikit_learn_on_the_pooled_table(walked: tuple[Path, str]) -> None:
    """Scores to 1e-6 at the same weights; the area under the ROC curve within 0.005 of scikit-learn's own model."""
    folder, said = walked
    shards = read_tables(table_folders(folder / "hospitals"))
    table = pooled("hospitals", shards, FeaturesConfig())
    ids = [sample for shard in shards.values() if shard.y is not None for sample in shard.ids]
    by_id: dict[str, float] = {}
    for site in ("north", "east", "south", "west"):
        words = [f"hospitals/{site}-clinic", f"hospitals/{site}-lab", "--out", f"{site}.csv"]
        words += ["--model", f"private/{site}-clinic", "--model", f"private/{site}-lab"]
        run(f"fenchel predict {' '.join(words)}", folder)
        with (folder / f"{site}.csv").open(newline="") as file:
            by_id |= {row["id"]: float(row["score"]) for row in csv.DictReader(file)}
    scores = np.array([by_id[sample] for sample in ids])
    solver = LogisticRegression(C=1.0 / (LAMBDA * len(ids)), fit_intercept=False, tol=1e-10, max_iter=10_000)
    solver.fit(table.X, table.y)
    own = roc_auc_score(table.y, solver.decision_function(table.X))
    assert roc_auc_score(table.y, scores) == pytest.approx(own, abs=0.005)
    solver.coef_[0] = whole_model(map(read_model, (folder / "private").glob("*/*.model")), table.features)
    np.testing.assert_allclose(scores, solver.decision_function(table.X), atol=1e-6)
    assert re.search(r"│ auc +│ 0\.\d{4} │", said)
    exported = pipeline(ColumnModel.of(joined([find_model(folder / "private" / f"north-{kind}") for kind in KINDS])))
    clinic, lab = (pd.read_csv(next((folder / "hospitals" / f"north-{kind}").glob("*.csv"))) for kind in KINDS)
    north = clinic.merge(lab, on="patient")
    own_scores = [by_id[sample] for sample in north["patient"]]
    np.testing.assert_allclose(exported.decision_function(north), own_scores, atol=1e-6)
    assert len((folder / "why.csv").read_text().splitlines()) > len((folder / "scores.csv").read_text().splitlines())


def test_the_short_form_of_the_tutorial_reaches_its_goal(walked: tuple[Path, str]) -> None:
    """It exits with an error unless the model is within 0.1 % of the optimum."""
    folder, _ = walked
    said = run(script(TUTORIAL.read_text().partition(DEMO)[2]), folder)
    assert "hospitals over 8 parties" in said
