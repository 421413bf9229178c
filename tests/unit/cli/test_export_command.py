"""`fenchel export`: its forms, the card, and what it refuses."""

import json
import stat
from pathlib import Path

import joblib
import onnx
import pandas as pd
import pytest

from fenchel_common.model import Certificate, write_model
from fenchel_common.scoresums import ScoreFigures
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.export.card import model_card
from support.commands import run_fenchel
from support.models import NUMBERS, PAINS, small_model


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    write_model(tmp_path / "run-1.model", small_model())
    return tmp_path


def test_each_form_is_a_file_for_its_owner(kept: Path) -> None:
    files = {form: kept / f"out.{form}" for form in ("sklearn", "onnx", "card")}
    for form, path in files.items():
        done = run_fenchel("export", "--model", kept, "--to", form, "--out", path)
        assert (done.exit_code, done.stdout) == (ExitCode.DONE, f"{path}\n"), done.stderr
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    row = pd.DataFrame({"age": [60], "height": [1.8], "pain": ["dull"]})
    assert joblib.load(files["sklearn"]).predict(row).tolist() == ["yes"]
    assert onnx.load(files["onnx"]).producer_name == "fenchel"
    assert files["card"].read_text().startswith("# Model card: first\n")


def test_the_card_has_use_totals_figures_certificate_and_protection(kept: Path) -> None:
    figures, out = kept / "figures.json", kept / "card.md"
    known = {"rows": 40, "labelled": 30, "accuracy": 0.8, "auc": 0.91, "log_loss": 0.4, "brier": 0.13}
    figures.write_text(json.dumps({**known, "rmse": None, "r2": None}))
    words = ("--figures", figures, "--intended-use", "Research on *made-up* pain alone.")
    done = run_fenchel("export", "--model", kept, "--to", "card", "--out", out, *words)
    assert done.exit_code == ExitCode.DONE, done.stderr
    text = out.read_text()
    for said in (
        "## Intended use\n\nResearch on *made-up* pain alone.",
        "predicts one of two classes: no, yes",
        "- 100 samples of 2 parties.",
        "2 of numbers, 2 of values of categories, 1 of other values of categories, 1 of missing cells",
        "the gap of 0.0001 bounds the distance to the optimum",
        "On 30 rows with labels",
        "accuracy 0.8000, auc 0.9100, log loss 0.4000, brier 0.1300",
        "Paillier, 3072 bits, key abababababababab…",
        "The server that ran the training saw ciphertext, pseudonyms, and totals",
    ):
        assert said in text, said
    assert "rmse" not in text
    trained = ScoreFigures(samples=100, accuracy=0.85, auc=0.9, auc_error=0.01)
    said = (
        "On the 100 samples of the training, measured by encrypted sums: accuracy 0.8500, auc 0.9000, auc error 0.0100"
    )
    assert said in model_card(small_model(figures=trained))
    assert "*Not stated.*" in model_card(small_model())
    assert "There is no certificate" in model_card(small_model(certificate=Certificate(None, None, None)))
    assert "# Model card: a\\|b \\# c" in model_card(small_model(name="a|b\n# c")).replace("  ", " ")


def test_parts_are_exported_only_as_parts(tmp_path: Path) -> None:
    both = len(NUMBERS) + len(PAINS)
    write_model(tmp_path / "run-1.model", small_model(NUMBERS, all_features=both))
    refused = run_fenchel("export", "--model", tmp_path, "--to", "onnx", "--out", tmp_path / "m.onnx")
    assert refused.exit_code == ExitCode.REFUSED
    assert "lacks 4 of 6 features" in refused.stderr
    part = run_fenchel("export", "--model", tmp_path, "--to", "onnx", "--out", tmp_path / "m.onnx", "--partial")
    assert part.exit_code == ExitCode.DONE
    assert "caution" in part.stderr
    assert run_fenchel("export", "--model", tmp_path, "--to", "card", "--out", tmp_path / "c.md").exit_code == 0
    assert "The parts at hand are not the whole model: 4 of 6 features are lacking" in (tmp_path / "c.md").read_text()
    write_model(tmp_path / "run-1.model", small_model(NUMBERS, all_features=both, unit_rows=True))
    unit = run_fenchel("export", "--model", tmp_path, "--to", "sklearn", "--out", tmp_path / "m", "--partial")
    assert unit.exit_code == ExitCode.REFUSED
    assert "whole rows are divided by their lengths, so that the parts of all parties are needed" in unit.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "pmml"], "--to"),
        (["--to", "card", "--float32"], "--float32: is for --to onnx alone"),
        (["--to", "onnx", "--intended-use", "x"], "are for --to card alone"),
        (["--to", "card", "--figures", "none.json"], "is not what `fenchel predict --format json` printed"),
    ],
)
def test_what_does_not_fit_together_is_refused(kept: Path, words: list[str], said: str) -> None:
    done = run_fenchel("export", "--model", kept, "--out", kept / "out", *words)
    assert done.exit_code == ExitCode.REFUSED
    assert said in done.stderr
