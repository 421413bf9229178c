"""`fenchel predict`: its files, its figures, and what it says of parts that are lacking."""

import csv
import io
import json
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fenchel_common.model import Feature, Model, Standardised, write_model
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.prediction import scores_csv
from fenchel_deploy.scoring import predictions_of
from support.commands import run_fenchel
from support.models import NUMBERS, PAINS, small_model, small_record

ROWS = "id,age,height,pain,outcome\na,60,1.8,dull,yes\nb,50,,,no\nc,40,1.6,sharp,yes\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "new.csv"
    path.write_text(ROWS)
    return path


def kept(folder: Path, model: Model) -> Path:
    folder.mkdir(parents=True)
    write_model(folder / f"{model.record.run}.model", model)
    return folder


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_scores_probabilities_and_labels_come_by_id_and_the_figures_as_json(tmp_path: Path, table: Path) -> None:
    private, out = kept(tmp_path / "clinic", small_model(intercept="held")), tmp_path / "scores.csv"
    done = run_fenchel("predict", table, "--model", private, "--out", out, "--format", "json")
    assert done.exit_code == ExitCode.DONE, done.stderr
    # The weights are 1, -2, 3, -4, 5, -6 on prepared values, and the intercept is 0.5.
    z = np.array([1 - 2 + 2.25 + 2 - 1.25 + 0.6, 2 - 6 * 0.9, -1 + 2 - 0.75 - 2 - 1.25 + 0.6]) + 0.5
    found = lines(out)
    assert [row["id"] for row in found] == ["a", "b", "c"]
    np.testing.assert_allclose([float(row["score"]) for row in found], z, atol=1e-12)
    np.testing.assert_allclose([float(row["probability"]) for row in found], 1 / (1 + np.exp(-z)), atol=1e-12)
    assert [row["predicted"] for row in found] == ["yes", "no", "no"]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    figures = json.loads(done.stdout)
    assert set(figures) == {"rows", "labelled", "accuracy", "auc", "log_loss", "brier", "rmse", "r2"}
    assert (figures["rows"], figures["accuracy"], figures["auc"]) == (3, pytest.approx(2 / 3), 1.0)
    assert "accuracy" in run_fenchel("predict", table, "--model", private).stdout


@pytest.mark.parametrize("top", [2, 0])
def test_what_each_feature_contributes_adds_up_to_the_score(tmp_path: Path, table: Path, top: int) -> None:
    private, out, why = (
        kept(tmp_path / "clinic", small_model(intercept="held")),
        tmp_path / "s.csv",
        tmp_path / "why.csv",
    )
    done = run_fenchel("predict", table, "--model", private, "--out", out, "--explain", why, "--top", top)
    assert done.exit_code == ExitCode.DONE, done.stderr
    for row in lines(out):
        parts = [line for line in lines(why) if line["id"] == row["id"]]
        assert sum(float(line["contribution"]) for line in parts) == pytest.approx(float(row["score"]))
        named = [line for line in parts if not line["feature"].startswith("(")]
        sizes = [abs(float(line["contribution"])) for line in named]
        assert sizes == sorted(sizes, reverse=True)
        assert not top or len(named) <= top
        assert any(line["feature"] == "(other features)" for line in parts) == bool(top and row["id"] != "b")
    (gap,) = [line for line in lines(why) if line["id"] == "b" and line["feature"] == "height"]
    assert gap["value"] == ""
    assert float(gap["contribution"]) == pytest.approx(2.0)


def test_parts_of_parties_are_joined_and_lacking_ones_are_named(tmp_path: Path, table: Path) -> None:
    both = len(NUMBERS) + len(PAINS)
    clinic = kept(tmp_path / "clinic", small_model(NUMBERS, all_features=both))
    lab = kept(tmp_path / "lab", small_model(PAINS, all_features=both, party="lab"))
    one = run_fenchel("predict", table, "--model", clinic)
    assert one.exit_code == ExitCode.REFUSED
    assert "parts of clinic: lacks 4 of 6 features; the parties are clinic, lab: add --model with their" in one.stderr
    assert run_fenchel("predict", table, "--model", clinic, "--model", lab).exit_code == ExitCode.DONE
    out = tmp_path / "part.csv"
    part = run_fenchel("predict", table, "--model", clinic, "--partial", "--out", out, "--format", "json")
    assert "the scores are no predictions" in part.stderr
    assert json.loads(part.stdout)["labelled"] == 0
    assert set(lines(out)[0]) == {"id", "score"}
    unit = kept(tmp_path / "unit", small_model(NUMBERS, all_features=both, unit_rows=True))
    assert "the parts of all parties are needed" in run_fenchel("predict", table, "--model", unit, "--partial").stderr


def test_several_classes_have_a_score_each(tmp_path: Path, table: Path) -> None:
    table.write_text(ROWS.replace("yes", "flu").replace("no", "cold"))
    model = small_model(task="classes", classes=("flu", "cold", "none"), intercept="held")
    out, why = tmp_path / "scores.csv", tmp_path / "why.csv"
    done = run_fenchel(
        "predict", table, "--model", kept(tmp_path / "k", model), "--out", out, "--explain", why, "--format", "json"
    )
    assert done.exit_code == ExitCode.DONE, done.stderr
    row = lines(out)[0]
    assert list(row)[:4] == ["id", "score:flu", "score:cold", "score:none"]
    scores = [float(row[f"score:{name}"]) for name in model.record.classes]
    assert row["predicted"] == model.record.classes[int(np.argmax(scores))]
    assert sum(float(row[f"probability:{name}"]) for name in model.record.classes) == pytest.approx(1.0)
    parts = [float(line["contribution"]) for line in lines(why) if (line["id"], line["class"]) == ("a", "cold")]
    assert sum(parts) == pytest.approx(scores[1])
    assert json.loads(done.stdout)["log_loss"] > 0.0


def test_numbers_are_in_the_unit_of_the_labels(tmp_path: Path) -> None:
    record = small_record(
        [Feature("age", "number", "age", None, 50.0, 10.0)],
        task="regression",
        loss="squared",
        classes=(),
        standardised=True,
        target=Standardised(1000.0, 200.0),
    )
    table, out, why = tmp_path / "new.csv", tmp_path / "scores.csv", tmp_path / "why.csv"
    table.write_text("id,age,cost\na,60,1150\nb,50,1000\n")
    model = kept(tmp_path / "k", Model(record, np.array([0.5])))
    done = run_fenchel(
        *("predict", table, "--model", model, "--label", "cost", "--out", out, "--explain", why, "--format", "json")
    )
    assert done.exit_code == ExitCode.DONE, done.stderr
    assert [(row["score"], row["predicted"]) for row in lines(out)] == [("0.5", "1100.0"), ("0.0", "1000.0")]
    assert json.loads(done.stdout)["rmse"] == pytest.approx(np.sqrt(1250.0))
    assert [line["contribution"] for line in lines(why)] == ["100.0", "1000.0", "1000.0"]
    bare = kept(tmp_path / "bare", Model(replace(record, target=None), np.array([0.5])))
    said = run_fenchel("predict", table, "--model", bare)
    assert said.exit_code == ExitCode.REFUSED
    assert "lacks the unit of the numbers to predict, which parties with labels know" in said.stderr


def test_ids_with_commas_and_line_ends_stay_what_they_are_from_the_kept_scores_to_the_file() -> None:
    ids = ["1, Main Street", 'a "b"', "two\nlines", "plain"]
    kept = 'id,score\n"1, Main Street",0.5\n"a ""b""",-1.0\n"two\nlines",2.0\nplain,0.0\n'
    read, found = predictions_of(small_model(), kept)
    assert read == ids
    rows = list(csv.DictReader(io.StringIO(scores_csv(read, found), newline="")))
    assert [(row["id"], row["score"], row["predicted"]) for row in rows] == list(
        zip(ids, ("0.5", "-1.0", "2.0", "0.0"), ("yes", "no", "yes", "yes"), strict=True)
    )
