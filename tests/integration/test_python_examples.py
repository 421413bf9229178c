"""The examples of docs/examples: a notebook and three scripts, run as a person would."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from fenchel import Federation
from fenchel_common.errors import InvalidInput, RecordConflict
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.consent import consenting_options
from fenchel_deploy.local import LocalFederation
from support.tables import named_shards, small_dataset

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
RUN = 'name = "{name}"\ncipher = "masks"\nkey = {{ bits = 2048 }}\nsettings = {{ lambda = 0.05 }}\n'


def output_of(name: str, *words: object) -> list[str]:
    command = [sys.executable, str(EXAMPLES / name), *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.iterdir()} == {
        "choose_alpha.py",
        "compare_with_scikit_learn.py",
        "four_parties.ipynb",
        "submit_and_follow.py",
    }


def test_the_federated_objective_is_within_the_certified_distance_of_scikit_learns() -> None:
    values = {line[:28].strip(): float(line[28:]) for line in output_of("compare_with_scikit_learn.py")}
    excess = values["objective, federated"] - values["objective, scikit-learn"]
    assert -2e-6 <= excess <= values["certified distance at most"] <= 1e-4


def test_the_search_prints_a_choice() -> None:
    assert output_of("choose_alpha.py")[-1] == "chosen: 0.001"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_notebook_runs_from_its_first_to_its_last_cell(tmp_path: Path) -> None:
    notebook: Any = nbformat.read(EXAMPLES / "four_parties.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in notebook.cells), "no outputs are committed"
    NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    texts = [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any(text.startswith("alpha 0.01: 0.9") for text in texts)


def test_runs_are_submitted_and_followed_at_the_server_and_watched_at_a_party(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(RUN.format(name="first"))
    config = RunConfig.from_toml(file)
    dataset = small_dataset()
    with LocalFederation(
        tmp_path,
        named_shards(dataset, grid=(2, 2)),
        config,
        server_options=["--stay"],
        client_options=consenting_options(config)[2:],
    ) as local:
        server = Federation(local.state, kit=tmp_path / "kits" / "server")
        first = server.run("first")
        rounds = list(first.rounds())
        result = first.result()
        assert result.status == first.status == "completed"
        assert result.outcome is not None
        assert rounds[-1].gap == result.outcome["certificate"]["gap"] <= 1e-3

        with pytest.raises(RecordConflict, match="first"):
            server.submit(file)
        file.write_text(RUN.format(name="second"))
        printed = output_of("submit_and_follow.py", local.state, file)
        assert printed[0].startswith("round 1: gap ")
        assert printed[-1].startswith("certified gap: ")
        assert [run.status for run in server.runs()] == ["completed", "completed"]

        party = Federation(tmp_path / "clients" / "p1", kit=tmp_path / "kits" / "p1")
        assert list(party.rounds())[-1].gap is not None
        assert party.model().record.name == "second"
        assert party.model("first").names == party.model("second").names
        assert set(party.models()) == {run.id for run in server.runs()}
        with pytest.raises(InvalidInput, match="is the folder of a party"):
            party.submit(file)
    with pytest.raises(InvalidInput, match="is the folder of a server, and the kit is that of p1"):
        Federation(local.state, kit=tmp_path / "kits" / "p1")
    with pytest.raises(InvalidInput, match="neither a server nor a client"):
        Federation(tmp_path)
