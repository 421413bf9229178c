"""`fenchel data`: what a person is shown of the own table, and the shard.toml that is written."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from fenchel_common.data.tables.declaration import Declaration
from fenchel_common.data.tables.source import load_shard
from fenchel_common.errors import InvalidInput
from fenchel_deploy.cli import data
from support.tablefiles import CLINIC, DECLARED, write_table


def invoke(*arguments: object) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    data.register(app)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    result = invoke(*arguments)
    assert isinstance(result.exception, InvalidInput)
    return str(result.exception)


def test_inspect_shows_uses_types_values_and_that_the_table_is_usable(tmp_path: Path) -> None:
    path = write_table(tmp_path, CLINIC, toml=DECLARED)
    shown = invoke("data", "inspect", path)
    assert shown.exit_code == 0, shown.output
    assert "usable: 4 samples, 3 features, labels {'-1': 2, '+1': 2}" in shown.stdout
    assert '"007", 7 and 7.0 are the same id' in shown.stdout
    found = json.loads(invoke("data", "inspect", tmp_path, "--format", "json").stdout)
    uses = {column["name"]: column["use"] for column in found["columns"]}
    assert uses == {"patient": "id", "age": "number", "pain": "category", "note": "left out", "label": "label"}
    assert found["columns"][2]["values"] == {"typical": 2, "none": 2}
    assert found["shard"] == {"samples": 4, "features": 3, "labels": {"-1": 2, "+1": 2}}
    assert found["declared"] is True


def test_inspect_lists_every_column_with_bad_or_missing_cells(tmp_path: Path) -> None:
    rows = "".join(f"{row},{row}.5,{row * 1000},{row % 7}\n" for row in range(100, 140))
    text = f'id,age,chol,bmi\n1,x,"1,200",\n2,2,3,4\n{rows}'
    result = invoke("data", "inspect", write_table(tmp_path, text), "--format", "json")
    assert result.exit_code == 1
    problems = "\n".join(json.loads(result.stdout)["problems"])
    assert "bmi" not in problems, "by the guesses, the run fills missing cells in"
    assert "row 1, column 'age': the cell is not a number" in problems
    assert "row 1, column 'chol': the cell is no number, but it would be one with" in problems


def test_columns_of_formulas_are_left_out_and_said_to_be_formulas(tmp_path: Path) -> None:
    rows = "".join(f"{row},{row % 9},=B{row}*2\n" for row in range(100))
    shown = invoke("data", "init", write_table(tmp_path, f"id,age,double\n{rows}"))
    assert shown.exit_code == 0, shown.output
    assert "column 'double' is left out: the cell in row 1 begins with \"=\"" in shown.output
    assert Declaration.from_toml(tmp_path / "shard.toml").leave_out == ["double"]


def test_inspect_points_out_suspicious_columns(tmp_path: Path) -> None:
    rows = "".join(f"{row},3,{row % 4},{'-999' if row == 5 else row},\n" for row in range(40))
    found = json.loads(
        invoke("data", "inspect", write_table(tmp_path, f"id,site,code,lab,empty\n{rows}"), "--format", "json").stdout
    )
    suspicions = {column["name"]: column["suspicions"] for column in found["columns"]}
    assert suspicions["site"] == ["every cell is the same"]
    assert suspicions["code"] == ["only 4 different whole numbers: are they codes of a category?"]
    assert suspicions["lab"] == ["the least value is -999: does it mean that the value is missing?"]
    assert suspicions["empty"] == ["every cell is missing"]
    assert any("'empty' is left out" in guess for guess in found["guesses"])


def test_inspect_of_a_wide_libsvm_file_counts_its_columns(tmp_path: Path) -> None:
    path = write_table(tmp_path, "1 5:1 # a\n-1 90000:2 # b\n", name="table.libsvm")
    found = json.loads(invoke("data", "inspect", path, "--format", "json").stdout)
    assert (found["rows"], found["width"]) == (2, 90000)
    assert [column["name"] for column in found["columns"]] == ["y"]
    assert invoke("data", "inspect", path).exit_code == 0


@pytest.mark.parametrize("suffix", ["csv", "libsvm", "npz"])
def test_init_writes_a_declaration_that_gives_the_shard_of_the_guesses(tmp_path: Path, suffix: str) -> None:
    path = write_table(tmp_path, CLINIC)
    before = load_shard(path)
    if suffix == "libsvm":
        path = write_table(tmp_path, "1 2:3 # a\n0 1:3 # b\n", name="table.libsvm")
        before = load_shard(path)
    elif suffix == "npz":
        path = tmp_path / "table.npz"
        before = replace(before, shard=before.shard.expanded())
        before.shard.save(path)
    result = invoke("data", "init", path)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{tmp_path / 'shard.toml'}\n"
    after = load_shard(tmp_path / "shard.toml")
    assert (after.shard.ids, after.shard.features) == (before.shard.ids, before.shard.features)
    assert after.shard.y is not None
    assert before.shard.y is not None
    assert after.shard.y.tolist() == before.shard.y.tolist()
    assert after.guesses == ()


def test_init_does_not_overwrite_unless_it_is_told_to(tmp_path: Path) -> None:
    path = write_table(tmp_path, CLINIC, toml="mine")
    assert "is there already" in refused("data", "init", path)
    assert (tmp_path / "shard.toml").read_text() == "mine"
    assert invoke("data", "init", path, "--force").exit_code == 0
    assert Declaration.from_toml(tmp_path / "shard.toml").id == "patient"


def test_init_asks_about_decimal_commas_and_thousands_separators(tmp_path: Path) -> None:
    path = write_table(tmp_path, "id;age;chol\n1;1,5;1.200\n2;2,5;2.300,5\n")
    result = invoke("data", "init", path)
    assert result.exit_code == 0, result.output
    for column in ("age", "chol"):
        asked = f"column '{column}': the cell is no number, but it would be one with a decimal comma or with thousands"
        assert asked in result.stderr
    assert "which of them is it?" in result.stderr
    assert invoke("data", "init", path, "--decimal", ",", "--thousands", ".", "--force").stderr.count("problem") == 0
    assert np.asarray(load_shard(tmp_path).shard.X).tolist() == [[1.5, 1200.0], [2.5, 2300.5]]


def test_init_asks_for_what_cannot_be_guessed_and_takes_it(tmp_path: Path) -> None:
    path = write_table(tmp_path, "nummer;größe;kind\nA;1,5;ja\nB;2,5;nein\n".encode("latin-1"))
    assert "--encoding latin-1" in refused("data", "init", path)
    assert "--id COLUMN" in refused("data", "init", path, "--encoding", "latin-1")
    options = ["--encoding", "latin-1", "--id", "nummer", "--label", "kind"]
    assert "--positive VALUE" in refused("data", "init", path, *options)
    assert not (tmp_path / "shard.toml").exists()
    result = invoke("data", "init", path, *options, "--positive", "ja", "--decimal", ",")
    assert result.exit_code == 0, result.output
    shard = load_shard(tmp_path).shard
    assert (shard.ids, shard.features) == (("A", "B"), ("größe",))
    assert shard.y is not None
    assert shard.y.tolist() == [1.0, -1.0]


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ("id = 3", "file: Field required"),
        ('file = "t.csv"\nidd = "a"', "unknown key idd"),
        ('file = "t.csv"\nid = []', "id: must name one or more different columns"),
        ('file = "t.csv"\nid = "a"\nleave_out = ["a"]', "column 'a' has two uses"),
        ('file = "t.csv"\n[label]\ncolumn = "y"\npositive = 1', "label: which value is positive"),
        ('file = "t.csv"\n[label]\ncolumn = "y"\npositive = 1\nnegative = "01"', "positive and negative are the same"),
        ('file = "t.csv"\n[features.a]\nvalues = ["b"]', 'features.a: use type = "category" for a column with values'),
        ('file = "t.csv"\n[features.a]\ntype = "category"\nvalues = [1, "1"]', "two of them are the same value"),
        ('file = "t.csv"\n[csv]\ndecimal = ","\nthousands = ","', "decimal and thousands cannot be the same"),
        ("file = ", "is not valid TOML"),
    ],
)
def test_a_wrong_declaration_is_refused_by_its_key(tmp_path: Path, toml: str, complaint: str) -> None:
    path = tmp_path / "shard.toml"
    path.write_text(toml)
    with pytest.raises(InvalidInput, match=complaint):
        Declaration.from_toml(path)
